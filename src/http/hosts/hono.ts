import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Context, ErrorHandler, MiddlewareHandler } from 'hono'
import { cloneRawRequest } from 'hono/request'
import type { ActiveImpersonation } from '../../kernel/base/context.ts'
import type { Logger } from '../../kernel/base/logger.ts'
import type { RegisteredTenant } from '../../tenancy/register.ts'
import type { Guard } from '../../tenants/guard/guard.ts'
import type { Impersonating } from '../../tenants/guard/impersonation-hook.ts'
import { pathOfTarget } from '../../tenants/guard/path-patterns.ts'
import { type QuotaEnforcing, type QuotaOptions, runRouteCheck } from '../../tenants/guard/quota-hook.ts'
import type { GuardedRequest } from '../../tenants/guard/strategies.ts'
import type { Tenant } from '../../tenants/handles/handle.ts'
import type { Names } from '../../tenants/tenant/names.ts'
import type { Mountable } from '../app.ts'
import { toLoggedProblemResponse } from '../problem.ts'
import {
  admission,
  tenantOf as admittedTenant,
  type GuardCallbacks,
  rejectionResponse,
  requireTenant,
  responseOf,
  runGuard,
} from './guarded.ts'
import { type ImpersonationCallbacks, type ImpersonationOptions, impersonationMiddleware } from './impersonated.ts'
import { lingerOnClose } from './lingering-close.ts'
import { measure } from './measured.ts'

export interface HonoOptions {
  /** The address of the client; default: the address of the connection with @hono/node-server. */
  readonly ip?: (context: Context) => string | undefined
}

/**
 * Middleware for Hono. Other paths continue to your routes.
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

/** Undefined without access to the connection: then only `ip` is known. */
const socketIpOf = (context: Context): string | null | undefined =>
  context.env?.incoming?.socket ? (addressOf(context) ?? null) : undefined

/** The request and response of node, with @hono/node-server. */
const incomingOf = ({ env }: Context): IncomingMessage | undefined => env?.incoming
const outgoingOf = ({ env }: Context): ServerResponse | undefined => env?.outgoing

/** The variables of a guarded context: the tenant, undefined on central and ignored paths, and the impersonation. */
export interface GuardedEnv<T extends Tenant = RegisteredTenant> {
  readonly Variables: { tenant?: T; impersonation?: ActiveImpersonation }
}

/**
 * Middleware that guards the routes after it: they have `c.get('tenant')`, `tenantOf(c)` and run in its context. Responds to a rejected request; errors
 * that are not Tenantry's go to `app.onError`. Place authentication and CORS before it.
 *
 *   const app = new Hono<GuardedEnv>()
 *   app.use(guard(tenancy.guard({ resolve: fromHeader(), authorize, ignore: ['/health'] })))
 *   app.get('/orders', async (c) => c.json(await tenantOf(c).db.selectFrom('orders').selectAll().execute()))
 */
export function guard<DB, N extends Names>(
  by: Guard<DB, N>,
  { ip = addressOf }: HonoOptions = {},
): MiddlewareHandler<GuardedEnv<Tenant<DB, N>>> {
  return (context, next) =>
    admission(
      (callbacks: GuardCallbacks) => runGuard(by, new HonoRequest(context), ip(context), callbacks),
      async ({ tenant }, requestId) => {
        if (tenant) context.set('tenant', tenant as Tenant<DB, N>)
        measure(by.traffic, tenant, outgoingOf(context))
        if (requestId !== null) context.header('x-request-id', requestId)
        await next()
        if (requestId !== null && context.res.headers.get('x-request-id') !== requestId) {
          context.header('x-request-id', requestId) // a response of `fetch` may have that of another server
        }
        return undefined
      },
      rejectionResponse,
    )
}

/**
 * Middleware of a route after `guard`: consumes a quota, and responds with 429 if it is exhausted. The headers `RateLimit` and
 * `RateLimit-Policy` contain the rest of the quota.
 *
 *   app.post('/exports', enforceQuota(tenancy.quotas, 'exports'), (c) => ...)
 *   app.post('/mails', enforceQuota(tenancy.quotas, 'mails', { amount: async (c) => (await c.req.json()).to.length }), ...)
 */
export function enforceQuota<Quota extends string>(
  quotas: QuotaEnforcing<Quota>,
  quota: NoInfer<Quota>,
  options?: QuotaOptions<Context>,
): MiddlewareHandler<GuardedEnv> {
  const routeCheck = quotas.enforcement(quota, options)
  return async (context, next) => {
    let headers: Readonly<Record<string, string>>
    try {
      headers = await runRouteCheck(routeCheck, context, context.get('tenant'))
    } catch (error) {
      return rejectionResponse(error)
    }
    for (const [name, value] of Object.entries(headers)) context.header(name, value, { append: true })
    await next()
    appendMissing(context, headers)
    return undefined
  }
}

/**
 * Middleware after `guard`: a request with an impersonation token has `c.get('impersonation')`, and the audit log records it before its
 * route runs. Responds to a request with an invalid token, or without a record.
 *
 *   app.use(guard(tenancy.guard({ resolve: fromHeader(), authorize })), impersonation(tenancy.impersonation))
 *   app.get('/me', (c) => c.json({ user: c.get('impersonation')?.userId ?? userOf(c) }))
 */
export function impersonation(by: Impersonating, options?: ImpersonationOptions): MiddlewareHandler<GuardedEnv> {
  const middleware = impersonationMiddleware(by, options)
  return (context, next) =>
    admission(
      (callbacks: ImpersonationCallbacks) => middleware(new HonoRequest(context), context.get('tenant'), callbacks),
      async (impersonation) => {
        if (impersonation) context.set('impersonation', impersonation)
        await next()
        return undefined
      },
      rejectionResponse,
    )
}

/**
 * The tenant of a guarded context. Throws `E_TENANT_MISMATCH` on central and ignored paths, where `c.get('tenant')` is undefined.
 *
 *   app.get('/orders', async (c) => c.json(await tenantOf(c).db.selectFrom('orders').selectAll().execute()))
 */
export function tenantOf<T extends Tenant>(context: Context<GuardedEnv<T>>): T
/** The tenant that this guard has admitted, for a context of another type or of another tenancy. */
export function tenantOf<DB, N extends Names>(context: Context, guard: Guard<DB, N>): Tenant<DB, N>
export function tenantOf(context: Context<any>, guard?: Guard): Tenant {
  return guard ? admittedTenant(context, guard) : requireTenant(context.get('tenant'))
}

/** A Response that the handler created itself does not contain the headers of the context. */
function appendMissing(context: Context, headers: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(headers)) {
    if (!context.res.headers.get(name)?.includes(value)) context.header(name, value, { append: true })
  }
}

/**
 * For `app.onError`: responds to Tenantry errors of your own routes like the guard. `otherwise` handles other errors.
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

  /** Two Host headers are joined with a comma, which is not valid in a host name. */
  get host(): string | undefined {
    return this.raw.req.header('host')
  }

  header(name: string): string | undefined {
    return this.raw.req.header(name)
  }
}
