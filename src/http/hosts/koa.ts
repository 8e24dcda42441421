import type { Context, Middleware, ParameterizedContext } from 'koa'
import type { ActiveImpersonation } from '../../kernel/base/context.ts'
import type { Logger } from '../../kernel/base/logger.ts'
import type { RegisteredTenant } from '../../tenancy/register.ts'
import type { Guard } from '../../tenants/guard/guard.ts'
import type { Impersonating } from '../../tenants/guard/impersonation-hook.ts'
import { type QuotaEnforcing, type QuotaOptions, runRouteCheck } from '../../tenants/guard/quota-hook.ts'
import type { Tenant } from '../../tenants/handles/handle.ts'
import type { Names } from '../../tenants/tenant/names.ts'
import type { Mountable } from '../app.ts'
import { type ProblemResponse, toLoggedProblemResponse } from '../problem.ts'
import {
  admission,
  defineTenant,
  type GuardCallbacks,
  listed,
  NodeRequest,
  respondOnce,
  runGuard,
  TENANT,
} from './guarded.ts'

export { tenantOf } from './guarded.ts'

import { type ImpersonationCallbacks, type ImpersonationOptions, impersonationMiddleware } from './impersonated.ts'
import { handleRequest, keepReadBody, pathnameOf } from './listener.ts'
import { measure } from './measured.ts'

/** The state of a guarded context. */
export interface GuardedState<T extends Tenant = RegisteredTenant> {
  /** Throws `E_TENANT_MISMATCH` on central and ignored paths, and without a guard. */
  readonly tenant: T
  /** Undefined on central and ignored paths, on universal ones without a tenant, and without a guard. */
  optionalTenant?: T
  /** The impersonation of the request, after `impersonation`; undefined without one. */
  impersonation?: ActiveImpersonation
}

type Guarded = ParameterizedContext<GuardedState<Tenant>>

/**
 * Middleware for Koa. Other paths continue to your middleware. Place it before a body parser, or keep the bytes in
 * `ctx.request.rawBody`.
 *
 *   const app = new Koa()
 *   app.use(koaHandler(createHttp(tenancy, { adminTokens })))
 *   app.use((ctx) => void (ctx.body = 'mine'))
 */
export function koaHandler(http: Mountable): Middleware {
  return async (context, next) => {
    if (!http.handles(pathnameOf(context.originalUrl))) {
      defineTenant(context.state)
      return next()
    }
    const { req: incoming, res: outgoing, request } = context
    incoming.url = context.originalUrl
    keepReadBody(incoming, request as { rawBody?: unknown; body?: unknown })
    context.respond = false
    if (outgoing.closed) return // the client left during your middleware
    await new Promise<void>((resolve) => {
      outgoing.once('close', resolve)
      handleRequest(http, incoming, outgoing, { ip: context.ip })
    })
  }
}

/**
 * Middleware that guards the middleware after it: it has `ctx.state.tenant` and runs in its context. Responds to a rejected request;
 * errors that are not Tenantry's are thrown to your middleware before it. Place authentication and CORS before it. `app.proxy` enables
 * `x-forwarded-host`.
 *
 *   const app = new Koa<GuardedState>()
 *   app.use(guard(tenancy.guard({ resolve: fromHeader(), authorize, ignore: ['/health'] })))
 *   app.use(async (ctx) => void (ctx.body = await ctx.state.tenant.db.selectFrom('orders').selectAll().execute()))
 */
export function guard<DB, N extends Names>(by: Guard<DB, N>): Middleware<GuardedState<Tenant<DB, N>>> {
  return (context, next) =>
    admission(
      (callbacks: GuardCallbacks) => runGuard(by, nodeRequest(context), context.ip, callbacks),
      async ({ tenant }, requestId) => {
        if (context.headerSent) return // your timeout has sent a response
        if (tenant) context.state.optionalTenant = tenant
        Object.defineProperty(context.state, 'tenant', TENANT)
        measure(by.traffic, tenant, context.res)
        if (requestId !== null) context.set('x-request-id', requestId)
        await next()
      },
      (error) => sendRejection(context, error),
    )
}

/**
 * Middleware after `guard`: consumes a quota, and responds with 429 if it is exhausted. The headers `RateLimit` and `RateLimit-Policy`
 * contain the rest of the quota.
 *
 *   router.post('/exports', enforceQuota(tenancy.quotas, 'exports'), (ctx) => ...)
 */
export function enforceQuota<Quota extends string>(
  quotas: QuotaEnforcing<Quota>,
  quota: NoInfer<Quota>,
  options?: QuotaOptions<Context>,
): Middleware<GuardedState<any>> {
  const routeCheck = quotas.enforcement(quota, options)
  return async (context, next) => {
    let headers: Readonly<Record<string, string>>
    try {
      headers = await runRouteCheck(routeCheck, context as unknown as Context, context.state.optionalTenant)
    } catch (error) {
      return sendRejection(context, error)
    }
    if (context.headerSent) return // your timeout has sent a response
    for (const [name, value] of Object.entries(headers)) {
      context.set(name, listed(context.response.get(name) || undefined, value))
    }
    await next()
  }
}

/**
 * Middleware after `guard`: a request with an impersonation token has `ctx.state.impersonation`, and the audit log records it before the
 * middleware after it runs. Responds to a request with an invalid token, or without a record.
 *
 *   app.use(guard(tenancy.guard({ resolve: fromHeader(), authorize }))).use(impersonation(tenancy.impersonation))
 */
export function impersonation(by: Impersonating, options?: ImpersonationOptions): Middleware<GuardedState<any>> {
  const middleware = impersonationMiddleware(by, options)
  return (context, next) =>
    admission(
      (callbacks: ImpersonationCallbacks) => middleware(nodeRequest(context), context.state.optionalTenant, callbacks),
      async (active) => {
        if (context.headerSent) return // your timeout has sent a response
        if (active) context.state.impersonation = active
        await next()
      },
      (error) => sendRejection(context, error),
    )
}

/**
 * Middleware after `guard`: responds to Tenantry errors of the middleware after it like the guard, and throws other errors.
 *
 *   app.use(guard(..)).use(problemHandler(tenancy.kernel.log))
 */
export function problemHandler(log: Pick<Logger, 'warn'>): Middleware<GuardedState<any>> {
  return async (context, next) => {
    try {
      await next()
    } catch (error) {
      const problem = context.headerSent ? undefined : toLoggedProblemResponse(error, log, nodeRequest(context))
      if (!problem) throw error
      send(context, problem)
    }
  }
}

/** Koa reads the first one of several hosts; only a proxy that it trusts may send several. */
const nodeRequest = (context: Guarded): NodeRequest<Guarded> =>
  new NodeRequest(context, context.req, context.originalUrl, () =>
    context.app.proxy ? context.host : context.req.headers.host,
  )

/** Throws an error that is not Tenantry's. */
async function sendRejection(context: Guarded, error: unknown): Promise<void> {
  if (!respondOnce(error, context.headerSent, (problem) => send(context, problem))) throw error
}

function send(context: Guarded, { status, headers, body }: ProblemResponse): void {
  context.status = status
  context.body = body
  context.set(headers)
}
