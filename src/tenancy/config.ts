/** The configuration of a tenancy by its host. */
import type { PlacementConfig } from '../drivers/isolation/roles/tenant-login.ts'
import type { Clock } from '../kernel/base/clock.ts'
import type { Logger } from '../kernel/base/logger.ts'
import type { DatabaseOptions } from '../kernel/database/database.ts'
import type { EgressSettings } from '../kernel/egress/egress.ts'
import type { SameSettings } from '../kernel/processes/processes.ts'
import type { CircuitRule } from '../kernel/resilience/circuit.ts'
import type { ResilienceConfig } from '../kernel/resilience/resilience.ts'
import type { StoreDriver } from '../kernel/store/store.ts'
import type { IsolationDriver } from '../tenants/isolation/driver.ts'
import type { TenantMigration } from '../tenants/isolation/migrations.ts'
import type { PlansConfig } from '../tenants/registry/plans.ts'
import type { Archives } from '../tenants/transfers/archive/port.ts'
import type { AnySatellite, Satellite } from './satellite.ts'

/**
 * `all` serves requests and works on jobs, `api` only sends jobs, `worker` works on jobs. A command uses `api`, or
 * `command`, which works on jobs in parallel with workers but does not change the schedule.
 */
export type Role = 'all' | 'api' | 'worker' | 'command'

export interface TenancyConfig<Satellites extends readonly AnySatellite[] = readonly Satellite[]> {
  /** The backoffice database; its role also owns the tenants' schemas. */
  readonly database: DatabaseOptions
  /** 32 bytes, base64: encrypts secrets, signs cursors and sessions. Store it with your backups. */
  readonly appKey: string
  /** Former application keys: they only decrypt. */
  readonly oldAppKeys?: readonly string[]
  /** Default: `postgresStore()`, in the backoffice database. */
  readonly store?: StoreDriver | undefined
  /** Isolation drivers; the first one is the default unless `defaultIsolation` names another. */
  readonly isolation: readonly IsolationDriver[]
  readonly defaultIsolation?: string
  /** Further PostgreSQL servers, by name. `main` is that of the backoffice; add it only to set its `tenantUrl`. */
  readonly placements?: Readonly<Record<string, PlacementConfig>>
  /** The host's migrations: a folder, or the result of `readTenantMigrations`. */
  readonly migrations?: string | readonly TenantMigration[]
  readonly plans?: PlansConfig
  readonly tenants?: {
    readonly retentionDays?: number
    readonly autoPurge?: boolean
    readonly staleForSeconds?: number | undefined
  }
  readonly erasure?: {
    /** Days after which base backups and WAL of the servers are deleted, for the report of an erasure; default 35. */
    readonly serverBackupsDays?: number
    /** `encrypt`: new audit entries of a tenant are encrypted with its own key, which an erasure destroys; default `keep`. */
    readonly auditFields?: 'keep' | 'encrypt'
  }
  /** Limit of the time that each part has for a result of `search.find`; default 200 ms. */
  readonly search?: { readonly timeoutMs?: number }
  /** Backups of tenants. If absent, backups are not available. */
  readonly backups?: BackupsConfig
  readonly satellites?: Satellites
  /** Rule of the circuits of tenants' databases: when they open, and for how long. */
  readonly circuit?: Partial<CircuitRule>
  /** Behavior while the store or the backoffice database is unavailable. */
  readonly resilience?: ResilienceConfig
  /** Allowed destinations of Tenantry's own requests. */
  readonly egress?: EgressSettings
  readonly role?: Role
  /**
   * Whether the tenancy also opens if the backoffice is read-only or full: without a record of this process, for a program that reads and
   * ends. Default: false, the start fails.
   */
  readonly allowsReadOnly?: boolean
  /** Whether any difference to the settings of a running process prevents the start; default: only conflicts. */
  readonly needsSameSettings?: SameSettings | undefined
  /** Whether the process runs one command: a service with other settings starts beside it. Default: false. */
  readonly isCommand?: boolean | undefined
  /**
   * Part whose tables the process reads. If a running process has other settings, no migrations of the backoffice run, and the start
   * fails without those tables. Absent: migrations run.
   */
  readonly keepsTablesOf?: string | undefined
  /** Ends the wait of the start for the migrations of another process; the start then fails with its reason. */
  readonly signal?: AbortSignal | undefined
  readonly health?: { readonly critical?: readonly string[] }
  readonly metrics?: { readonly maxTenantSeries?: number }
  readonly logger?: Logger
  readonly clock?: Clock
}

export interface BackupsConfig {
  /** `directory({ path })`, `s3({ bucket })` */
  readonly archives: Archives
  /** Number of scheduled backups that are kept per tenant; default 7. A plan can override it. */
  readonly keep?: number
  /** Interval of scheduled backups in hours; absent: none are scheduled. A plan can override it. */
  readonly everyHours?: number | undefined
  /** Whether archives are encrypted with the application key; default false. */
  readonly seal?: boolean
}
