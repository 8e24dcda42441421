/** Hooks of transactions: those before the commit run in the transaction, those after it run outside of transaction and deadline. */
import { withoutDeadline } from '../base/deadline.ts'
import type { Logger } from '../base/logger.ts'

/** Receives all items of a transaction together, before its commit. An error rolls it back. */
export type Collect<Item> = (items: readonly Item[]) => Promise<unknown>

interface Hooks {
  readonly after: (() => unknown)[]
  readonly collected: Map<Collect<any>, unknown[]>
  isClosed: boolean
}

/** Hooks of one transaction or savepoint. Those of a rolled back savepoint are dropped. */
export class CommitHooks {
  readonly #own: Hooks = { after: [], collected: new Map(), isClosed: false }
  /** Around a released savepoint: work of the savepoint that continues adds to them. */
  #outer: CommitHooks | undefined

  get after(): (() => unknown)[] {
    return this.#hooks.after
  }

  /** Whether hooks before the commit have run. */
  get isClosed(): boolean {
    return this.#hooks.isClosed
  }

  before<Item>(collect: Collect<Item>, items: readonly Item[]): void {
    const { collected } = this.#hooks
    const all = collected.get(collect) ?? []
    for (const item of items) all.push(item)
    collected.set(collect, all)
  }

  /** Takes the hooks of a released savepoint. */
  take(inner: CommitHooks): void {
    this.after.push(...inner.after)
    for (const [collect, items] of inner.#hooks.collected) this.before(collect, items)
    inner.#outer = this
  }

  async runBefore(): Promise<void> {
    const { collected } = this.#own
    for (const [collect, items] of collected) {
      collected.delete(collect) // items that are added meanwhile are visited again
      await collect(items)
    }
    this.#own.isClosed = true
  }

  get #hooks(): Hooks {
    return this.#outer ? this.#outer.#hooks : this.#own
  }
}

/** Runs hooks after commits. Their failures are only logged. */
export class AfterCommit {
  readonly #log: Logger
  readonly #outside: <T>(work: () => T) => T
  readonly #pending = new Set<Promise<unknown>>()

  constructor(log: Logger, outside: <T>(work: () => T) => T) {
    this.#log = log
    this.#outside = outside
  }

  run(hook: () => unknown): void {
    const failed = (error: unknown) => this.#log.error({ err: error }, 'a listener failed after the commit')
    try {
      const outcome = this.#outside(() => withoutDeadline(hook))
      if (!(outcome instanceof Promise)) return
      const pending: Promise<unknown> = outcome.catch(failed).finally(() => this.#pending.delete(pending))
      this.#pending.add(pending)
    } catch (error) {
      failed(error)
    }
  }

  /** Resolves when the hooks in progress have ended. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#pending)
  }
}
