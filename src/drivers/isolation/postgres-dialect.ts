/** Declares the differences between the PostgreSQL drivers and the options that they have in common. */

import type pg from 'pg'
import type { Finding } from '../../kernel/doctor/doctor.ts'
import type { FoundData } from '../../kernel/erasable.ts'
import type { TenantCopy } from '../../tenants/isolation/copy.ts'
import type {
  Capabilities,
  DriverEnvironment,
  DropOptions,
  Imported,
  IsolationDriver,
  MakingOptions,
  StorageLocation,
  StoredLocation,
  TransferOptions,
} from '../../tenants/isolation/driver.ts'
import type { OrphanedRows } from '../../tenants/isolation/orphaned-rows.ts'
import type { ImportedTables, TableImport, TableImportOptions } from '../../tenants/isolation/table-import.ts'
import type { AdoptionKind } from './adoption/adoption.ts'
import type { AdoptableStorage } from './adoption/storage.ts'
import type { RowTables } from './audit/orphaned-rows.ts'
import type { Source } from './copy/copy-out.ts'
import type { StorageRead } from './migrations/migration-records.ts'
import type { Scope } from './scope/scoped-query.ts'
import type { MigratingOptions, PostgresServer } from './server/postgres-server.ts'
import type { Holding } from './transactions/copy-session.ts'

/** Options of every PostgreSQL driver. */
export interface PostgresOptions {
  /**
   * `batch` (default) sends the scope and the statement in one round trip. `transaction` puts BEGIN and COMMIT around
   * each statement, for proxies that do not support batches.
   */
  readonly scope?: 'batch' | 'transaction' | undefined
  /** A schema with types of extensions, searched after the tenant's schema. Tenants must not be able to write to it. */
  readonly extensionsSchema?: string | undefined
}

/** A storage location together with its server. */
export interface TenantStorage extends AdoptableStorage {
  /**
   * Runs `work` in a transaction of the owner that may change the tables. Other migrations of the same tables wait for
   * it.
   */
  migrating<T>(
    work: (client: pg.ClientBase, read: StorageRead) => Promise<T>,
    options?: MigratingOptions<T>,
  ): Promise<T>
}

/**
 * The differences between the drivers. Functions except `locator`, `schemaOf`, `tables` and `scope` are called after
 * `start`.
 */
export interface PostgresDialect
  extends Pick<IsolationDriver, 'name' | 'options' | 'locator' | 'isTenantId' | 'schemaOf'> {
  readonly capabilities: Pick<Capabilities, 'separateStorage'> & {
    readonly reach: Exclude<Capabilities['reach'], 'no server'>
  }
  /** Whether SQL of a tenant affects no other tenant of the server; default false. */
  readonly containsTenantSql?: (server: PostgresServer) => boolean
  readonly start?: (environment: DriverEnvironment, servers: Iterable<PostgresServer>) => void

  /** The schema of the tables, and their database if it differs from that of the placement. */
  tables(location: StorageLocation): { readonly schema: string; readonly database?: string }
  /** The scope of a statement without tenant, role and search path. */
  scope(location: StorageLocation): Omit<Scope, 'tenantId' | 'role' | 'searchPath' | 'settings'>

  /** Creates the objects that a server needs before its first tenant. Idempotent. */
  readonly prepare?: (server: PostgresServer) => Promise<void>
  /** Wraps each change of the tables, in its transaction. */
  readonly changeTables?: <T>(client: pg.ClientBase, storage: TenantStorage, work: () => Promise<T>) => Promise<T>
  /** Whether a migration and its transaction are sent as one text: for databases with thousands of equal schemas. */
  readonly migratesAtOnce?: boolean
  provision(storage: TenantStorage, options: MakingOptions): Promise<readonly string[]>
  drop(storage: TenantStorage, options?: DropOptions): Promise<void>
  inventory(server: PostgresServer): Promise<readonly StoredLocation[]>
  /** Rows of a tenant's locations in shared tables, by table; see `search` of the driver. */
  readonly rowsOf?: (
    server: PostgresServer,
    tenantId: string,
    locators: readonly string[],
    options: { readonly beforeDrop?: boolean | undefined },
  ) => Promise<readonly FoundData[]>

  fence(storage: TenantStorage): Promise<void>
  unfence(storage: TenantStorage): Promise<void>
  isFenced(storage: TenantStorage): Promise<boolean>

  /** The rows of an export; default: all rows of the schema. */
  readonly source?: (client: pg.ClientBase, storage: TenantStorage, hold: Holding) => Promise<Source>
  import(storage: TenantStorage, copy: TenantCopy, options: HeldTransferOptions): Promise<Imported>
  /** Absent if tenants share tables. */
  readonly importTables?: (
    storage: TenantStorage,
    fill: (tables: TableImport) => Promise<void>,
    options: TableImportOptions & { readonly hold: Holding },
  ) => Promise<ImportedTables>
  readonly enter?: (storage: TenantStorage, signal: AbortSignal) => Promise<void>

  /** Kind of existing storage that can become that of a tenant; absent: none. */
  readonly adopts?: AdoptionKind | { readonly of: 'rows'; readonly tables: RowTables }
  audit(servers: Iterable<PostgresServer>, locations: AsyncIterable<StorageLocation>): AsyncIterable<Finding>
  readonly orphanedRows?: (server: PostgresServer, registered: ReadRegistered) => Promise<readonly OrphanedRows[]>
}

export type HeldTransferOptions = TransferOptions & { readonly hold: Holding }
type ReadRegistered = Parameters<NonNullable<IsolationDriver['orphanedRows']>>[1]
