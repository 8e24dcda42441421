/** Schema of the environment, with a description of each variable. docs/reference/settings.md is made from it. */
import { z } from 'zod'
import { isAppKey } from '../../kernel/crypto/crypto.ts'
import { ProxyUrl } from './egress.ts'
import { PathPrefix } from './http.ts'
import { PostgresUrl } from './isolation.ts'
import { RedisUrl } from './store.ts'

const Port = z
  .string()
  .regex(/^\d{1,5}$/, 'must be a port from 0 to 65535')
  .transform(Number)
  .refine((port) => port <= 65_535, 'must be a port from 0 to 65535')
export const AppKey = z
  .string()
  .refine(isAppKey, 'must be 32 bytes in base64; generate one with: openssl rand -base64 32')

/** Content of the environment. An empty variable counts as absent. */
export const Environment = z.object({
  PORT: Port.default(4000).describe('Port. 0 selects a free port and prints it'),
  HOST: z.string().min(1).default('127.0.0.1').describe('Address to listen on'),
  DATABASE_URL: PostgresUrl.optional().describe(
    'URL of the backoffice database. Absent, without `database.url`: embedded PostgreSQL',
  ),
  REDIS_URL: RedisUrl.optional().describe(
    'URL of Redis or Valkey, the store. Absent, without `store`: the backoffice database',
  ),
  TENANTRY_ADMIN_TOKEN: z
    .string()
    .min(16, 'must have at least 16 characters')
    .optional()
    .describe('At least 16 characters. Absent without `adminTokens`: generated in the data directory'),
  TENANTRY_APP_KEY: AppKey.optional().describe(
    '32 bytes in base64. Absent, without `appKey`: generated in the data directory',
  ),
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
    .describe('Former application keys, separated by commas: used to decrypt, never to encrypt'),
  TENANTRY_DATA_DIR: z.string().min(1).default('.tenantry').describe('Data directory'),
  TENANTRY_EGRESS_PROXY: ProxyUrl.optional().describe('Proxy of outgoing requests, as `egress.proxy`'),
  TENANTRY_PREFIX: PathPrefix.optional().describe('Path prefix of the admin API, as `prefix`'),
  TENANTRY_ROLE: z
    .enum(['all', 'api', 'worker'])
    .default('all')
    .describe('`api` serves; `worker` runs jobs and serves the probes'),
  TENANTRY_APP: z.string().min(1).optional().describe('Path of the file that exports the definition, as `--app`'),
  TENANTRY_CONFIG: z.string().min(1).optional().describe('Alias of `TENANTRY_APP`'),
  STRIPE_API_KEY: z.string().optional().describe('API key of `billing`, as `billing.stripe.apiKey`'),
  STRIPE_WEBHOOK_SECRET: z
    .string()
    .optional()
    .describe('Signing secrets of `billing`, as `billing.stripe.webhookSecret`, separated by commas'),
  STRIPE_ALLOW_LIVE_IN_DEV: z
    .string()
    .optional()
    .describe('`true`: allow a live key outside of production. Real cards are charged'),
  NODE_ENV: z.string().optional().describe('`production`: nothing is generated; a missing setting is an error'),
  LOG_LEVEL: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])
    .default('info')
    .describe('Minimum level of log messages'),
})
