import type { ErrorRequestHandler, Request, RequestHandler } from 'express'
import type { ActiveImpersonation } from '../../kernel/base/context.ts'
import type { Logger } from '../../kernel/base/logger.ts'
import type { RegisteredTenant } from '../../tenancy/register.ts'
import type { Guard } from '../../tenants/guard/guard.ts'
import type { Impersonating } from '../../tenants/guard/impersonation-hook.ts'
import { type QuotaEnforcing, type QuotaOptions, runRouteCheck } from '../../tenants/guard/quota-hook.ts'
import type { Mountable } from '../app.ts'
import { appendHeaders, defineTenant, NodeRequest, runGuard, sendRejection, sendRouteError, TENANT } from './guarded.ts'

export { tenantOf } from './guarded.ts'

import { type ImpersonationOptions, impersonationMiddleware } from './impersonated.ts'
import { handleRequest, keepReadBody, pathnameOf } from './listener.ts'
import { measure } from './measured.ts'

declare global {
  namespace Express {
    interface Request {
      /** The tenant of the request. Throws `E_TENANT_MISMATCH` on central and ignored paths, and without a guard. */
      readonly tenant: RegisteredTenant
      /** Undefined on central and ignored paths, on universal ones without a tenant, and without a guard. */
      optionalTenant?: RegisteredTenant
      /** The impersonation of the request, after `impersonation`; undefined without one. */
      impersonation?: ActiveImpersonation
    }
  }
}

/**
 * Middleware for Express. Other paths continue to your routes. The prefix of the API is the whole path, independent of the mount path. A
 * body that a parser has read is taken from `req.rawBody`, otherwise serialized from `req.body`.
 *
 *   const app = express()
 *   app.use(expressHandler(createHttp(tenancy, { adminTokens })))
 *   app.get('/', (req, res) => res.send('mine'))
 *   app.listen(3000)
 */
export function expressHandler(http: Mountable): RequestHandler {
  return (request, response, next) => {
    if (!http.handles(pathnameOf(request.originalUrl))) {
      defineTenant(request)
      return next()
    }
    request.url = request.originalUrl
    keepReadBody(request, request)
    handleRequest(http, request, response, { ip: request.ip })
  }
}

/**
 * Middleware that guards the routes after it: they have `req.tenant` and run in its context. Responds to a rejected request; errors that
 * are not Tenantry's go to your error handler. Place authentication and CORS before it. `trust proxy` enables `x-forwarded-host`.
 *
 *   app.use(guard(tenancy.guard({ resolve: fromHeader(), authorize, ignore: ['/health'] })))
 *   app.get('/orders', async (req, res) => res.json(await req.tenant.db.selectFrom('orders').selectAll().execute()))
 */
export function guard(by: Guard): RequestHandler {
  return (request, response, next) => {
    const guarded = nodeRequest(request)
    runGuard(by, guarded, request.ip, {
      admitted({ tenant }, requestId) {
        if (response.headersSent) return // your timeout has sent a response
        if (tenant) request.optionalTenant = tenant as RegisteredTenant
        Object.defineProperty(request, 'tenant', TENANT)
        measure(by.traffic, tenant, response)
        if (requestId !== null) response.setHeader('x-request-id', requestId)
        next()
      },
      rejected(error) {
        if (!sendRejection(response, error)) next(error)
      },
    })
  }
}

/**
 * Middleware of a route after `guard`: consumes a quota, and responds with 429 if it is exhausted. The headers `RateLimit` and
 * `RateLimit-Policy` contain the rest of the quota.
 *
 *   app.post('/exports', enforceQuota(tenancy.quotas, 'exports'), (req, res) => ...)
 *   app.post('/mails', express.json(), enforceQuota(tenancy.quotas, 'mails', { amount: (req) => req.body.to.length }), ...)
 */
export function enforceQuota<Quota extends string>(
  quotas: QuotaEnforcing<Quota>,
  quota: NoInfer<Quota>,
  options?: QuotaOptions<Request>,
): RequestHandler<any, any, any, any> {
  const routeCheck = quotas.enforcement(quota, options)
  return (request, response, next) => {
    const admitted = (headers: Readonly<Record<string, string>>) => {
      if (response.headersSent) return // your timeout has sent a response
      appendHeaders(response, headers)
      next()
    }
    const rejected = (error: unknown) => {
      if (!sendRejection(response, error)) next(error)
    }
    runRouteCheck(routeCheck, request, request.optionalTenant).then(admitted, rejected).catch(next)
  }
}

/**
 * Middleware after `guard`: a request with an impersonation token has `req.impersonation`, and the audit log records it before its route
 * runs. Responds to a request with an invalid token, or without a record.
 *
 *   app.use(guard(tenancy.guard({ resolve: fromHeader(), authorize })), impersonation(tenancy.impersonation))
 *   app.get('/me', (req, res) => res.json({ user: req.impersonation?.userId ?? userOf(req) }))
 */
export function impersonation(by: Impersonating, options?: ImpersonationOptions): RequestHandler<any, any, any, any> {
  const middleware = impersonationMiddleware(by, options)
  return (request, response, next) => {
    middleware(nodeRequest(request), request.optionalTenant, {
      admitted(impersonation) {
        if (response.headersSent) return // your timeout has sent a response
        if (impersonation) request.impersonation = impersonation
        next()
      },
      rejected(error) {
        if (!sendRejection(response, error)) next(error)
      },
    })
  }
}

/**
 * Error middleware for your own routes: responds to Tenantry errors like the guard, and passes other errors on.
 *
 *   app.use(problemHandler(tenancy.kernel.log))
 */
export function problemHandler(log: Pick<Logger, 'warn'>): ErrorRequestHandler {
  return (error, request, response, next) => {
    if (!sendRouteError(response, error, log, nodeRequest(request))) next(error)
  }
}

const nodeRequest = (request: Request): NodeRequest<Request> =>
  new NodeRequest(request, request, request.originalUrl, () => request.host)
