/** Tenants whose usage is counted. */
import { tenantNotFound } from '../../tenants/tenant/errors.ts'
import type { TenantRecord } from '../../tenants/tenant/tenant.ts'
import type { Tenants } from '../../tenants/tenants.ts'

type Registry = Pick<Tenants['registry'], 'peek' | 'find'>

/** Deleted tenants are included until their purge. @throws E_TENANT_NOT_FOUND */
export async function knownTenant(registry: Registry, tenantId: string): Promise<TenantRecord> {
  const located = registry.peek(tenantId) ?? (await registry.find(tenantId))
  if (!located) throw tenantNotFound(tenantId)
  return located.tenant
}

/** @throws E_TENANT_NOT_FOUND, also for a deleted tenant */
export function usableTenant(registry: Registry, tenantId: string): TenantRecord | Promise<TenantRecord> {
  const located = registry.peek(tenantId) // never a deleted tenant
  if (located) return located.tenant
  return knownTenant(registry, tenantId).then((tenant) => {
    if (tenant.status === 'deleted') throw tenantNotFound(tenantId)
    return tenant
  })
}
