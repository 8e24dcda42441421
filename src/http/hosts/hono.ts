import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Context, ErrorHandler, MiddlewareHandler } from 'hono'
import { cloneRawRequest } from 'hono/request'
import type { ActiveImpersonation } from '../../kernel/base/context.ts'
import type { Logger } from '../../kernel/base/logger.ts'
import type { Guard, GuardedTenant } from '../../tenants/guard/guard.ts'
import type { Impersonating } from '../../tenants/guard/impersonation-hook.ts'
import { pathOfTarget } from '../../tenants/guard/path-patterns.ts'
import { type QuotaEnforcing, type QuotaOptions, runRouteCheck } from '../../tenants/guard/quota-hook.ts'
import type { GuardedRequest } from '../../tenants/guard/strategies.ts'
import type { Mountable } from '../app.ts'
import { type ProblemResponse, toLoggedProblemResponse, toProblemResponse } from '../problem.ts'
import { runGuard } from './guarded.ts'
import { type ImpersonationOptions, impersonationMiddleware } from './impersonated.ts'
import { lingerOnClose } from './lingering-close.ts'
import { measure } from './measured.ts'

export interface HonoOptions {
  /** The address of the client; by default the connection's, where @hono/node-server tells it. */
  readonly ip?: (context: Context) => string | undefined
}

/**
 * Middleware for Hono. Paths that are not ours go on to your routes.
 *
 *   const app = new Hono()
 *   app.use(honoHandler(createHttp(tenancy, { adminTokens })))
 *   app.get('/', (c) => c.text('mine'))
 *   serve({ fetch: app.fetch, port: 3000 })
 */
export function honoHandler(http: Mountable, { ip = addressOf }: HonoOptions = {}): MiddlewareHandler {
  return async (context, next) => {
    const { url, path, raw } = context.req
    if (!http.handles(URL.parse(url)?.pathname ?? path)) return next() // `Host` may be no host name
    const client = { ip: ip(context), socketIp: socketIpOf(context) }
    const response = await http.fetch(raw.bodyUsed ? await cloneRawRequest(context.req) : raw, client)
    const [incoming, outgoing] = [incomingOf(context), outgoingOf(context)]
    if (incoming && outgoing) lingerOnClose(incoming, outgoing)
    return response
  }
}

const addressOf = ({ env }: Context): string | undefined => env?.incoming?.socket?.remoteAddress

/** Undefined where there is no connection to be seen: then `ip` is all that is known. */
const socketIpOf = (context: Context): string | null | undefined =>
  context.env?.incoming?.socket ? (addressOf(context) ?? null) : undefined

/** Node's own, where @hono/node-server tells it. */
const incomingOf = ({ env }: Context): IncomingMessage | undefined => env?.incoming
const outgoingOf = ({ env }: Context): ServerResponse | undefined => env?.outgoing

/** What the guard adds to a context, undefined on central and ignored paths; and behind it, in whose name the request is made. */
export interface GuardedEnv {
  readonly Variables: { tenant?: GuardedTenant; impersonation?: ActiveImpersonation }
}

/**
 * Middleware that guards the routes after it: they have `c.get('tenant')`, and run in its context. A request that is not let
 * through is answered here; errors that are not Tenantry's go to `app.onError`. Whom you authenticate comes before it, as does
 * what answers CORS preflights.
 *
 *   const app = new Hono<GuardedEnv>()
 *   app.use(guard(tenancy.guard({ resolve: fromHeader(), authorize, ignore: ['/health'] })))
 *   app.get('/orders', async (c) => c.json(await c.get('tenant')?.db.selectFrom('orders').selectAll().execute()))
 */
export function guard(by: Guard, { ip = addressOf }: HonoOptions = {}): MiddlewareHandler<GuardedEnv> {
  return (context, next) =>
    new Promise<Response | undefined>((resolve, reject) => {
      runGuard(by, new HonoRequest(context), ip(context), {
        admitted({ tenant }, requestId) {
          if (tenant) context.set('tenant', tenant)
          measure(by.traffic, tenant, outgoingOf(context))
          if (requestId !== null) context.header('x-request-id', requestId)
          next().then(() => {
            if (requestId !== null) appendMissing(context, { 'x-request-id': requestId })
            resolve(undefined)
          }, reject)
        },
        rejected(error) {
          const problem = toProblemResponse(error)
          if (problem) resolve(responseOf(problem))
          else reject(error)
        },
      })
    })
}

/**
 * Middleware of a route behind `guard`: counts what the request uses of a quota, and answers 429 when there is no more. What it
 * answers of what is left are the headers `RateLimit` and `RateLimit-Policy`.
 *
 *   app.post('/exports', enforceQuota(tenancy.quotas, 'exports'), (c) => ...)
 *   app.post('/mails', enforceQuota(tenancy.quotas, 'mails', { amount: async (c) => (await c.req.json()).to.length }), ...)
 */
export function enforceQuota(
  quotas: QuotaEnforcing,
  quota: string,
  options?: QuotaOptions<Context>,
): MiddlewareHandler<GuardedEnv> {
  const routeCheck = quotas.enforcement(quota, options)
  return async (context, next) => {
    let headers: Readonly<Record<string, string>>
    try {
      headers = await runRouteCheck(routeCheck, context, context.get('tenant'))
    } catch (error) {
      const problem = toProblemResponse(error)
      if (problem) return responseOf(problem)
      throw error
    }
    for (const [name, value] of Object.entries(headers)) context.header(name, value, { append: true })
    await next()
    appendMissing(context, headers)
    return undefined
  }
}

/**
 * Middleware behind `guard`: a request with the token of an impersonation has `c.get('impersonation')`, and stands in the audit log
 * before its route runs. One whose token is not valid, or that cannot be recorded, is answered here.
 *
 *   app.use(guard(tenancy.guard({ resolve: fromHeader(), authorize })), impersonation(tenancy.impersonation))
 *   app.get('/me', (c) => c.json({ user: c.get('impersonation')?.userId ?? userOf(c) }))
 */
export function impersonation(by: Impersonating, options?: ImpersonationOptions): MiddlewareHandler<GuardedEnv> {
  const middleware = impersonationMiddleware(by, options)
  return (context, next) =>
    new Promise<Response | undefined>((resolve, reject) => {
      middleware(new HonoRequest(context), context.get('tenant'), {
        admitted(impersonation) {
          if (impersonation) context.set('impersonation', impersonation)
          next().then(() => resolve(undefined), reject)
        },
        rejected(error) {
          const problem = toProblemResponse(error)
          if (problem) resolve(responseOf(problem))
          else reject(error)
        },
      })
    })
}

/** A Response that the handler has made by itself knows nothing of what was set on the context before. */
function appendMissing(context: Context, headers: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(headers)) {
    if (!context.res.headers.get(name)?.includes(value)) context.header(name, value, { append: true })
  }
}

/**
 * For `app.onError`: what your own routes throw of Tenantry's errors is answered as the guard's are, the rest by `otherwise`.
 *
 *   app.onError(problemHandler(tenancy.kernel.log, (error, c) => c.text('Something went wrong.', 500)))
 */
export function problemHandler(log: Pick<Logger, 'warn'>, otherwise: ErrorHandler<any>): ErrorHandler<any> {
  return (error, context) => {
    const problem = toLoggedProblemResponse(error, log, new HonoRequest(context))
    return problem ? responseOf(problem) : otherwise(error, context)
  }
}

class HonoRequest implements GuardedRequest<Context> {
  readonly raw: Context

  constructor(context: Context) {
    this.raw = context
  }

  get method(): string {
    return this.raw.req.method
  }

  get path(): string {
    return pathOfTarget(this.raw.req.raw.url)
  }

  /** Two Host headers come joined by a comma, which is no host name. */
  get host(): string | undefined {
    return this.raw.req.header('host')
  }

  header(name: string): string | undefined {
    return this.raw.req.header(name)
  }
}

const responseOf = ({ status, headers, body }: ProblemResponse): Response => new Response(body, { status, headers })
