/** Finds the URL and the admin token of the service: a remote one, or the running one of this configuration. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DependencyUnavailable, InvalidRequest } from '../../kernel/base/errors.ts'
import type { ServiceConfig } from '../../service/config.ts'
import { readRunning } from '../../service/data-directory.ts'
import type { OwnInput } from '../parser/own-input.ts'
import { reachRemedy } from '../remote/target.ts'

const START = 'Start it with: tenantry serve'

interface ServiceAddress {
  readonly url: string
  readonly prefix: string
  /** Prefix of the probes. */
  readonly probes: string
  readonly token: string | undefined
  /** What to do if the service cannot be reached, or does not respond as expected. */
  readonly remedy: string
}

/** `--url` takes precedence over a remote service; its token is that of the configuration. */
export async function serviceAddress({ options, loadConfig, remote }: OwnInput): Promise<ServiceAddress> {
  const target = options.url === undefined ? await remote() : undefined
  if (target) {
    const { origin, pathname } = new URL(target.url)
    return { url: origin, prefix: pathname, probes: '', token: target.token, remedy: reachRemedy(target) }
  }
  const config = await loadConfig(true)
  const [url, token] = [serviceUrl(config, options.url), adminToken(config)]
  const remedy = options.url === undefined ? START : reachRemedy({ source: '--url' })
  return { url, prefix: config.prefix, probes: config.probes.prefix, token, remedy }
}

/**
 * Returns `given`, or the URL in the configuration or the data directory. Throws E_DEPENDENCY_UNAVAILABLE if no service
 * runs on the data directory.
 */
export function serviceUrl(config: ServiceConfig, given: string | undefined): string {
  if (given !== undefined) return checked(given)
  if (config.databaseUrl) {
    if (config.port === 0) throw InvalidRequest('The URL of the service is unknown, because PORT is 0. Give --url.')
    return `http://${dialled(config.host)}:${config.port}`
  }
  const url = readRunning(config.dataDirectory)?.url
  if (!url) throw DependencyUnavailable(`No service is running on ${config.dataDirectory}. ${START}`)
  return url
}

/** Returns the admin token of the configuration, or of the data directory. */
function adminToken({ adminTokens, dataDirectory }: ServiceConfig): string | undefined {
  const configured = adminTokens.find(({ scope = 'admin', may }) => scope === 'admin' && !may) ?? adminTokens[0]
  if (configured) return configured.token
  const kept = join(dataDirectory, 'admin-token')
  return existsSync(kept) ? readFileSync(kept, 'utf8').trim() : undefined
}

function checked(url: string): string {
  if (!/^https?:\/\/[^/?#]+\/?$/.test(url))
    throw InvalidRequest(`--url: "${url}" must be a URL such as http://127.0.0.1:4000`)
  return url.replace(/\/$/, '')
}

/** Replaces wildcard addresses: not every system accepts connections to them. */
function dialled(host: string): string {
  if (host === '0.0.0.0' || host === '::') return 'localhost'
  return host.includes(':') ? `[${host}]` : host
}
