/**
 * The storage of one tenant: its database, the queue for it, and its fence.
 *
 *   take ─► nobody has it ──────────────────────────────► taken ─► give ─► the one that has waited longest
 *        ─► else waits, bounded in number and time ─► taken | E_TENANT_CONNECTION_LIMIT
 *
 * Who has taken it has it alone: a statement for as long as it runs, a transaction until it ends.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { DependencyUnavailable } from '../../../kernel/base/errors.ts'
import {
  type ConnectionLimits,
  DRAIN_DEFAULTS,
  type DrainOptions,
  StorageFenced,
} from '../../../tenants/isolation/driver.ts'
import { TenantNotReady } from '../../../tenants/tenant/errors.ts'
import { FairQueue } from '../connections/fair-queue.ts'
import { type Sqlite, SqliteDatabase } from './database.ts'
import type { SqliteSnapshot } from './snapshot.ts'

const RETRY_AFTER_SECONDS = 5
const POLL_MS = 5

/** The tenant's rows are not here, and only its owner knows whether they may be lost: nothing is made up in their place. */
export const storageMissing = () =>
  TenantNotReady(
    'The storage of the tenant was in the memory of another process, or of one that has ended, and is not here. ' +
      'Create the tenant anew, or keep tenants with a driver that is durable.',
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  )

export class SqliteStorage {
  readonly placement: string
  readonly database: SqliteDatabase
  isFenced = false
  readonly #queue: FairQueue<{ readonly tenantId: string }, void>
  readonly #tenantId: string
  #isTaken = false
  #isGone = false
  #given: (() => void) | undefined
  /** Has whoever has it give it back. */
  #evict: (() => void) | undefined

  constructor(
    sqlite: Sqlite,
    { tenantId, placement }: { tenantId: string; placement: string },
    limits: ConnectionLimits,
  ) {
    this.placement = placement
    this.database = new SqliteDatabase(sqlite)
    this.#tenantId = tenantId
    this.#queue = new FairQueue(limits)
  }

  get isTaken(): boolean {
    return this.#isTaken
  }

  get waiting(): number {
    return this.#queue.size
  }

  /**
   * @param waitMs default: that of the limits.
   * @param evict gives it back before its time, where that can be done.
   */
  async take(waitMs?: number, evict?: () => void): Promise<void> {
    if (this.#isGone) throw storageMissing()
    if (this.#isTaken) await this.#queue.wait({ tenantId: this.#tenantId }, waitMs)
    this.#isTaken = true
    this.#evict = evict
  }

  give(): void {
    this.#evict = undefined
    const next = this.#queue.first(() => true)
    if (next) {
      this.#queue.take(next)
      next.resolve()
      return
    }
    this.#isTaken = false
    this.#given?.()
  }

  assertNotFenced(): void {
    if (this.isFenced) throw StorageFenced('The storage of the tenant is closed.')
  }

  /** The database as it is when its turn has come: whoever waits meanwhile goes on as soon as it has been taken. */
  async snapshot(sqlite: Sqlite, waitMs: number): Promise<SqliteSnapshot> {
    await this.take(waitMs)
    try {
      return await this.database.snapshot(sqlite)
    } finally {
      this.give()
    }
  }

  /** Behind a fence: resolves when nobody has it; whoever takes it from then on meets the fence. */
  async drain({
    graceMs = DRAIN_DEFAULTS.graceMs,
    maxMs = DRAIN_DEFAULTS.maxMs,
    signal,
  }: DrainOptions = {}): Promise<void> {
    const started = performance.now()
    while (this.#isTaken && !this.#isGone) {
      signal?.throwIfAborted()
      const waitedMs = performance.now() - started
      if (waitedMs >= maxMs) {
        throw DependencyUnavailable(
          'The storage of the tenant has been in use since before it was closed: try again.',
          {
            retryAfterSeconds: RETRY_AFTER_SECONDS,
          },
        )
      }
      if (waitedMs >= graceMs) this.#evict?.()
      await sleep(POLL_MS, undefined, { signal })
    }
  }

  /** Ends it when its turn has come; whoever waits then finds it gone. */
  async drop(): Promise<void> {
    try {
      await this.take()
    } catch (error) {
      if (this.#isGone) return
      throw error
    }
    this.#isTaken = false
    this.#end(storageMissing())
  }

  /** Refuses whoever waits, and ends it when the one that has it gives it back. */
  async close(): Promise<void> {
    if (this.#isGone) return
    this.#isGone = true
    const closed = new Error('the connections are closed')
    this.#queue.rejectAll(closed)
    if (this.#isTaken) {
      await new Promise<void>((resolve) => {
        this.#given = resolve
      })
    }
    this.#end(closed)
  }

  #end(error: Error): void {
    this.#isGone = true
    this.#queue.rejectAll(error)
    this.database.close()
  }
}
