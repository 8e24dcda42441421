/**
 * Enforces the quota of a tenant on guarded routes. Framework-free; the adapters of hosts (http/hosts) call it after
 * the guard and respond with its errors.
 */

import type { Tenant } from '../handles/handle.ts'
import { TenantNotIdentified } from '../tenant/errors.ts'
import type { TenantRecord } from '../tenant/tenant.ts'

export interface RouteCheck<Raw = any> {
  /** Returns headers for the response. Rejects with the error for the response. */
  run(request: Raw, tenant: TenantRecord): Promise<Readonly<Record<string, string>>>
}

export interface QuotaOptions<Raw = any> {
  /** False: usage is counted and never rejected. Default true. */
  readonly enforce?: boolean
  /** Usage of one request, an integer of 0 or more, or a function that returns it; default 1. */
  readonly amount?: number | ((request: Raw) => number | Promise<number>)
}

/** The part of `tenancy.quotas` that routes need. */
export interface QuotaEnforcing<Quota extends string = string> {
  enforcement<Raw>(quota: Quota, options?: QuotaOptions<Raw>): RouteCheck<Raw>
}

/** Runs for a request that the guard has admitted with a tenant; throws without a tenant. */
export async function runRouteCheck<Raw>(
  routeCheck: RouteCheck<Raw>,
  request: Raw,
  tenant: Tenant | undefined,
): Promise<Readonly<Record<string, string>>> {
  if (!tenant) {
    throw TenantNotIdentified(
      'This route has a quota, but the request has no tenant. Call guard() before enforceQuota(). The path must not be central or ignored, and a request of a universal path must name a tenant.',
    )
  }
  return routeCheck.run(request, tenant.record)
}
