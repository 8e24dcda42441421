/**
 * Announces the names of changes to open streams in every process.
 *
 *   change ─within its transaction─► one notification per transaction ─commit─► every process ─► recent changes, streams
 *
 * - The database delivers notifications in the order of commits, so every process has the same order. A reader continues in any process.
 * - Values are never sent: a reader reads them again, with its own permissions.
 * - After a lost connection, and for a transaction with too many changes, readers receive a gap.
 */
import { randomUUID } from 'node:crypto'
import type { AnyOperation } from '../../kernel/api/operation.ts'
import type { PageOf, PageOptions } from '../../kernel/api/page.ts'
import { currentContext, type Grant } from '../../kernel/base/context.ts'
import { defineError } from '../../kernel/base/errors.ts'
import type { ChangeRecorded } from '../../kernel/events/changes.ts'
import type { EventOf } from '../../kernel/events/events.ts'
import { Listeners } from '../../kernel/events/listeners.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { SESSIONS_CHANNEL, TOKENS_CHANNEL } from '../tokens/channels.ts'
import { type ActivityChange, type MayRead, readsOf } from './change.ts'
import { ActivityStream, type Position } from './stream.ts'

const CHANNEL = 'multitenancy_activity'
const MAX_RECENT = 1_000
export const MAX_STREAMS = 100
/** Streams of a caller with all its sessions. A browser needs one. */
export const MAX_STREAMS_OF_CALLER = 20
const COMMENT_MS = 15_000
/** PostgreSQL accepts fewer than 8,000. */
const MAX_PAYLOAD_BYTES = 7_900
const RETRY_AFTER_SECONDS = 15

export const TooManyStreams = defineError('E_TOO_MANY_STREAMS', 503, 'Too many open streams')

export interface OpenStream {
  /** Id of the caller. */
  readonly caller: string
  /** Id of the last event that the reader has seen. */
  readonly lastEventId?: string | undefined
  /** The present permissions of the caller; undefined: they have ended. */
  readonly currentGrant: () => Promise<Grant | undefined>
}

/** Receives each change of any process; undefined for a gap. */
export type ActivityListener = (change: ActivityChange | undefined) => void

export class Activity {
  readonly #kernel: Kernel
  readonly #mayRead: MayRead
  /** With the id of the caller. */
  readonly #streams = new Map<ActivityStream, string>()
  readonly #listeners = new Listeners<Parameters<ActivityListener>>()
  /** The first one has the oldest known position. */
  #recent: Position[] = [gap()]

  /** @param operations all operations of the API */
  constructor(kernel: Kernel, operations: readonly AnyOperation[]) {
    this.#kernel = kernel
    this.#mayRead = readsOf(operations)
  }

  /** Subscribes to the changes of every process. */
  async start(): Promise<void> {
    const { database } = this.#kernel
    const check = () => this.#streams.forEach((_, stream) => void stream.check())
    await database.listen(
      CHANNEL,
      (payload) => this.#receive(payload),
      () => this.#lost(),
    )
    for (const channel of [TOKENS_CHANNEL, SESSIONS_CHANNEL]) await database.listen(channel, check, check)
  }

  /** Ends all streams. */
  stop(): void {
    for (const stream of [...this.#streams.keys()]) stream.end()
  }

  /** Announces a change with the commit of its transaction. */
  async record({ id, action, tenantId, target, occurredAt, isChange }: EventOf<typeof ChangeRecorded>): Promise<void> {
    if (!isChange) return
    const change: ActivityChange = { id, action, tenantId, target, at: occurredAt }
    await this.#kernel.database.beforeCommit(this.#announce, change)
  }

  /** @throws E_TOO_MANY_STREAMS */
  open({ caller, lastEventId, currentGrant }: OpenStream): ActivityStream {
    this.#assertFree(caller)
    const last = this.#recent.at(-1) ?? gap()
    const seen = this.#recent.findIndex(({ id }) => id === lastEventId)
    const missed = seen < 0 ? [{ id: last.id }] : this.#recent.slice(seen + 1)
    const stream = new ActivityStream(last, lastEventId === undefined ? [] : missed, {
      mayRead: this.#mayRead,
      currentGrant,
      commentMs: COMMENT_MS,
      onEnd: () => this.#streams.delete(stream),
    })
    this.#streams.set(stream, caller)
    return stream
  }

  #assertFree(caller: string): void {
    const ofCaller = [...this.#streams.values()].filter((one) => one === caller).length
    const options = { retryAfterSeconds: RETRY_AFTER_SECONDS }
    if (ofCaller >= MAX_STREAMS_OF_CALLER) {
      throw TooManyStreams(
        `The token or operator "${caller}" has ${MAX_STREAMS_OF_CALLER} open streams in this process, the maximum for one caller.`,
        options,
      )
    }
    if (this.#streams.size < MAX_STREAMS) return
    throw TooManyStreams(`This process has ${MAX_STREAMS} open streams, the maximum.`, options)
  }

  /** Recent changes that this process has received and the caller may read, the newest first. */
  recent(page: PageOptions = {}): Promise<PageOf<ActivityChange>> {
    const { grant } = currentContext()
    const changes = this.#recent.flatMap(({ change }) => (change && this.#mayRead(grant, change) ? [change] : []))
    const order = { columns: ['id'], direction: 'desc' } as const
    return this.#kernel.cursors.keysetPage(
      ({ id }, limit) => {
        const end =
          id === undefined
            ? changes.length
            : Math.max(
                changes.findIndex((one) => one.id === id),
                0,
              )
        return changes.slice(0, end).toReversed().slice(0, limit)
      },
      { name: 'activity', order, item: (change: ActivityChange) => change },
      page,
    )
  }

  /** Calls `listener` with each change of any process. Returns a function that ends it. */
  listen(listener: ActivityListener): () => void {
    return this.#listeners.subscribe(listener)
  }

  /** One function, so that the changes of a transaction are collected. */
  readonly #announce = (changes: readonly ActivityChange[]): Promise<void> => {
    const payload = JSON.stringify(changes)
    const isTooLong = Buffer.byteLength(payload) > MAX_PAYLOAD_BYTES
    return this.#kernel.database.notify(CHANNEL, isTooLong ? JSON.stringify([{ id: changes.at(-1)?.id }]) : payload)
  }

  #receive(payload: string): void {
    for (const one of JSON.parse(payload) as (ActivityChange | { readonly id: string })[]) {
      this.#push('action' in one ? { id: one.id, change: one } : one)
    }
  }

  #lost(): void {
    const position = gap()
    this.#recent = []
    this.#push(position)
    for (const stream of this.#streams.keys()) stream.check()
  }

  #push(position: Position): void {
    this.#recent.push(position)
    if (this.#recent.length > MAX_RECENT) this.#recent.shift()
    for (const stream of this.#streams.keys()) stream.push(position)
    this.#listeners.emit(position.change)
  }
}

/** A position before which changes may be missing. */
const gap = (): Position => ({ id: randomUUID() })
