/**
 * A schema for each tenant, in the placement's database.
 *
 * Provisioning is one transaction under a lock of its tenant: the schema, the grants and the host's migrations exist together
 * or not at all. The host's tables belong to the role of `url`; queries run as the tenant login, which takes the scope role
 * and the tenant's `search_path` for one transaction (see postgres-scope.ts).
 */
import { Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from 'kysely'
import pg from 'pg'
import type { DriverEnvironment, IsolationDriver, Place, TenantHandle } from '../../tenants/isolation.ts'
import { PostgresMigrator } from './postgres-migrator.ts'
import { ScopedDriver } from './postgres-scope.ts'
import { PostgresServer } from './postgres-server.ts'

export interface SchemaPgOptions {
  /** Connections for tenants' queries, per placement; default 10. */
  readonly maxConnections?: number
  /** A schema with extensions' types, searched after the tenant's own; tenants must not be able to write to it. */
  readonly extensionsSchema?: string
}

/** The driver `schema-pg`. */
export function schemaPg({ maxConnections = 10, extensionsSchema }: SchemaPgOptions = {}): IsolationDriver {
  const servers = new Map<string, PostgresServer>()
  let migrator: PostgresMigrator

  const serverOf = ({ placement }: Place): PostgresServer => {
    const server = servers.get(placement)
    if (!server) throw new Error(`the placement "${placement}" is not configured in this process`)
    return server
  }
  const searchPath = (locator: string): string =>
    [locator, ...(extensionsSchema ? [extensionsSchema] : []), 'pg_temp']
      .map((name) => pg.escapeIdentifier(name))
      .join(', ')

  return {
    name: 'schema-pg',
    capabilities: { engine: 'postgres', separateStorage: true },

    async start({ placements, migrations, log }: DriverEnvironment) {
      if (servers.size > 0) throw new Error('a driver serves one tenancy: make another with schemaPg()')
      migrator = new PostgresMigrator(migrations)
      for (const urls of placements.values()) servers.set(urls.name, new PostgresServer(urls, maxConnections, log))
    },

    locator: (tenantId, epoch) => `t${epoch}_${tenantId}`,

    provision(place) {
      const server = serverOf(place)
      const schema = pg.escapeIdentifier(place.locator)
      return server.administer(place.locator, async (client) => {
        await client.query(
          `create schema if not exists ${schema}; ${grants(schema, pg.escapeIdentifier(server.scopeRole))}`,
        )
        return migrator.install(client, place.locator, searchPath(place.locator))
      })
    },

    migrate: (place) =>
      serverOf(place).administer(place.locator, (client) =>
        migrator.up(client, place.locator, searchPath(place.locator)),
      ),

    rollback: (place, steps) =>
      serverOf(place).administer(place.locator, (client) =>
        migrator.down(client, place.locator, searchPath(place.locator), steps),
      ),

    handle(place): TenantHandle {
      const server = serverOf(place)
      const driver = new ScopedDriver(server.tenants, {
        tenantId: place.tenantId,
        searchPath: searchPath(place.locator),
        role: server.scopeRole,
      })
      const db = new Kysely<any>({
        dialect: {
          createAdapter: () => new PostgresAdapter(),
          createDriver: () => driver,
          createIntrospector: (kysely) => new PostgresIntrospector(kysely),
          createQueryCompiler: () => new PostgresQueryCompiler(),
        },
      })
      return { id: place.tenantId, db, transaction: (work) => db.transaction().execute(work) }
    },

    async drop(place) {
      await serverOf(place).administer(place.locator, async (client) => {
        await client.query(`drop schema if exists ${pg.escapeIdentifier(place.locator)} cascade`)
        await migrator.forget(client, place.locator)
      })
    },

    async stop() {
      for (const server of servers.values()) await server.close()
      servers.clear()
    },
  }
}

/** Rights by default privileges: `GRANT … ON ALL TABLES` would read the whole catalog for every tenant. */
const grants = (schema: string, role: string): string =>
  `grant usage on schema ${schema} to ${role};
   alter default privileges in schema ${schema} grant select, insert, update, delete on tables to ${role};
   alter default privileges in schema ${schema} grant usage, select on sequences to ${role};
   alter default privileges in schema ${schema} grant execute on functions to ${role};`
