/**
 * Derives the settings of the parts from the host's configuration. Throws for invalid ones before anything is opened.
 */
import { placementsOf } from '../drivers/isolation/roles/tenant-login.ts'
import { postgresStore } from '../drivers/store/postgres.ts'
import { systemClock } from '../kernel/base/clock.ts'
import { createLogger, isLogLevel } from '../kernel/base/logger.ts'
import { createSecrets } from '../kernel/crypto/crypto.ts'
import { rejectedInProduction } from '../kernel/egress/production.ts'
import { Storage } from '../tenants/isolation/drivers.ts'
import { readTenantMigrations } from '../tenants/isolation/migrations.ts'
import { NO_PLANS } from '../tenants/registry/plans.ts'
import type { TenancyConfig } from './config.ts'

const DAY_MS = 86_400_000
const RETENTION_DAYS = 30
const BACKUPS_KEPT = 7
const SERVER_BACKUPS_DAYS = 35
const SEARCH_TIMEOUT_MS = 200

export type Settings = Awaited<ReturnType<typeof settingsOf>>

export async function settingsOf(config: TenancyConfig) {
  const { tenants = {}, backups, isolation: drivers, defaultIsolation: defaultDriver, migrations = [] } = config
  const [rejected] = process.env.NODE_ENV === 'production' ? rejectedInProduction(config.egress) : []
  if (rejected) throw new Error(rejected)
  const placements = placementsOf(config)
  return {
    log: config.logger ?? createLogger({ level: levelOf(process.env.LOG_LEVEL) }),
    clock: config.clock ?? systemClock,
    store: config.store ?? postgresStore(),
    secrets: createSecrets(config.appKey, config.oldAppKeys),
    placements,
    storage: new Storage({ drivers, defaultDriver, placements: Object.keys(placements) }),
    migrations: typeof migrations === 'string' ? await readTenantMigrations(migrations) : migrations,
    circuit: config.circuit,
    plans: config.plans ?? NO_PLANS,
    staleForSeconds: tenants.staleForSeconds,
    retentionMs: (tenants.retentionDays ?? RETENTION_DAYS) * DAY_MS,
    autoPurge: tenants.autoPurge ?? true,
    searchTimeoutMs: config.search?.timeoutMs ?? SEARCH_TIMEOUT_MS,
    erasure: {
      serverBackupsDays: config.erasure?.serverBackupsDays ?? SERVER_BACKUPS_DAYS,
      auditFields: config.erasure?.auditFields ?? ('keep' as const),
    },
    backups: {
      archives: backups?.archives,
      keep: backups?.keep ?? BACKUPS_KEPT,
      everyHours: backups?.everyHours,
      isEncrypting: backups?.seal ?? false,
    },
  }
}

/** LOG_LEVEL is the variable of the host, so that it may have levels of another library. */
function levelOf(text: string | undefined): string {
  if (!text) return 'warn'
  return isLogLevel(text) ? text : 'info'
}
