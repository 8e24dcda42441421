/** Defines the handle of a tenant: its storage in the forms that libraries accept. */
import type { Dialect, Kysely } from 'kysely'
import type { Pool } from 'pg'
import type { TenantPg } from './pg-module.ts'

/** A tenant's storage, for queries on the host's `Tables`. Every query sees only the rows of this tenant. */
export interface TenantHandle<Tables = any> {
  readonly id: string
  /** Kysely on the tenant's storage; table names are those of the host's migrations. */
  readonly db: Kysely<Tables>
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
  /** Runs `work` in one transaction in the tenant's storage. */
  transaction<T>(work: (db: Kysely<Tables>) => Promise<T>): Promise<T>
}
