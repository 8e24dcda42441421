/**
 * Fences follow the life of a tenant: suspended, deleted, or held by a transfer, its storage is closed at the server itself.
 *
 * A fence is set inside the transition's transaction and lifted after its commit, both while the tenant's row is held: so fences
 * come in the order of the transitions, and whatever becomes of a transaction, nobody is left open who is to be kept out. A server
 * that cannot be reached does not keep a tenant from being suspended: the job FenceTenant closes the storage when it is back, and
 * RecoverFences what is left open after that. It does keep one from being activated, which would answer nothing but failures.
 *
 * A process that dies between the fence and its commit, or before it has lifted one, leaves an active tenant closed. Whoever meets
 * that fence has it lifted (`repair`), under the same row lock.
 */

import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { isDatabaseUnavailable, sqlState } from '../../kernel/database/database.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { Circuits } from '../circuits/circuits.ts'
import type { Storage } from '../isolation/drivers.ts'
import { toLocation } from '../registry/registry.ts'
import { FenceTenant } from '../tenant/job-types.ts'
import type { Status } from '../tenant/lifecycle.ts'
import type { TenantRow, TenantTables } from '../tenant/tables.ts'

/** For a transition that has the row; it may have to wait for a server. */
const LOCK_TIMEOUT_MS = 10_000
const LOCK_NOT_AVAILABLE = '55P03'

const CLOSED: ReadonlySet<Status> = new Set(['suspended', 'deleted'])

const isKeptOut = ({ status, heldBy }: TenantRow): boolean => CLOSED.has(status) || heldBy !== null
const isLetIn = ({ status, heldBy }: TenantRow): boolean => status === 'active' && heldBy === null

export class Fences {
  readonly #kernel: Pick<Kernel, 'database' | 'jobs' | 'log'>
  readonly #storage: Storage
  readonly #circuits: Pick<Circuits, 'startAnew'>
  readonly #opening = new Map<string, Promise<boolean>>()

  constructor(
    kernel: Pick<Kernel, 'database' | 'jobs' | 'log'>,
    storage: Storage,
    circuits: Pick<Circuits, 'startAnew'>,
  ) {
    this.#kernel = kernel
    this.#storage = storage
    this.#circuits = circuits
  }

  /** Brings the fence in line with a status that has just been written, in the transaction that wrote it. */
  async follow(row: TenantRow): Promise<void> {
    if (isLetIn(row)) {
      await this.#storage.driver(row.isolation).isFenced(toLocation(row)) // throws where it could not be lifted either
      this.#kernel.database.afterCommit(() => this.repair(row.id))
      return
    }
    if (!isKeptOut(row)) return
    try {
      await this.#storage.driver(row.isolation).fence(toLocation(row))
    } catch (error) {
      if (!isDatabaseUnavailable(error) && !DependencyUnavailable.matches(error)) throw error
      const { jobs, log } = this.#kernel
      log.warn(
        { err: error, tenantId: row.id },
        'the storage could not be closed yet; the job FenceTenant goes on trying',
      )
      await jobs.send(FenceTenant, { tenantId: row.id }, { tenantId: row.id, key: row.id })
    }
  }

  /** The job FenceTenant: closes the storage if its tenant is still to be kept out. */
  async close(id: string): Promise<void> {
    await this.#locked(id, async (row) => {
      if (isKeptOut(row)) await this.#storage.driver(row.isolation).fence(toLocation(row))
    })
  }

  /** Closes storage that the tenant has left, if it still has. */
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

  /** Sees to it that no fence stands before the tenant, if it may be used. Returns whether it may. */
  async repair(id: string): Promise<boolean> {
    // Nothing is lifted for what may be rolled back; and the caller's transaction may hold the row that others wait for here.
    if (this.#kernel.database.inTransaction) return false
    const opening =
      this.#opening.get(id) ??
      this.#open(id)
        .catch((error) => {
          if (sqlState(error) === LOCK_NOT_AVAILABLE) return false // a transition has it, and decides
          throw error
        })
        .finally(() => this.#opening.delete(id))
    this.#opening.set(id, opening)
    return opening
  }

  /** Resolves when what a transition of this process has begun to open is open, or could not be. */
  async opened(id: string): Promise<void> {
    if (this.#kernel.database.inTransaction) return // it may hold the row that is waited for
    await this.#opening.get(id)?.catch(() => undefined) // logged by who began it; who meets the fence tries again
  }

  #open(id: string): Promise<boolean> {
    return this.#locked(id, async (row) => {
      const driver = this.#storage.driver(row.isolation)
      if (!isLetIn(row)) return false
      const location = toLocation(row)
      if (!(await driver.isFenced(location))) return true // somebody was here before
      await driver.unfence(location)
      if (await driver.isFenced(location)) return false // it is not there at all
      this.#circuits.startAnew(id) // sessions that the fence has ended were counted as failures
      this.#kernel.log.info({ tenantId: id }, 'the storage of an active tenant is open again')
      return true
    })
  }

  /** With the row locked, so that no transition comes between what is read and what is done. */
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
