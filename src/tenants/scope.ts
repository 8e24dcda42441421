/**
 * The tenant of the work in progress, as the async context has it: set by a guarded request, a tenant's job, or `run`.
 *
 * The context is a convenience and never the only word: a handle is explicit, and the two must agree. Work for one tenant may
 * not use the storage of another, and work on a central route may use none.
 */
import type { Dialect } from 'kysely'
import { currentContext, enterContext } from '../kernel/context.ts'
import { assertAgrees, tenantOfContext } from './agreement.ts'
import type { TenantHandle } from './isolation.ts'
import { tenantDialect } from './tenant-db.ts'
import { type TenantPg, tenantPg } from './tenant-pg.ts'
import type { TenantSource } from './tenant-source.ts'

export interface Scope {
  /** Runs `work` for one tenant: `current()` answers its handle inside, and the storage of others is refused. */
  run<T>(id: string, work: (tenant: TenantHandle) => T | Promise<T>): Promise<T>
  /** The handle of the tenant that the work in progress is for: of a guarded request, or of `run`; else `E_TENANT_MISMATCH`. */
  current(): Promise<TenantHandle>
  /**
   * Runs `work` for no tenant: the only way to leave the tenant of the work in progress. The request and the actor stay, the
   * backoffice transaction in progress does not.
   */
  withoutTenant<T>(work: () => T | Promise<T>): Promise<T>
  /**
   * A module in the shape of `pg` for libraries that have one instance for all tenants (TypeORM, Sequelize, Knex): each statement goes
   * to the tenant of the context, and none is `E_TENANT_MISMATCH`.
   */
  readonly pg: TenantPg
  /** A dialect of Kysely for PostgreSQL, for MikroORM and Kysely itself; bound to the context as `pg` is. */
  readonly dialect: Dialect
}

interface ScopedTenants {
  /** Of a tenant that may be used now; throws otherwise. */
  handle(id: string): Promise<TenantHandle>
  readonly handles: { source(id: string): TenantSource }
}

/**
 * Work is awaited inside its context: Prisma and Knex return promises that send their query when they are awaited.
 *
 * @param backoffice runs work outside of its transaction in progress
 */
export function createScope(tenants: ScopedTenants, backoffice: { outside<T>(work: () => T): T }): Scope {
  const sourceOfContext = () => tenants.handles.source(tenantOfContext())
  return {
    async run(id, work) {
      assertAgrees(id)
      const tenant = await tenants.handle(id)
      return enterContext({ ...currentContext(), tenantId: tenant.id }, async () => await work(tenant))
    },
    current: async () => tenants.handle(tenantOfContext()),
    withoutTenant(work) {
      return backoffice.outside(() => enterContext({ ...currentContext(), tenantId: null }, async () => await work()))
    },
    pg: tenantPg(sourceOfContext),
    dialect: tenantDialect(sourceOfContext, 'postgres'),
  }
}
