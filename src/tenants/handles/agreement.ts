/** The tenant of the context, compared with the tenant that something is asked of. */
import { currentContext, NO_TENANT } from '../../kernel/base/context.ts'
import { TenantMismatch } from '../tenant/errors.ts'

/** The id of the tenant of the context. Throws `E_TENANT_MISMATCH` when there is none. */
export function tenantOfContext(): string {
  const { tenantId } = currentContext()
  if (tenantId) return tenantId
  throw TenantMismatch(
    'This work is for no tenant: take a handle with tenancy.tenant(id), or do it inside a guarded request or tenancy.run(id, ..).',
  )
}

/** An explicit handle must be of the tenant that the context names, if it names one. */
export function assertAgrees(id: string): void {
  const { tenantId } = currentContext()
  if (tenantId === undefined || tenantId === null || tenantId === id) return
  throw mismatch(tenantId, id)
}

/** The ids are for the log alone: whoever asked for one tenant does not learn of another. */
function mismatch(scope: string, requested: string): Error {
  const cause = new Error(
    `the context is of ${scope === NO_TENANT ? 'a central route' : `"${scope}"`}, not of "${requested}"`,
  )
  const detail =
    scope === NO_TENANT
      ? 'No tenant may be used on a central route: make the route universal, or guard it.'
      : 'This work is for one tenant and may not use another: do that outside of its request, job or tenancy.run(), or in tenancy.withoutTenant().'
  return TenantMismatch(detail, { cause })
}
