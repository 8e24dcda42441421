/**
 * One stream of changes as server-sent events, at the pace of its reader.
 *
 *   id ─► missed changes, or a gap ─► changes ─► … ─► closed: by its reader, by a stop, or because its permission has ended
 *            └── every 15 s without a change: a comment with the present id
 *
 * The permission is checked again before a change is sent, at most once a second, after each revocation, and with each comment.
 */
import type { Grant } from '../../kernel/base/context.ts'
import type { ActivityChange, MayRead } from './change.ts'

/** A position in the order of changes, which is the same in every process, and its change. */
export interface Position {
  readonly id: string
  /** Undefined: earlier changes may be missing. */
  readonly change?: ActivityChange
}

export interface StreamOptions {
  readonly mayRead: MayRead
  /** The present permissions of the caller; undefined: they have ended. */
  readonly currentGrant: () => Promise<Grant | undefined>
  readonly commentMs: number
  readonly onEnd: (stream: ActivityStream) => void
}

const CHECKED_FOR_MS = 1_000
/** A reader with more unread changes reads everything again. */
const MAX_UNREAD = 1_000
/** Time after which a browser connects again. */
const RETRY_MS = 2_000

export class ActivityStream implements AsyncIterableIterator<string> {
  readonly #options: StreamOptions
  #unread: Position[]
  #id: string
  #isFirst = true
  #isEnded = false
  #checkedAt = Number.NEGATIVE_INFINITY
  #grant: Grant | undefined
  #wake: () => void = () => undefined

  /** @param last the newest position @param unread positions after the one that the reader has seen */
  constructor(last: Position, unread: readonly Position[], options: StreamOptions) {
    this.#options = options
    this.#unread = [...unread]
    this.#id = last.id
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  /** Adds the next position. */
  push(position: Position): void {
    this.#id = position.id
    if (this.#unread.length >= MAX_UNREAD) this.#unread = [{ id: position.id }]
    else this.#unread.push(position)
    this.#wake()
  }

  /** Checks the permission before anything else is sent. */
  check(): void {
    this.#checkedAt = Number.NEGATIVE_INFINITY
    this.#wake()
  }

  end(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#unread = []
    this.#options.onEnd(this)
    this.#wake()
  }

  async next(): Promise<IteratorResult<string>> {
    if (this.#isFirst && !this.#isEnded) {
      this.#isFirst = false
      const id = this.#unread.length > 0 ? '' : `id: ${this.#id}\n`
      return { done: false, value: `retry: ${RETRY_MS}\n${id}\n` }
    }
    try {
      const commentAt = performance.now() + this.#options.commentMs
      while (!this.#isEnded) {
        const isQuiet = performance.now() >= commentAt
        const hasNews = this.#unread.length > 0 || this.#mustCheck
        if ((hasNews || isQuiet) && !(await this.#isPermitted())) break
        const text = this.#taken()
        if (text) return { done: false, value: text }
        if (isQuiet) return { done: false, value: `: \nid: ${this.#id}\n\n` }
        if (!this.#isEnded) await this.#woken(commentAt - performance.now()) // it may have ended during the check
      }
    } catch (error) {
      this.end()
      throw error
    }
    this.end()
    return { done: true, value: undefined }
  }

  async return(): Promise<IteratorResult<string>> {
    this.end()
    return { done: true, value: undefined }
  }

  get #mustCheck(): boolean {
    return this.#checkedAt === Number.NEGATIVE_INFINITY
  }

  async #isPermitted(): Promise<boolean> {
    if (performance.now() - this.#checkedAt < CHECKED_FOR_MS) return this.#grant !== undefined
    do {
      this.#checkedAt = performance.now()
      this.#grant = await this.#options.currentGrant()
    } while (this.#mustCheck) // revoked meanwhile
    return this.#grant !== undefined
  }

  /** The unread changes that the caller may read. */
  #taken(): string {
    const unread = this.#unread
    this.#unread = []
    return unread
      .filter(({ change }) => !change || this.#options.mayRead(this.#grant, change))
      .map(toEvent)
      .join('')
  }

  #woken(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, Math.max(timeoutMs, 0))
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}

/** A change, or a gap: the reader must read everything again. */
const toEvent = ({ id, change }: Position): string => {
  const { id: _, ...names } = change ?? {}
  return `id: ${id}\nevent: ${change ? 'change' : 'gap'}\ndata: ${JSON.stringify(names)}\n\n`
}
