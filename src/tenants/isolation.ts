/**
 * Where tenants' rows live. A driver knows one way to keep them apart; everything else speaks to this port.
 *
 * A *place* names the storage of one tenant: which server (`placement`), what it is called there (`locator`), and the `epoch`
 * of that answer. The locator is chosen once, kept in the registry and never made from an id again: two ids never share one.
 * Every method is safe to repeat: a job that is killed half-way runs again from the start.
 */
import type { Kysely } from 'kysely'
import type { Logger } from '../kernel/logger.ts'
import type { TenantMigration } from './migrations.ts'

export interface Place {
  readonly tenantId: string
  readonly placement: string
  readonly locator: string
  readonly epoch: number
}

/** A tenant's storage, ready for queries of the host's `Tables`. Every query sees this tenant's rows and nothing else. */
export interface TenantHandle<Tables = any> {
  readonly id: string
  /** Kysely over the tenant's storage; table names are those of the host's migrations. */
  readonly db: Kysely<Tables>
  /** One transaction in the tenant's storage. */
  transaction<T>(work: (db: Kysely<Tables>) => Promise<T>): Promise<T>
}

export interface Capabilities {
  /** `postgres` takes SQL migrations and locators on a server; `sqlite` takes TypeScript migrations only. */
  readonly engine: 'postgres' | 'sqlite'
  /** Whether each tenant has storage of its own that can be migrated and dropped alone. */
  readonly separateStorage: boolean
}

export interface IsolationDriver {
  readonly name: string
  readonly capabilities: Capabilities
  /** Called once, before anything else. */
  start(environment: DriverEnvironment): Promise<void>
  /** The name of a new tenant's storage. */
  locator(tenantId: string, epoch: number): string
  /** Makes the storage and runs all migrations, all or nothing. Answers what it has then, whoever has run it. */
  provision(place: Place): Promise<readonly string[]>
  /** Runs what is pending. Answers what was run. */
  migrate(place: Place): Promise<readonly string[]>
  /** Takes back the last `steps` migrations, newest first. Answers what was taken back. */
  rollback(place: Place, steps: number): Promise<readonly string[]>
  handle(place: Place): TenantHandle
  /** Removes the storage and everything in it. */
  drop(place: Place): Promise<void>
  stop(): Promise<void>
}

export interface DriverEnvironment {
  /** Placements by name; the server of the backoffice is `main`. */
  readonly placements: ReadonlyMap<string, PlacementUrls>
  readonly migrations: readonly TenantMigration[]
  readonly log: Logger
}

export interface PlacementUrls {
  readonly name: string
  /** Owns DDL. */
  readonly url: string
  /** What tenants' queries use: neither superuser, nor owner, nor exempt from row security. */
  readonly tenantUrl: string
  /** The role that has the rights on tenants' rows; the login takes it for the length of a scope. */
  readonly scopeRole: string
}
