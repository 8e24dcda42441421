/**
 * Closes and opens the storage of tenants at the server: storage of suspended, deleted and moving tenants is fenced.
 *
 * - A fence is set in the transaction of the transition and lifted after its commit, both with the tenant's row locked:
 *   fences have the order of the transitions, and a rollback leaves no closed tenant open.
 * - An unavailable server does not prevent a suspension: FenceTenant closes the storage later, RecoverFences after
 *   that. It prevents an activation, as each request would fail.
 * - A process killed between fence and commit leaves an active tenant closed. The next request that meets the fence
 *   lifts it (`repair`), with the same row lock.
 */

import { withoutDeadline } from '../../kernel/base/deadline.ts'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { isDatabaseUnavailable, sqlState } from '../../kernel/database/database.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { Circuits } from '../circuits/circuits.ts'
import type { Storage } from '../isolation/drivers.ts'
import { toLocation } from '../registry/registry.ts'
import { FenceTenant } from '../tenant/job-types.ts'
import type { Status } from '../tenant/lifecycle.ts'
import type { TenantRow, TenantTables } from '../tenant/tables.ts'

/** For a transition that holds the row: it may have to wait for a server. */
const LOCK_TIMEOUT_MS = 10_000
const LOCK_NOT_AVAILABLE = '55P03'

const CLOSED: ReadonlySet<Status> = new Set(['suspended', 'deleted'])

const isKeptOut = ({ status, heldBy }: TenantRow): boolean => CLOSED.has(status) || heldBy !== null
const isLetIn = ({ status, heldBy }: TenantRow): boolean => status === 'active' && heldBy === null

export class Fences {
  readonly #kernel: Pick<Kernel, 'database' | 'jobs' | 'log'>
  readonly #storage: Storage
  readonly #circuits: Pick<Circuits, 'reset'>
  readonly #opening = new Map<string, Promise<boolean>>()

  constructor(kernel: Pick<Kernel, 'database' | 'jobs' | 'log'>, storage: Storage, circuits: Pick<Circuits, 'reset'>) {
    this.#kernel = kernel
    this.#storage = storage
    this.#circuits = circuits
  }

  /** Sets the fence of a new status, in the transaction that has written the status. */
  async follow(row: TenantRow): Promise<void> {
    if (isLetIn(row)) {
      await this.#storage.driver(row.isolation).isFenced(toLocation(row)) // rejects if the fence cannot be lifted
      this.#kernel.database.afterCommit(() => this.repair(row.id))
      return
    }
    if (!isKeptOut(row)) return
    try {
      await this.#storage.driver(row.isolation).fence(toLocation(row))
    } catch (error) {
      if (!isDatabaseUnavailable(error) && !DependencyUnavailable.matches(error)) throw error
      const { jobs, log } = this.#kernel
      log.warn({ err: error, tenantId: row.id }, 'could not close the storage; the job FenceTenant retries')
      await jobs.send(FenceTenant, { tenantId: row.id }, { tenantId: row.id, key: row.id })
    }
  }

  /** The job FenceTenant: closes the storage if the tenant must still be closed. */
  async close(id: string): Promise<void> {
    await this.#locked(id, async (row) => {
      if (isKeptOut(row)) await this.#storage.driver(row.isolation).fence(toLocation(row))
    })
  }

  /** Closes former storage, if the tenant has still left it. */
  async closeFormer(tenantId: string, isolation: string, placement: string, locator: string): Promise<void> {
    await this.#locked(tenantId, async () => {
      const { rows } = await this.#kernel.database.sql(
        `select tenant_id as "tenantId", isolation, placement, locator, epoch from multitenancy.storage_locations
         where tenant_id = $1 and isolation = $2 and placement = $3 and locator = $4 and state = 'former'`,
        [tenantId, isolation, placement, locator],
      )
      for (const location of rows) await this.#storage.driver(isolation).fence(location)
    })
  }

  /** Lifts the fence of a usable tenant. Returns whether the tenant is usable. */
  async repair(id: string): Promise<boolean> {
    // The transition may be rolled back, and the caller's transaction may hold the row that this call would wait for.
    if (this.#kernel.database.inTransaction) return false
    const opening =
      this.#opening.get(id) ??
      withoutDeadline(() => this.#open(id)) // other callers wait for it, each within its own deadline
        .catch((error) => {
          if (sqlState(error) === LOCK_NOT_AVAILABLE) return false // a transition holds the row and decides
          throw error
        })
        .finally(() => this.#opening.delete(id))
    this.#opening.set(id, opening)
    return opening
  }

  /** Resolves after an opening in this process has ended, with or without success. */
  async opened(id: string): Promise<void> {
    if (this.#kernel.database.inTransaction) return // a transaction may hold the row
    await this.#opening.get(id)?.catch(() => undefined) // logged by the first caller; the next request that meets the fence tries again
  }

  #open(id: string): Promise<boolean> {
    return this.#locked(id, async (row) => {
      const driver = this.#storage.driver(row.isolation)
      if (!isLetIn(row)) return false
      const location = toLocation(row)
      if (!(await driver.isFenced(location))) return true // another process was faster
      await driver.unfence(location)
      if (await driver.isFenced(location)) return false // the storage does not exist
      this.#circuits.reset(id) // terminated sessions were counted as failures
      this.#kernel.log.info({ tenantId: id }, 'opened the storage of an active tenant')
      return true
    })
  }

  /** Runs `work` with the row locked, so that no transition happens between its read and its write. */
  async #locked<T>(id: string, work: (row: TenantRow) => Promise<T>): Promise<T | false> {
    const { database } = this.#kernel
    return database.transaction(async () => {
      await database.sql(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`)
      const row = await database
        .query<TenantTables>()
        .selectFrom('tenants')
        .selectAll()
        .where('id', '=', id)
        .where('purgedAt', 'is', null)
        .forUpdate()
        .executeTakeFirst()
      return row ? work(row) : false
    })
  }
}
