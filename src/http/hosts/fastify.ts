import type { FastifyInstance, FastifyPluginCallback, FastifyReply, FastifyRequest } from 'fastify'
import type { ActiveImpersonation } from '../../kernel/base/context.ts'
import type { Logger } from '../../kernel/base/logger.ts'
import type { RegisteredTenant } from '../../tenancy/register.ts'
import type { Guard } from '../../tenants/guard/guard.ts'
import type { Impersonating } from '../../tenants/guard/impersonation-hook.ts'
import { type QuotaEnforcing, type QuotaOptions, runRouteCheck } from '../../tenants/guard/quota-hook.ts'
import type { Mountable } from '../app.ts'
import { type ProblemResponse, toLoggedProblemResponse } from '../problem.ts'
import { listed, NodeRequest, respondOnce, runGuard, UNGUARDED } from './guarded.ts'

export { tenantOf } from './guarded.ts'

import { type ImpersonationOptions, impersonationMiddleware } from './impersonated.ts'
import { handleRequest } from './listener.ts'
import { measure } from './measured.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The tenant of the request. Throws `E_TENANT_MISMATCH` on central and ignored paths, and without a guard. */
    readonly tenant: RegisteredTenant
    /** Undefined on central and ignored paths, on universal ones without a tenant, and without a guard. */
    optionalTenant?: RegisteredTenant
    /** The impersonation of the request, after `impersonation`; undefined without one. */
    impersonation?: ActiveImpersonation
  }
}

/**
 * A plugin for Fastify with routes of every method for the paths of Tenantry. They respond in `onRequest`, after the hooks of its instance
 * and before the body is read. Headers of those hooks are kept.
 *
 *   const app = fastify()
 *   await app.register(fastifyHandler(createHttp(tenancy, { adminTokens })))
 *   app.get('/', async () => 'mine')
 *   await app.listen({ port: 3000 })
 */
export function fastifyHandler(http: Mountable): FastifyPluginCallback {
  const onRequest = (request: FastifyRequest, reply: FastifyReply): void => {
    reply.hijack()
    for (const [name, value] of Object.entries(reply.getHeaders())) {
      if (value !== undefined) reply.raw.setHeader(name, value)
    }
    handleRequest(http, request.raw, reply.raw, { ip: request.ip })
  }
  const routes: FastifyPluginCallback = (app, _options, done) => {
    const isBelow = (route: string) => route === app.prefix || route.startsWith(`${app.prefix}/`)
    if (!http.routes.every(isBelow)) {
      return done(
        new Error(`register it without a prefix: below ${app.prefix} it would not be at ${http.routes.join(', ')}`),
      )
    }
    for (const route of http.routes) {
      // The handler is never reached, but Fastify requires one.
      app.route({ method: app.supportedMethods, url: route.slice(app.prefix.length), onRequest, handler: onRequest })
    }
    done()
  }
  const plugin: FastifyPluginCallback = (app, options, done) => {
    decorateTenant(app)
    app.register(routes, options)
    done()
  }
  return ofParent(plugin) // requests of the host's routes have a tenant that throws without a guard
}

function decorateTenant(app: FastifyInstance): void {
  const { get, set } = UNGUARDED
  const accessors = { getter: get as () => RegisteredTenant, setter: set }
  if (!app.hasRequestDecorator('tenant')) app.decorateRequest('tenant', accessors)
}

/** Marks a plugin whose decorators and hooks belong to the parent instance. */
const ofParent = (plugin: FastifyPluginCallback): FastifyPluginCallback =>
  Object.assign(plugin, { [Symbol.for('skip-override')]: true })

/**
 * A plugin that guards the routes of its instance and the instances below it: they have `request.tenant` and run in its context. Responds
 * to a rejected request in `onRequest`; errors that are not Tenantry's go to your error handler. Add hooks that authenticate before it.
 * `trustProxy` enables `x-forwarded-host`.
 *
 *   await app.register(guard(tenancy.guard({ resolve: fromHeader(), authorize, ignore: ['/health'] })))
 *   app.get('/orders', (request) => request.tenant.db.selectFrom('orders').selectAll().execute())
 */
export function guard(by: Guard): FastifyPluginCallback {
  const plugin: FastifyPluginCallback = (app, _options, done) => {
    if (!app.hasRequestDecorator('optionalTenant')) app.decorateRequest('optionalTenant', undefined)
    decorateTenant(app)
    app.addHook('onRequest', (request, reply, next) => {
      runGuard(by, nodeRequest(request), request.ip, {
        admitted({ tenant }, requestId) {
          if (tenant) request.optionalTenant = tenant as RegisteredTenant
          measure(by.traffic, tenant, reply.raw)
          if (requestId !== null) reply.header('x-request-id', requestId)
          next()
        },
        rejected(error) {
          if (!sendRejection(reply, error)) next(error as Error)
        },
      })
    })
    done()
  }
  return ofParent(plugin) // otherwise it would guard only its own instance
}

/**
 * A hook of a route after `guard`, at `onRequest`, or at `preHandler` if `amount` reads the body: consumes a quota, and responds with 429
 * if it is exhausted. The headers `RateLimit` and `RateLimit-Policy` contain the rest of the quota.
 *
 *   app.post('/exports', { onRequest: enforceQuota(tenancy.quotas, 'exports') }, async (request) => ...)
 */
export function enforceQuota<Quota extends string>(
  quotas: QuotaEnforcing<Quota>,
  quota: NoInfer<Quota>,
  options?: QuotaOptions<FastifyRequest>,
): (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply | undefined> {
  const routeCheck = quotas.enforcement(quota, options)
  return async (request, reply) => {
    try {
      const headers = await runRouteCheck(routeCheck, request, request.optionalTenant)
      if (reply.sent) return reply // your timeout has sent a response
      for (const [name, value] of Object.entries(headers)) reply.header(name, listed(reply.getHeader(name), value))
      return undefined
    } catch (error) {
      if (sendRejection(reply, error)) return reply
      throw error
    }
  }
}

/**
 * A plugin after `guard`: a request with an impersonation token has `request.impersonation`, and the audit log records it before its route
 * runs. Responds in `onRequest` to a request with an invalid token, or without a record.
 *
 *   await app.register(guard(tenancy.guard({ resolve: fromHeader(), authorize })))
 *   await app.register(impersonation(tenancy.impersonation))
 *   app.get('/me', (request) => ({ user: request.impersonation?.userId ?? userOf(request) }))
 */
export function impersonation(by: Impersonating, options?: ImpersonationOptions): FastifyPluginCallback {
  const middleware = impersonationMiddleware(by, options)
  const plugin: FastifyPluginCallback = (app, _options, done) => {
    if (!app.hasRequestDecorator('impersonation')) app.decorateRequest('impersonation', undefined)
    app.addHook('onRequest', (request, reply, next) => {
      middleware(nodeRequest(request), request.optionalTenant, {
        admitted(impersonation) {
          if (reply.sent) return // your timeout has sent a response
          request.impersonation = impersonation
          next()
        },
        rejected(error) {
          if (!sendRejection(reply, error)) next(error as Error)
        },
      })
    })
    done()
  }
  return ofParent(plugin) // otherwise it would apply only to its own instance
}

/**
 * For `setErrorHandler`: responds to Tenantry errors of your own routes like the guard, and throws other errors to the error handler of the
 * parent instance.
 *
 *   app.setErrorHandler(problemHandler(tenancy.kernel.log))
 */
export function problemHandler(
  log: Pick<Logger, 'warn'>,
): (error: unknown, request: FastifyRequest, reply: FastifyReply) => FastifyReply {
  return (error, request, reply) => {
    const problem = toLoggedProblemResponse(error, log, nodeRequest(request))
    if (!problem) throw error
    return send(reply, problem)
  }
}

const nodeRequest = (request: FastifyRequest): NodeRequest<FastifyRequest> =>
  new NodeRequest(request, request.raw, request.raw.url, () => request.host)

const sendRejection = (reply: FastifyReply, error: unknown): boolean =>
  respondOnce(error, reply.sent, (problem) => send(reply, problem))

const send = (reply: FastifyReply, { status, headers, body }: ProblemResponse): FastifyReply =>
  reply.code(status).headers(headers).send(body)
