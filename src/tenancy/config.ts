/** What a host configures a tenancy with. */
import type { PlacementConfig } from '../drivers/isolation/roles/tenant-login.ts'
import type { Clock } from '../kernel/base/clock.ts'
import type { Logger } from '../kernel/base/logger.ts'
import type { DatabaseOptions } from '../kernel/database/database.ts'
import type { EgressSettings } from '../kernel/egress/egress.ts'
import type { CircuitRule } from '../kernel/resilience/circuit.ts'
import type { ResilienceConfig } from '../kernel/resilience/resilience.ts'
import type { StoreDriver } from '../kernel/store/store.ts'
import type { IsolationDriver } from '../tenants/isolation/driver.ts'
import type { TenantMigration } from '../tenants/isolation/migrations.ts'
import type { PlansConfig } from '../tenants/registry/plans.ts'
import type { Archives } from '../tenants/transfers/archive/port.ts'
import type { Satellite } from './satellite.ts'

/**
 * `all` serves and works, `api` sends jobs but works on none, `worker` works. A command uses `api`, or `command`, which works on
 * jobs beside the others and leaves the schedule to them.
 */
export type Role = 'all' | 'api' | 'worker' | 'command'

export interface TenancyConfig<Satellites extends readonly Satellite[] = readonly Satellite[]> {
  /** The backoffice database; its role owns the tenants' schemas too. */
  readonly database: DatabaseOptions
  /** 32 bytes, base64: encrypts secrets, signs cursors and sessions. Keep it with your backups. */
  readonly appKey: string
  /** Former application keys: they decrypt what they encrypted, and encrypt nothing. */
  readonly oldAppKeys?: readonly string[]
  /** Default: `postgresStore()`, in the backoffice database. */
  readonly store?: StoreDriver | undefined
  /** The ways to keep tenants apart; the first is the default unless `defaultIsolation` names another. */
  readonly isolation: readonly IsolationDriver[]
  readonly defaultIsolation?: string
  /** More PostgreSQL servers, by name. `main` is the backoffice's; give it here only to set its `tenantUrl`. */
  readonly placements?: Readonly<Record<string, PlacementConfig>>
  /** The host's migrations: a folder, or what `readTenantMigrations` answers. */
  readonly migrations?: string | readonly TenantMigration[]
  readonly plans?: PlansConfig
  readonly tenants?: {
    readonly retentionDays?: number
    readonly autoPurge?: boolean
    readonly staleForSeconds?: number | undefined
  }
  /** Backups of tenants; absent: none can be made. */
  readonly backups?: BackupsConfig
  readonly satellites?: Satellites
  /** When the circuit of a tenant's database opens, and for how long. */
  readonly circuit?: Partial<CircuitRule>
  /** What happens while the store or the backoffice database is away. */
  readonly resilience?: ResilienceConfig
  /** Where requests of Tenantry's own may go. */
  readonly egress?: EgressSettings
  readonly role?: Role
  readonly health?: { readonly critical?: readonly string[] }
  readonly metrics?: { readonly maxTenantSeries?: number }
  readonly logger?: Logger
  readonly clock?: Clock
}

export interface BackupsConfig {
  /** `directory({ path })`, `s3({ bucket })` */
  readonly archives: Archives
  /** How many of those that are made by themselves are kept of a tenant; default 7. A plan may say otherwise. */
  readonly keep?: number
  /** Between two that are made by themselves; absent: none is. A plan may say otherwise. */
  readonly everyHours?: number | undefined
  /** Whether archives are encrypted under the application key; default false. */
  readonly seal?: boolean
}
