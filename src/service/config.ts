/**
 * Loads the configuration: a file (`tenantry.config.ts`, `.js` or `.json`), then the environment, which takes precedence. All errors
 * are reported together, before anything is opened. Outside production, missing secrets are generated in the data directory.
 */
import { existsSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { z } from 'zod'
import { DEFAULT_PREFIX } from '../http/app.ts'
import type { AdminToken } from '../http/tokens.ts'
import { rejectedInProduction } from '../kernel/egress/production.ts'
import type { Satellite } from '../tenancy/satellite.ts'
import { billingErrors, billingOf } from './settings/billing.ts'
import { type HealthSettings, healthOf } from './settings/health.ts'
import { placementErrors } from './settings/isolation.ts'
import { CHECKS, Environment, File } from './settings.ts'

const FILES = ['tenantry.config.ts', 'tenantry.config.js', 'tenantry.config.json']

type FileConfig = z.output<typeof File>

/** Content of a configuration file. `defineConfig` lets an editor check it. */
export type ConfigFile = z.input<typeof File>
export const defineConfig = (config: ConfigFile): ConfigFile => config

export interface ServiceConfig extends Omit<FileConfig, 'prefix' | 'adminTokens' | 'health'> {
  readonly prefix: string
  readonly adminTokens: readonly AdminToken[]
  readonly port: number
  readonly host: string
  /** Absent: the embedded PostgreSQL in the data directory. */
  readonly databaseUrl: string | undefined
  /** Absent: the store is in the backoffice database. */
  readonly redisUrl: string | undefined
  /** Absent: generated in the data directory. */
  readonly appKey: string | undefined
  readonly oldAppKeys: readonly string[]
  readonly dataDirectory: string
  readonly role: 'all' | 'api' | 'worker'
  readonly logLevel: string
  readonly health: HealthSettings
  /** Whether `NODE_ENV` is `production`. */
  readonly isProduction: boolean
}

export class ConfigurationError extends Error {
  constructor(errors: readonly string[]) {
    super(`The configuration is invalid:\n${errors.map((error) => `  ${error}`).join('\n')}`)
  }
}

export interface ConfigSource {
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly directory?: string
  /** Path from `--config`; the file must exist. */
  readonly file?: string | undefined
  /** Existing satellites. Absent: `satellites` may have any name. */
  readonly satellites?: readonly KnownSatellite[]
}

type KnownSatellite = Pick<Satellite, 'name' | 'checks'>

/** @throws ConfigurationError with every error of file and environment */
export async function loadConfig({
  env: given = process.env,
  directory = process.cwd(),
  file,
  satellites,
}: ConfigSource = {}): Promise<ServiceConfig> {
  const env = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== ''))
  const isProduction = env.NODE_ENV === 'production'
  const environment = Environment.safeParse(env)
  const path = fileOf(directory, file ?? env.TENANTRY_CONFIG)
  const { content, fault } = path === undefined ? { content: {} } : await read(path)
  const parsed = File.safeParse(content)
  const valid = fault === undefined ? validKeys(content) : {}
  const where = path ? `${path}: ` : ''
  const migrations = migrationsOf(valid, path ? dirname(path) : directory)
  const errors = [
    ...(environment.success ? [] : validationErrorsOf(environment.error, '')),
    ...(fault === undefined ? [] : [`${where}${fault}`]),
    ...(fault !== undefined || parsed.success ? [] : validationErrorsOf(parsed.error, where)),
    ...errorsBetween(valid, env.TENANTRY_ADMIN_TOKEN, migrations, satellites).map((words) => `${where}${words}`),
    ...(valid.billing && valid.satellites?.billing !== false ? billingErrors(valid.billing, env, plansOf(valid)) : []),
    ...(isProduction ? missingInProduction(env, fault === undefined ? content : undefined) : []),
    ...(isProduction ? rejectedInProduction(valid.egress).map((words) => `${where}${words}`) : []),
  ]
  if (errors.length > 0 || !environment.success || !parsed.success) throw new ConfigurationError(errors)

  const settings = environment.data
  const { prefix, adminTokens = [], ...rest } = parsed.data
  return {
    ...rest,
    prefix: settings.TENANTRY_PREFIX ?? prefix ?? DEFAULT_PREFIX,
    adminTokens: [...tokenOf(settings.TENANTRY_ADMIN_TOKEN), ...adminTokens],
    port: settings.PORT,
    host: settings.HOST,
    databaseUrl: settings.DATABASE_URL,
    redisUrl: settings.REDIS_URL,
    appKey: settings.TENANTRY_APP_KEY,
    oldAppKeys: settings.TENANTRY_OLD_APP_KEYS,
    dataDirectory: resolve(directory, settings.TENANTRY_DATA_DIR),
    backups: {
      ...rest.backups,
      ...(rest.backups.directory
        ? { directory: resolve(path ? dirname(path) : directory, rest.backups.directory) }
        : {}),
    },
    egress: { ...rest.egress, proxy: settings.TENANTRY_EGRESS_PROXY ?? rest.egress.proxy },
    billing: rest.billing && billingOf(rest.billing, settings),
    role: settings.TENANTRY_ROLE,
    logLevel: settings.LOG_LEVEL,
    migrations,
    health: healthOf(rest.health, isProduction),
    isProduction,
  }
}

function fileOf(directory: string, given: string | undefined): string | undefined {
  if (given === undefined) return FILES.map((name) => resolve(directory, name)).find(existsSync)
  return resolve(directory, given)
}

async function read(path: string): Promise<{ content: unknown; fault?: string }> {
  if (!existsSync(path)) return { content: {}, fault: 'file not found' }
  try {
    if (path.endsWith('.json')) return { content: JSON.parse(await readFile(path, 'utf8')) }
    return { content: (await import(pathToFileURL(path).href)).default }
  } catch (error) {
    return { content: {}, fault: error instanceof Error ? error.message : String(error) }
  }
}

const validationErrorsOf = (error: z.ZodError, where: string): string[] =>
  error.issues.map(({ path, message }) => `${where}${path.map(String).join('.') || '(whole)'}: ${message}`)

/** Parses each key separately, so that an error of one key does not hide errors of the others. */
function validKeys(content: unknown): Partial<FileConfig> {
  const given = { plans: undefined, ...(typeof content === 'object' ? content : {}) }
  const keys = Object.entries(given).flatMap(([key, value]) => {
    const schema = Object.hasOwn(File.shape, key) ? File.shape[key as keyof typeof File.shape] : undefined
    const parsed = schema?.safeParse(value)
    return parsed?.success ? [[key, parsed.data]] : []
  })
  return Object.fromEntries(keys)
}

/** Undefined if the existing plans are unknown. */
const plansOf = ({ plans }: Partial<FileConfig>): string[] | undefined => plans && Object.keys(plans.definitions)

const migrationsOf = ({ migrations }: Partial<FileConfig>, directory: string): FileConfig['migrations'] =>
  typeof migrations === 'string' ? resolve(directory, migrations) : migrations

const tokenOf = (token: string | undefined): AdminToken[] => (token ? [{ name: 'admin', token }] : [])

/** Errors that involve several keys. */
function errorsBetween(
  { adminTokens = [], placements = {}, health, billing, satellites: switches = {} }: Partial<FileConfig>,
  givenToken: string | undefined,
  migrations: FileConfig['migrations'],
  satellites: readonly KnownSatellite[] | undefined,
): string[] {
  const errors: string[] = []
  const tokens = [...tokenOf(givenToken), ...adminTokens]
  for (const { name } of repeated(tokens, 'name')) errors.push(`adminTokens: several tokens are named "${name}"`)
  for (const { name } of repeated(tokens, 'token'))
    errors.push(`adminTokens: the token of "${name}" is also the token of another name`)
  if (typeof migrations === 'string' && !isFolder(migrations)) errors.push(`migrations: folder ${migrations} not found`)
  if (!satellites) return errors
  const names = satellites.map(({ name }) => name)
  for (const name of Object.keys(switches)) {
    if (!names.includes(name))
      errors.push(`satellites: satellite "${name}" not found; the satellites are ${names.join(', ')}`)
  }
  const isOn = (name: string) => switches[name] !== false && (name !== 'billing' || billing !== undefined)
  const on = satellites.filter(({ name }) => isOn(name))
  const checks = [...CHECKS, ...on.flatMap((satellite) => Object.keys(satellite.checks ?? {}))]
  for (const name of health?.critical ?? []) {
    if (!checks.includes(name))
      errors.push(`health.critical: check "${name}" not found; the checks are ${checks.join(', ')}`)
  }
  return [...errors, ...placementErrors(placements)]
}

const repeated = (tokens: readonly AdminToken[], by: 'name' | 'token'): AdminToken[] =>
  tokens.filter((one, index) => tokens.findIndex((other) => other[by] === one[by]) < index)

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false

/** @param content of the file, undefined if it is unreadable */
function missingInProduction(env: Readonly<Record<string, unknown>>, content: unknown): string[] {
  const { adminTokens = [] } = (content ?? { adminTokens: undefined }) as { adminTokens?: unknown }
  const hasNone = content !== undefined && Array.isArray(adminTokens) && adminTokens.length === 0
  return [
    ...(env.DATABASE_URL ? [] : ['DATABASE_URL: required in production']),
    ...(env.TENANTRY_APP_KEY ? [] : ['TENANTRY_APP_KEY: required in production (openssl rand -base64 32)']),
    ...(env.TENANTRY_ADMIN_TOKEN || !hasNone ? [] : ['TENANTRY_ADMIN_TOKEN or adminTokens: required in production']),
  ]
}
