/** Compares the tenant of the context with the tenant of a handle. */
import { currentContext, NO_TENANT } from '../../kernel/base/context.ts'
import { TenantMismatch } from '../tenant/errors.ts'

/** The id of the tenant of the context. Throws `E_TENANT_MISMATCH` if there is none. */
export function tenantOfContext(): string {
  const { tenantId } = currentContext()
  if (tenantId) return tenantId
  throw TenantMismatch(
    'The context has no tenant. Use a handle from tenancy.tenant(id), a guarded request, or tenancy.run(id, ..).',
  )
}

/** Throws `E_TENANT_MISMATCH` unless the tenant equals the tenant of the context, if there is one. */
export function assertAgrees(id: string): void {
  const { tenantId } = currentContext()
  if (tenantId === undefined || tenantId === null || tenantId === id) return
  throw mismatch(tenantId, id)
}

/** The ids are only for the log: code of one tenant must not learn of another. */
function mismatch(scope: string, requested: string): Error {
  const cause = new Error(
    `the context has ${scope === NO_TENANT ? 'no tenant (central route)' : `tenant "${scope}"`}, not "${requested}"`,
  )
  const detail =
    scope === NO_TENANT
      ? 'A central route cannot use a tenant. Make the route universal, or guard it.'
      : 'The context belongs to one tenant and cannot use another. Use the other tenant outside of this request, job or tenancy.run(), or in tenancy.withoutTenant().'
  return TenantMismatch(detail, { cause })
}
