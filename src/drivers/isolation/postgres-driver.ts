/**
 * Implements the isolation drivers of PostgreSQL: one constructor for all dialects. A dialect defines the names of a
 * tenant's storage, its scope, its fence, and how the storage is created, filled and dropped.
 */
import pg from 'pg'
import { withTimeout } from '../../kernel/base/with-timeout.ts'
import { sqlState } from '../../kernel/database/database.ts'
import {
  type IsolationDriver,
  StorageFenced,
  type StorageLocation,
  unknownPlacement,
} from '../../tenants/isolation/driver.ts'
import { MigrationFailed } from '../../tenants/migrations/errors.ts'
import { storageAdoption } from './adoption/adoption.ts'
import { isSessionLost } from './connections/closed-database.ts'
import { RESPONSE_TIMEOUT_MS, timeoutError } from './connections/timeouts.ts'
import { copyOut, nothingThere } from './copy/copy-out.ts'
import { advanceForImport } from './copy/sequences.ts'
import type { StorageRead } from './migrations/migration-records.ts'
import { PostgresMigrator } from './migrations/postgres-migrator.ts'
import type { PostgresDialect, PostgresOptions, TenantStorage } from './postgres-dialect.ts'
import { postgresOutbox } from './postgres-outbox.ts'
import { OWN_DATABASE } from './roles/login-clients.ts'
import { rowAdoption } from './row-adoption/row-adoption.ts'
import type { ScopeMode } from './scope/scoped-connection.ts'
import type { Scope } from './scope/scoped-query.ts'
import { searchServer } from './search.ts'
import { drainDatabase, drainTransactions } from './server/drain.ts'
import { PostgresServer } from './server/postgres-server.ts'
import { activityOf } from './server/server-activity.ts'
import { copying, type Holding } from './transactions/copy-session.ts'

/** Error codes of a missing database and of a database without tables, whose installation failed permanently. */
const MISSING = new Set(['3D000', '42P01'])

export function postgresDriver(
  dialect: PostgresDialect,
  { scope: mode = 'batch', extensionsSchema }: PostgresOptions,
): IsolationDriver {
  const {
    name,
    capabilities,
    containsTenantSql,
    schemaOf,
    isTenantId,
    prepare,
    changeTables,
    importTables,
    enter,
    orphanedRows,
  } = dialect
  const servers = new Map<string, PostgresServer>()
  let migrator: PostgresMigrator
  let scopeMode: ScopeMode

  const serverOf = (placement: string): PostgresServer => {
    const server = servers.get(placement)
    if (!server) throw unknownPlacement(placement)
    return server
  }
  const searchPathOf = (schema: string): string =>
    [schema, ...(extensionsSchema ? [extensionsSchema] : []), 'pg_temp']
      .map((name) => pg.escapeIdentifier(name))
      .join(', ')
  const scopeOf = (location: StorageLocation, schema: string, { scopeRole }: PostgresServer): Scope => ({
    tenantId: location.tenantId,
    searchPath: searchPathOf(schema),
    role: scopeRole,
    ...dialect.scope(location),
  })

  const at = (location: StorageLocation): TenantStorage => {
    const server = serverOf(location.placement)
    const { schema, database = OWN_DATABASE } = dialect.tables(location)
    const storage: TenantStorage = {
      ...location,
      server,
      migrator,
      schema,
      database,
      searchPath: searchPathOf(schema),
      searchPathOf,
      owned: (work) => server.ownedIn(database, work),
      async migrating(work, options) {
        await prepare?.(server)
        const change = (client: pg.ClientBase, read: StorageRead) =>
          changeTables ? changeTables(client, storage, () => work(client, read)) : work(client, read)
        return server.migrating(schema, change, { ...options, database })
      },
    }
    return storage
  }
  const prepared = async (location: StorageLocation): Promise<TenantStorage> => {
    const storage = at(location)
    await prepare?.(storage.server)
    return storage
  }
  const preparedInTime = (location: StorageLocation): Promise<TenantStorage> =>
    withTimeout(prepared(location), RESPONSE_TIMEOUT_MS, timeoutError)

  return {
    name,
    capabilities: {
      engine: 'postgres',
      durable: true,
      copies: true,
      ...capabilities,
      get containsTenantSql() {
        return containsTenantSql !== undefined && [...servers.values()].every(containsTenantSql)
      },
    },
    options: { scope: mode, extensionsSchema, ...dialect.options },
    ...(schemaOf ? { schemaOf } : {}),
    ...(isTenantId ? { isTenantId } : {}),

    async start(environment) {
      if (servers.size > 0) throw new Error(`A driver serves one tenancy. Create another driver ${name}`)
      const { placements, migrations, generation, log } = environment
      for (const placement of placements.values()) servers.set(placement.name, PostgresServer.of(placement, log))
      migrator = new PostgresMigrator(migrations)
      scopeMode = { mode, generation }
      dialect.start?.(environment, servers.values())
    },

    locator: dialect.locator,

    provision: async (location, options = {}) => dialect.provision(await prepared(location), options),

    async applied(location) {
      const storage = at(location)
      try {
        return await storage.owned((client) => migrator.applied(client, storage.schema))
      } catch (error) {
        if (isMissing(storage, error)) return []
        throw error
      }
    },

    migrate(location, options) {
      const storage = at(location)
      const { schema, searchPath } = storage
      const atOnce = (client: pg.ClientBase, lockTimeoutMs: number) =>
        migrator.upAtOnce(client, schema, searchPath, lockTimeoutMs)
      return orMissing(
        storage,
        storage.migrating((client, read) => migrator.up(client, schema, searchPath, read), {
          ...options,
          atOnce: dialect.migratesAtOnce ? atOnce : undefined,
        }),
      )
    },

    rollback(location, steps, options) {
      const storage = at(location)
      const { schema, searchPath } = storage
      return orMissing(
        storage,
        storage.migrating((client, read) => migrator.down(client, schema, searchPath, steps, read), options),
      )
    },

    execute(location, statement) {
      const server = serverOf(location.placement)
      const { schema, database } = dialect.tables(location)
      return server.execute(scopeOf(location, schema, server), scopeMode, statement, database)
    },

    connect(location) {
      const server = serverOf(location.placement)
      const { schema, database } = dialect.tables(location)
      return server.connect(scopeOf(location, schema, server), scopeMode, database)
    },

    advanceSequences(location, wanted, signal) {
      const { schema, owned } = at(location)
      const options = { isShared: !capabilities.separateStorage, signal }
      return owned((client) => advanceForImport(client, schema, wanted, options))
    },

    fence: async (location) => dialect.fence(await preparedInTime(location)),
    unfence: async (location) => dialect.unfence(await preparedInTime(location)),
    isFenced: async (location) => dialect.isFenced(await preparedInTime(location)),

    mayBeFence: (error) =>
      StorageFenced.matches(error) || (capabilities.reach === 'own database' && isSessionLost(error)),

    outbox: postgresOutbox({
      reach: capabilities.reach,
      serverOf,
      databaseOf: (location) => dialect.tables(location).database ?? OWN_DATABASE,
    }),

    drain({ tenantId, placement, locator }, options) {
      const server = serverOf(placement)
      return capabilities.reach === 'own database'
        ? drainDatabase(server, locator, options)
        : drainTransactions(server, tenantId, options)
    },

    async export(location, work, { signal }) {
      const storage = await prepared(location)
      let isThere = false
      const read = (hold: Holding) =>
        storage.owned(async (client) => {
          isThere = true
          const source = dialect.source ? await dialect.source(client, storage, hold) : storage
          return copyOut(client, source, work, hold)
        })
      try {
        return await copying(storage.server.exports, signal, read)
      } catch (error) {
        throw !isThere && isMissing(storage, error) ? nothingThere(error) : error
      }
    },

    async import(location, copy, options) {
      migrator.assertKnownMigrations(copy.description.migrations)
      const storage = await prepared(location)
      const take = (hold: Holding) => dialect.import(storage, copy, { ...options, hold })
      return copying(storage.server.imports, options.signal, take)
    },

    ...(importTables
      ? {
          importTables: async (location, fill, options) => {
            const storage = at(location)
            await copying(storage.server.imports, options.signal, (hold) =>
              importTables(storage, fill, { ...options, hold }),
            )
          },
        }
      : {}),

    ...(enter ? { enter: async (location, { signal }) => enter(await prepared(location), signal) } : {}),

    ...adoptionOf(dialect, at, extensionsSchema, () => placementsOf(servers)),
    drop: async (location, options) => dialect.drop(await prepared(location), options),
    inventory: async (placement) => dialect.inventory(serverOf(placement)),
    search: async (placement, tenantId, lastEpoch, adopted, options) =>
      searchServer(serverOf(placement), dialect, tenantId, { ...options, lastEpoch, adopted }),
    ...(orphanedRows
      ? { orphanedRows: async (placement, registered) => orphanedRows(serverOf(placement), registered) }
      : {}),
    audit: (locations) => dialect.audit(servers.values(), locations),
    activity: async (placement, options) => activityOf(serverOf(placement), options),

    async rejectedLogins() {
      const all = [...servers.values()].map(async (server) => ((await server.isLoginRejected()) ? [server.name] : []))
      return (await Promise.all(all)).flat()
    },

    connections: () =>
      [...servers.values()].map(({ name, placement, connections }) => ({
        placement: name,
        max: placement.connections.max,
        ...connections.count(),
      })),

    async stop() {
      for (const server of servers.values()) await server.close()
      servers.clear()
    },
  }
}

function adoptionOf(
  { adopts }: PostgresDialect,
  at: (location: StorageLocation) => TenantStorage,
  extensionsSchema: string | undefined,
  placements: Parameters<typeof storageAdoption>[3],
): Pick<IsolationDriver, 'adoption' | 'rowAdoption'> {
  if (!adopts) return {}
  if (adopts.of === 'rows') return { rowAdoption: rowAdoption(at, adopts.tables) }
  return { adoption: storageAdoption(at, adopts, extensionsSchema, placements) }
}

const placementsOf = (servers: ReadonlyMap<string, PostgresServer>) =>
  Object.fromEntries([...servers].map(([name, { placement }]) => [name, placement]))

const isMissing = ({ database }: TenantStorage, error: unknown): boolean =>
  database !== OWN_DATABASE && MISSING.has(sqlState(error) ?? '')

async function orMissing<T>(storage: TenantStorage, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (isMissing(storage, error))
      throw MigrationFailed('Storage of the tenant not found; no migration was run.', { cause: error })
    throw error
  }
}
