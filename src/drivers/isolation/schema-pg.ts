/**
 * Isolates each tenant in its own schema of the placement's database.
 *
 * The host's tables belong to the role of `url`. Queries run as the tenant login, which takes the scope role and the
 * tenant's `search_path` for one transaction (scoped-connection.ts). The fence revokes that role's USAGE of the schema.
 */
import pg from 'pg'
import { sqlState } from '../../kernel/database/database.ts'
import type { IsolationDriver } from '../../tenants/isolation/driver.ts'
import { readRecord } from './adoption/records.ts'
import { GENERATED } from './adoption/schema-plan.ts'
import { auditSchemas } from './audit/audit.ts'
import { ownStorage } from './own-storage.ts'
import type { PostgresOptions } from './postgres-dialect.ts'
import { postgresDriver } from './postgres-driver.ts'
import type { PostgresServer } from './server/postgres-server.ts'
import { inTransaction } from './transactions/owner-transaction.ts'

export interface SchemaPgOptions extends PostgresOptions {
  /**
   * How Kysely names tables. `path` (default) uses the search path. `qualified` puts the schema before each name, for
   * tools that read statements without a search path. A qualified handle belongs to the schema that its tenant had when
   * it was created: create one for each request, because an earlier schema rejects its statements.
   */
  readonly names?: 'path' | 'qualified' | undefined
}

const INVALID_SCHEMA = '3F000'
/**
 * Two transactions changed the rights of one schema concurrently. PostgreSQL has no lock for this and fails one of
 * them.
 */
const CONCURRENTLY_UPDATED = 'XX000'
const ATTEMPTS = 5

/**
 * Isolation driver with one schema for each tenant.
 *
 * @example
 * const driver = schemaPg({ names: 'qualified' })
 */
export function schemaPg({ names = 'path', ...options }: SchemaPgOptions = {}): IsolationDriver {
  return postgresDriver(
    {
      name: 'schema-pg',
      options: { names },
      capabilities: { separateStorage: true, reach: 'shared database' },
      locator: (tenantId, epoch) => `t${epoch}_${tenantId}`,
      tables: ({ locator }) => ({ schema: locator }),
      scope: ({ locator }) => ({ openSchema: locator, isMarked: true }),
      schemaOf: names === 'qualified' ? ({ locator }) => locator : undefined,

      migratesAtOnce: true,
      adopts: { of: 'schema' },
      ...ownStorage(),

      /** A repeated drop keeps a schema that the host has created with the name of an adopted one. */
      drop: ({ server, schema, tenantId }) =>
        server.administer(schema, async (client) => {
          const isAdopted = !GENERATED.test(schema)
          if (isAdopted && (await readRecord(client, { schema }))?.tenantId !== tenantId) return
          const locator = pg.escapeLiteral(schema)
          await client.query(`drop schema if exists ${pg.escapeIdentifier(schema)} cascade;
            delete from tenantry.migrations where locator = ${locator}; delete from tenantry.adoptions where locator = ${locator}`)
        }),

      async inventory(server) {
        const { rows } = await server.ownedWithTimeout((client) => client.query(MADE_HERE, [server.scopeRole]))
        return rows
      },

      fence: ({ server, schema }) => changeUsage(server, schema, 'revoke', 'from'),
      unfence: ({ server, schema }) => changeUsage(server, schema, 'grant', 'to'),

      async isFenced({ server, schema }) {
        const { rows } = await server.ownedWithTimeout((client) =>
          client.query(`select has_schema_privilege($1, oid, 'usage') as open from pg_namespace where nspname = $2`, [
            server.scopeRole,
            schema,
          ]),
        )
        return rows[0]?.open !== true
      },

      audit: (servers, locations) => auditSchemas(servers, locations, options),
    },
    options,
  )
}

/** The schemas with those rights, fenced or not. */
const MADE_HERE = `
  select nspname as locator, not has_schema_privilege(scope.oid, n.oid, 'usage') as "isFenced"
  from pg_namespace n, (select oid from pg_roles where rolname = $1) scope
  where n.oid in (select defaclnamespace from pg_default_acl, aclexplode(defaclacl) where grantee = scope.oid)
  order by nspname`

/**
 * A missing schema needs no fence and gets its rights when it is created. Runs in a transaction whose COMMIT is sent
 * only by a caller that still waits: an abandoned change must not take effect after a later one.
 */
async function changeUsage(server: PostgresServer, locator: string, what: 'grant' | 'revoke', word: string) {
  const [schema, role] = [locator, server.scopeRole].map((name) => pg.escapeIdentifier(name))
  const text = `${what} usage on schema ${schema} ${word} ${role};
    select has_schema_privilege(${pg.escapeLiteral(server.scopeRole)}, ${pg.escapeLiteral(locator)}, 'usage') as open`
  for (let attempt = 1; ; attempt++) {
    try {
      await server.ownedWithTimeout((client) =>
        inTransaction(client, async () => {
          const [, result] = (await client.query(text)) as unknown as pg.QueryResult[]
          if (what === 'revoke' && result?.rows[0].open) throw new Error(openByOthers(server.scopeRole, locator))
        }),
      )
      return
    } catch (error) {
      if (sqlState(error) === INVALID_SCHEMA) return
      if (sqlState(error) !== CONCURRENTLY_UPDATED || attempt === ATTEMPTS) throw error
    }
  }
}

const openByOthers = (role: string, schema: string): string =>
  `The role "${role}" may use the schema "${schema}" by a right that Tenantry did not grant. Revoke USAGE from PUBLIC and from the ` +
  'roles of which it is a member'
