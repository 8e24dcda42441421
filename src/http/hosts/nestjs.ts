/** NestJS on Express or Fastify. Its decorators are called as functions. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  type ArgumentsHost,
  type CanActivate,
  Catch,
  createParamDecorator,
  type DynamicModule,
  type ExceptionFilter,
  type ExecutionContext,
  Inject,
  Module,
} from '@nestjs/common'
import { APP_FILTER, HttpAdapterHost } from '@nestjs/core'
import type { ActiveImpersonation } from '../../kernel/base/context.ts'
import { tenancyErrorOf } from '../../kernel/base/errors.ts'
import type { Logger } from '../../kernel/base/logger.ts'
import type { Guard } from '../../tenants/guard/guard.ts'
import type { Impersonating } from '../../tenants/guard/impersonation-hook.ts'
import { type QuotaEnforcing, type QuotaOptions, runRouteCheck } from '../../tenants/guard/quota-hook.ts'
import type { Tenant } from '../../tenants/handles/handle.ts'
import type { Names } from '../../tenants/tenant/names.ts'
import {
  tenantOf as admittedTenant,
  appendHeaders,
  NodeRequest,
  requireTenant,
  runGuard,
  sendRejection,
  sendRouteError,
} from './guarded.ts'
import { type ImpersonationOptions, impersonationMiddleware } from './impersonated.ts'
import { measure } from './measured.ts'

/** The request of Express, or that of node with the members that @fastify/middie adds. */
interface Incoming extends IncomingMessage {
  readonly originalUrl?: string
  /** Express. */
  readonly host?: string
  readonly hostname?: string
  readonly ip?: string
}

/** Middleware of NestJS, on Express and Fastify. */
export type NestMiddleware = (incoming: any, outgoing: any, next: (error?: unknown) => void) => void

export interface TenantryModuleOptions {
  readonly tenancy: { readonly kernel: { readonly log: Pick<Logger, 'warn'> } }
  readonly guard: Guard
  /** Runs after the guard, for example `impersonation(tenancy.impersonation)`. */
  readonly middleware?: readonly NestMiddleware[]
}

interface Admitted {
  readonly tenant: Tenant | undefined
  impersonation?: ActiveImpersonation
}

const OPTIONS = Symbol('options of TenantryModule')
const admittedRequests = new WeakMap<object, Admitted>()

/**
 * Guards all routes of the application, and those of its other modules: they run in the context of their tenant. Responds to a rejected
 * request, and to Tenantry errors of your routes. The guard runs after `app.use(..)` and before the middleware of modules, guards,
 * interceptors and pipes: authenticate with `app.use(..)`, or in `authorize`.
 *
 *   Module({ imports: [TenantryModule.forRoot({ tenancy, guard: tenancy.guard({ resolve: fromHeader(), authorize }) })] })
 */
export class TenantryModule {
  readonly #adapter: HttpAdapterHost
  readonly #options: TenantryModuleOptions

  constructor(adapter: HttpAdapterHost, options: TenantryModuleOptions) {
    this.#adapter = adapter
    this.#options = options
  }

  static forRoot(options: TenantryModuleOptions): DynamicModule {
    return {
      module: TenantryModule,
      providers: [
        { provide: OPTIONS, useValue: options },
        { provide: APP_FILTER, useValue: problemHandler(options.tenancy.kernel.log) },
      ],
    }
  }

  /** NestJS calls it before it adds the routes. Middleware of the server covers every path, with any prefix of a route. */
  configure(): void {
    const { guard: by, middleware = [] } = this.#options
    for (const one of [guard(by), ...middleware]) this.#adapter.httpAdapter.use(one)
  }
}
Module({})(TenantryModule)
Inject(HttpAdapterHost)(TenantryModule, undefined, 0)
Inject(OPTIONS)(TenantryModule, undefined, 1)

/**
 * A parameter of a route: its tenant. Throws `E_TENANT_MISMATCH` on central and ignored paths; with `{ optional: true }` it is undefined
 * there.
 *
 *   @Get('orders') orders(@CurrentTenant() tenant: RegisteredTenant) { return tenant.db.selectFrom('orders').selectAll().execute() }
 */
export const CurrentTenant: (options?: { readonly optional?: boolean }) => ParameterDecorator = createParamDecorator(
  (options: { readonly optional?: boolean } | undefined, context: ExecutionContext) => {
    const tenant = admittedOf(context)?.tenant
    return options?.optional ? tenant : requireTenant(tenant)
  },
)

/** A parameter of a route: the impersonation of the request, after `impersonation`; undefined without one. */
export const CurrentImpersonation: () => ParameterDecorator = createParamDecorator(
  (_: unknown, context: ExecutionContext) => admittedOf(context)?.impersonation,
)

/**
 * A guard of NestJS for a route or a controller: consumes a quota, and responds with 429 if it is exhausted. The headers `RateLimit` and
 * `RateLimit-Policy` contain the rest of the quota.
 *
 *   @Post('exports') @UseGuards(enforceQuota(tenancy.quotas, 'exports')) create() { ... }
 */
export function enforceQuota<Quota extends string>(
  quotas: QuotaEnforcing<Quota>,
  quota: NoInfer<Quota>,
  options?: QuotaOptions<any>,
): CanActivate {
  const routeCheck = quotas.enforcement(quota, options)
  return {
    async canActivate(context) {
      const http = context.switchToHttp()
      const headers = await runRouteCheck(routeCheck, http.getRequest(), admittedOf(context)?.tenant)
      const outgoing = nodeOf<ServerResponse>(http.getResponse())
      if (outgoing.headersSent) return true // your timeout has sent a response
      appendHeaders(outgoing, headers)
      return true
    },
  }
}

/**
 * Middleware after the guard: a request with an impersonation token has `@CurrentImpersonation()`, and the audit log records it before
 * its route runs. Responds to a request with an invalid token, or without a record.
 *
 *   TenantryModule.forRoot({ tenancy, guard, middleware: [impersonation(tenancy.impersonation)] })
 */
export function impersonation(by: Impersonating, options?: ImpersonationOptions): NestMiddleware {
  const middleware = impersonationMiddleware(by, options)
  return (incoming: Incoming, outgoing: ServerResponse, next) => {
    const admitted = admittedRequests.get(incoming)
    middleware(nodeRequest(incoming), admitted?.tenant, {
      admitted(active) {
        if (outgoing.headersSent) return // your timeout has sent a response
        if (active && admitted) admitted.impersonation = active
        next()
      },
      rejected(error) {
        if (!sendRejection(outgoing, error)) next(error)
      },
    })
  }
}

/**
 * Middleware that guards the routes after it, for a second guard, or without `TenantryModule`. It does not convert errors of routes.
 *
 *   app.use(guard(tenancy.guard({ resolve: fromHeader(), authorize })))
 */
export const guard =
  (by: Guard): NestMiddleware =>
  (incoming: Incoming, outgoing: ServerResponse, next) => {
    runGuard(by, nodeRequest(incoming), incoming.ip ?? incoming.socket.remoteAddress, {
      admitted({ tenant }, requestId) {
        if (outgoing.headersSent) return // your timeout has sent a response
        admittedRequests.set(incoming, { tenant: tenant ?? admittedRequests.get(incoming)?.tenant })
        measure(by.traffic, tenant, outgoing)
        if (requestId !== null) outgoing.setHeader('x-request-id', requestId)
        next()
      },
      rejected(error) {
        if (!sendRejection(outgoing, error)) next(error)
      },
    })
  }

/**
 * A filter of NestJS that responds to Tenantry errors of routes, guards, interceptors and pipes. `TenantryModule` has it. If a filter of
 * yours catches every error, add this one after it: NestJS asks the last one first.
 *
 *   app.useGlobalFilters(new EveryErrorFilter(), problemHandler(tenancy.kernel.log))
 */
export const problemHandler = (log: Pick<Logger, 'warn'>): ExceptionFilter => new ProblemFilter(log)

class ProblemFilter implements ExceptionFilter {
  readonly #log: Pick<Logger, 'warn'>

  constructor(log: Pick<Logger, 'warn'>) {
    this.#log = log
  }

  catch(error: unknown, host: ArgumentsHost): void {
    if (host.getType() !== 'http') throw error
    const http = host.switchToHttp()
    const request = nodeRequest(nodeOf<Incoming>(http.getRequest()))
    const response = http.getResponse()
    response.hijack?.() // Fastify's reply
    sendRouteError(nodeOf(response), error, this.#log, request)
  }
}
/** NestJS compares with `instanceof`: errors of Tenantry, and errors of database libraries for them. */
const KnownError = Object.defineProperty(function known() {}, Symbol.hasInstance, {
  value: (error: unknown) => tenancyErrorOf(error) !== undefined,
})
Catch(KnownError)(ProblemFilter)

/**
 * The tenant of a request that `guard` has admitted, with its tables and names: for programs with several tenancies. Throws
 * `E_TENANT_MISMATCH` on its central and ignored paths, and without this guard.
 *
 *   @Get('orders') orders(@Req() request: Request) { return tenantOf(request, guard).db.selectFrom('orders').selectAll().execute() }
 */
export const tenantOf = <DB, N extends Names>(request: object, guard: Guard<DB, N>): Tenant<DB, N> =>
  admittedTenant(nodeOf(request), guard)

const admittedOf = (context: ExecutionContext): Admitted | undefined =>
  context.getType() === 'http' ? admittedRequests.get(nodeOf(context.switchToHttp().getRequest())) : undefined

/** Fastify's request and reply have those of node as `raw`. */
const nodeOf = <Node extends object>(of: Node | { readonly raw: Node }): Node => ('raw' in of ? of.raw : of)

const nodeRequest = (incoming: Incoming): NodeRequest<Incoming> =>
  new NodeRequest(
    incoming,
    incoming,
    incoming.originalUrl ?? incoming.url,
    () => incoming.host ?? incoming.hostname ?? incoming.headers.host,
  )
