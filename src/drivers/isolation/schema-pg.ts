/**
 * A schema for each tenant, in the placement's database.
 *
 * Provisioning is one transaction under a lock of its tenant: the schema, the grants and the host's migrations exist together
 * or not at all. The host's tables belong to the role of `url`; queries run as the tenant login, which takes the scope role
 * and the tenant's `search_path` for one transaction (scoped-connection.ts). The fence is that role's right to use the schema.
 */
import pg from 'pg'
import { sqlState } from '../../kernel/database/database.ts'
import {
  type DriverEnvironment,
  type IsolationDriver,
  StorageFenced,
  type StorageLocation,
} from '../../tenants/isolation/driver.ts'
import { auditSchemas } from './audit/audit.ts'
import { copyIn } from './copy/copy-in.ts'
import { copyOut } from './copy/copy-out.ts'
import { advanceForImport } from './copy/sequences.ts'
import { PostgresMigrator } from './migrations/postgres-migrator.ts'
import { rightsIn } from './roles/grants.ts'
import type { ScopeMode } from './scope/scoped-connection.ts'
import type { Scope } from './scope/scoped-query.ts'
import { drainTransactions } from './server/drain.ts'
import { Placements, type ScopeOptions, scopeModeOf } from './server/placements.ts'
import type { PostgresServer } from './server/postgres-server.ts'
import { activityOf } from './server/server-activity.ts'
import { copying } from './transactions/copy-session.ts'
import { inTransaction } from './transactions/owner-transaction.ts'

export interface SchemaPgOptions extends ScopeOptions {
  /** A schema with extensions' types, searched after the tenant's own; tenants must not be able to write to it. */
  readonly extensionsSchema?: string | undefined
  /**
   * How Kysely names tables: `path` (default) leaves them to the search path; `qualified` puts the schema before each, for what
   * reads statements and knows no search path. A handle then belongs to the schema that its tenant had when it was taken: take one
   * for each request, as an earlier schema refuses it.
   */
  readonly names?: 'path' | 'qualified' | undefined
}

const INVALID_SCHEMA = '3F000'
/** Two changed the rights of one schema at the same moment; PostgreSQL has no lock for that, and refuses one. */
const CONCURRENTLY_UPDATED = 'XX000'
const ATTEMPTS = 5

/** The driver `schema-pg`. */
export function schemaPg({ extensionsSchema, names = 'path', ...options }: SchemaPgOptions = {}): IsolationDriver {
  const placements = new Placements('schemaPg()')
  let migrator: PostgresMigrator
  let scopeMode: ScopeMode

  const searchPath = (locator: string): string =>
    [locator, ...(extensionsSchema ? [extensionsSchema] : []), 'pg_temp']
      .map((name) => pg.escapeIdentifier(name))
      .join(', ')
  const scopeOf = ({ tenantId, locator }: StorageLocation, { scopeRole }: PostgresServer): Scope => ({
    tenantId,
    searchPath: searchPath(locator),
    role: scopeRole,
    openSchema: locator,
    isMarked: true,
  })

  return {
    name: 'schema-pg',
    capabilities: {
      engine: 'postgres',
      separateStorage: true,
      durable: true,
      copies: true,
      reach: 'shared database',
      containsTenantSql: false,
    },
    ...(names === 'qualified' ? { schemaOf: ({ locator }: StorageLocation) => locator } : {}),

    async start(environment: DriverEnvironment) {
      placements.open(environment)
      scopeMode = scopeModeOf(options, environment)
      migrator = new PostgresMigrator(environment.migrations)
    },

    locator: (tenantId, epoch) => `t${epoch}_${tenantId}`,

    provision({ placement, locator }, options) {
      const server = placements.server(placement)
      return server.migrating(locator, async (client, read) => {
        await options?.assertNotAbandoned?.()
        await client.query(madeText(locator, server))
        return migrator.install(client, locator, searchPath(locator), read)
      })
    },

    applied: ({ placement, locator }) =>
      placements.server(placement).owned((client) => migrator.applied(client, locator)),

    migrate: ({ placement, locator }, options) =>
      placements
        .server(placement)
        .migrating(locator, (client, read) => migrator.up(client, locator, searchPath(locator), read), {
          ...options,
          atOnce: (client, ms) => migrator.upAtOnce(client, locator, searchPath(locator), ms),
        }),

    rollback: ({ placement, locator }, steps, options) =>
      placements
        .server(placement)
        .migrating(
          locator,
          (client, read) => migrator.down(client, locator, searchPath(locator), steps, read),
          options,
        ),

    execute(location, statement) {
      const server = placements.server(location.placement)
      return server.execute(scopeOf(location, server), scopeMode, statement)
    },

    advanceSequences: ({ placement, locator }, wanted, signal) =>
      placements.server(placement).owned((client) => advanceForImport(client, locator, wanted, { signal })),

    connect(location) {
      const server = placements.server(location.placement)
      return server.connect(scopeOf(location, server), scopeMode)
    },

    async fence({ placement, locator }) {
      await changeUsage(placements.server(placement), locator, 'revoke', 'from')
    },

    async unfence({ placement, locator }) {
      await changeUsage(placements.server(placement), locator, 'grant', 'to')
    },

    async isFenced({ placement, locator }) {
      const server = placements.server(placement)
      const { rows } = await server.ownedWithTimeout((client) =>
        client.query(`select has_schema_privilege($1, oid, 'usage') as open from pg_namespace where nspname = $2`, [
          server.scopeRole,
          locator,
        ]),
      )
      return rows[0]?.open !== true
    },

    mayBeFence: (error) => StorageFenced.matches(error),

    drain: ({ tenantId, placement }, options) => drainTransactions(placements.server(placement), tenantId, options),

    async export({ tenantId, placement, locator }, work, { signal }) {
      const server = placements.server(placement)
      const source = { isolation: 'schema-pg', schema: locator, searchPath: searchPath(locator), tenantId, migrator }
      return copying(server.exports, signal, (hold) => server.owned((client) => copyOut(client, source, work, hold)))
    },

    async import({ tenantId, placement, locator }, copy, { signal, onPhase, assertNotAbandoned }) {
      const server = placements.server(placement)
      const making = madeText(locator, server)
      const storage = { schema: locator, searchPath: searchPath(locator), tenantId, migrator, making }
      migrator.assertKnownMigrations(copy.description.migrations)
      return copying(server.imports, signal, (hold) =>
        server.migrating(
          locator,
          async (client, read) => {
            await assertNotAbandoned?.()
            return copyIn(client, storage, read, copy, { onPhase, log: server.log })
          },
          { hold },
        ),
      )
    },

    async drop({ placement, locator }) {
      await placements.server(placement).administer(locator, async (client) => {
        await client.query(`drop schema if exists ${pg.escapeIdentifier(locator)} cascade`)
        await migrator.forget(client, locator)
      })
    },

    async inventory(placement) {
      const server = placements.server(placement)
      const { rows } = await server.ownedWithTimeout((client) => client.query(MADE_HERE, [server.scopeRole]))
      return rows
    },

    audit: (locations) => auditSchemas(placements, locations, { extensionsSchema }),
    activity: (placement, options) => activityOf(placements.server(placement), options),
    rejectedLogins: () => placements.rejectedLogins(),
    connections: () => placements.connections(),
    stop: () => placements.close(),
  }
}

function madeText(locator: string, { scopeRole }: PostgresServer): string {
  const schema = pg.escapeIdentifier(locator)
  return `create schema if not exists ${schema}; ${rightsIn(schema, pg.escapeIdentifier(scopeRole))}`
}

/** The schemas with those rights, whether they are fenced or not. */
const MADE_HERE = `
  select nspname as locator, not has_schema_privilege(scope.oid, n.oid, 'usage') as "isFenced"
  from pg_namespace n, (select oid from pg_roles where rolname = $1) scope
  where n.oid in (select defaclnamespace from pg_default_acl, aclexplode(defaclacl) where grantee = scope.oid)
  order by nspname`

/**
 * A schema that is not there needs no fence, and gets its rights when it is made. In a transaction, whose COMMIT is sent by who is
 * still waiting: what was given up must not come into effect after the next change.
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
  `The role "${role}" may use the schema "${schema}" by a right that was not given here: take USAGE from PUBLIC, and from the ` +
  'roles that it is a member of'
