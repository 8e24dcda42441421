/** Schema of a configuration (definition or file), with a description of each key. docs/reference/settings.md is made from it. */
import { z } from 'zod'
import { isAllowedHost } from '../http/allowed-hosts.ts'
import { DEFAULT_PREFIX } from '../http/app.ts'
import { AdminToken } from '../http/tokens.ts'
import type { Clock } from '../kernel/base/clock.ts'
import type { Logger } from '../kernel/base/logger.ts'
import type { HostSchema } from '../kernel/declarations/host-schema.ts'
import { ResilienceSettings } from '../kernel/resilience/resilience.ts'
import type { Satellite } from '../tenancy/satellite.ts'
import type { TenantMigration } from '../tenants/isolation/migrations.ts'
import { Placement } from '../tenants/tenant/tenant.ts'
import { Backups } from './settings/backups.ts'
import { BillingSettings } from './settings/billing.ts'
import { EgressFile } from './settings/egress.ts'
import { AppKey } from './settings/environment.ts'
import { Health } from './settings/health.ts'
import { Group, PathPrefix, RequestSettings, SessionSettings } from './settings/http.ts'
import { Isolation, PlacementSettings, PostgresUrl } from './settings/isolation.ts'
import { Plans } from './settings/plans.ts'
import { Store } from './settings/store.ts'

/** Checks of service/main.ts, in addition to those of satellites. */
export const CHECKS = ['backoffice', 'store', 'circuits', 'logins']

export const NO_SATELLITE = 'must be a satellite'
export const isSatellite = (value: any): value is Satellite => typeof value?.service === 'function'

const Names = z.array(z.string()).readonly().optional()

const ServiceKeys = {
  prefix: PathPrefix.optional().describe(`Path prefix of the admin API. Default: \`${DEFAULT_PREFIX}\``),
  adminTokens: z
    .array(
      AdminToken.extend({
        name: AdminToken.shape.name.describe('Name in the audit log'),
        token: AdminToken.shape.token.describe('At least 16 characters'),
        scope: AdminToken.shape.scope.describe(
          '`admin` (default): all. `read`: GET. `runtime`: for each request of a host. `reveal`: the same, and secrets of settings. `erase`: erasures of tenants',
        ),
        may: AdminToken.shape.may.describe(
          'Patterns of operations in place of `scope`, such as `["tenants.*", "!tenants.delete"]`',
        ),
      }),
    )
    .optional()
    .describe('Tokens of the admin API, in addition to `TENANTRY_ADMIN_TOKEN` and to those of the database'),
  sessions: SessionSettings.prefault({}).describe('Sessions of browsers'),
  probes: Group('Probes', '`/livez`, `/readyz`, `/healthz`'),
  exposition: Group('Metrics over HTTP', '`/metrics`'),
  accessLog: z.boolean().default(true).describe('Whether each request has a log line of level info'),
  requests: RequestSettings.prefault({}).describe('Time limits of requests to the admin API'),
  allowedHosts: z
    .array(z.string().refine(isAllowedHost, 'must be a host name without a port, such as status.example.com'))
    .optional()
    .describe(
      'Further host names of probes and metrics. `*` allows any. Default: on loopback addresses none, otherwise any',
    ),
}

/** Content of `defineTenancy`, `tenantry.config.ts`, `.js` or `.json`. Every collaborator is a value or its JSON form. */
export const Configuration = z.strictObject({
  ...ServiceKeys,
  database: z
    .strictObject({
      url: PostgresUrl.optional().describe('URL of the backoffice database, as `DATABASE_URL`'),
      max: z.int().min(1).optional().describe('Maximum number of connections. Default: 10'),
    })
    .optional()
    .describe('Backoffice database'),
  appKey: AppKey.optional().describe('Application key, as `TENANTRY_APP_KEY`: 32 bytes in base64'),
  oldAppKeys: z.array(AppKey).readonly().optional().describe('Former application keys, as `TENANTRY_OLD_APP_KEYS`'),
  store: Store.optional().describe(
    'Store: `postgres` (default), `memory`, `{ driver: redis, url }`, or a driver such as `redisStore({ url })`',
  ),
  plans: Plans.optional().describe(
    'Plans and their limits. Default: `free`. Without a file: `free`, `pro`, `enterprise`',
  ),
  isolation: Isolation.default({}).describe(
    'Isolation drivers of tenants: a list, whose first is the default, or `{ default, drivers }`',
  ),
  defaultIsolation: z.string().min(1).optional().describe('Driver of a tenant that names none, in place of the first'),
  placements: z
    .record(Placement, PlacementSettings)
    .default({})
    .describe('PostgreSQL servers by name. `main` is the server of the backoffice'),
  tables: z
    .custom<object>((value) => typeof value === 'object' && value !== null, 'must be tables<Database>()')
    .optional()
    .describe('Type of the tables of tenants, in code only: `tables<Database>()`. No effect at run time'),
  migrations: z
    .union([
      z.string().min(1),
      z.custom<readonly TenantMigration[] | (() => Promise<readonly TenantMigration[]>)>(
        (value) => typeof value === 'function' || Array.isArray(value),
        'must be a folder, a list or a function',
      ),
    ])
    .optional()
    .describe(
      "Folder of the host's tenant migrations, relative to the file, or a list, or a function that returns one",
    ),
  tenants: z
    .strictObject({
      retentionDays: z.number().min(0).default(30).describe('Days in which a deleted tenant can be restored'),
      autoPurge: z.boolean().default(true).describe('Whether a deleted tenant is purged permanently after these days'),
      staleForSeconds: z
        .number()
        .min(0)
        .optional()
        .describe('Seconds in which known tenants are served while the backoffice is unavailable. Default: 300'),
    })
    .prefault({})
    .describe('Deleted tenants, and tenants during an outage of the backoffice'),
  erasure: z
    .strictObject({
      serverBackupsDays: z
        .int()
        .min(0)
        .max(36_500)
        .default(35)
        .describe(
          'Days after which base backups and WAL of the servers are deleted. The report of an erasure names the date',
        ),
      auditFields: z
        .enum(['keep', 'encrypt'])
        .default('keep')
        .describe('`encrypt`: personal fields of new audit entries have a key per tenant, which an erasure destroys'),
    })
    .prefault({})
    .describe('Erasure of tenants'),
  backups: Backups.optional().describe(
    'Storage and schedule of backups. `false`, and absent in a definition: no backups',
  ),
  circuit: z
    .strictObject({
      threshold: z
        .number()
        .gt(0)
        .lt(1)
        .optional()
        .describe('Share of failed calls that opens the circuit. Default: 0.5'),
      minimumCalls: z.number().int().min(1).optional().describe('With fewer in the window it stays closed; default 10'),
      windowSeconds: z.number().min(1).optional().describe('Default 10'),
      halfOpenAfterSeconds: z
        .number()
        .min(1)
        .optional()
        .describe('Seconds in which an open circuit rejects calls. Default: 30'),
    })
    .optional()
    .describe("Circuit breaker of a tenant's database"),
  audit: z
    .strictObject({
      retentionDays: z
        .int()
        .min(1)
        .max(36_500)
        .optional()
        .describe('Minimum retention of entries, in whole months. Default: unlimited'),
    })
    .prefault({})
    .describe('Audit log'),
  billing: BillingSettings.optional(),
  featureFlags: z
    .strictObject({
      cacheTtl: z.number().min(1).max(86_400).default(60).describe('Seconds until an unchanged flag is read again'),
      flags: Names.describe('Flags that exist. Others are rejected. Default: any flag'),
    })
    .prefault({})
    .describe('Feature flags'),
  impersonation: z
    .strictObject({
      maxSeconds: z.int().min(1).max(3_600).default(3_600).describe('Maximum length of a session'),
      defaultSeconds: z
        .int()
        .min(1)
        .max(3_600)
        .optional()
        .describe('Length of a session that names none. Default: 900, or `maxSeconds` if less'),
    })
    .refine(({ maxSeconds, defaultSeconds = 0 }) => defaultSeconds <= maxSeconds, {
      error: 'must not exceed maxSeconds',
      path: ['defaultSeconds'],
    })
    .prefault({})
    .describe("Impersonation of tenants' users"),
  quotas: z
    .strictObject({
      headers: z.boolean().default(true).describe('Whether responses have `RateLimit` and `RateLimit-Policy`'),
      unlimited: Names.describe('Quotas without a limit in any plan. If given, other unlimited names are rejected'),
    })
    .prefault({})
    .describe('Quotas'),
  sso: z
    .strictObject({
      timeoutMs: z
        .int()
        .min(100)
        .max(30_000)
        .default(5_000)
        .describe('Time limit of one request to an identity provider'),
    })
    .prefault({})
    .describe('Single sign-on'),
  webhooks: z
    .strictObject({
      events: z
        .record(z.string(), z.custom<HostSchema>())
        .optional()
        .describe(
          'Events of the host by name: JSON Schemas of payloads. In TypeScript also Zod schemas. Default: any event',
        ),
      maxAttempts: z.int().min(1).max(20).default(5).describe('Number of attempts, including the first'),
      timeoutMs: z.int().min(100).max(60_000).default(10_000).describe('Time limit of one attempt'),
      retentionDays: z.int().min(1).max(3_650).default(30).describe('Minimum retention of deliveries, in days'),
      bridge: z.boolean().default(true).describe("Whether Tenantry's own events are dispatched"),
      concurrency: z.int().min(1).max(10_000).default(128).describe('Concurrent requests of one process'),
      claim: z
        .int()
        .min(1)
        .max(10_000)
        .optional()
        .describe('Claimed deliveries of one process. Default: eight times `concurrency`'),
      perSubscription: z
        .int()
        .min(1)
        .max(10_000)
        .default(16)
        .describe('Concurrent requests to one subscription, over all processes'),
      perTenant: z
        .int()
        .min(1)
        .max(10_000)
        .optional()
        .describe('Concurrent requests of one tenant, over all processes. Default: a quarter of `concurrency`'),
    })
    .prefault({})
    .describe('Outbound webhooks'),
  settings: z
    .strictObject({
      define: z
        .record(z.string(), z.unknown())
        .default({})
        .describe('Definitions by name: JSON Schemas, `writeOnly: true` for a secret. In TypeScript also Zod schemas'),
    })
    .prefault({})
    .describe('Settings of tenants'),
  egress: EgressFile.prefault({}).describe("Tenantry's own requests: webhooks, single sign-on"),
  resilience: ResilienceSettings.extend({
    redis: ResilienceSettings.shape.redis.describe('While the store is unavailable: `fail-open` or `fail-closed`'),
    database: ResilienceSettings.shape.database.describe('Policies while the backoffice database is unavailable'),
    provider: ResilienceSettings.shape.provider.describe('Policies while the payment provider is unavailable'),
  })
    .prefault({})
    .describe('Policies while a dependency is unavailable'),
  health: Health.prefault({}).describe('Readiness'),
  metrics: z
    .strictObject({
      maxTenantSeries: z
        .number()
        .int()
        .min(0)
        .default(1_000)
        .describe('Number of tenants with their own series. All others share one'),
      retentionDays: z
        .int()
        .min(1)
        .max(36_500)
        .optional()
        .describe("Days to keep tenants' daily metrics. Default: unlimited"),
      metrics: Names.describe('Keys that the host counts. Others are rejected. Default: any key'),
    })
    .prefault({})
    .describe('Metrics of the service and of each tenant'),
  satellites: z
    .union([z.record(z.string(), z.boolean()), z.array(z.custom<Satellite>(isSatellite, NO_SATELLITE)).readonly()])
    .default([])
    .describe('`{ <name>: false }`: all built-in satellites but these. A list: exactly these. Default in a file: `{}`'),
  role: z.enum(['all', 'api', 'worker']).optional().describe('Role of the process, as `TENANTRY_ROLE`'),
  logger: z
    .custom<Logger>((value: any) => typeof value?.info === 'function', 'must be a logger')
    .optional()
    .describe('Logger, in code only. Default: JSON lines on standard error'),
  clock: z
    .custom<Clock>((value: any) => typeof value?.now === 'function', 'must be a clock')
    .optional()
    .describe('Clock, in code only'),
  service: z.strictObject(ServiceKeys).partial().optional().describe('Any of the keys of the ready-made service'),
})
