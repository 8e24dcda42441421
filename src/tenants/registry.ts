/**
 * Reading tenants. `get` and `list` read the database; `find` answers from a cache for whatever runs on every request.
 *
 * A cached tenant is dropped in every process when its row changes: the change sends a notification with its commit. While
 * this process cannot hear notifications, entries live five seconds; when it can again, all are dropped.
 */
import { LRUCache } from 'lru-cache'
import type { Kernel } from '../kernel/kernel.ts'
import type { PageOf } from '../kernel/page.ts'
import { TenantNotFound } from './errors.ts'
import type { Place } from './isolation.ts'
import type { Status } from './lifecycle.ts'
import type { TenantRow, TenantTables } from './tables.ts'
import { type Tenant, toTenant } from './tenant.ts'

export const CHANNEL = 'multitenancy_tenants'
const CACHED_TENANTS = 10_000
const DEAF_TTL_MS = 5_000

export interface TenantFilter {
  readonly status?: Status
  /** Part of an id, name or domain, in any case. */
  readonly q?: string
  readonly includeDeleted?: boolean
  readonly limit: number
  readonly cursor?: string
}

/** A tenant with the place of its storage. */
export interface Located {
  readonly tenant: Tenant
  readonly place: Place
}

export class Registry {
  readonly #kernel: Kernel
  readonly #cache = new LRUCache<string, { located: Located; at: number }>({ max: CACHED_TENANTS })
  readonly #loading = new Map<string, Promise<Located | undefined>>()
  readonly #watchers = new Map<string, Set<() => void>>()
  /** Rises with every invalidation: what was read before one is not kept after it. */
  #generation = 0

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  /** Begins to hear changes made by other processes. */
  async start(): Promise<void> {
    await this.#kernel.database.listen(
      CHANNEL,
      (id) => this.#forget(id),
      () => this.#forgetAll(),
    )
  }

  /** Tells every process, this one included, that a tenant changed. Call it in the transaction of the change. */
  async changed(id: string): Promise<void> {
    await this.#kernel.database.notify(CHANNEL, id)
    this.#kernel.database.afterCommit(() => this.#forget(id))
  }

  /** Reads the row. Throws `E_TENANT_NOT_FOUND`, also for a purged tenant. */
  async get(id: string): Promise<Tenant> {
    return toTenant(await this.row(id))
  }

  async row(id: string): Promise<TenantRow> {
    const row = await this.#read(id)
    if (!row) throw TenantNotFound(`There is no tenant "${id}".`)
    return row
  }

  /** From the cache, else from the database; undefined when there is none. */
  async find(id: string): Promise<Located | undefined> {
    if (this.#kernel.database.inTransaction) return toLocated(await this.#read(id)) // it sees what no one else may know
    const kept = this.#cache.get(id)
    if (kept && (this.#kernel.database.isListening || performance.now() - kept.at < DEAF_TTL_MS)) return kept.located
    const loading = this.#loading.get(id)
    if (loading) return loading
    const load = this.#load(id).finally(() => this.#loading.delete(id))
    this.#loading.set(id, load)
    return load
  }

  async list({ status, q, includeDeleted, limit, cursor }: TenantFilter): Promise<PageOf<Tenant>> {
    const { database, cursors } = this.#kernel
    const list = `tenants ${JSON.stringify([status, q, includeDeleted])}`
    const after = cursors.decode(list, cursor)
    let query = database
      .query<TenantTables>()
      .selectFrom('tenants')
      .selectAll()
      .where('purgedAt', 'is', null)
      .orderBy('createdAt', 'desc')
      .orderBy('id', 'desc')
      .limit(limit + 1)
    if (status) query = query.where('status', '=', status)
    else if (!includeDeleted) query = query.where('status', '!=', 'deleted')
    if (after) {
      const [createdAt = '', id = ''] = after
      query = query.where(({ eb, refTuple, tuple }) =>
        eb(refTuple('createdAt', 'id'), '<', tuple(new Date(createdAt), id)),
      )
    }
    if (q) {
      const pattern = `%${q.replace(/[\\%_]/g, '\\$&')}%`
      query = query.where(({ eb, or, fn, val }) =>
        or([
          eb('id', 'ilike', pattern),
          eb('name', 'ilike', pattern),
          eb(fn('array_to_string', ['domains', val(' ')]), 'ilike', pattern),
        ]),
      )
    }
    const rows = await query.execute()
    return cursors.page(list, rows, limit, toTenant, ({ createdAt, id }) => [createdAt.toISOString(), id])
  }

  /** Tenants by status, purged ones left out. */
  async countByStatus(): Promise<Record<string, number>> {
    const { rows } = await this.#kernel.database.sql(
      'select status, count(*) as count from multitenancy.tenants where purged_at is null group by status',
    )
    return Object.fromEntries(rows.map(({ status, count }) => [status, count]))
  }

  /** Resolves when a tenant changes, in whichever process, or when `signal` aborts. */
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

  async #load(id: string): Promise<Located | undefined> {
    const generation = this.#generation
    const located = toLocated(await this.#read(id))
    if (located && generation === this.#generation) this.#cache.set(id, { located, at: performance.now() })
    return located
  }

  async #read(id: string): Promise<TenantRow | undefined> {
    const { rows } = await this.#kernel.database.sql(SELECT_ONE, [id])
    return rows[0] && fromSql(rows[0])
  }

  #forget(id: string): void {
    this.#generation++
    this.#loading.delete(id)
    this.#cache.delete(id)
    for (const watcher of [...(this.#watchers.get(id) ?? [])]) watcher()
  }

  #forgetAll(): void {
    this.#generation++
    this.#loading.clear()
    this.#cache.clear()
    for (const id of [...this.#watchers.keys()]) this.#forget(id)
  }
}

export const toPlace = ({
  id,
  placement,
  locator,
  epoch,
}: Pick<TenantRow, 'id' | 'placement' | 'locator' | 'epoch'>): Place => ({
  tenantId: id,
  placement,
  locator,
  epoch,
})

const toLocated = (row: TenantRow | undefined): Located | undefined =>
  row && { tenant: toTenant(row), place: toPlace(row) }

/** The read of every request: written by hand and prepared, as building it anew would cost more than running it. */
const SELECT_ONE = {
  name: 'tenant',
  text: `select id, name, status, metadata, domains, isolation, placement, locator, epoch, maintenance, failure,
    status_before, created_at, updated_at, activated_at, suspended_at, deleted_at, purge_at, purge_started_at, purged_at
    from multitenancy.tenants where id = $1 and purged_at is null`,
}

const fromSql = (row: any): TenantRow => ({
  ...row,
  statusBefore: row.status_before,
  createdAt: row.created_at,
  updatedAt: row.updated_at,
  activatedAt: row.activated_at,
  suspendedAt: row.suspended_at,
  deletedAt: row.deleted_at,
  purgeAt: row.purge_at,
  purgeStartedAt: row.purge_started_at,
  purgedAt: row.purged_at,
})
