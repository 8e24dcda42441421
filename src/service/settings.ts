/**
 * What may be configured: every key of the file and every variable of the environment, each with what it is for. The reference
 * (docs/reference/settings.md) is made from it; config.ts reads both.
 */
import { z } from 'zod'
import { isAllowedHost } from '../http/allowed-hosts.ts'
import { DEFAULT_PREFIX } from '../http/app.ts'
import { AdminToken } from '../http/tokens.ts'
import { isAppKey } from '../kernel/crypto/crypto.ts'
import { ResilienceSettings } from '../kernel/resilience/resilience.ts'
import type { TenantMigration } from '../tenants/isolation/migrations.ts'
import { PlanDefinition, type PlansConfig } from '../tenants/registry/plans.ts'
import { Placement } from '../tenants/tenant/tenant.ts'
import { Backups } from './backup-settings.ts'
import { BillingSettings } from './billing-settings.ts'
import { EgressFile, ProxyUrl } from './egress-settings.ts'
import { Isolation, PlacementSettings, PostgresUrl } from './isolation-settings.ts'

/** What service/main.ts checks beside the satellites' own checks. */
export const CHECKS = ['backoffice', 'store', 'circuits', 'logins']

const PathPrefix = z
  .string()
  .regex(/^(\/[A-Za-z0-9._~-]+)*\/?$/, 'not a path like /admin/tenants')
  .transform((path) => path.replace(/\/+$/, ''))
const Port = z
  .string()
  .regex(/^\d{1,5}$/, 'not a port from 0 to 65535')
  .transform(Number)
  .refine((port) => port <= 65_535, 'not a port from 0 to 65535')
const RedisUrl = z
  .string()
  .refine(
    (text) => /^rediss?:$/.test(URL.parse(text)?.protocol ?? ''),
    'not a URL like redis://user:password@host:6379/0',
  )
const AppKey = z.string().refine(isAppKey, 'not 32 bytes in base64; make one with: openssl rand -base64 32')
const Group = (what: string, paths: string) =>
  z
    .strictObject({
      enabled: z.boolean().default(true).describe(`Whether there is ${paths}`),
      prefix: PathPrefix.default('').describe(`Stands before ${paths}`),
    })
    .prefault({})
    .describe(what)

const Plans = z
  .strictObject({
    defaultPlan: z.string().min(1).describe('The plan of a tenant that names none'),
    definitions: z
      .record(
        z.string().min(1).max(128),
        PlanDefinition.extend({
          limits: PlanDefinition.shape.limits.describe('Quotas by name; one that is not named is unlimited'),
          backups: PlanDefinition.shape.backups.describe('`{ keep, everyHours }` in place of those of `backups`'),
        }),
      )
      .describe('The plans by name'),
    getPlan: z
      .custom<NonNullable<PlansConfig['getPlan']>>((value) => typeof value === 'function', 'not a function')
      .optional()
      .describe("Function `(tenant) => plan`: decides a tenant's plan in place of `metadata.plan`"),
  })
  .refine(
    ({ defaultPlan, definitions }) => Object.hasOwn(definitions, defaultPlan),
    'defaultPlan is not among definitions',
  )

/** Plans to try things with, until the host names its own. */
const EXAMPLE_PLANS: z.input<typeof Plans> = {
  defaultPlan: 'free',
  definitions: { free: { limits: {} }, pro: { limits: {} }, enterprise: { limits: {} } },
}

/** What the file may hold. */
export const File = z.strictObject({
  prefix: PathPrefix.optional().describe(`Of the admin API; default \`${DEFAULT_PREFIX}\``),
  adminTokens: z
    .array(
      AdminToken.extend({
        name: AdminToken.shape.name.describe('Stands in the audit log'),
        token: AdminToken.shape.token.describe('At least 16 characters'),
        scope: AdminToken.shape.scope.describe(
          '`admin` (the default): everything; `read`: GET only; `runtime`: what a host calls on every request',
        ),
      }),
    )
    .optional()
    .describe('Who may call the admin API, beside `TENANTRY_ADMIN_TOKEN`'),
  plans: Plans.default(EXAMPLE_PLANS).describe('What tenants may have'),
  isolation: Isolation.default({}).describe('Where tenants live'),
  placements: z
    .record(Placement, PlacementSettings)
    .default({})
    .describe("PostgreSQL servers by name; the backoffice's own is `main`"),
  migrations: z
    .union([
      z.string().min(1),
      z.custom<() => Promise<TenantMigration[]>>((value) => typeof value === 'function', 'a folder, or a function'),
    ])
    .optional()
    .describe("Folder of the host's tenant migrations, relative to the file, or a function that answers them"),
  tenants: z
    .strictObject({
      retentionDays: z.number().min(0).default(30).describe('How long a deleted tenant can be restored'),
      autoPurge: z.boolean().default(true).describe('Whether it is removed for good when that is over'),
      staleForSeconds: z
        .number()
        .min(0)
        .optional()
        .describe('How long known tenants are served while the backoffice cannot be reached; default 300'),
    })
    .prefault({})
    .describe('Tenants that are deleted, and while the backoffice is away'),
  backups: Backups.prefault({}).describe('Where backups are kept, and when they are made'),
  circuit: z
    .strictObject({
      threshold: z.number().gt(0).lt(1).optional().describe('The share of calls that must fail; default 0.5'),
      minimumCalls: z.number().int().min(1).optional().describe('With fewer in the window it stays closed; default 10'),
      windowSeconds: z.number().min(1).optional().describe('Default 10'),
      halfOpenAfterSeconds: z.number().min(1).optional().describe('How long it refuses; default 30'),
    })
    .optional()
    .describe("When the circuit of a tenant's database opens"),
  audit: z
    .strictObject({
      retentionDays: z
        .int()
        .min(1)
        .max(36_500)
        .optional()
        .describe('How long entries are kept at least, by whole months; default for ever'),
    })
    .prefault({})
    .describe('The audit log'),
  billing: BillingSettings.optional(),
  featureFlags: z
    .strictObject({
      cacheTtl: z
        .number()
        .min(1)
        .max(86_400)
        .default(60)
        .describe('Seconds until a flag that nobody has changed is read again'),
    })
    .prefault({})
    .describe('Feature flags'),
  impersonation: z
    .strictObject({
      maxSeconds: z.int().min(1).max(3_600).default(3_600).describe('The longest that somebody may ask for'),
      defaultSeconds: z
        .int()
        .min(1)
        .max(3_600)
        .optional()
        .describe('Of one that names none; default 900, or `maxSeconds` where that is less'),
    })
    .refine(({ maxSeconds, defaultSeconds = 0 }) => defaultSeconds <= maxSeconds, {
      error: 'more than maxSeconds',
      path: ['defaultSeconds'],
    })
    .prefault({})
    .describe("Acting in the name of tenants' users"),
  quotas: z
    .strictObject({
      headers: z.boolean().default(true).describe('Whether `RateLimit` and `RateLimit-Policy` are answered'),
    })
    .prefault({})
    .describe('Quotas'),
  sso: z
    .strictObject({
      timeoutMs: z.int().min(100).max(30_000).default(5_000).describe('Of one request to an identity provider'),
    })
    .prefault({})
    .describe('Single sign-on'),
  webhooks: z
    .strictObject({
      maxAttempts: z.int().min(1).max(20).default(5).describe('The first and its retries'),
      timeoutMs: z.int().min(100).max(60_000).default(10_000).describe('Of one attempt, from its beginning to its end'),
      retentionDays: z.int().min(1).max(3_650).default(30).describe('How long deliveries are kept at least'),
      bridge: z.boolean().default(true).describe("Whether Tenantry's own events are dispatched"),
      concurrency: z.int().min(1).max(10_000).default(128).describe('Requests that a process has on their way at once'),
      claim: z
        .int()
        .min(1)
        .max(10_000)
        .optional()
        .describe('Deliveries that a process holds; default eight times that'),
      perSubscription: z
        .int()
        .min(1)
        .max(10_000)
        .default(16)
        .describe('On their way to one subscription at once, over all processes'),
      perTenant: z
        .int()
        .min(1)
        .max(10_000)
        .optional()
        .describe('On their way of one tenant at once, over all processes; default a quarter of `concurrency`'),
    })
    .prefault({})
    .describe('Outbound webhooks'),
  egress: EgressFile.prefault({}).describe('Where requests of its own may go: webhooks, single sign-on'),
  resilience: ResilienceSettings.extend({
    redis: ResilienceSettings.shape.redis.describe(
      'While the store is away, whichever it is; `fail-open` or `fail-closed`',
    ),
    database: ResilienceSettings.shape.database.describe('While the backoffice database is away'),
    provider: ResilienceSettings.shape.provider.describe('While the payment provider is away'),
  })
    .prefault({})
    .describe('What happens while a dependency is away'),
  health: z
    .strictObject({
      critical: z.array(z.string()).default([]).describe('Checks whose failure alone makes `/readyz` fail'),
    })
    .prefault({})
    .describe('Readiness'),
  metrics: z
    .strictObject({
      maxTenantSeries: z
        .number()
        .int()
        .min(0)
        .default(1_000)
        .describe('Tenants with series of their own; the others are counted together'),
      retentionDays: z
        .int()
        .min(1)
        .max(36_500)
        .optional()
        .describe("How long tenants' daily metrics are kept; default for ever"),
    })
    .prefault({})
    .describe('Metrics: of the service, and of each tenant'),
  satellites: z.record(z.string(), z.boolean()).default({}).describe('`{ <name>: false }` switches one off'),
  probes: Group('Probes', '`/livez`, `/readyz`, `/healthz`'),
  exposition: Group('Metrics over HTTP', '`/metrics`'),
  allowedHosts: z
    .array(z.string().refine(isAllowedHost, 'not a host name without a port, such as status.example.com'))
    .optional()
    .describe(
      'Host names under which probes and metrics answer, in addition to loopback names; `*` allows any. Default: on a loopback connection none, otherwise any',
    ),
})

/** What the environment may hold; a variable that is set and empty is not set. */
export const Environment = z.object({
  PORT: Port.default(4000).describe('0 picks a free port and prints it'),
  HOST: z.string().min(1).default('127.0.0.1').describe('The address to listen on'),
  DATABASE_URL: PostgresUrl.optional().describe(
    'The backoffice; absent: the embedded PostgreSQL in the data directory',
  ),
  REDIS_URL: RedisUrl.optional().describe(
    'Redis or Valkey: quotas, sessions and circuits are kept there, and flags cached; absent: in the backoffice',
  ),
  TENANTRY_ADMIN_TOKEN: z
    .string()
    .min(16, 'a token has at least 16 characters')
    .optional()
    .describe('At least 16 characters; absent, and no `adminTokens`: made and kept in the data directory'),
  TENANTRY_APP_KEY: AppKey.optional().describe('32 bytes in base64; absent: made and kept in the data directory'),
  TENANTRY_OLD_APP_KEYS: z
    .string()
    .default('')
    .transform((text) =>
      text
        .split(',')
        .map((key) => key.trim())
        .filter(Boolean),
    )
    .pipe(z.array(AppKey))
    .describe('Keys that open what they sealed and seal nothing, separated by commas'),
  TENANTRY_DATA_DIR: z.string().min(1).default('.tenantry').describe('What this installation keeps on its machine'),
  TENANTRY_EGRESS_PROXY: ProxyUrl.optional().describe('As `egress.proxy`, before the one of the file'),
  TENANTRY_PREFIX: PathPrefix.optional().describe('Of the admin API, before the one of the file'),
  TENANTRY_ROLE: z
    .enum(['all', 'api', 'worker'])
    .default('all')
    .describe('`api` serves, `worker` works on jobs and serves the probes'),
  TENANTRY_CONFIG: z.string().min(1).optional().describe('A configuration file, as `--config`'),
  STRIPE_API_KEY: z.string().optional().describe('For `billing`, before the one of the file'),
  STRIPE_WEBHOOK_SECRET: z
    .string()
    .optional()
    .describe('For `billing`, before those of the file; several are separated by commas'),
  STRIPE_ALLOW_LIVE_IN_DEV: z
    .string()
    .optional()
    .describe('`true`: a live key may be used outside of production, and real cards are charged'),
  NODE_ENV: z.string().optional().describe('`production`: nothing is made up, what is missing is an error'),
  LOG_LEVEL: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])
    .default('info')
    .describe('The least that is logged'),
})
