/** Adapters that keep ORMs inside the scope of a tenant. See docs/embedding.md, "Libraries and ORMs". */
import { TableNode } from 'kysely'
import { TenancyError } from '../../kernel/base/errors.ts'
import { TenantScopeRequired } from '../tenant/errors.ts'
import type { Tenant } from './handle.ts'
import { TenantClient } from './pg-client.ts'
import type { TenantPg } from './pg-module.ts'

/** Placeholder of the tenant's schema in the SQL of Prisma. No such schema exists, so a missed replacement fails. */
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
 * Creates Prisma's own adapter for one tenant. A `PrismaClient` belongs to one tenant, as it merges queries of one
 * tick. With `names: 'qualified'`, its SQL contains the schema of the handle; `tenancy.perTenant` builds another client
 * after a move. Connecting throws `E_TENANT_SCOPE_REQUIRED` if the adapter does not use the clients of the handle.
 *
 * @example
 *   const prisma = new PrismaClient({ adapter: prismaAdapter(PrismaPg, tenant) })
 */
export function prismaAdapter<Factory extends AdapterFactory>(
  PrismaPg: new (pool: any, options: { schema: string }) => Factory,
  tenant: Pick<Tenant, 'pool' | 'db'>,
): Factory {
  const factory = new PrismaPg(tenant.pool, { schema: SCHEMA })
  return overriding(factory, {
    async connect() {
      const adapter: Adapter = await factory.connect()
      const { Client } = adapter.underlyingDriver() as { Client?: { prototype: unknown } }
      if (!(Client?.prototype instanceof TenantClient)) {
        throw TenantScopeRequired(
          'prismaAdapter requires the handle of one tenant, and the PrismaPg of @prisma/adapter-pg.',
        )
      }
      const schema = schemaOf(tenant)
      const qualifier = schema === undefined ? '' : `${Client.prototype.escapeIdentifier(schema)}.`
      return overriding(inSchema(adapter, qualifier), {
        startTransaction: async (level?: unknown) =>
          inSchema(await adapter.startTransaction(level).catch(rethrow), qualifier),
      })
    },
  })
}

/** The schema that the handle adds to table names: with `names: 'qualified'`. */
function schemaOf({ db }: Pick<Tenant, 'db'>): string | undefined {
  const [table] = db.selectFrom('any').toOperationNode().from?.froms ?? []
  return table && TableNode.is(table) ? table.table.schema?.name : undefined
}

function inSchema<Target extends Queryable>(target: Target, qualifier: string): Target {
  const renamed = (query: any) => ({ ...query, sql: query.sql.replaceAll(QUALIFIER, () => qualifier) })
  return overriding(target, {
    queryRaw: (query) => target.queryRaw(renamed(query)).catch(rethrow),
    executeRaw: (query) => target.executeRaw(renamed(query)).catch(rethrow),
  } satisfies Queryable as Partial<Target>)
}

/** Prisma throws its own error, with `code` and `meta` of this one. */
function rethrow(error: unknown): never {
  if (error instanceof TenancyError) {
    Object.defineProperty(error, 'meta', { value: { tenancyError: error }, configurable: true })
  }
  throw error
}

/** A view of the target with additional methods; the target's own methods run on the target itself. */
const overriding = <Target extends object>(target: Target, methods: object): Target =>
  Object.assign(Object.create(target) as Target, methods)

/**
 * Options for Sequelize that omit its statements on connect: several statements in one text, which a scope rejects.
 *
 * @example
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
 * Creates a client class of Knex on `tenancy.pg`, for all tenants, or on `tenant.pg`.
 *
 * @example
 *   const knex = createKnex({ client: knexClient(Client_PG, tenancy.pg), connection: {} })
 */
export const knexClient = <Base extends new (...given: any[]) => object>(ClientPg: Base, pg: TenantPg): Base =>
  class extends ClientPg {
    _driver(): TenantPg {
      return pg
    }
  }
