/**
 * Reads tenants. `get` and `list` read the database; `find` and `peek` read a cache (tenant-cache.ts) on every request.
 *
 * A change of a tenant's row sends a notification with its commit, which drops the cache entry in every process. While
 * this process cannot receive notifications, entries live for five seconds; afterwards, all are read again.
 */

import { NEWEST_FIRST, type Order, type PageOf } from '../../kernel/api/page.ts'
import { LOADED_WITHIN_MS } from '../../kernel/base/cached-query.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { StorageLocation } from '../isolation/driver.ts'
import { tenantNotFound } from '../tenant/errors.ts'
import type { TenantRow } from '../tenant/tables.ts'
import { type TenantRecord, toTenant } from '../tenant/tenant.ts'
import {
  createSearchIndex,
  type PlanCondition,
  type SearchIndex,
  searchIndex,
  type TenantSearch,
  tenantsMatching,
} from './search.ts'
import { type Located, TenantCache } from './tenant-cache.ts'

export type { Located } from './tenant-cache.ts'

export const CHANNEL = 'multitenancy_tenants'
const STALE_FOR_SECONDS = 300
const LOOKS_EVERY_MS = 1_000

/** Orders of lists. `name` is in the collation of the database. */
export const SORTS = ['-createdAt', 'name', '-updatedAt'] as const

export interface TenantFilter extends TenantSearch {
  /** One of the plans, unless the host resolves them. */
  readonly plan?: string
  /** Default `-createdAt`. */
  readonly sort?: (typeof SORTS)[number]
  readonly limit: number
  readonly cursor?: string
}

const ORDERS: Readonly<Record<(typeof SORTS)[number], Order<'createdAt' | 'updatedAt' | 'name' | 'id'>>> = {
  '-createdAt': NEWEST_FIRST,
  name: { columns: ['name', 'id'], direction: 'asc' },
  '-updatedAt': { columns: ['updatedAt', 'id'], direction: 'desc' },
}

export interface RegistryOptions {
  /**
   * Time that cached tenants are served while the database is unavailable, after their last confirmation; default 300.
   */
  readonly staleForSeconds?: number
}

export class Registry {
  readonly #kernel: Kernel
  readonly #cache: TenantCache
  readonly #watchers = new Map<string, Set<() => void>>()

  constructor(kernel: Kernel, { staleForSeconds = STALE_FOR_SECONDS }: RegistryOptions = {}) {
    this.#kernel = kernel
    const reads = {
      byId: async (id: string) => toLocated(await this.#read(id)),
      byDomain: async (domain: string) => toLocated(await this.#readOwner(domain)),
    }
    this.#cache = new TenantCache(kernel, reads, staleForSeconds * 1_000)
  }

  /** Subscribes to the changes of other processes. */
  async start(): Promise<void> {
    await this.#kernel.database.listen(
      CHANNEL,
      (id) => this.#forget(id),
      () => this.#doubtAll(),
    )
  }

  /** Notifies every process, including this one, of a change. Call it in the transaction of the change. */
  async changed(id: string): Promise<void> {
    await this.#kernel.database.notify(CHANNEL, id)
    this.#kernel.database.afterCommit(() => this.#forget(id))
  }

  /** The same for many tenants, in one statement. */
  async changedAll(ids: readonly string[]): Promise<void> {
    await this.#kernel.database.sql('select pg_notify($1, id) from unnest($2::text[]) id', [CHANNEL, ids])
    this.#kernel.database.afterCommit(() => ids.map((id) => this.#forget(id)))
  }

  /** Reads the row. Throws `E_TENANT_NOT_FOUND`, also for a purged tenant. */
  async get(id: string): Promise<TenantRecord> {
    return toTenant(await this.row(id))
  }

  async row(id: string): Promise<TenantRow> {
    const row = await this.#read(id)
    if (!row) throw tenantNotFound(id)
    return row
  }

  /**
   * Reads the cache, then the database. Undefined if the tenant does not exist. `E_DEPENDENCY_UNAVAILABLE` if the
   * tenant is not cached and the database is unavailable.
   */
  find(id: string): Promise<Located | undefined> {
    return this.#cache.find(id)
  }

  /** The tenant with a domain in canonical form. */
  findByDomain(domain: string): Promise<Located | undefined> {
    return this.#cache.findByDomain(domain)
  }

  /** Reads only the cache. Undefined: call `find`. */
  peek(id: string): Located | undefined {
    return this.#cache.peek(id)
  }

  peekDomain(domain: string): Located | undefined {
    return this.#cache.peekDomain(domain)
  }

  /** Reads the database, for callers with evidence that the cache is outdated. */
  refresh(id: string): Promise<Located | undefined> {
    return this.#cache.refresh(id)
  }

  async list(
    { plan: _, sort = '-createdAt', limit, cursor, ...search }: TenantFilter,
    plan?: PlanCondition,
  ): Promise<PageOf<TenantRecord>> {
    const { database, cursors } = this.#kernel
    const query = tenantsMatching(database, search, plan)
    const { status, q, includeDeleted, ...others } = search
    const filters = [status, q, includeDeleted, sort, plan, Object.entries(others).toSorted()]
    return cursors.keysetPage(
      query,
      { name: 'tenants', filters, order: ORDERS[sort], item: toTenant },
      { limit, cursor },
    )
  }

  /** State of the index of searches. */
  searchIndex(): Promise<SearchIndex> {
    return searchIndex(this.#kernel.database)
  }

  createSearchIndex(): Promise<void> {
    return createSearchIndex(this.#kernel.database)
  }

  /** Number of tenants by status, without purged ones. */
  async countByStatus(): Promise<Record<string, number>> {
    const { rows } = await this.#kernel.database.sql({
      text: 'select status, count(*) as count from multitenancy.tenants where purged_at is null group by status',
      timeoutMs: LOADED_WITHIN_MS,
    })
    return Object.fromEntries(rows.map(({ status, count }) => [status, count]))
  }

  /** Resolves when the tenant changes in any process, or `signal` aborts. */
  async nextChange(id: string, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return
    const watchers = this.#watchers.get(id) ?? new Set()
    this.#watchers.set(id, watchers)
    await new Promise<void>((resolve) => {
      const done = () => {
        watchers.delete(done)
        if (watchers.size === 0) this.#watchers.delete(id)
        signal.removeEventListener('abort', done)
        resolve()
      }
      watchers.add(done)
      signal.addEventListener('abort', done)
    })
  }

  /**
   * Returns the result of `look` once `isDone` accepts it or `signal` aborts. Repeats at each change of the tenant and
   * each second.
   */
  async until<T>(id: string, look: () => Promise<T>, isDone: (found: T) => boolean, signal: AbortSignal): Promise<T> {
    for (;;) {
      const done = new AbortController()
      const change = this.nextChange(id, AbortSignal.any([signal, done.signal, AbortSignal.timeout(LOOKS_EVERY_MS)]))
      const found = await look()
      if (isDone(found) || signal.aborted) {
        done.abort()
        return found
      }
      await change
    }
  }

  async #read(id: string): Promise<TenantRow | undefined> {
    const { rows } = await this.#kernel.database.sql(SELECT_ONE, [id])
    return rows[0] && fromSql(rows[0])
  }

  async #readOwner(domain: string): Promise<TenantRow | undefined> {
    const { rows } = await this.#kernel.database.sql(SELECT_OWNER, [domain])
    return rows[0] && fromSql(rows[0])
  }

  #forget(id: string): void {
    this.#cache.forget(id)
    for (const watcher of [...(this.#watchers.get(id) ?? [])]) watcher()
  }

  #doubtAll(): void {
    this.#cache.doubtAll()
    for (const watchers of [...this.#watchers.values()]) for (const watcher of [...watchers]) watcher()
  }
}

export const toLocation = ({
  id,
  isolation,
  placement,
  locator,
  epoch,
}: Pick<TenantRow, 'id' | 'isolation' | 'placement' | 'locator' | 'epoch'>): StorageLocation => ({
  tenantId: id,
  isolation,
  placement,
  locator,
  epoch,
})

const toLocated = (row: TenantRow | undefined): Located | undefined =>
  row && { tenant: toTenant(row), location: toLocation(row) }

const COLUMNS = `id, name, status, metadata, domains, isolation, placement, locator, epoch, maintenance, failure,
    status_before, held_by, cloned_from, created_at, updated_at, activated_at, suspended_at, deleted_at, purge_at, purge_started_at, purged_at`

/** The query of every request, hand-written and prepared: building it would cost more than running it. */
const SELECT_ONE = {
  name: 'tenant',
  text: `select ${COLUMNS} from multitenancy.tenants where id = $1 and purged_at is null`,
}

const SELECT_OWNER = {
  name: 'tenant of a domain',
  text: `select ${COLUMNS} from multitenancy.tenants where purged_at is null
    and id = (select tenant_id from multitenancy.tenant_domains where domain = $1)`,
}

const fromSql = (row: any): TenantRow => ({
  ...row,
  statusBefore: row.status_before,
  heldBy: row.held_by,
  clonedFrom: row.cloned_from,
  createdAt: row.created_at,
  updatedAt: row.updated_at,
  activatedAt: row.activated_at,
  suspendedAt: row.suspended_at,
  deletedAt: row.deleted_at,
  purgeAt: row.purge_at,
  purgeStartedAt: row.purge_started_at,
  purgedAt: row.purged_at,
})
