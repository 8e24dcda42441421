/**
 * The tenant of the context: set by a guarded request, a tenant's job, or `run`.
 *
 * The context never replaces an explicit handle; the two must agree. Work for one tenant cannot use the storage of
 * another, and a central route cannot use any.
 */
import type { Dialect } from 'kysely'
import { currentContext, enterContext } from '../../kernel/base/context.ts'
import type { Logger } from '../../kernel/base/logger.ts'
import type { Statement } from '../isolation/driver.ts'
import type { Registry } from '../registry/registry.ts'
import type { Names } from '../tenant/names.ts'
import { assertAgrees, tenantOfContext } from './agreement.ts'
import type { Tenant } from './handle.ts'
import { tenantDialect } from './kysely.ts'
import { type PerTenant, type PerTenantOptions, TenantClients } from './per-tenant.ts'
import { type TenantPg, tenantPg } from './pg-module.ts'
import { rejectSettings } from './rejected-settings.ts'
import type { TenantSource } from './router.ts'
import { type Backoffice, factSource } from './server-facts.ts'

export interface Scope<DB = any, N extends Names = Names> {
  /**
   * Runs `work` in the context of one tenant: `current()` returns its handle, and the storage of others is rejected.
   *
   * @example
   *   await tenancy.run('acme', (tenant) => tenant.db.selectFrom('notes').selectAll().execute())
   */
  run<T>(id: string, work: (tenant: Tenant<DB, N>) => T | Promise<T>): Promise<T>
  /** The handle of the tenant of the context, from a guarded request or `run`. `E_TENANT_MISMATCH` if there is none. */
  current(): Promise<Tenant<DB, N>>
  /**
   * Runs `work` without a tenant: the only way to leave the tenant of the context. Keeps the request and the actor, but
   * not the backoffice transaction in progress.
   */
  withoutTenant<T>(work: () => T | Promise<T>): Promise<T>
  /**
   * Keeps one client of a library per tenant, for libraries that cannot share one. A client is disposed if it is the
   * least recently used of more than `max`, if the tenant is deleted, or if the tenancy stops; never while it is in
   * use.
   *
   * @example
   *   const clients = tenancy.perTenant((tenant) => new PrismaClient({ adapter: prismaAdapter(PrismaPg, tenant) }), {
   *     max: 200,
   *     dispose: (prisma) => prisma.$disconnect(),
   *   })
   *   await clients.current((prisma) => prisma.notes.findMany())
   *   await clients.of('acme', (prisma) => prisma.notes.findMany())
   */
  perTenant<Client>(
    build: (tenant: Tenant<DB, N>) => Client | Promise<Client>,
    options: PerTenantOptions<Client>,
  ): PerTenant<Client>
  /**
   * A module with the interface of `pg` for libraries with one instance for all tenants (TypeORM, Sequelize, Knex).
   * Each statement uses the tenant of the context; without one it fails with `E_TENANT_MISMATCH`, except for the
   * statements with which TypeORM starts.
   */
  readonly pg: TenantPg
  /** A dialect of Kysely for PostgreSQL, for MikroORM and Kysely itself; bound to the context like `pg`. */
  readonly dialect: Dialect
}

export interface ScopedTenants {
  /** The handle of a usable tenant; throws otherwise. */
  handle(id: string): Promise<Tenant>
  readonly handles: { source(id: string): TenantSource }
  readonly registry: Pick<Registry, 'find' | 'nextChange'>
}

/** The scope with the methods of its owner. */
export interface OwnedScope extends Scope {
  /** Disposes the clients of `perTenant`. Waits for their uses for at most `maxMs`. */
  stopClients(maxMs: number): Promise<void>
}

/**
 * Awaits work inside its context: Prisma and Knex return promises that send their query when they are awaited.
 */
export function createScope(tenants: ScopedTenants, backoffice: Backoffice, log: Pick<Logger, 'warn'>): OwnedScope {
  const sourceOfContext = (statement?: Statement) =>
    factSource(backoffice, statement) ?? tenants.handles.source(tenantOfContext())
  const run: Scope['run'] = async (id, work) => {
    assertAgrees(id)
    const tenant = await tenants.handle(id)
    return enterContext({ ...currentContext(), tenantId: tenant.id }, async () => await work(tenant))
  }
  const clients: TenantClients<any>[] = []
  // They become members of the tenancy, which a library may receive as a configuration.
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
