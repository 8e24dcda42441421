/** Formats the message of a service that is ready: its URLs, the admin token, and an example request. */
import { isAbsolute, relative } from 'node:path'
import type { ServiceConfig } from '../../service/config.ts'
import { VERSION } from '../../tenancy/version.ts'

export interface Ready {
  readonly config: ServiceConfig
  readonly url: string
  /** Path of the console, with a sign-in code as fragment if the store is available. Absent without an API. */
  readonly signInLink?: string | undefined
  /** The generated admin token. Absent if a token is configured. */
  readonly madeToken?: string | undefined
  readonly env: NodeJS.ProcessEnv
}

/** Returns the message as data, for `--json`. */
export function readyRecord({ config, url, signInLink, madeToken }: Ready): Record<string, unknown> {
  const { probes, exposition } = config
  return {
    version: VERSION,
    url,
    adminApi: signInLink === undefined ? null : url + config.prefix,
    signIn: signInLink === undefined ? null : url + signInLink,
    probes: probes.enabled ? `${url}${probes.prefix}/readyz` : null,
    metrics: exposition.enabled ? `${url}${exposition.prefix}/metrics` : null,
    adminToken: madeToken ?? null,
    dataDirectory: config.databaseUrl ? null : config.dataDirectory,
  }
}

export function readyText(ready: Ready): string {
  const { config, madeToken, env } = ready
  const { adminApi, signIn, probes, metrics } = readyRecord(ready)
  const lines = [
    [
      'Console',
      signIn &&
        `${signIn}   (${ready.signInLink?.includes('#') ? 'signs you in once, within 10 minutes' : 'asks for the token'})`,
    ],
    ['Admin API', adminApi],
    ['Probes', probes],
    ['Metrics', metrics],
    [
      'Admin token',
      adminApi && (madeToken ? `${madeToken}   (kept in ${near(config.dataDirectory)}/admin-token)` : 'as configured'),
    ],
    ['Data', dataOf(config)],
    ['Store', config.redisUrl && `Redis at ${new URL(config.redisUrl).host}`],
  ]
    .filter(([, value]) => value)
    .map(([name = '', value]) => `  ${String(name).padEnd(11)} ${value}\n`)
  const token = madeToken ?? tokenToType(config, env)
  const example = adminApi ? `Try: curl -H "x-admin-token: ${token}" ${adminApi}/tenants\n` : ''
  return `\nTenantry ${VERSION} is ready\n\n${lines.join('')}\n${example}Stop with Ctrl-C.\n\n`
}

function dataOf({ databaseUrl, dataDirectory }: ServiceConfig): string {
  if (!databaseUrl) return `${near(dataDirectory)} (embedded PostgreSQL)`
  const { host, pathname } = new URL(databaseUrl)
  return `PostgreSQL at ${host}${pathname}`
}

/** Returns a placeholder: a configured token is not printed. */
function tokenToType({ adminTokens }: ServiceConfig, env: NodeJS.ProcessEnv): string {
  const isInEnvironment = adminTokens.some(({ token }) => token === env.TENANTRY_ADMIN_TOKEN)
  return isInEnvironment ? '$TENANTRY_ADMIN_TOKEN' : '<your admin token>'
}

/** Returns a relative path if `path` is inside the working directory. */
function near(path: string): string {
  const way = relative(process.cwd(), path)
  return way === '' || way.startsWith('..') || isAbsolute(way) ? path : way
}
