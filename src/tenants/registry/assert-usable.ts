/** Checks whether a tenant is usable, in the order of section 9 of the contract. */
import { TenantInMaintenance, TenantIsSuspended, TenantNotReady, tenantNotFound } from '../tenant/errors.ts'
import type { TenantRecord } from '../tenant/tenant.ts'

const NOT_READY_RETRY_SECONDS = 5

type Usable = Pick<TenantRecord, 'id' | 'status' | 'maintenance'>

/** The rules in their order. Each throws the error of a guarded route. A deleted tenant is not found, so that ids cannot be probed. */
export const USABLE_RULES = [
  {
    check: 'exists',
    assert({ id, status }: Usable): void {
      if (status === 'deleted') throw tenantNotFound(id)
    },
  },
  {
    check: 'status',
    assert({ status }: Usable): void {
      if (status === 'suspended') throw TenantIsSuspended('The tenant is suspended.')
    },
  },
  {
    check: 'ready',
    assert({ status }: Usable): void {
      if (status === 'active' || status === 'suspended') return
      throw TenantNotReady('The tenant is not ready yet.', { retryAfterSeconds: NOT_READY_RETRY_SECONDS })
    },
  },
  {
    check: 'maintenance',
    assert({ maintenance }: Usable): void {
      if (!maintenance) return
      throw TenantInMaintenance(maintenance.message ?? 'The tenant is in maintenance.', {
        retryAfterSeconds: maintenance.retryAfterSeconds,
      })
    },
  },
] as const

/** Throws the error of a guarded route. */
export function assertUsable(tenant: TenantRecord): void {
  for (const rule of USABLE_RULES) rule.assert(tenant)
}
