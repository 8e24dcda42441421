/** Where the running service is, and with which token it is called. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DependencyUnavailable, InvalidRequest } from '../../kernel/base/errors.ts'
import type { ServiceConfig } from '../../service/config.ts'
import { readRunning } from '../../service/data-directory.ts'

/** `given`, else the one that runs with this configuration; throws E_DEPENDENCY_UNAVAILABLE when there is none. */
export function serviceUrl(config: ServiceConfig, given: string | undefined): string {
  if (given !== undefined) return checked(given)
  if (config.databaseUrl) {
    if (config.port === 0) throw InvalidRequest('PORT=0 says nothing of where the service is: give --url')
    return `http://${dialled(config.host)}:${config.port}`
  }
  const url = readRunning(config.dataDirectory)?.url
  if (!url) throw serviceUnreachable(`on ${config.dataDirectory}`)
  return url
}

export const serviceUnreachable = (where: string, cause?: unknown) =>
  DependencyUnavailable(`no Tenantry is running ${where}; start one with: tenantry serve`, { cause })

/** The admin token of the configuration, or the one kept in the data directory; undefined when there is neither. */
export function adminToken({ adminTokens, dataDirectory }: ServiceConfig): string | undefined {
  const configured = adminTokens.find(({ scope = 'admin' }) => scope === 'admin') ?? adminTokens[0]
  if (configured) return configured.token
  const kept = join(dataDirectory, 'admin-token')
  return existsSync(kept) ? readFileSync(kept, 'utf8').trim() : undefined
}

function checked(url: string): string {
  if (!/^https?:\/\/[^/?#]+\/?$/.test(url)) throw InvalidRequest(`--url: "${url}" is not like http://127.0.0.1:4000`)
  return url.replace(/\/$/, '')
}

/** The address that stands for all of this machine's cannot be dialled everywhere. */
function dialled(host: string): string {
  if (host === '0.0.0.0' || host === '::') return 'localhost'
  return host.includes(':') ? `[${host}]` : host
}
