/** What libraries need to stay inside a tenant's scope. See docs/embedding.md, "Libraries and ORMs". */
import { TableNode } from 'kysely'
import { TenantScopeRequired } from '../tenant/errors.ts'
import type { TenantHandle } from './handle.ts'
import { TenantClient } from './pg-client.ts'
import type { TenantPg } from './pg-module.ts'

/** Stands for the tenant's schema in the SQL that Prisma writes; there is no such schema, so a replacement that is missed fails. */
const SCHEMA = 'tenantry$tenant'
const QUALIFIER = `"${SCHEMA}".`

interface Queryable {
  queryRaw(query: any): Promise<any>
  executeRaw(query: any): Promise<any>
}
interface Adapter extends Queryable {
  startTransaction(isolationLevel?: any): Promise<any>
  underlyingDriver(): unknown
}
interface AdapterFactory {
  connect(): Promise<any>
}

/**
 * Prisma's own adapter for one tenant. A `PrismaClient` belongs to one tenant: it merges queries of one tick into one. With
 * `names: 'qualified'` its SQL names the schema that the tenant had when the handle was taken; `tenancy.perTenant` builds another
 * client after a move.
 *
 *   const prisma = new PrismaClient({ adapter: prismaAdapter(PrismaPg, tenant) })
 *
 * Connecting throws `E_TENANT_SCOPE_REQUIRED` when the adapter does not use the clients of the handle.
 */
export function prismaAdapter<Factory extends AdapterFactory>(
  PrismaPg: new (pool: any, options: { schema: string }) => Factory,
  tenant: Pick<TenantHandle, 'pool' | 'db'>,
): Factory {
  const factory = new PrismaPg(tenant.pool, { schema: SCHEMA })
  return overriding(factory, {
    async connect() {
      const adapter: Adapter = await factory.connect()
      const { Client } = adapter.underlyingDriver() as { Client?: { prototype: unknown } }
      if (!(Client?.prototype instanceof TenantClient)) {
        throw TenantScopeRequired(
          'prismaAdapter takes the handle of one tenant, and the PrismaPg of @prisma/adapter-pg.',
        )
      }
      const schema = schemaOf(tenant)
      const qualifier = schema === undefined ? '' : `${Client.prototype.escapeIdentifier(schema)}.`
      return overriding(inSchema(adapter, qualifier), {
        startTransaction: async (level?: unknown) => inSchema(await adapter.startTransaction(level), qualifier),
      })
    },
  })
}

/** The schema that the handle puts before the names of tables: with `names: 'qualified'`. */
function schemaOf({ db }: Pick<TenantHandle, 'db'>): string | undefined {
  const [table] = db.selectFrom('any').toOperationNode().from?.froms ?? []
  return table && TableNode.is(table) ? table.table.schema?.name : undefined
}

function inSchema<Target extends Queryable>(target: Target, qualifier: string): Target {
  const renamed = (query: any) => ({ ...query, sql: query.sql.replaceAll(QUALIFIER, () => qualifier) })
  return overriding(target, {
    queryRaw: (query) => target.queryRaw(renamed(query)),
    executeRaw: (query) => target.executeRaw(renamed(query)),
  } satisfies Queryable as Partial<Target>)
}

/** The same object to its own methods, with others in front. */
const overriding = <Target extends object>(target: Target, methods: object): Target =>
  Object.assign(Object.create(target) as Target, methods)

/**
 * Options of Sequelize that leave out what it sends when it connects: several statements in one text, which a scope refuses.
 *
 *   const sequelize = new Sequelize({ dialectModule: tenancy.pg, ...sequelizeDefaults })
 */
export const sequelizeDefaults = {
  dialect: 'postgres',
  standardConformingStrings: false,
  keepDefaultTimezone: true,
  databaseVersion: '16.0.0',
  dialectOptions: { clientMinMessages: 'ignore' },
} as const

/**
 * A client of Knex on `tenancy.pg`, for all tenants, or on `tenant.pg`.
 *
 *   const knex = createKnex({ client: knexClient(Client_PG, tenancy.pg), connection: {} })
 */
export const knexClient = <Base extends new (...given: any[]) => object>(ClientPg: Base, pg: TenantPg): Base =>
  class extends ClientPg {
    _driver(): TenantPg {
      return pg
    }
  }
