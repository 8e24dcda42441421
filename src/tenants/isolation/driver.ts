/**
 * Where tenants' rows live. A driver knows one way to keep them apart; everything else speaks to this port.
 *
 * A *storage location* names the storage of one tenant: which driver, which server (`placement`), what it is called there (`locator`), and
 * the `epoch` of that answer. The locator carries the epoch, is chosen once, kept in the registry and never made from an id
 * again: two ids never share one, and storage that a tenant has left is never taken for the one it has now.
 *
 * A *fence* closes storage at the server itself: from then on every statement of that tenant is refused there, whatever a
 * process believes. It is how a suspension, a deletion or a move holds against processes that have not heard of it.
 *
 * Every method is safe to repeat: a job that is killed half-way runs again from the start.
 */

import { DependencyUnavailable, defineError, type TenancyError } from '../../kernel/base/errors.ts'
import type { Logger } from '../../kernel/base/logger.ts'
import type { Finding } from '../../kernel/doctor/doctor.ts'
import type { Statement, StatementResult, TenantConnection } from './connection.ts'
import type { CopiedSequence, TenantCopy } from './copy.ts'
import type { TenantMigration } from './migrations.ts'
import type { OrphanedRows, RegisteredLocation } from './orphaned-rows.ts'
import type { Placement } from './placement.ts'
import type { ActivityOptions, ServerActivity } from './server-activity.ts'

export type { Statement, StatementResult, TenantConnection, TransactionModes } from './connection.ts'
export { type ConnectionLimits, type Placement, PUBLIC_RIGHTS, type PublicRight } from './placement.ts'

export interface StorageLocation {
  readonly tenantId: string
  /** Name of the driver. */
  readonly isolation: string
  readonly placement: string
  readonly locator: string
  readonly epoch: number
}

export interface Capabilities {
  /** `postgres` takes SQL migrations and locators on a server; `sqlite` takes TypeScript migrations only. */
  readonly engine: 'postgres' | 'sqlite'
  /** Whether each tenant has storage of its own that can be migrated and dropped alone. */
  readonly separateStorage: boolean
  /** Whether other processes see the same storage, and find it again after a restart. */
  readonly durable: boolean
  /** Whether `export` and `import` exist: without them, a backup, restore, clone or move is rejected with `E_NOT_SUPPORTED`. */
  readonly copies: boolean
  /** What a tenant's statements need: a server whose database others share, one with a database of their own, or none. */
  readonly reach: 'shared database' | 'own database' | 'no server'
  /**
   * Whether SQL that a tenant writes itself affects no other tenant: where the connection is to a database of its own, by a login of
   * its own, on every placement. The server's views of statistics it does reach.
   */
  readonly containsTenantSql: boolean
}

export interface MigrateOptions {
  /** How long a statement may wait for a lock; default 10,000. */
  readonly lockTimeoutMs?: number
}

export interface IsolationDriver {
  readonly name: string
  readonly capabilities: Capabilities
  /** Called once, before anything else. */
  start(environment: DriverEnvironment): Promise<void>
  /** The name of a new tenant's storage; at most 63 bytes. */
  locator(tenantId: string, epoch: number): string
  /** Makes the storage and runs all migrations, all or nothing. Answers what it has then, whoever has run it. */
  provision(location: StorageLocation, options?: MakingOptions): Promise<readonly string[]>
  /** What has been run and not taken back, in order. */
  applied(location: StorageLocation): Promise<readonly string[]>
  /** Runs what is pending. Answers what was run. */
  migrate(location: StorageLocation, options?: MigrateOptions): Promise<readonly string[]>
  /** Takes back the last `steps` migrations, newest first. Answers what was taken back. */
  rollback(location: StorageLocation, steps: number, options?: MigrateOptions): Promise<readonly string[]>
  /** One statement in the tenant's scope, on whichever connection is free. */
  execute(location: StorageLocation, statement: Statement): Promise<StatementResult>
  /**
   * Moves sequences of the tenant's tables forward to where they are wanted; never back. Absent where there are no sequences. Those
   * that tenants share go no further than the middle of their range, as their numbers are everybody's.
   */
  advanceSequences?(location: StorageLocation, wanted: readonly CopiedSequence[], signal: AbortSignal): Promise<void>
  /** A connection for several statements. Throws `E_TENANT_CONNECTION_LIMIT` when none becomes free in time. */
  connect(location: StorageLocation): Promise<TenantConnection>
  /** Closes the storage: from now on its server refuses every statement of the tenant. */
  fence(location: StorageLocation): Promise<void>
  unfence(location: StorageLocation): Promise<void>
  isFenced(location: StorageLocation): Promise<boolean>
  /** Whether `error` is what a statement meets at a fence; it may have other reasons too. */
  mayBeFence(error: unknown): boolean
  /** With qualified names: the schema that stands before every table's name. */
  readonly schemaOf?: (location: StorageLocation) => string
  /**
   * Resolves when nothing that was begun before the fence can change anything any more. To be called behind a fence. Ends what the
   * tenant has open when that takes long; throws `E_DEPENDENCY_UNAVAILABLE` when it cannot tell in time.
   */
  drain(location: StorageLocation, options?: DrainOptions): Promise<void>
  /**
   * All that the tenant has, in one snapshot, for as long as `work` runs, which may import it and must not export. A fence does not
   * keep it out. So many at once of one process on one placement, and as many imports; the next one waits for its turn.
   * Throws `E_NOT_SUPPORTED` without the capability `copies`, as `import` does.
   */
  export<T>(location: StorageLocation, work: (copy: TenantCopy) => Promise<T>, options: TransferOptions): Promise<T>
  /**
   * Makes storage that is not there yet, puts the copy into it, and brings it up to date. Throws `E_BACKUP_INCOMPATIBLE` for a copy
   * that these migrations have no tables for. What was made when it throws, `drop` removes.
   */
  import(location: StorageLocation, copy: TenantCopy, options: TransferOptions): Promise<Imported>
  /**
   * Makes an imported or former storage the one that statements of the tenant reach, where one tenant may have several under one name.
   * To be called behind the fence of the one that is left; the fence stays. Absent where each storage has a name of its own.
   */
  enter?(location: StorageLocation, options: { readonly signal: AbortSignal }): Promise<void>
  /**
   * Removes the storage and everything in it. Throws `E_DEPENDENCY_UNAVAILABLE` when somebody is at work on it for longer than a
   * caller should wait: an import that goes on, or hangs.
   */
  drop(location: StorageLocation): Promise<void>
  /**
   * What a server has, whoever it belongs to: every storage that is a tenant's alone, and every fence. Absent where it would not
   * be the same for other processes.
   */
  inventory?(placement: string): Promise<readonly StoredLocation[]>
  /**
   * Rows that belong to no storage location, of a driver whose tenants share tables. It reads all of them: for `doctor --prove`.
   * @param registered reads the locations on the placement from the registry; it is called after the tables were read once
   */
  orphanedRows?(
    placement: string,
    registered: () => Promise<readonly RegisteredLocation[]>,
  ): Promise<readonly OrphanedRows[]>
  /**
   * What the server's catalog says about isolation, for `doctor --prove`; nothing when all is as it should be. The `subject` of a
   * finding that is `fixable` is a `Repair`.
   */
  audit(locations: AsyncIterable<StorageLocation>): AsyncIterable<Finding>
  /** What a server is doing, for the doctor; absent where there is no server. Drivers of one placement answer the same. */
  activity?(placement: string, options: ActivityOptions): Promise<ServerActivity>
  /** Names of placements whose server refuses the login of tenants' queries; absent where there is no login. */
  rejectedLogins?(): Promise<readonly string[]>
  /** Connections for tenants' queries, by placement. */
  connections(): readonly ConnectionCount[]
  stop(): Promise<void>
}

export interface DrainOptions {
  /** How long what is open may take to end by itself; default 5,000. */
  readonly graceMs?: number
  /** How long all of it may take; default 30,000. */
  readonly maxMs?: number
  readonly signal?: AbortSignal | undefined
}

/** Puts a finding right, where it is still so. Safe to repeat. Returns in words what was done. */
export type Repair = () => Promise<string>

export const DRAIN_DEFAULTS = { graceMs: 5_000, maxMs: 30_000 } as const

export interface MakingOptions {
  /**
   * Throws when the place was given up meanwhile, by whoever drops it then. Asked before anything is made, under a lock that `drop`
   * waits for: however late a process comes, it makes nothing where all was dropped.
   */
  readonly assertNotAbandoned?: (() => Promise<void>) | undefined
}

export interface TransferOptions extends MakingOptions {
  /** Ends it at the next step; what was done is undone, or left to `drop`. */
  readonly signal: AbortSignal
  /** Told when an import begins something else. */
  readonly onPhase?: ((phase: 'making' | 'loading' | 'indexing' | 'migrating') => void) | undefined
}

export interface Imported {
  /** What the storage has run now, as `provision` answers it. */
  readonly migrations: readonly string[]
  /** How many rows of each table are there, as the server counted them. */
  readonly rows: ReadonlyMap<string, number>
}

export interface StoredLocation {
  readonly locator: string
  readonly isFenced: boolean
}

export interface ConnectionCount {
  readonly placement: string
  /** How many there may be at once; undefined where there is no such bound. */
  readonly max?: number
  readonly idle: number
  readonly busy: number
  readonly waiting: number
  /** How often one was there when it was asked for. */
  readonly hits: number
  /** How often one had to be made. */
  readonly misses: number
}

export interface DriverEnvironment {
  /** Six letters or digits that no other installation has, and this one always: for names that a whole server knows. */
  readonly installation: string
  /** Placements by name; the server of the backoffice is `main`. */
  readonly placements: ReadonlyMap<string, Placement>
  readonly migrations: readonly TenantMigration[]
  /** Rises whenever tenants' tables have changed, in whichever process; undefined while this one could not know. */
  readonly generation: () => number | undefined
  readonly log: Logger
}

/** The storage refused a statement because it is closed: the tenant was suspended, deleted, restored or moved. */
export const StorageFenced = defineError('E_TENANT_STORAGE_FENCED', 503, 'The storage of the tenant is closed')
/** Of a place that was to be filled: what is there is not of whoever fills it, and stays as it is. */
export const StorageExists = defineError('E_STORAGE_EXISTS', 409, 'The storage is there already')
/** The driver does not have the capability that the request needs. */
export const NotSupported = defineError('E_NOT_SUPPORTED', 409, 'Not supported by the isolation driver')
export const copiesNotSupported = (isolation: string): TenancyError =>
  NotSupported(
    `The isolation driver "${isolation}" does not support backups, restores, clones and moves; ` +
      'use schema-pg, rowscope-pg or database-pg for tenants that need them.',
  )
/** Of a placement that is no longer configured here. Its name is for the log, not for who asked. */
export const unknownPlacement = (placement: string): TenancyError =>
  DependencyUnavailable('The database server of the tenant is not configured in this process.', {
    cause: new Error(`the placement "${placement}" is not configured in this process`),
  })
/** No connection became free in time. */
export const ConnectionLimitReached = defineError('E_TENANT_CONNECTION_LIMIT', 503, 'No connection is free')
