/** The tenant of the work in progress, as the async context has it. */
import { currentContext } from '../kernel/context.ts'
import { defineError } from '../kernel/errors.ts'

export const TenantMismatch = defineError('E_TENANT_MISMATCH', 500, 'Another tenant is in scope')

/** An explicit handle must be of the tenant that the context names, if it names one. */
export function assertAgrees(id: string): void {
  const { tenantId } = currentContext()
  if (tenantId === undefined || tenantId === null || tenantId === id) return
  throw TenantMismatch(`A handle of "${id}" is used in work for "${tenantId}"; use tenancy.run to work for another.`)
}
