/**
 * Serves the admin API, the probes and the metrics as one function from Request to Response.
 *
 *   request ─► request id ─► authentication.ts ─► route ─► operation ─► checked response
 *                               │ 401, for any path           │
 *                               └──────────────► problem+json ◄┘
 */
import { Hono } from 'hono'
import type { RouterRoute } from 'hono/types'
import { Idempotency } from '../kernel/api/idempotency.ts'
import { currentContext, enterContext } from '../kernel/base/context.ts'
import { Deadline } from '../kernel/base/deadline.ts'
import { NotFound, SatelliteDisabled } from '../kernel/base/errors.ts'
import { parsed } from '../kernel/base/validate.ts'
import { Histogram } from '../kernel/metrics/metrics.ts'
import type { Satellite } from '../tenancy/satellite.ts'
import type { Core } from '../tenancy/tenancy.ts'
import { TENANT_ID } from '../tenants/tenant/tenant.ts'
import { AdminPages } from './admin-pages.ts'
import { Authentication, unauthorized } from './authentication.ts'
import { hostOperations } from './console/host-operations.ts'
import { ConsoleOptions } from './console/options.ts'
import { ConsolePages, isBuilt } from './console/serving.ts'
import type { Identify } from './host-identity.ts'
import { openApiDocument } from './openapi.ts'
import { pathOf } from './paths.ts'
import { normalizedPrefix, withoutSlash } from './prefix.ts'
import { createProbes, type ProbeOptions } from './probes.ts'
import { deadlineExceeded, MethodNotAllowed, withProblemResponse } from './problem.ts'
import { recordRequest } from './requests/request-record.ts'
import { type AccessLogOptions, serveRequest } from './requests/serve-request.ts'
import { respond, withoutBodyOfHead } from './respond.ts'
import { OperationRunner } from './run-operation.ts'
import { type AdminToken, firstAdmin, type Identity } from './tokens.ts'

export const DEFAULT_PREFIX = '/admin/multitenancy'
export const DEADLINE_SECONDS = 10
export const STREAM_IDLE_SECONDS = 30

export interface HttpOptions extends ProbeOptions, AccessLogOptions {
  /** Mount path of the admin API; default `/admin/multitenancy`. */
  readonly prefix?: string
  /** At least one is required, except with `identify`. Further tokens are in the database (`tenancy.tokens`). */
  readonly adminTokens?: readonly AdminToken[]
  /**
   * Identifies callers by the host's own session, or by a header of a trusted proxy: name and permitted operations. It is not called for
   * requests with `x-admin-token`. Undefined: the session cookie decides. Requests that change something must have the `Origin` of the
   * API. Trust a header only if the proxy always replaces it, and clients reach the API only through the proxy.
   *
   * @example identify: (request) => ({ name: request.headers.get('x-forwarded-email') ?? 'unknown', may: ['read'] })
   */
  readonly identify?: Identify | undefined
  /** Sessions of browsers. */
  readonly sessions?: { readonly idleMinutes?: number | undefined } | undefined
  /** False serves only probes and metrics, as in a worker; default true. */
  readonly api?: boolean
  /**
   * The web console at `{prefix}/console`; false disables it.
   *
   * @example console: { name: 'Acme', accent: '#4338ca', links: [{ title: 'Back office', url: 'https://backoffice.example/{id}' }] }
   */
  readonly console?: false | ConsoleOptions | undefined
  /** Whether `GET /` leads to the console: for a server without pages of a host. Default false. */
  readonly redirectsRoot?: boolean
  /** Time limits of requests to the admin API. */
  readonly requests?: RequestLimits | undefined
  /** Disabled satellites: their paths respond with `E_SATELLITE_DISABLED`. */
  readonly switchedOff?: readonly Satellite[]
}

export interface RequestLimits {
  /** Default 10. `Prefer: wait=N` adds N. `GET /audit-logs/verify` and `GET /doctor` have more time. */
  readonly deadlineSeconds?: number
  /** Time limit between two parts of an export, in place of the deadline; default 30. */
  readonly streamIdleSeconds?: number
}

/** The client of a request. */
export interface Client {
  /** The client's address, according to the proxies that the host trusts. */
  readonly ip?: string | undefined
  /** Address of the connection; null if it has none. Default `ip`. */
  readonly socketIp?: string | null | undefined
}

/** A request handler that a host mounts in its server. */
export interface Mountable {
  fetch(request: Request, client?: Client): Promise<Response>
  /** Whether Tenantry serves the path. The host handles every other path. */
  handles(pathname: string): boolean
  /** The same paths for a router: exact paths, and `…/*` for all paths below one. */
  readonly routes: readonly string[]
}

export interface Http extends Mountable {
  readonly prefix: string
  /** Path and fragment of a link that signs in a browser once, within ten minutes. */
  signInLink(): Promise<string>
}

type Route = Pick<RouterRoute, 'method' | 'path'>

interface Env {
  Bindings: { readonly identity: Identity; readonly deadline: Deadline }
}

export function createHttp(core: Core, options: HttpOptions = {}): Http {
  const prefix = normalizedPrefix(options.prefix ?? DEFAULT_PREFIX)
  const { deadlineSeconds = DEADLINE_SECONDS, streamIdleSeconds = STREAM_IDLE_SECONDS } = options.requests ?? {}
  const { log } = core.kernel
  const { operations } = core
  const { adminTokens, identify, sessions, switchedOff = [] } = options
  const authentication = new Authentication(core, {
    adminTokens,
    identify,
    sessionIdleMinutes: sessions?.idleMinutes,
    prefix,
    disabled: switchedOff.flatMap(({ operations = [] }) => operations),
  })
  const consoles = switchedOff.flatMap(({ name, console }) => (console ? [[name, console] as const] : []))
  const modules = new Map([...core.consoles, ...consoles])
  const document = JSON.stringify(
    openApiDocument(
      operations.map(({ what }) => what),
      prefix,
    ),
  )
  const ofHost = [...core.satelliteOperations].filter(([name, { length }]) => {
    const module = modules.get(name)
    return length > 0 && !(module && isBuilt(module))
  })
  const consolePages =
    options.console === false
      ? undefined
      : new ConsolePages({
          prefix,
          options: parsed(ConsoleOptions, options.console ?? {}, 'console'),
          modules,
          hostSatellites: ofHost.map(([name]) => name),
          log,
        })
  const pages = new AdminPages({
    prefix,
    authentication,
    document,
    console: consolePages,
    hostOperations: hostOperations(new Map(ofHost), document),
    readable: operations.flatMap(({ what: { name, method, scope } }) => (method === 'GET' && !scope ? [name] : [])),
  })
  const runner = new OperationRunner(core, new Idempotency(core.kernel), {
    prefix,
    streamIdleSeconds,
    currentGrant: (request, identity) => authentication.currentGrant(request, identity),
  })
  const probes = createProbes(core, options)
  const seconds = new Histogram()
  core.series.register({
    name: 'multitenancy_http_request_seconds',
    help: 'Duration of admin API requests',
    type: 'histogram',
    collect: () => seconds.samples(),
  })

  const app = new Hono<Env>({ strict: false })
  for (const wired of operations) {
    const { name, method, path } = wired.what
    app.on(method, prefix + routeOf(path), async (c) => {
      const started = performance.now()
      const params = c.req.param() as Record<string, string>
      recordRequest({ operation: name, route: prefix + path, tenantId: tenantOf(path, params) })
      const { identity, deadline } = c.env
      const response = await runner.run({ wired, request: c.req.raw, params, identity, deadline })
      const status = String(response.status)
      seconds.observe(`${name} ${status}`, () => ({ operation: name, status }), (performance.now() - started) / 1000)
      return response
    })
  }
  pages.mount(app)
  const rejections = rejectionsOf(app.routes, switchedOff, prefix)
  app.notFound((c) => rejections.fetch(c.req.raw))
  app.onError(rethrow)
  const fixedPaths = new Set([...probes.paths, ...pages.openPaths, ...app.routes.map((route) => route.path)])

  const authenticate = async (request: Request, pathname: string): Promise<Identity | Response> => {
    const open = await pages.withoutToken(request, pathname)
    if (open) return open
    const identity = await authentication.identify(request)
    if (!identity) {
      const page = pages.notSignedIn(request)
      if (page) return page
      throw unauthorized()
    }
    recordRequest({ principal: identity.name })
    return identity
  }

  const admin = async (request: Request, pathname: string): Promise<Response> => {
    const deadline = new Deadline(deadlineSeconds * 1_000, (expired) => deadlineExceeded(request, expired))
    try {
      const identity = await deadline.run(() => authenticate(request, pathname))
      if (!('fingerprint' in identity)) return identity
      const { id, name, grant } = identity
      const context = { ...currentContext(), actor: { type: 'admin' as const, id, name }, grant }
      return await enterContext(context, async () => app.fetch(request, { identity, deadline }))
    } finally {
      deadline.close()
    }
  }

  const isApi = (pathname: string) => options.api !== false && isBelow(pathname, prefix)
  const isRoot = (pathname: string) => options.redirectsRoot === true && pathname === '/' && consolePages !== undefined

  return {
    prefix,
    handles: (pathname) => probes.handles(pathname) || isApi(pathname) || isRoot(pathname),
    routes: [
      ...probes.paths,
      ...(options.api === false ? [] : prefix === '' ? ['/*'] : [prefix, `${prefix}/*`]),
      ...(isRoot('/') ? ['/'] : []),
    ],
    async fetch(request, { ip, socketIp = ip } = {}) {
      const { accessLog } = options
      const response = await serveRequest(core.kernel, request, { ip: ip ?? null, accessLog }, () =>
        withProblemResponse(log, () => {
          const pathname = pathOf(request.url)
          const path = withoutSlash(pathname)
          if (fixedPaths.has(path)) recordRequest({ route: path })
          if (probes.handles(pathname)) return probes.respond(request, pathname, socketIp)
          if (isApi(pathname)) return admin(request, pathname)
          if (isRoot(pathname)) return respond(302, null, { location: `${prefix}/console` })
          throw NotFound('No resource exists at this path.')
        }),
      )
      return withoutBodyOfHead(request, response)
    },
    async signInLink() {
      const first = firstAdmin(adminTokens)
      const identity = first && (await authentication.identifyToken(first.token))
      if (!identity) throw new Error('no admin token is configured for a sign-in link')
      return `${prefix}/${consolePages ? 'console' : 'sign-in'}#code=${await authentication.sessions.issueCode(identity)}`
    },
  }
}

/** Hono must not turn an error into a response: `withProblemResponse` does. */
const rethrow = (error: Error): never => {
  throw error
}

/** Converts `/tenants/{id}` to the syntax of Hono. */
const routeOf = (path: string): string => path.replaceAll(/\{(\w+)\}/g, ':$1')

/** The tenant of an operation, unless the caller's id is invalid. */
const tenantOf = (path: string, { id = '' }: Readonly<Record<string, string>>): string | null =>
  path.startsWith('/tenants/{id}') && TENANT_ID.test(id) ? id : null

const isBelow = (pathname: string, prefix: string): boolean =>
  prefix === '' || pathname === prefix || pathname.startsWith(`${prefix}/`)

/**
 * Rejects requests without a route: 405 on a known path, `E_SATELLITE_DISABLED`, or 404. A separate router, because Hono calls a handler
 * directly only if no other handler matches.
 */
function rejectionsOf(routes: readonly Route[], switchedOff: readonly Satellite[], prefix: string): Hono {
  const open = [
    { method: 'GET', path: `${prefix}/sign-in` },
    { method: 'POST', path: `${prefix}/session` },
  ]
  const rejections = new Hono({ strict: false })
  for (const [path, methods] of Map.groupBy([...routes, ...open], (route) => route.path)) {
    const known = methods.map(({ method }) => method)
    const allow = [...known, ...(known.includes('GET') ? ['HEAD'] : [])].join(', ')
    rejections.all(path, () => {
      recordRequest({ route: path.replaceAll(/:(\w+)/g, '{$1}') })
      throw MethodNotAllowed(`This path takes ${allow}.`, { headers: { allow } })
    })
  }
  for (const { name, operations = [] } of switchedOff) {
    const off = () => rethrow(SatelliteDisabled(`Satellite "${name}" is disabled.`))
    for (const { path } of operations) {
      rejections.all(prefix + routeOf(path), () => {
        recordRequest({ route: prefix + path })
        return off()
      })
    }
  }
  rejections.notFound(() => rethrow(NotFound('No resource exists at this path.')))
  rejections.onError(rethrow)
  return rejections
}
