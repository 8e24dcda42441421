/** The guard of a node:http server. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ActiveImpersonation } from '../../kernel/base/context.ts'
import type { Logger } from '../../kernel/base/logger.ts'
import type { Guard } from '../../tenants/guard/guard.ts'
import type { Impersonating } from '../../tenants/guard/impersonation-hook.ts'
import { type QuotaEnforcing, type QuotaOptions, runRouteCheck } from '../../tenants/guard/quota-hook.ts'
import type { Tenant } from '../../tenants/handles/handle.ts'
import type { Names } from '../../tenants/tenant/names.ts'
import {
  admission,
  appendHeaders,
  type GuardCallbacks,
  NodeRequest,
  runGuard,
  sendRejection,
  sendRouteError,
} from './guarded.ts'
import { type ImpersonationCallbacks, type ImpersonationOptions, impersonationMiddleware } from './impersonated.ts'
import { measure } from './measured.ts'

/** `tenant` is undefined on central and ignored paths, and on universal ones without a tenant. */
export type GuardedListener<Result, T extends Tenant = Tenant> = (
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  tenant: T | undefined,
) => Result

/**
 * Returns a listener that calls yours with the tenant of the request, in its context; undefined on central and ignored paths. Responds
 * to a rejected request. The promise is the promise of your listener and rejects with errors that are not Tenantry's: you handle those.
 *
 *   const guarded = guard(tenancy.guard({ resolve: fromHeader(), authorize, ignore: ['/health'] }), orders)
 *   const failed = problemHandler(tenancy.kernel.log)
 *   createServer((req, res) => {
 *     guarded(req, res).catch((error) => failed(error, req, res) || res.writeHead(500).end())
 *   })
 */
export function guard<Result, DB, N extends Names>(
  by: Guard<DB, N>,
  listener: GuardedListener<Result | Promise<Result>, Tenant<DB, N>>,
): (incoming: IncomingMessage, outgoing: ServerResponse) => Promise<Result | undefined> {
  return (incoming, outgoing) =>
    admission(
      (callbacks: GuardCallbacks) =>
        runGuard(by, new NodeRequest(incoming, incoming), incoming.socket.remoteAddress, callbacks),
      async ({ tenant }, requestId) => {
        if (outgoing.headersSent) return undefined // your timeout has sent a response
        if (requestId !== null) outgoing.setHeader('x-request-id', requestId)
        measure(by.traffic, tenant, outgoing)
        return await listener(incoming, outgoing, tenant as Tenant<DB, N> | undefined)
      },
      (error) => sendOrThrow(outgoing, error),
    )
}

/**
 * Returns a listener for `guard` that calls yours if the quota is sufficient, and responds with 429 otherwise. The headers `RateLimit`
 * and `RateLimit-Policy` contain the rest of the quota.
 *
 *   const guarded = guard(tenancy.guard({ resolve: fromHeader(), authorize }), enforceQuota(tenancy.quotas, 'exports', exports))
 */
export function enforceQuota<Quota extends string, Result, T extends Tenant = Tenant>(
  quotas: QuotaEnforcing<Quota>,
  quota: NoInfer<Quota>,
  listener: GuardedListener<Result | Promise<Result>, T>,
  options?: QuotaOptions<IncomingMessage>,
): GuardedListener<Promise<Result | undefined>, T> {
  const routeCheck = quotas.enforcement(quota, options)
  return async (incoming, outgoing, tenant) => {
    let headers: Readonly<Record<string, string>>
    try {
      headers = await runRouteCheck(routeCheck, incoming, tenant)
    } catch (error) {
      return sendOrThrow(outgoing, error)
    }
    if (outgoing.headersSent) return undefined // your timeout has sent a response
    appendHeaders(outgoing, headers)
    return await listener(incoming, outgoing, tenant)
  }
}

export type ImpersonatedListener<Result, T extends Tenant = Tenant> = (
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  tenant: T | undefined,
  impersonation: ActiveImpersonation | undefined,
) => Result

/**
 * Returns a listener for `guard` that calls yours with the impersonation of the request; undefined without one. The audit log records a
 * request with an impersonation token before your listener runs. Responds to a request with an invalid token, or without a record. Place
 * `enforceQuota` before it.
 *
 *   const guarded = guard(tenancy.guard({ resolve: fromHeader(), authorize }), impersonation(tenancy.impersonation, orders))
 */
export function impersonation<Result, T extends Tenant = Tenant>(
  by: Impersonating,
  listener: ImpersonatedListener<Result | Promise<Result>, T>,
  options?: ImpersonationOptions,
): GuardedListener<Promise<Result | undefined>, T> {
  const middleware = impersonationMiddleware(by, options)
  return (incoming, outgoing, tenant) =>
    admission(
      (callbacks: ImpersonationCallbacks) => middleware(new NodeRequest(incoming, incoming), tenant, callbacks),
      async (impersonation) => {
        if (outgoing.headersSent) return undefined // your timeout has sent a response
        return await listener(incoming, outgoing, tenant, impersonation)
      },
      (error) => sendOrThrow(outgoing, error),
    )
}

/** Responds to a Tenantry error of your listener, unless the response has started. Returns false for an error that you handle. */
export function problemHandler(
  log: Pick<Logger, 'warn'>,
): (error: unknown, incoming: IncomingMessage, outgoing: ServerResponse) => boolean {
  return (error, incoming, outgoing) => sendRouteError(outgoing, error, log, new NodeRequest(incoming, incoming))
}

async function sendOrThrow(outgoing: ServerResponse, error: unknown): Promise<undefined> {
  if (!sendRejection(outgoing, error)) throw error
}
