/**
 * Resolves the configuration: the definition or file, then the environment, then defaults. All errors are reported together, before
 * anything is opened. A key and its variable with different values are an error. Outside production, the service generates missing
 * secrets in the data directory.
 */
import { resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { z } from 'zod'
import { DEFAULT_PREFIX } from '../http/app.ts'
import type { AdminToken } from '../http/tokens.ts'
import { InvalidConfiguration, TenancyError } from '../kernel/base/errors.ts'
import { rejectedInProduction } from '../kernel/egress/production.ts'
import { appFaults, findApp, type Source } from './app-file.ts'
import {
  errorsBetween,
  isList,
  type KnownSatellite,
  missingInLibrary,
  missingInProduction,
  tokenOf,
  validationErrorsOf,
  validKeys,
} from './config-errors.ts'
import { billingErrors, billingOf, secretsIn } from './settings/billing.ts'
import { Environment } from './settings/environment.ts'
import { type HealthSettings, healthOf } from './settings/health.ts'
import { EXAMPLE_PLANS } from './settings/plans.ts'
import { Configuration } from './settings.ts'
import { isOtherStore } from './stores.ts'

type Parsed = z.output<typeof Configuration>

/** Content of a configuration file. `defineConfig` lets an editor check it. */
export type ConfigFile = z.input<typeof Configuration>
export const defineConfig = (config: ConfigFile): ConfigFile => config

/** Defaults of the service: of a file that is not a definition, and of an installation without a file. */
const FILE_DEFAULTS: ConfigFile = { satellites: {}, backups: {} }
const DEFAULTS_WITHOUT_FILE: ConfigFile = { ...FILE_DEFAULTS, plans: EXAMPLE_PLANS }

/** Variables with which a host may configure itself, in its own form. Only the service rejects an invalid value. */
const OF_THE_HOST = ['PORT', 'HOST', 'LOG_LEVEL'] as const

type FromEnvironment = 'prefix' | 'adminTokens' | 'health' | 'appKey' | 'oldAppKeys' | 'role' | 'service'

export interface ServiceConfig extends Omit<Parsed, FromEnvironment> {
  /** Path of the file. Absent: there is none. */
  readonly file: string | undefined
  /** Directory of relative paths. */
  readonly base: string
  /** Whether a program starts the same definition. */
  readonly hasProgram: boolean
  readonly prefix: string
  readonly adminTokens: readonly AdminToken[]
  readonly port: number
  readonly host: string
  /** Absent: the embedded PostgreSQL in the data directory. */
  readonly databaseUrl: string | undefined
  /** Of the environment. Absent, without `store`: the store is in the backoffice database. */
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

export class ConfigurationError extends TenancyError {
  constructor(errors: readonly string[]) {
    super(InvalidConfiguration, `The configuration is invalid:\n${errors.map((error) => `  ${error}`).join('\n')}`)
  }
}

export interface ConfigSource {
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly directory?: string
  /** Path from `--app`; the file must exist. */
  readonly file?: string | undefined
  /** Built-in satellites. Absent: `satellites` may have any name. */
  readonly satellites?: readonly KnownSatellite[]
  /** Whether a command runs instead of the service: it needs no admin token. */
  readonly isCommand?: boolean
}

/** @throws ConfigurationError with every error of file and environment */
export async function loadConfig({
  env = process.env,
  directory = process.cwd(),
  file,
  satellites,
  isCommand = false,
}: ConfigSource = {}): Promise<ServiceConfig> {
  return resolveConfig(await findApp(directory, file, env), { env, directory, satellites, isCommand })
}

interface Options extends Pick<ConfigSource, 'satellites' | 'isCommand'> {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Directory of the data directory. */
  readonly directory: string
  /** Whether nothing is generated: the URL of the backoffice and the application key are required. */
  readonly isLibrary?: boolean
}

/** @throws ConfigurationError with every error */
export async function resolveConfig(
  { content: given, path, base, isDefinition, fault }: Source,
  { env: variables, directory, satellites, isCommand = false, isLibrary = false }: Options,
): Promise<ServiceConfig> {
  const isService = !isCommand && !isLibrary
  const unused: readonly string[] = OF_THE_HOST.filter(
    (name) => !isService && !Environment.shape[name].safeParse(variables[name]).success,
  )
  const env = Object.fromEntries(
    Object.entries(variables).filter(([name, value]) => value !== '' && !unused.includes(name)),
  )
  const isProduction = env.NODE_ENV === 'production'
  const environment = Environment.safeParse(env)
  const defaults = path === undefined ? DEFAULTS_WITHOUT_FILE : FILE_DEFAULTS
  const content = isObject(given) && !isDefinition ? { ...defaults, ...given } : given
  const parsed = Configuration.safeParse(content)
  const valid = fault === undefined ? withServiceKeys(validKeys(Configuration, content), content) : {}
  const where = path ? `${path}: ` : ''
  const migrations = typeof valid.migrations === 'string' ? resolve(base, valid.migrations) : valid.migrations
  const both = await valuesOfBoth(valid, validKeys(Environment, env))
  const errors = [
    ...(environment.success ? [] : validationErrorsOf(environment.error, '')),
    ...appFaults(env),
    ...(fault === undefined ? [] : [`${where}${fault}`]),
    ...(fault !== undefined || parsed.success ? [] : validationErrorsOf(parsed.error, where)),
    ...errorsBetween({ ...valid, migrations }, content, env.TENANTRY_ADMIN_TOKEN, satellites).map(
      (words) => `${where}${words}`,
    ),
    ...both.conflicts.map((words) => `${where}${words}`),
    ...billingErrorsOf(valid, env),
    ...(isLibrary ? missingInLibrary(both) : []),
    ...(isProduction && !isLibrary
      ? missingInProduction(both, env, isService && fault === undefined ? content : undefined)
      : []),
    ...(isProduction ? rejectedInProduction(valid.egress).map((words) => `${where}${words}`) : []),
  ]
  if (errors.length > 0 || !environment.success || !parsed.success) throw new ConfigurationError(errors)

  const settings = environment.data
  const { appKey: _, oldAppKeys: __, service: ___, ...rest } = withServiceKeys(parsed.data, content)
  return {
    ...rest,
    file: path,
    base,
    hasProgram: isDefinition,
    prefix: both.prefix ?? DEFAULT_PREFIX,
    adminTokens: [...tokenOf(settings.TENANTRY_ADMIN_TOKEN), ...(rest.adminTokens ?? [])],
    port: settings.PORT,
    host: settings.HOST,
    databaseUrl: both.databaseUrl,
    redisUrl: settings.REDIS_URL,
    appKey: both.appKey,
    oldAppKeys: both.oldAppKeys ?? [],
    dataDirectory: resolve(directory, settings.TENANTRY_DATA_DIR),
    egress: { ...rest.egress, proxy: both.proxy },
    billing: rest.billing && billingOf(rest.billing, settings),
    role: both.role ?? 'all',
    logLevel: settings.LOG_LEVEL,
    migrations,
    health: healthOf(rest.health, isProduction),
    isProduction,
  }
}

type Variables = Partial<z.output<typeof Environment>>

/** Values that a key or a variable gives. Both may give one value, but not two. */
async function valuesOfBoth(valid: Partial<Parsed>, variables: Variables) {
  const conflicts: string[] = []
  const value = <T>(
    key: string,
    own: T | undefined,
    variable: string,
    other: T | undefined,
    same = isDeepStrictEqual,
  ) => {
    if (own !== undefined && other !== undefined && !same(own, other)) {
      conflicts.push(`${key} and ${variable} have different values: remove one of them`)
    }
    return own ?? other
  }
  const { database, store, billing, egress } = valid
  const { stripe } = billing ?? {}
  const secrets = secretsIn(variables)
  const hasOtherStore =
    store !== undefined && variables.REDIS_URL !== undefined && (await isOtherStore(store, variables.REDIS_URL))
  value<unknown>('store', store, 'REDIS_URL', variables.REDIS_URL, () => !hasOtherStore)
  value('billing.stripe.apiKey', stripe?.apiKey, 'STRIPE_API_KEY', variables.STRIPE_API_KEY)
  value(
    'billing.stripe.webhookSecret',
    stripe?.webhookSecret && [stripe.webhookSecret].flat(),
    'STRIPE_WEBHOOK_SECRET',
    secrets.length > 0 ? secrets : undefined,
  )
  return {
    conflicts,
    databaseUrl: value('database.url', database?.url, 'DATABASE_URL', variables.DATABASE_URL),
    appKey: value('appKey', valid.appKey, 'TENANTRY_APP_KEY', variables.TENANTRY_APP_KEY),
    oldAppKeys: value('oldAppKeys', valid.oldAppKeys, 'TENANTRY_OLD_APP_KEYS', variables.TENANTRY_OLD_APP_KEYS),
    prefix: value('prefix', valid.prefix, 'TENANTRY_PREFIX', variables.TENANTRY_PREFIX),
    role: value('role', valid.role, 'TENANTRY_ROLE', variables.TENANTRY_ROLE),
    proxy: value('egress.proxy', egress?.proxy, 'TENANTRY_EGRESS_PROXY', variables.TENANTRY_EGRESS_PROXY),
  }
}

/** A list of satellites has its own billing. */
const billingErrorsOf = ({ billing, satellites = {}, plans }: Partial<Parsed>, env: Variables): string[] =>
  billing && !isList(satellites) && satellites.billing !== false
    ? billingErrors(billing, env, plans && Object.keys(plans.definitions))
    : []

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The keys of `service` in the content, at their usual place. */
function withServiceKeys<Keys extends Partial<Parsed>>(valid: Keys, content: unknown): Keys {
  const service = isObject(content) && 'service' in content ? content.service : undefined
  if (!isObject(service) || !valid.service) return valid
  const named = Object.keys(service).map((key) => [key, valid.service?.[key as keyof typeof valid.service]])
  return { ...valid, ...Object.fromEntries(named) }
}
