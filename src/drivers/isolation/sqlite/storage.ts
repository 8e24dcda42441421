/**
 * The storage of one tenant: its database, the migrations that it has, its fence, and the queue for its only
 * connection.
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
import type { Ran } from '../migrations/migration-set.ts'
import { type Sqlite, SqliteDatabase } from './database.ts'

const RETRY_AFTER_SECONDS = 5
const POLL_MS = 5

/** The rows are not in this process. An empty database in their place would hide the loss. */
export const storageMissing = () =>
  TenantNotReady(
    'The storage of the tenant was in the memory of another process, or of a process that has ended. ' +
      'Create the tenant again, or use a PostgreSQL driver for tenants that must be durable.',
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  )

export class SqliteStorage {
  readonly database: SqliteDatabase
  migrations: readonly Ran[] = []
  isFenced = false
  readonly #queue: FairQueue<{ readonly tenantId: string }, void>
  readonly #tenantId: string
  #isTaken = false
  #closed: Error | undefined
  #evict: (() => void) | undefined

  constructor(sqlite: Sqlite, tenantId: string, limits: ConnectionLimits) {
    this.database = new SqliteDatabase(sqlite)
    this.#tenantId = tenantId
    this.#queue = new FairQueue(limits)
  }

  /**
   * Waits for exclusive use. Throws `E_TENANT_CONNECTION_LIMIT`.
   *
   * @param evict ends the use early
   * @param waitMs default: that of the limits
   */
  async take(evict: () => void, waitMs?: number): Promise<void> {
    if (this.#closed) throw this.#closed
    if (this.#isTaken) await this.#queue.wait({ tenantId: this.#tenantId }, waitMs)
    this.#isTaken = true
    this.#evict = evict
  }

  /** Passes the exclusive use to the request that has waited longest. */
  give(): void {
    this.#evict = undefined
    const next = this.#queue.first(() => true)
    this.#isTaken = next !== undefined
    if (!next) return
    this.#queue.take(next)
    next.resolve()
  }

  /** @param passesFence for migrations, which also run for suspended tenants */
  assertUsable(passesFence: boolean): void {
    if (this.#closed) throw this.#closed
    if (this.isFenced && !passesFence) throw StorageFenced('The storage of the tenant is closed.')
  }

  async drain({ graceMs = DRAIN_DEFAULTS.graceMs, maxMs = DRAIN_DEFAULTS.maxMs, signal }: DrainOptions = {}) {
    const startedAt = performance.now()
    while (this.#isTaken && !this.#closed) {
      signal?.throwIfAborted()
      const waitedMs = performance.now() - startedAt
      if (waitedMs >= maxMs) {
        throw DependencyUnavailable('The storage of the tenant is still in use; try again.', {
          retryAfterSeconds: RETRY_AFTER_SECONDS,
        })
      }
      if (waitedMs >= graceMs) this.#evict?.()
      await sleep(POLL_MS, undefined, { signal })
    }
  }

  /** Ends open transactions and rejects waiting requests with `error`. */
  close(error: Error): void {
    if (this.#closed) return
    this.#closed = error
    this.#queue.rejectAll(error)
    this.database.close()
  }
}
