/** Checks whether a tenant is usable, in the order of section 9 of the contract. */
import { TenantInMaintenance, TenantIsSuspended, TenantNotReady, tenantNotFound } from '../tenant/errors.ts'
import type { TenantRecord } from '../tenant/tenant.ts'

const NOT_READY_RETRY_SECONDS = 5

/** Throws the error of a guarded route. A deleted tenant is not found, so that ids cannot be probed. */
export function assertUsable({ id, status, maintenance }: TenantRecord): void {
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
