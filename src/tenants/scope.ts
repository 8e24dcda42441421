/**
 * The tenant of the work in progress, as the async context has it: set by a guarded request, a tenant's job, or `run`.
 *
 * The context is a convenience and never the only word: a handle is explicit, and the two must agree. Work for one tenant may
 * not use the storage of another, and work on a central route may use none.
 */
import { currentContext, enterContext, NO_TENANT } from '../kernel/context.ts'
import { TenantMismatch } from './errors.ts'
import type { TenantHandle } from './isolation.ts'

export interface Scope {
  /** Runs `work` in the context of a tenant. Throws what its handle would, also when the context is another tenant's. */
  run<T>(id: string, work: (tenant: TenantHandle) => T | Promise<T>): Promise<T>
  /** The handle of the tenant that the work in progress is for; `E_TENANT_MISMATCH` when it is for none. */
  current(): Promise<TenantHandle>
  /** Runs `work` for no tenant: the request and the actor stay, the tenant and the backoffice transaction in progress do not. */
  withoutTenant<T>(work: () => T | Promise<T>): Promise<T>
}

/**
 * Work is awaited inside its context: Prisma and Knex return promises that send their query when they are awaited.
 *
 * @param handle of a tenant that may be used now; throws otherwise
 * @param outside runs work outside of the backoffice transaction in progress
 */
export function createScope(handle: (id: string) => Promise<TenantHandle>, outside: <T>(work: () => T) => T): Scope {
  return {
    async run(id, work) {
      assertAgrees(id)
      const tenant = await handle(id)
      return enterContext({ ...currentContext(), tenantId: tenant.id }, async () => await work(tenant))
    },
    withoutTenant(work) {
      return outside(() => enterContext({ ...currentContext(), tenantId: null }, async () => await work()))
    },
    async current() {
      const { tenantId } = currentContext()
      if (tenantId) return handle(tenantId)
      throw TenantMismatch(
        'This work is for no tenant: take a handle with tenancy.tenant(id), or do it inside a guarded request or tenancy.run(id, ..).',
      )
    },
  }
}

/** An explicit handle must be of the tenant that the context names, if it names one. */
export function assertAgrees(id: string): void {
  const { tenantId } = currentContext()
  if (tenantId === undefined || tenantId === null || tenantId === id) return
  throw mismatch(tenantId, id)
}

/** The ids are for the log alone: whoever asked for one tenant does not learn of another. */
function mismatch(scope: string, asked: string): Error {
  const cause = new Error(
    `the context is of ${scope === NO_TENANT ? 'a central route' : `"${scope}"`}, not of "${asked}"`,
  )
  const detail =
    scope === NO_TENANT
      ? 'No tenant may be used on a central route: make the route universal, or guard it.'
      : 'This work is for one tenant and may not use another: do that outside of its request, job or tenancy.run(), or in tenancy.withoutTenant().'
  return TenantMismatch(detail, { cause })
}
