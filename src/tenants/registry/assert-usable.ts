/** Whether a tenant may be used now, in the order of the contract's section 9. */
import { TenantInMaintenance, TenantIsSuspended, TenantNotReady, tenantNotFound } from '../tenant/errors.ts'
import type { Tenant } from '../tenant/tenant.ts'

const NOT_READY_RETRY_SECONDS = 5

/** Throws what a guarded route answers. A deleted tenant is answered as one that never was, so that ids cannot be probed. */
export function assertUsable({ id, status, maintenance }: Tenant): void {
  if (status === 'deleted') throw tenantNotFound(id)
  if (status === 'suspended') throw TenantIsSuspended('The tenant is suspended.')
  if (status !== 'active') {
    throw TenantNotReady('The tenant is not ready yet.', { retryAfterSeconds: NOT_READY_RETRY_SECONDS })
  }
  if (maintenance) {
    throw TenantInMaintenance(maintenance.message ?? 'The tenant is in maintenance.', {
      retryAfterSeconds: maintenance.retryAfterSeconds,
    })
  }
}
