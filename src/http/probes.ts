/** Serves `/livez`, `/readyz`, `/healthz` and `/metrics` for orchestrators and scrapers, without a token. */
import { CONTENT_TYPE } from '../kernel/metrics/metrics.ts'
import type { Core } from '../tenancy/tenancy.ts'
import { hostCheck } from './allowed-hosts.ts'
import { normalizedPrefix, withoutSlash } from './prefix.ts'
import { MethodNotAllowed } from './problem.ts'
import { respond, respondJson } from './respond.ts'

export interface ProbeOptions {
  /** `/livez`, `/readyz`, `/healthz`; on by default, at the root. */
  readonly probes?: { readonly enabled?: boolean; readonly prefix?: string }
  /** `/metrics`; on by default, at the root. */
  readonly exposition?: { readonly enabled?: boolean; readonly prefix?: string }
  /**
   * Host names, without a port, under which probes and metrics answer, in addition to loopback names; `*` allows any. Without it, a
   * connection from a loopback address must name a loopback host, and any other connection may name any host.
   */
  readonly allowedHosts?: readonly string[] | undefined
}

export interface Probes {
  readonly paths: readonly string[]
  handles(pathname: string): boolean
  /**
   * @param pathname one that it handles
   * @param socketIp the address of the connection. Throws `E_HOST_NOT_ALLOWED`
   */
  respond(request: Request, pathname: string, socketIp: string | null | undefined): Promise<Response>
}

export function createProbes(
  { health, series }: Core,
  { probes = {}, exposition = {}, allowedHosts }: ProbeOptions,
): Probes {
  const assertHost = hostCheck(allowedHosts)
  const uptimeSeconds = () => Math.round(process.uptime() * 1000) / 1000
  series.register({
    name: 'multitenancy_uptime_seconds',
    help: 'Seconds since this process started',
    type: 'gauge',
    collect: () => [{ value: uptimeSeconds() }],
  })
  const ready = async () => {
    const { status, checks } = await health.report()
    return respondJson(status === 'fail' ? 503 : 200, { status, uptimeSeconds: uptimeSeconds(), checks })
  }
  const routes = new Map<string, () => Response | Promise<Response>>()
  if (probes.enabled ?? true) {
    const prefix = normalizedPrefix(probes.prefix ?? '')
    routes.set(`${prefix}/livez`, () => respondJson(200, { status: 'ok', uptimeSeconds: uptimeSeconds() }))
    routes.set(`${prefix}/readyz`, ready)
    routes.set(`${prefix}/healthz`, ready)
  }
  if (exposition.enabled ?? true) {
    routes.set(`${normalizedPrefix(exposition.prefix ?? '')}/metrics`, async () =>
      respond(200, await series.expose(), { 'content-type': CONTENT_TYPE }),
    )
  }
  return {
    paths: [...routes.keys()],
    handles: (pathname) => routes.has(withoutSlash(pathname)),
    async respond(request, pathname, socketIp) {
      assertHost(request, socketIp)
      const route = routes.get(withoutSlash(pathname))
      if (!route) throw new Error(`${pathname} is not a probe`)
      if (request.method === 'GET' || request.method === 'HEAD') return route()
      throw MethodNotAllowed('This path takes GET, HEAD.', { headers: { allow: 'GET, HEAD' } })
    },
  }
}
