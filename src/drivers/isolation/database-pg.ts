/**
 * A database for each tenant, on the placement's server.
 *
 * The host's tables are in its schema `tenant` and belong to the role of `url`. The login of the tenant, which may connect to no other
 * database of a tenant (own-login-role.ts), takes the scope role for one transaction as everywhere (scoped-connection.ts). How the
 * database is made, closed and dropped is in tenant-database.ts; what a process does about many of them, each with connections
 * of its own, in connections/pool.ts.
 *
 * Names of databases belong to a whole server, where other installations may have tenants with the same ids. So each has the id of its
 * installation in it.
 */
import pg from 'pg'
import { sqlState } from '../../kernel/database/database.ts'
import {
  type DriverEnvironment,
  type IsolationDriver,
  type MakingOptions,
  StorageFenced,
  type StorageLocation,
} from '../../tenants/isolation/driver.ts'
import { MigrationFailed } from '../../tenants/migrations/errors.ts'
import { auditDatabases } from './audit/audit.ts'
import { isSessionLost } from './connections/closed-database.ts'
import { copyIn } from './copy/copy-in.ts'
import { copyOut, nothingThere } from './copy/copy-out.ts'
import { advanceForImport } from './copy/sequences.ts'
import type { StorageRead } from './migrations/migration-records.ts'
import { baseObjects, PostgresMigrator } from './migrations/postgres-migrator.ts'
import { rightsIn } from './roles/grants.ts'
import { adjustPublicRights } from './roles/public-rights.ts'
import type { ScopeMode } from './scope/scoped-connection.ts'
import type { Scope } from './scope/scoped-query.ts'
import { drainDatabase } from './server/drain.ts'
import { Placements, type ScopeOptions, scopeModeOf } from './server/placements.ts'
import type { MigratingOptions, PostgresServer } from './server/postgres-server.ts'
import { activityOf } from './server/server-activity.ts'
import {
  closeDatabase,
  databasesOf,
  dropDatabase,
  isClosed,
  makeDatabase,
  openDatabase,
} from './server/tenant-database.ts'
import { copying } from './transactions/copy-session.ts'

export interface DatabasePgOptions extends ScopeOptions {
  /** A schema of the template with extensions' types, searched after the tenant's own; tenants must not be able to write to it. */
  readonly extensionsSchema?: string | undefined
  /**
   * What databases are copied from; default `template0`, as which nobody can be connected. Another one is where extensions are put
   * that every tenant is to have.
   */
  readonly template?: string | undefined
}

/** With the tables, in each tenant's database. */
export const TENANT_SCHEMA = 'tenant'

const SHARES_LOGIN =
  'tenants with a database each share a login here, as `tenantUrl` is given or a pooler stands before it: SQL of one may change it for all'

/** No such database, or one in which nothing is yet: its installation was given up. */
const MISSING = new Set(['3D000', '42P01'])

/** The driver `database-pg`. */
export function databasePg({
  extensionsSchema,
  template = 'template0',
  ...options
}: DatabasePgOptions = {}): IsolationDriver {
  const placements = new Placements('databasePg()')
  let migrator: PostgresMigrator
  let scopeMode: ScopeMode
  let installation = ''

  const searchPath = [TENANT_SCHEMA, ...(extensionsSchema ? [extensionsSchema] : []), 'pg_temp']
    .map((name) => pg.escapeIdentifier(name))
    .join(', ')
  const scopeOf = ({ tenantId }: StorageLocation, { scopeRole }: PostgresServer): Scope => ({
    tenantId,
    searchPath,
    role: scopeRole,
    openSchema: null,
  })
  const migrating = <T>(
    { placement, locator }: StorageLocation,
    work: (client: pg.ClientBase, read: StorageRead) => Promise<T>,
    options?: MigratingOptions<T>,
  ): Promise<T> => placements.server(placement).migrating(TENANT_SCHEMA, work, { ...options, database: locator })

  const make = async (server: PostgresServer, locator: string, options: MakingOptions = {}): Promise<void> => {
    await makeDatabase(server, locator, template, options)
    const objects = `${baseObjects(server.scopeRole)}; ${adjustPublicRights(server.placement, 'tenant')}`
    await server.ownedIn(locator, (client) => client.query(objects))
  }

  return {
    name: 'database-pg',
    capabilities: {
      engine: 'postgres',
      separateStorage: true,
      durable: true,
      copies: true,
      reach: 'own database',
      get containsTenantSql() {
        return [...placements.all()].every(({ placement }) => placement.ownLogins?.areMade)
      },
    },

    async start(environment: DriverEnvironment) {
      placements.open(environment)
      for (const { name, placement } of placements.all()) {
        if (!placement.ownLogins?.areMade) environment.log.warn({ placement: name }, SHARES_LOGIN)
      }
      scopeMode = scopeModeOf(options, environment)
      installation = environment.installation
      migrator = new PostgresMigrator(environment.migrations)
    },

    locator: (tenantId, epoch) => `t${epoch.toString(36)}_${installation}_${tenantId}`,

    async provision(location, options) {
      const server = placements.server(location.placement)
      await make(server, location.locator, options)
      const ran = await migrating(location, async (client, read) => {
        await client.query(madeText(server))
        return migrator.install(client, TENANT_SCHEMA, searchPath, read)
      })
      await openDatabase(server, location.locator)
      return ran
    },

    applied: (location) =>
      migrating(location, (client) => migrator.applied(client, TENANT_SCHEMA)).catch((error) => {
        if (isMissing(error)) return []
        throw error
      }),

    migrate: (location, options) =>
      migrating(location, (client, read) => migrator.up(client, TENANT_SCHEMA, searchPath, read), options).catch(
        rejectMissing,
      ),

    rollback: (location, steps, options) =>
      migrating(
        location,
        (client, read) => migrator.down(client, TENANT_SCHEMA, searchPath, steps, read),
        options,
      ).catch(rejectMissing),

    execute(location, statement) {
      const server = placements.server(location.placement)
      return server.execute(scopeOf(location, server), scopeMode, statement, location.locator)
    },

    advanceSequences: ({ placement, locator }, wanted, signal) =>
      placements
        .server(placement)
        .ownedIn(locator, (client) => advanceForImport(client, TENANT_SCHEMA, wanted, { signal })),

    connect(location) {
      const server = placements.server(location.placement)
      return server.connect(scopeOf(location, server), scopeMode, location.locator)
    },

    fence: ({ placement, locator }) => closeDatabase(placements.server(placement), locator),
    unfence: ({ placement, locator }) => openDatabase(placements.server(placement), locator),
    isFenced: ({ placement, locator }) => isClosed(placements.server(placement), locator),
    mayBeFence: (error) => StorageFenced.matches(error) || isSessionLost(error),
    drain: ({ placement, locator }, options) => drainDatabase(placements.server(placement), locator, options),

    async export({ tenantId, placement, locator }, work, { signal }) {
      const server = placements.server(placement)
      const source = { isolation: 'database-pg', schema: TENANT_SCHEMA, searchPath, tenantId, migrator }
      let isThere = false
      const reading = copying(server.exports, signal, (hold) =>
        server.ownedIn(locator, (client) => {
          isThere = true
          return copyOut(client, source, work, hold)
        }),
      )
      return reading.catch((error) => {
        throw !isThere && isMissing(error) ? nothingThere(error) : error
      })
    },

    async import(location, copy, { signal, onPhase, assertNotAbandoned }) {
      const server = placements.server(location.placement)
      migrator.assertKnownMigrations(copy.description.migrations)
      return copying(server.imports, signal, async (hold) => {
        onPhase?.('making')
        await make(server, location.locator, { assertNotAbandoned })
        signal.throwIfAborted()
        const storage = { schema: TENANT_SCHEMA, searchPath, tenantId: location.tenantId, migrator }
        const take = (client: pg.ClientBase, read: StorageRead) =>
          copyIn(client, { ...storage, making: madeText(server) }, read, copy, { onPhase, log: server.log })
        const imported = await migrating(location, take, { hold })
        await openDatabase(server, location.locator)
        return imported
      })
    },

    async drop({ placement, locator }) {
      const server = placements.server(placement)
      server.connections.forget(locator)
      await dropDatabase(server, locator)
    },

    async inventory(placement) {
      const all = await databasesOf(placements.server(placement))
      return all.filter(({ locator }) => locator.split('_')[1] === installation)
    },
    audit: (locations) => auditDatabases(placements, locations, { schema: TENANT_SCHEMA, extensionsSchema }),
    activity: (placement, options) => activityOf(placements.server(placement), options),
    rejectedLogins: () => placements.rejectedLogins(),
    connections: () => placements.connections(),
    stop: () => placements.close(),
  }
}

const madeText = ({ scopeRole }: PostgresServer): string =>
  `create schema if not exists ${TENANT_SCHEMA}; ${rightsIn(TENANT_SCHEMA, pg.escapeIdentifier(scopeRole))}`

const isMissing = (error: unknown): boolean => MISSING.has(sqlState(error) ?? '')

function rejectMissing(error: unknown): never {
  if (isMissing(error))
    throw MigrationFailed('The storage of the tenant is not there; nothing was run.', { cause: error })
  throw error
}
