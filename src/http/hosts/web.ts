/** Guards handlers of the web standard, functions from Request to Response: Next.js, SvelteKit, React Router, Bun, Deno. */
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
import { admission, type GuardCallbacks, rejectionResponse, requireTenant, responseOf, runGuard } from './guarded.ts'

export { tenantOf } from './guarded.ts'

import { type ImpersonationCallbacks, type ImpersonationOptions, impersonationMiddleware } from './impersonated.ts'
import { measureFetch } from './measured-fetch.ts'

type Result = Response | Promise<Response>

/** Further arguments of a handler belong to its framework: the parameters of Next.js, the server of Bun, an event. */
export type FetchHandler<Asked extends Request, Args extends unknown[]> = (
  request: Asked,
  ...args: Args
) => Promise<Response>

export type GuardedFetchHandler<Asked extends Request, Args extends unknown[], T extends Tenant = RegisteredTenant> = (
  request: Asked,
  guarded: GuardedFetch<T>,
  ...args: Args
) => Result

/** What a guarded handler receives after the request. */
export interface GuardedFetch<T extends Tenant = RegisteredTenant> {
  /** Throws `E_TENANT_MISMATCH` on central and ignored paths. */
  readonly tenant: T
  /** Undefined on central and ignored paths, and on universal ones without a tenant. */
  readonly optionalTenant: T | undefined
  /** The impersonation of the request, inside `impersonation`; undefined without one. */
  readonly impersonation: ActiveImpersonation | undefined
}

export interface FetchOptions<Asked extends Request, Args extends unknown[]> {
  /** The address of the client; default: unknown. With Bun: `(request, server) => server.requestIP(request)?.address`. */
  readonly ip?: (request: Asked, ...args: Args) => string | undefined
}

export interface FetchHandlerOptions<Asked extends Request, Args extends unknown[]> extends FetchOptions<Asked, Args> {
  /** The address of the connection, if `ip` reads a header; default `ip`. */
  readonly socketIp?: (request: Asked, ...args: Args) => string | undefined
}

/**
 * A handler for the admin API or for receivers. Other paths go to `otherwise`, or receive 404 without it.
 *
 *   export const GET = fetchHandler(createHttp(tenancy, { adminTokens }))   // Next.js, also as POST, PUT, PATCH, DELETE
 *   Bun.serve({ fetch: fetchHandler(http, (request) => new Response('mine')) })
 */
export function fetchHandler<Asked extends Request = Request, Args extends unknown[] = []>(
  http: Mountable,
  otherwise?: (request: Asked, ...args: Args) => Result,
  { ip, socketIp = ip }: FetchHandlerOptions<Asked, Args> = {},
): FetchHandler<Asked, Args> {
  return async (request, ...args) => {
    const path = URL.parse(request.url)?.pathname ?? pathOfTarget(request.url) // `Host` may be no host name
    if (otherwise && !http.handles(path)) return otherwise(request, ...args)
    return http.fetch(request, { ip: ip?.(request, ...args), socketIp: socketIp?.(request, ...args) ?? null })
  }
}

/**
 * Returns a handler that calls yours with the tenant of the request, in its context. Responds to a rejected request. Rejects with
 * errors that are not Tenantry's.
 *
 *   const guard = tenancy.guard({ resolve: fromHeader(), authorize })
 *   export const GET = guardFetch(guard, async (request, { tenant }) =>
 *     Response.json(await tenant.db.selectFrom('orders').selectAll().execute()))
 */
export function guardFetch<
  Asked extends Request = Request,
  Args extends unknown[] = [],
  DB = any,
  N extends Names = Names,
>(
  by: Guard<DB, N>,
  handler: GuardedFetchHandler<Asked, Args, Tenant<DB, N>>,
  { ip }: FetchOptions<Asked, Args> = {},
): FetchHandler<Asked, Args> {
  const handle = async (...call: Parameters<typeof handler>) => handler(...call)
  return (request, ...args) =>
    admission(
      (callbacks: GuardCallbacks) => runGuard(by, new FetchRequest(request), ip?.(request, ...args), callbacks),
      ({ tenant }, requestId) => {
        const response = handle(request, new Guarded(tenant as Tenant<DB, N> | undefined), ...args).then((made) =>
          requestId === null ? made : withHeaders(made, { 'x-request-id': requestId }, 'set'),
        )
        return measureFetch(by.traffic, tenant, request, response)
      },
      rejectionResponse,
    )
}

/**
 * Returns a handler for `guardFetch` that calls yours if the quota is sufficient, and responds with 429 otherwise. The headers
 * `RateLimit` and `RateLimit-Policy` contain the rest of the quota. An `amount` that reads the body clones the request.
 *
 *   export const POST = guardFetch(guard, enforceQuota(tenancy.quotas, 'exports', async (request, { tenant }) => ..))
 */
export function enforceQuota<
  Asked extends Request = Request,
  Args extends unknown[] = [],
  T extends Tenant = RegisteredTenant,
  Quota extends string = string,
>(
  quotas: QuotaEnforcing<Quota>,
  quota: NoInfer<Quota>,
  handler: GuardedFetchHandler<Asked, Args, T>,
  options?: QuotaOptions<Asked>,
): GuardedFetchHandler<Asked, Args, T> {
  const routeCheck = quotas.enforcement(quota, options)
  return async (request, guarded, ...args) => {
    let headers: Readonly<Record<string, string>>
    try {
      headers = await runRouteCheck(routeCheck, request, guarded.optionalTenant)
    } catch (error) {
      return rejectionResponse(error)
    }
    return withHeaders(await handler(request, guarded, ...args), headers, 'append')
  }
}

/**
 * Returns a handler for `guardFetch` that calls yours with the impersonation of the request; undefined without one. The audit log
 * records a request with an impersonation token before your handler runs. Responds to a request with an invalid token, or without a
 * record. Place `enforceQuota` before it.
 *
 *   export const GET = guardFetch(guard, impersonation(tenancy.impersonation, async (request, { tenant, impersonation }) => ..))
 */
export function impersonation<
  Asked extends Request = Request,
  Args extends unknown[] = [],
  T extends Tenant = RegisteredTenant,
>(
  by: Impersonating,
  handler: GuardedFetchHandler<Asked, Args, T>,
  options?: ImpersonationOptions,
): GuardedFetchHandler<Asked, Args, T> {
  const middleware = impersonationMiddleware(by, options)
  return (request, { optionalTenant }, ...args: Args) =>
    admission(
      (callbacks: ImpersonationCallbacks) => middleware(new FetchRequest(request), optionalTenant, callbacks),
      async (active) => handler(request, new Guarded(optionalTenant, active), ...args),
      rejectionResponse,
    )
}

/**
 * Returns a handler for `guardFetch` that responds to Tenantry errors of yours like the guard. Rejects with other errors.
 *
 *   export const GET = guardFetch(guard, problemHandler(tenancy.kernel.log, async (request, { tenant }) => ..))
 */
export function problemHandler<
  Asked extends Request = Request,
  Args extends unknown[] = [],
  T extends Tenant = RegisteredTenant,
>(log: Pick<Logger, 'warn'>, handler: GuardedFetchHandler<Asked, Args, T>): GuardedFetchHandler<Asked, Args, T> {
  return async (request, ...rest) => {
    try {
      return await handler(request, ...rest)
    } catch (error) {
      const problem = toLoggedProblemResponse(error, log, new FetchRequest(request))
      if (problem) return responseOf(problem)
      throw error
    }
  }
}

class Guarded<T extends Tenant> implements GuardedFetch<T> {
  readonly optionalTenant: T | undefined
  readonly impersonation: ActiveImpersonation | undefined

  constructor(tenant: T | undefined, impersonation?: ActiveImpersonation) {
    this.optionalTenant = tenant
    this.impersonation = impersonation
  }

  get tenant(): T {
    return requireTenant(this.optionalTenant)
  }
}

class FetchRequest<Asked extends Request> implements GuardedRequest<Asked> {
  readonly raw: Asked

  constructor(request: Asked) {
    this.raw = request
  }

  get method(): string {
    return this.raw.method
  }

  get path(): string {
    return pathOfTarget(this.raw.url)
  }

  /** Two Host headers are joined with a comma, which is not valid in a host name. Some servers have the host in the URL only. */
  get host(): string | undefined {
    return this.raw.headers.get('host') ?? URL.parse(this.raw.url)?.host
  }

  header(name: string): string | undefined {
    return this.raw.headers.get(name) ?? undefined
  }
}

/** `append` adds to list headers. The headers of a redirect and of a response of `fetch` cannot be changed. */
function withHeaders(response: Response, headers: Readonly<Record<string, string>>, write: 'append' | 'set'): Response {
  const isMissing = ([name, value]: [string, string]) =>
    write === 'set' ? response.headers.get(name) !== value : !response.headers.get(name)?.includes(value)
  const entries = Object.entries(headers).filter(isMissing)
  const written = (to: Response) => {
    for (const [name, value] of entries) to.headers[write](name, value)
    return to
  }
  try {
    return written(response)
  } catch {
    return written(new Response(response.body, response))
  }
}
