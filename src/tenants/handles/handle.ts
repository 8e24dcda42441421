/** The handle of a tenant: its storage for the host's program, in the forms that libraries take. */
import type { Dialect, Kysely } from 'kysely'
import type { Pool } from 'pg'
import type { TenantPg } from './pg-module.ts'

/** A tenant's storage, ready for queries of the host's `Tables`. Every query sees this tenant's rows and nothing else. */
export interface TenantHandle<Tables = any> {
  readonly id: string
  /** Kysely over the tenant's storage; table names are those of the host's migrations. */
  readonly db: Kysely<Tables>
  /** The same storage as node-postgres' Pool, for raw SQL and other libraries; see pg-pool.ts. */
  readonly pool: Pool
  /** The same storage as a dialect of Kysely, for libraries that take one (MikroORM). */
  readonly dialect: Dialect
  /** The same storage as a module in the shape of `pg`, for libraries that take a driver module; see pg-module.ts. */
  readonly pg: TenantPg
  /** One transaction in the tenant's storage. */
  transaction<T>(work: (db: Kysely<Tables>) => Promise<T>): Promise<T>
}
