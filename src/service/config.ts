/**
 * What the service is told: a file (`tenantry.config.ts`, `.js` or `.json`), then the environment, which wins. Every fault is
 * reported at once, before anything is opened. Outside production, what is missing is made and kept in the data directory; in
 * production nothing is made up.
 */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { z } from 'zod'
import { DEFAULT_PREFIX } from '../http/app.ts'
import { AdminToken } from '../http/tokens.ts'
import { isAppKey } from '../kernel/crypto.ts'
import type { TenantMigration } from '../tenants/migrations.ts'
import { PlanDefinition, type PlansConfig } from '../tenants/plans.ts'
import { Placement } from '../tenants/tenant.ts'

const FILES = ['tenantry.config.ts', 'tenantry.config.js', 'tenantry.config.json']

const PathPrefix = z.string().regex(/^(\/[A-Za-z0-9._~-]+)*\/?$/, 'not a path like /admin/tenants')
const PostgresUrl = z
  .string()
  .regex(/^postgres(ql)?:\/\/.+/, 'not a URL like postgres://user:password@host:5432/database')
const AppKey = z.string().refine(isAppKey, 'not 32 bytes in base64; make one with: openssl rand -base64 32')
const Group = z.strictObject({ enabled: z.boolean().default(true), prefix: PathPrefix.default('') })

const Plans = z
  .strictObject({
    defaultPlan: z.string().min(1),
    definitions: z.record(z.string().min(1).max(128), PlanDefinition),
    getPlan: z
      .custom<NonNullable<PlansConfig['getPlan']>>((value) => typeof value === 'function', 'not a function')
      .optional(),
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

const File = z.strictObject({
  prefix: PathPrefix.optional(),
  adminTokens: z.array(AdminToken).optional(),
  plans: Plans.default(EXAMPLE_PLANS),
  isolation: z
    .strictObject({
      default: z.string().optional(),
      drivers: z
        .strictObject({
          'schema-pg': z.strictObject({ maxConnections: z.number().int().min(1).optional() }).optional(),
        })
        .optional(),
      extensionsSchema: z.string().min(1).max(63).optional(),
    })
    .default({}),
  placements: z.record(Placement, z.strictObject({ url: PostgresUrl, tenantUrl: PostgresUrl.optional() })).default({}),
  migrations: z
    .union([
      z.string().min(1),
      z.custom<() => Promise<TenantMigration[]>>((value) => typeof value === 'function', 'a folder, or a function'),
    ])
    .optional(),
  tenants: z
    .strictObject({ retentionDays: z.number().min(0).default(30), autoPurge: z.boolean().default(true) })
    .prefault({}),
  health: z.strictObject({ critical: z.array(z.string()).default([]) }).prefault({}),
  metrics: z.strictObject({ maxTenantSeries: z.number().int().min(0).default(1_000) }).prefault({}),
  satellites: z.record(z.string(), z.boolean()).default({}),
  probes: Group.prefault({}),
  exposition: Group.prefault({}),
})

const Environment = z.object({
  PORT: z.coerce.number().int().min(0).max(65_535).default(4000),
  HOST: z.string().min(1).default('127.0.0.1'),
  DATABASE_URL: PostgresUrl.optional(),
  REDIS_URL: z.undefined('this version keeps its store in PostgreSQL; unset it').optional(),
  TENANTRY_ADMIN_TOKEN: z.string().min(16, 'a token has at least 16 characters').optional(),
  TENANTRY_APP_KEY: AppKey.optional(),
  TENANTRY_OLD_APP_KEYS: z
    .string()
    .default('')
    .transform((text) =>
      text
        .split(',')
        .map((key) => key.trim())
        .filter(Boolean),
    )
    .pipe(z.array(AppKey)),
  TENANTRY_DATA_DIR: z.string().min(1).default('.tenantry'),
  TENANTRY_PREFIX: PathPrefix.optional(),
  TENANTRY_ROLE: z.enum(['all', 'api', 'worker']).default('all'),
  TENANTRY_CONFIG: z.string().min(1).optional(),
  NODE_ENV: z.string().optional(),
  LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
})

type FileConfig = z.output<typeof File>

/** What a configuration file exports; `defineConfig` lets an editor check it. */
export type ConfigFile = z.input<typeof File>
export const defineConfig = (config: ConfigFile): ConfigFile => config

export interface ServiceConfig extends Omit<FileConfig, 'prefix' | 'adminTokens'> {
  readonly prefix: string
  readonly adminTokens: readonly AdminToken[]
  readonly port: number
  readonly host: string
  /** Absent: the embedded PostgreSQL in the data directory. */
  readonly databaseUrl: string | undefined
  /** Absent: made and kept in the data directory. */
  readonly appKey: string | undefined
  readonly oldAppKeys: readonly string[]
  readonly dataDirectory: string
  readonly role: 'all' | 'api' | 'worker'
  readonly logLevel: string
}

export class ConfigurationError extends Error {
  constructor(faults: readonly string[]) {
    super(`the configuration is not valid:\n${faults.map((fault) => `  ${fault}`).join('\n')}`)
  }
}

export interface ConfigSource {
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly directory?: string
  /** `--config`: must exist when given. */
  readonly file?: string
}

/** Throws ConfigurationError with every fault of file and environment. */
export async function loadConfig({
  env = process.env,
  directory = process.cwd(),
  file,
}: ConfigSource = {}): Promise<ServiceConfig> {
  const faults: string[] = []
  const environment = Environment.safeParse(Object.fromEntries(Object.entries(env).filter(([, value]) => value !== '')))
  if (!environment.success) faults.push(...faultsOf(environment.error, ''))
  const path = fileOf(directory, file ?? env.TENANTRY_CONFIG)
  const parsed = File.safeParse(path ? await read(path) : {})
  if (!parsed.success) faults.push(...faultsOf(parsed.error, `${path}: `))
  if (!environment.success || !parsed.success) throw new ConfigurationError(faults)

  const settings = environment.data
  const { prefix, adminTokens = [], ...rest } = parsed.data
  const tokens = settings.TENANTRY_ADMIN_TOKEN
    ? [{ name: 'admin', token: settings.TENANTRY_ADMIN_TOKEN }, ...adminTokens]
    : adminTokens
  if (settings.NODE_ENV === 'production') faults.push(...missingInProduction(settings, tokens))
  if (faults.length > 0) throw new ConfigurationError(faults)
  return {
    ...rest,
    prefix: settings.TENANTRY_PREFIX ?? prefix ?? DEFAULT_PREFIX,
    adminTokens: tokens,
    port: settings.PORT,
    host: settings.HOST,
    databaseUrl: settings.DATABASE_URL,
    appKey: settings.TENANTRY_APP_KEY,
    oldAppKeys: settings.TENANTRY_OLD_APP_KEYS,
    dataDirectory: resolve(directory, settings.TENANTRY_DATA_DIR),
    role: settings.TENANTRY_ROLE,
    logLevel: settings.LOG_LEVEL,
    migrations:
      typeof rest.migrations === 'string'
        ? resolve(path ? resolve(path, '..') : directory, rest.migrations)
        : rest.migrations,
  }
}

function missingInProduction(settings: z.output<typeof Environment>, tokens: readonly AdminToken[]): string[] {
  const missing: string[] = []
  if (!settings.DATABASE_URL) missing.push('DATABASE_URL: required in production')
  if (!settings.TENANTRY_APP_KEY) missing.push('TENANTRY_APP_KEY: required in production (openssl rand -base64 32)')
  if (tokens.length === 0) missing.push('TENANTRY_ADMIN_TOKEN or adminTokens: required in production')
  return missing
}

function fileOf(directory: string, given: string | undefined): string | undefined {
  if (given === undefined) return FILES.map((name) => resolve(directory, name)).find(existsSync)
  const path = resolve(directory, given)
  if (!existsSync(path)) throw new ConfigurationError([`${path}: there is no such file`])
  return path
}

async function read(path: string): Promise<unknown> {
  try {
    if (path.endsWith('.json')) return JSON.parse(await readFile(path, 'utf8'))
    return (await import(pathToFileURL(path).href)).default
  } catch (error) {
    throw new ConfigurationError([`${path}: ${error instanceof Error ? error.message : error}`])
  }
}

const faultsOf = (error: z.ZodError, where: string): string[] =>
  error.issues.map(({ path, message }) => `${where}${path.map(String).join('.') || '(whole)'}: ${message}`)
