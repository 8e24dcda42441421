/**
 * Fences follow the life of a tenant: suspended or deleted, its storage is closed at the server itself.
 *
 * A fence is set or lifted inside the transition's transaction, while it holds the tenant's row: so fences come in the order of
 * the transitions. A server that cannot be reached does not keep a tenant from being suspended: the job FenceTenant closes the
 * storage when it is back. It does keep one from being activated, which would answer nothing but failures.
 *
 * A process that dies between the fence and its commit leaves an active tenant closed. Whoever meets that fence has it lifted
 * (`mend`), under the same row lock.
 */
import { isDatabaseUnavailable } from '../kernel/database.ts'
import { DependencyUnavailable } from '../kernel/errors.ts'
import type { Kernel } from '../kernel/kernel.ts'
import { FenceTenant } from './jobs.ts'
import type { Status } from './lifecycle.ts'
import { toPlace } from './registry.ts'
import type { Storage } from './storage.ts'
import type { TenantRow, TenantTables } from './tables.ts'

const CLOSED: ReadonlySet<Status> = new Set(['suspended', 'deleted'])

export class Fences {
  readonly #kernel: Pick<Kernel, 'database' | 'jobs' | 'log'>
  readonly #storage: Storage
  readonly #mending = new Map<string, Promise<boolean>>()

  constructor(kernel: Pick<Kernel, 'database' | 'jobs' | 'log'>, storage: Storage) {
    this.#kernel = kernel
    this.#storage = storage
  }

  /** Brings the fence in line with a status that has just been written, in the transaction that wrote it. */
  async follow(row: TenantRow): Promise<void> {
    if (row.status === 'active') return this.#storage.driver(row.isolation).unfence(toPlace(row))
    if (!CLOSED.has(row.status)) return
    try {
      await this.#storage.driver(row.isolation).fence(toPlace(row))
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
      if (CLOSED.has(row.status)) await this.#storage.driver(row.isolation).fence(toPlace(row))
    })
  }

  /** Sees to it that no fence stands before the tenant, if it is active. Answers whether it is. */
  mend(id: string): Promise<boolean> {
    const mending = this.#mending.get(id) ?? this.#mend(id).finally(() => this.#mending.delete(id))
    this.#mending.set(id, mending)
    return mending
  }

  #mend(id: string): Promise<boolean> {
    return this.#locked(id, async (row) => {
      const driver = this.#storage.driver(row.isolation)
      if (row.status !== 'active') return false
      if (!(await driver.isFenced(toPlace(row)))) return true // somebody was here before
      await driver.unfence(toPlace(row))
      this.#kernel.log.warn({ tenantId: id }, 'an active tenant had been left closed; its storage is open again')
      return true
    })
  }

  /** With the row locked, so that no transition comes between what is read and what is done. */
  async #locked<T>(id: string, work: (row: TenantRow) => Promise<T>): Promise<T | false> {
    const { database } = this.#kernel
    return database.transaction(async () => {
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
