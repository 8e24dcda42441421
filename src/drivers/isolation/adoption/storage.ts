/** Defines the members of a tenant's storage that an adoption needs; `TenantStorage` of the drivers has them. */
import type pg from 'pg'
import type { StorageLocation } from '../../../tenants/isolation/location.ts'
import type { PostgresMigrator } from '../migrations/postgres-migrator.ts'
import type { PostgresServer } from '../server/postgres-server.ts'

export interface AdoptableStorage extends StorageLocation {
  readonly server: PostgresServer
  readonly migrator: PostgresMigrator
  /** The schema of the tables. Its name is also the key of the migration records. */
  readonly schema: string
  readonly database: string
  readonly searchPath: string
  /** The search path for any schema that has the same tables. */
  readonly searchPathOf: (schema: string) => string
  /** Runs `work` on a connection of the owner to the database of the tables, outside of any transaction. */
  owned<T>(work: (client: pg.ClientBase) => Promise<T>): Promise<T>
}
