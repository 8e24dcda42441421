/** Defines the tenant as hosts see it: its storage in the forms that libraries accept, with its record and plan. */
import type { Dialect, Kysely } from 'kysely'
import type { Pool } from 'pg'
import type { PostStatement } from '../isolation/outbox.ts'
import type { Names } from '../tenant/names.ts'
import type { TenantRecord } from '../tenant/tenant.ts'
import type { TenantPg } from './pg-module.ts'

/** The storage of a tenant, for queries on the host's tables `DB`. Every query sees only the rows of this tenant. */
export interface StorageHandle<DB = any> {
  readonly id: string
  /** Kysely on the tenant's storage; table names are those of the host's migrations. */
  readonly db: Kysely<DB>
  /** The same storage as a Pool of node-postgres, for raw SQL and other libraries; see pg-pool.ts. */
  readonly pool: Pool
  /** The same storage as a dialect of Kysely, for libraries that accept one (MikroORM). */
  readonly dialect: Dialect
  /**
   * The same storage as a module with the interface of `pg`, for libraries that accept a driver module; see
   * pg-module.ts.
   */
  readonly pg: TenantPg
  /** Name in a shared cache or store: `acme:user:1`. The id of a tenant never changes and has no colon. */
  key(name: string): string
  /**
   * Path in shared file storage: `tenants/acme/a.png`.
   *
   * @throws E_INVALID_REQUEST for an absolute path, backslashes, control characters, and empty or dot segments
   */
  path(name: string): string
  /**
   * Runs `work` in one transaction in the tenant's storage. Calls for this tenant inside of it join the transaction:
   * `recordChange`, `webhooks.dispatch`, `metrics.increment`, `quotas.track` and `billing.reportUsage` take effect after
   * its commit, and have no effect if it is rolled back. Their arguments have 256 KiB as JSON at most.
   */
  transaction<T>(work: (db: Kysely<DB>) => Promise<T>): Promise<T>
  /**
   * The statements of such calls, for a transaction of a library: run them inside of it, on this handle. A statement is
   * applied once, also if it is run again. Throws a TypeError if `calls` returns no promise: it would not be awaited.
   *
   * @example
   *   const [{ text, values }] = await tenant.statements(() => tenancy.webhooks.dispatch('acme', 'note.created', { id: 1 }))
   *   await prisma.$transaction((tx) => tx.$executeRawUnsafe(text, ...values))
   */
  statements(calls: () => PromiseLike<unknown>): Promise<readonly PostStatement[]>
}

/**
 * A usable tenant: behind a guard, in `run`, in a job, or from `tenancy.tenant(id)`. It may be kept: each statement
 * checks status and location again. `record` and `plan` are those of the time at which it was returned.
 *
 * @example
 *   app.get('/notes', async ({ tenant }, response) => {
 *     response.json({ plan: tenant.plan, notes: await tenant.db.selectFrom('notes').selectAll().execute() })
 *   })
 */
export interface Tenant<DB = any, N extends Names = Names> extends StorageHandle<DB> {
  /** Name, status, metadata and domains, from the registry. */
  readonly record: TenantRecord
  /** Name of the plan: `metadata.plan`, or the result of `plans.getPlan`. The default plan for a tenant without one. */
  readonly plan: N['plan']
}
