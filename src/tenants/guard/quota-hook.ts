/**
 * What a guarded route asks of a request beside its tenant: what the tenant may use of a quota. Framework-free, as the guard is; the
 * hosts' adapters (http/hosts) put it after the guard and answer what it throws.
 */
import { TenantNotIdentified } from '../tenant/errors.ts'
import type { Tenant } from '../tenant/tenant.ts'
import type { GuardedTenant } from './guard.ts'

export interface RouteCheck<Raw = any> {
  /** Returns headers for the response; rejects with what the request is to be answered instead. */
  run(request: Raw, tenant: Tenant): Promise<Readonly<Record<string, string>>>
}

export interface QuotaOptions<Raw = any> {
  /** False: what is used is counted, and nobody is refused. Default true. */
  readonly enforce?: boolean
  /** How much a request uses, a whole number of 0 or more, or what says so of the request; default 1. */
  readonly amount?: number | ((request: Raw) => number | Promise<number>)
}

/** The part of `tenancy.quotas` that a route needs. */
export interface QuotaEnforcing {
  enforcement<Raw>(quota: string, options?: QuotaOptions<Raw>): RouteCheck<Raw>
}

/** Of a request that the guard has let through with a tenant; without one there is nobody whose quota it could be. */
export async function runRouteCheck<Raw>(
  routeCheck: RouteCheck<Raw>,
  request: Raw,
  tenant: GuardedTenant | undefined,
): Promise<Readonly<Record<string, string>>> {
  if (!tenant) {
    throw TenantNotIdentified(
      'This route has a quota, and the request has no tenant. (guard() comes before enforceQuota(), and its path is not central or ignored; on a universal path the request has to name a tenant.)',
    )
  }
  return routeCheck.run(request, tenant.record)
}
