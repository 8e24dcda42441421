/**
 * The tenant of the work in progress, as the async context has it: set by a guarded request, a tenant's job, or `run`.
 *
 * The context is a convenience and never the only word: a handle is explicit, and the two must agree. Work for one tenant may
 * not use the storage of another, and work on a central route may use none.
 */
import type { Dialect } from 'kysely'
import { currentContext, enterContext } from '../../kernel/base/context.ts'
import type { Logger } from '../../kernel/base/logger.ts'
import type { Registry } from '../registry/registry.ts'
import { assertAgrees, tenantOfContext } from './agreement.ts'
import type { TenantHandle } from './handle.ts'
import { tenantDialect } from './kysely.ts'
import { type PerTenant, type PerTenantOptions, TenantClients } from './per-tenant.ts'
import { type TenantPg, tenantPg } from './pg-module.ts'
import { rejectSettings } from './rejected-settings.ts'
import type { TenantSource } from './router.ts'

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
   * One client of a library for each tenant, for libraries that cannot share one: built once, and disposed when it is the least
   * recently used of more than `max`, when the tenant is deleted, and when the tenancy stops; never while it is in use.
   *
   *   const clients = tenancy.perTenant((tenant) => new PrismaClient({ adapter: prismaAdapter(PrismaPg, tenant) }), {
   *     max: 200,
   *     dispose: (prisma) => prisma.$disconnect(),
   *   })
   *   await clients.current((prisma) => prisma.notes.findMany())
   *   await clients.of('acme', (prisma) => prisma.notes.findMany())
   */
  perTenant<Client>(
    build: (tenant: TenantHandle) => Client | Promise<Client>,
    options: PerTenantOptions<Client>,
  ): PerTenant<Client>
  /**
   * A module in the shape of `pg` for libraries that have one instance for all tenants (TypeORM, Sequelize, Knex): each statement goes
   * to the tenant of the context, and none is `E_TENANT_MISMATCH`.
   */
  readonly pg: TenantPg
  /** A dialect of Kysely for PostgreSQL, for MikroORM and Kysely itself; bound to the context as `pg` is. */
  readonly dialect: Dialect
}

export interface ScopedTenants {
  /** Of a tenant that may be used now; throws otherwise. */
  handle(id: string): Promise<TenantHandle>
  readonly handles: { source(id: string): TenantSource }
  readonly registry: Pick<Registry, 'find' | 'nextChange'>
}

/** What its owner stops, beside what a host uses of it. */
export interface OwnedScope extends Scope {
  /** Disposes the clients of `perTenant`. Waits no longer than `maxMs` for the uses of them. */
  stopClients(maxMs: number): Promise<void>
}

/**
 * Work is awaited inside its context: Prisma and Knex return promises that send their query when they are awaited.
 *
 * @param backoffice runs work outside of its transaction in progress
 */
export function createScope(
  tenants: ScopedTenants,
  backoffice: { outside<T>(work: () => T): T },
  log: Pick<Logger, 'warn'>,
): OwnedScope {
  const sourceOfContext = () => tenants.handles.source(tenantOfContext())
  const run: Scope['run'] = async (id, work) => {
    assertAgrees(id)
    const tenant = await tenants.handle(id)
    return enterContext({ ...currentContext(), tenantId: tenant.id }, async () => await work(tenant))
  }
  const clients: TenantClients<any>[] = []
  // They become members of the tenancy, which a library could be given too.
  return rejectSettings({
    run,
    current: async () => tenants.handle(tenantOfContext()),
    withoutTenant(work) {
      return backoffice.outside(() => enterContext({ ...currentContext(), tenantId: null }, async () => await work()))
    },
    perTenant(build, options) {
      const made = new TenantClients({ run, registry: tenants.registry, log }, build, options)
      clients.push(made)
      return made
    },
    stopClients: async (maxMs) => {
      await Promise.all(clients.map((made) => made.stop(maxMs)))
    },
    pg: tenantPg(sourceOfContext),
    dialect: tenantDialect(sourceOfContext, 'postgres'),
  })
}
