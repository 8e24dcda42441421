/**
 * Finds the remote service of a command: from the environment, a profile of `--profile`, or the current profile.
 * - A token of a profile is sent only to the URL of this profile.
 * - Variables or options that name a local installation take precedence over the current profile.
 */
import { DEFAULT_PREFIX } from '../../http/app.ts'
import { defineError, InvalidRequest } from '../../kernel/base/errors.ts'
import { Profiles } from './profiles.ts'

export interface RemoteTarget {
  /** Of the admin API, with its prefix. */
  readonly url: string
  readonly token: string
  /** How it was selected, for messages. */
  readonly source: string
  /** How to run a command on the database instead. */
  readonly leave: string
}

/** Variables that name a local installation. */
const LOCAL = ['DATABASE_URL', 'TENANTRY_DATA_DIR', 'TENANTRY_APP', 'TENANTRY_CONFIG']

/** Returns undefined if the command runs on the database. */
export async function remoteTarget(
  env: NodeJS.ProcessEnv,
  { profile, config }: { readonly profile: string | undefined; readonly config: string | undefined },
): Promise<RemoteTarget | undefined> {
  const { TENANTRY_URL: url, TENANTRY_TOKEN: token } = env
  if ((url || profile) && config !== undefined) {
    throw InvalidRequest(`Give either --app or ${url ? 'TENANTRY_URL' : '--profile'}.`)
  }
  if (url && profile !== undefined) throw InvalidRequest('Give either --profile or TENANTRY_URL.')
  if (url) {
    if (!token) throw InvalidRequest('TENANTRY_URL requires TENANTRY_TOKEN.')
    return {
      url: adminUrl(url, 'TENANTRY_URL'),
      token: checkedToken(token, 'TENANTRY_TOKEN'),
      source: 'TENANTRY_URL',
      leave: 'Unset TENANTRY_URL, and name the installation with DATABASE_URL, TENANTRY_DATA_DIR or --config.',
    }
  }
  if (profile === undefined && (config !== undefined || LOCAL.some((name) => env[name]))) return undefined
  const profiles = new Profiles(env)
  const name = profile ?? (await profiles.current())
  if (name === undefined) {
    if (token) throw InvalidRequest('TENANTRY_TOKEN requires TENANTRY_URL or a profile.')
    return undefined
  }
  const found = await profiles.read(name)
  const source = `profile "${name}"`
  return {
    url: adminUrl(found.url, `The URL of ${source}`),
    token: token ? checkedToken(token, 'TENANTRY_TOKEN') : checkedToken(found.token, `The token of ${source}`),
    source,
    leave: profile === undefined ? LEAVE_CURRENT : LEAVE_OPTION,
  }
}

const LEAVE_CURRENT =
  'Name the installation with DATABASE_URL, TENANTRY_DATA_DIR or --config, which precede the current profile, or run: tenantry profile:use'
const LEAVE_OPTION = 'Omit --profile, and name the installation with DATABASE_URL, TENANTRY_DATA_DIR or --config.'

export const NotRemote = defineError('E_NOT_REMOTE', 400, 'Not possible on a remote service')

export const databaseOnly = (what: string, { url, source, leave }: RemoteTarget) =>
  NotRemote(`${what} cannot run on a remote service (${url}, ${source}): it needs the database. ${leave}`)

/** What to do if the service cannot be reached. */
export const reachRemedy = ({ source }: Pick<RemoteTarget, 'source'>): string =>
  `Check that it runs, and the URL in ${source}.`

/** The message of an invalid header would contain the token. */
export function checkedToken(token: string, where: string): string {
  if (/^[\x21-\x7e]+$/.test(token)) return token
  throw InvalidRequest(`${where} must be one line of visible ASCII characters.`)
}

/** Adds the default prefix to a URL without a path. */
export function adminUrl(text: string, where: string): string {
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw InvalidRequest(`${where} must be a URL such as https://tenants.example.com, without a password or a query.`)
  }
  const path = url.pathname.replace(/\/+$/, '')
  return url.origin + (path || DEFAULT_PREFIX)
}
