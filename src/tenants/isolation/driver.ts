/**
 * The port of isolation drivers, which store the rows of tenants separately.
 *
 * A *storage location* identifies the storage of one tenant: driver, server (`placement`), name there (`locator`) and
 * `epoch`. The locator contains the epoch, is chosen once, stored in the registry and never derived from an id again:
 * two ids never share one, and former storage differs from the current one.
 *
 * A *fence* closes storage at its server, which then rejects every statement of the tenant, regardless of the cache of
 * a process. It enforces a suspension, a deletion or a move against processes with a stale cache.
 *
 * Every method is safe to repeat: a killed job runs again from the start.
 */

import { DependencyUnavailable, defineError, type TenancyError } from '../../kernel/base/errors.ts'
import type { Logger } from '../../kernel/base/logger.ts'
import type { Finding } from '../../kernel/doctor/doctor.ts'
import type { FoundData } from '../../kernel/erasable.ts'
import type { DriverAdoption, DriverRowAdoption } from './adoption.ts'
import type { Statement, StatementResult, TenantConnection } from './connection.ts'
import type { CopiedSequence, TenantCopy } from './copy.ts'
import type { StorageLocation } from './location.ts'
import type { TenantMigration } from './migrations.ts'
import type { OrphanedRows, RegisteredLocation } from './orphaned-rows.ts'
import type { DriverOutbox } from './outbox.ts'
import type { Placement } from './placement.ts'
import type { ActivityOptions, ServerActivity } from './server-activity.ts'
import type { TableImport, TableImportOptions } from './table-import.ts'

export type { Statement, StatementResult, TenantConnection, TransactionModes } from './connection.ts'
export type { StorageLocation } from './location.ts'
export { type ConnectionLimits, type Placement, PUBLIC_RIGHTS, type PublicRight } from './placement.ts'

export interface Capabilities {
  /** `postgres` has SQL migrations and locators on a server; `sqlite` has only TypeScript migrations. */
  readonly engine: 'postgres' | 'sqlite'
  /** Whether each tenant has separate storage that can be migrated and dropped. */
  readonly separateStorage: boolean
  /** Whether other processes see the same storage, also after a restart. */
  readonly durable: boolean
  /**
   * Whether `export` and `import` exist. Otherwise, a backup, restore, clone or move is rejected with
   * `E_NOT_SUPPORTED`.
   */
  readonly copies: boolean
  /**
   * Dependencies of a tenant's statements: a server with a shared database, a server with the tenant's own database, or
   * none.
   */
  readonly reach: 'shared database' | 'own database' | 'no server'
  /**
   * Whether SQL written by a tenant cannot affect other tenants: it runs in the tenant's own database with the tenant's
   * own login on every placement. Statistics views of the server remain visible.
   */
  readonly containsTenantSql: boolean
}

export interface MigrateOptions {
  /** Lock timeout of statements in ms; default 10,000. */
  readonly lockTimeoutMs?: number
}

export interface IsolationDriver {
  readonly name: string
  readonly capabilities: Capabilities
  /** Options that must be the same in all processes, as JSON without secrets. */
  readonly options?: Readonly<Record<string, unknown>>
  /** Called once, before all other methods. */
  start(environment: DriverEnvironment): Promise<void>
  /** The name of a new tenant's storage; at most 63 bytes. */
  locator(tenantId: string, epoch: number): string
  /** Whether a tenant with this id can have storage; absent: always. */
  isTenantId?(tenantId: string): boolean
  /** Creates the storage and runs all migrations, atomically. Returns all applied migrations. */
  provision(location: StorageLocation, options?: MakingOptions): Promise<readonly string[]>
  /** The applied migrations, in order, without rolled back ones. */
  applied(location: StorageLocation): Promise<readonly string[]>
  /** Runs pending migrations. Returns those that were run. */
  migrate(location: StorageLocation, options?: MigrateOptions): Promise<readonly string[]>
  /** Rolls back the last `steps` migrations, newest first. Returns them. */
  rollback(location: StorageLocation, steps: number, options?: MigrateOptions): Promise<readonly string[]>
  /** Runs one statement in the tenant's scope, on any free connection. */
  execute(location: StorageLocation, statement: Statement): Promise<StatementResult>
  /**
   * Advances sequences of the tenant's tables; never moves one back. Absent if there are no sequences. A sequence
   * shared by tenants goes no further than the middle of its range.
   */
  advanceSequences?(location: StorageLocation, wanted: readonly CopiedSequence[], signal: AbortSignal): Promise<void>
  /** A connection for several statements. Throws `E_TENANT_CONNECTION_LIMIT` if none becomes free in time. */
  connect(location: StorageLocation): Promise<TenantConnection>
  /** Entries that transactions of tenants post. */
  readonly outbox: DriverOutbox
  /** Closes the storage: from now on its server rejects every statement of the tenant. */
  fence(location: StorageLocation): Promise<void>
  unfence(location: StorageLocation): Promise<void>
  isFenced(location: StorageLocation): Promise<boolean>
  /** Whether a fence can cause `error`; it may have other causes, too. */
  mayBeFence(error: unknown): boolean
  /** With qualified names: the schema before every table name. */
  readonly schemaOf?: (location: StorageLocation) => string
  /**
   * Resolves when no work started before the fence can change the storage. Call it after `fence`. Terminates open work
   * of the tenant after a grace period. Throws `E_DEPENDENCY_UNAVAILABLE` after a timeout.
   */
  drain(location: StorageLocation, options?: DrainOptions): Promise<void>
  /**
   * Runs `work` with all data of the tenant in one snapshot, regardless of a fence. `work` can import the copy but must
   * not export. Exports, and imports, of one process on one placement are limited; further ones wait. Throws
   * `E_NOT_SUPPORTED` without the capability `copies`, as does `import`.
   */
  export<T>(location: StorageLocation, work: (copy: TenantCopy) => Promise<T>, options: TransferOptions): Promise<T>
  /**
   * Creates new storage, loads the copy and runs pending migrations. Throws `E_BACKUP_INCOMPATIBLE` if the migrations
   * have no tables for the copy. After an error, `drop` removes the created storage.
   */
  import(location: StorageLocation, copy: TenantCopy, options: TransferOptions): Promise<Imported>
  /**
   * Replaces the empty tables of a storage by tables that `fill` creates, in one transaction. Throws
   * `E_STORAGE_EXISTS` if a table has rows. Absent if tenants share tables, or without a server.
   */
  importTables?(
    location: StorageLocation,
    fill: (tables: TableImport) => Promise<void>,
    options: TableImportOptions,
  ): Promise<void>
  /**
   * Makes an imported or former storage the one that statements of the tenant reach, if one tenant can have several
   * under one name. Call it after the fence of the former one, which stays. Absent if each storage has its own name.
   */
  enter?(location: StorageLocation, options: { readonly signal: AbortSignal }): Promise<void>
  /** Adoption of existing storage of one tenant; absent if the driver cannot adopt any. */
  readonly adoption?: DriverAdoption
  /** Adoption of existing tables with the rows of many tenants; absent if tenants do not share tables. */
  readonly rowAdoption?: DriverRowAdoption
  /**
   * Removes the storage with its content. Throws `E_DEPENDENCY_UNAVAILABLE` if it is in use for longer than a caller
   * should wait, for example by a running or hanging import.
   */
  drop(location: StorageLocation, options?: DropOptions): Promise<void>
  /**
   * All separate storage of tenants and all fences on a server, regardless of their owner. Absent if other processes
   * would see different ones.
   */
  inventory?(placement: string): Promise<readonly StoredLocation[]>
  /**
   * Data of one tenant on a server, in storage of any epoch, for an erasure: storage, rows of shared tables, entries of
   * the outbox. Absent as `inventory`.
   * @param lastEpoch the highest epoch of the tenant
   * @param adopted locators of its adopted storage on this server, whose names do not contain its id
   * @param options `beforeDrop`: without the rows that `drop` passes to `onRows`
   */
  search?(
    placement: string,
    tenantId: string,
    lastEpoch: number,
    adopted?: readonly string[],
    options?: { readonly beforeDrop?: boolean },
  ): Promise<readonly FoundData[]>
  /**
   * Rows without a storage location, for a driver with shared tables. Reads all rows: for `doctor --prove`.
   * @param registered reads the locations on the placement from the registry; called after the tables were read once
   */
  orphanedRows?(
    placement: string,
    registered: () => Promise<readonly RegisteredLocation[]>,
  ): Promise<readonly OrphanedRows[]>
  /**
   * Findings about isolation in the server's catalog, for `doctor --prove`. The `subject` of a finding that is
   * `fixable` is a `Repair`.
   */
  audit(locations: AsyncIterable<StorageLocation>): AsyncIterable<Finding>
  /** Activity of a server, for the doctor; absent without a server. Drivers of one placement return the same. */
  activity?(placement: string, options: ActivityOptions): Promise<ServerActivity>
  /** Placements whose server rejects the login of tenants' queries; absent without a login. */
  rejectedLogins?(): Promise<readonly string[]>
  /** Connections for tenants' queries, by placement. */
  connections(): readonly ConnectionCount[]
  stop(): Promise<void>
}

export interface DropOptions {
  /**
   * Called with the number of deleted rows by shared table, before their deletion is committed. An error rolls it back.
   * Not called for separate storage.
   */
  readonly onRows?: ((found: readonly FoundData[]) => Promise<void>) | undefined
}

export interface DrainOptions {
  /** Time in ms before open work is terminated; default 5,000. */
  readonly graceMs?: number
  /** Time limit in ms of the whole call; default 30,000. */
  readonly maxMs?: number
  readonly signal?: AbortSignal | undefined
}

/** Fixes a finding if it still exists. Safe to repeat. Returns a description of the change. */
export type Repair = () => Promise<string>

export const DRAIN_DEFAULTS = { graceMs: 5_000, maxMs: 30_000 } as const

export interface MakingOptions {
  /**
   * Throws if the location was abandoned, to be dropped by another process. Called before the creation, with a lock
   * that `drop` waits for: a late process creates nothing after the drop.
   */
  readonly assertNotAbandoned?: (() => Promise<void>) | undefined
}

export interface TransferOptions extends MakingOptions {
  /** Ends the call at the next step; changes are undone, or left to `drop`. */
  readonly signal: AbortSignal
  /** Called at the start of each phase of an import. */
  readonly onPhase?: ((phase: 'making' | 'loading' | 'indexing' | 'migrating') => void) | undefined
}

export interface Imported {
  /** Applied migrations of the storage, as returned by `provision`. */
  readonly migrations: readonly string[]
  /** Number of rows of each table, counted by the server. */
  readonly rows: ReadonlyMap<string, number>
}

export interface StoredLocation {
  readonly locator: string
  readonly isFenced: boolean
}

export interface ConnectionCount {
  readonly placement: string
  /** Maximum number of connections; undefined if unlimited. */
  readonly max?: number
  readonly idle: number
  readonly busy: number
  readonly waiting: number
  /** Requests for which a connection was available. */
  readonly hits: number
  /** Requests for which a connection had to be opened. */
  readonly misses: number
}

export interface DriverEnvironment {
  /** Unique and permanent id of the installation, six letters or digits: for names that are global to a server. */
  readonly installation: string
  /** Placements by name; the server of the backoffice is `main`. */
  readonly placements: ReadonlyMap<string, Placement>
  readonly migrations: readonly TenantMigration[]
  /** Changes after each change of tenants' tables by any process; undefined while that is unknown. */
  readonly generation: () => number | undefined
  readonly log: Logger
}

/** The storage rejected a statement because it is closed: the tenant was suspended, deleted, restored or moved. */
export const StorageFenced = defineError('E_TENANT_STORAGE_FENCED', 503, 'The storage of the tenant is closed')
/** The location to be filled contains storage of another origin, which stays unchanged. */
export const StorageExists = defineError('E_STORAGE_EXISTS', 409, 'Storage already exists')
/** The driver does not have the capability that the request needs. */
export const NotSupported = defineError('E_NOT_SUPPORTED', 409, 'Not supported by the isolation driver')
export const copiesNotSupported = (isolation: string): TenancyError =>
  NotSupported(
    `The isolation driver "${isolation}" does not support backups, restores, clones and moves; ` +
      'use an isolation driver for PostgreSQL, such as schema-pg, for tenants that need them.',
  )
/** A placement that is not configured in this process. Its name is only in the log. */
export const unknownPlacement = (placement: string): TenancyError =>
  DependencyUnavailable('The database server of the tenant is not configured in this process.', {
    cause: new Error(`placement "${placement}" is not configured in this process`),
  })
/** No connection became free in time. */
export const ConnectionLimitReached = defineError('E_TENANT_CONNECTION_LIMIT', 503, 'No connection is free')
