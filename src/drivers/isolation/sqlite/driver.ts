/**
 * A database for each tenant, in the memory of this process: for tests and development without a PostgreSQL server for tenants.
 *
 * It is made for a host that is to run on PostgreSQL: transactions fail as they do there, `$1` is a parameter, errors have
 * SQLSTATEs. What differs: SQL is SQLite's; values are those of values.ts; statements run one after the other and block
 * the event loop; a transaction has the tenant's database for itself, so a statement that goes around it, and is awaited in
 * it, waits until its time is up. Nothing is durable: a tenant whose storage was in another process, or before a restart, is
 * answered with `E_TENANT_NOT_READY`, never with an empty database. A fence holds in the process that has the storage.
 */
import {
  type DriverEnvironment,
  type IsolationDriver,
  StorageExists,
  StorageFenced,
  type StorageLocation,
  unknownPlacement,
} from '../../../tenants/isolation/driver.ts'
import { alone, SqliteConnection } from './connection.ts'
import { copyIn } from './copy-in.ts'
import { copyOut } from './copy-out.ts'
import type { Sqlite } from './database.ts'
import { SqliteMigrator } from './migrator.ts'
import { SqliteStorage, storageMissing } from './storage.ts'

interface Running {
  readonly sqlite: Sqlite
  readonly environment: DriverEnvironment
  readonly migrator: SqliteMigrator
  readonly storages: Map<string, SqliteStorage>
}

/** The driver `sqlite-memory`. */
export function sqliteMemory(): IsolationDriver {
  let running: Running | undefined

  const started = (): Running => {
    if (!running) throw new Error('the driver sqlite-memory is not started')
    return running
  }
  const storageOf = (location: StorageLocation): SqliteStorage => {
    const storage = started().storages.get(keyOf(location))
    if (!storage) throw storageMissing()
    return storage
  }

  /** Until it is complete nobody finds it; undefined when another one was complete before it, which is kept. */
  const made = async <T>(
    location: StorageLocation,
    fill: (storage: SqliteStorage) => Promise<T>,
  ): Promise<T | undefined> => {
    const { sqlite, environment, storages } = started()
    const storage = new SqliteStorage(sqlite, location, limitsOf(environment, location))
    try {
      const result = await fill(storage)
      if (started().storages !== storages) throw new Error('the driver was stopped meanwhile')
      if (!storages.has(keyOf(location))) {
        storages.set(keyOf(location), storage)
        return result
      }
    } catch (error) {
      await storage.close()
      throw error
    }
    await storage.close()
    return undefined
  }

  const provision = async (location: StorageLocation): Promise<readonly string[]> => {
    const { migrator, storages } = started()
    migrator.assertNoSql()
    const known = storages.get(keyOf(location))
    if (known) {
      const applied = await migrator.install(known)
      known.isFenced = false
      return applied
    }
    return (await made(location, (storage) => migrator.install(storage))) ?? provision(location)
  }

  return {
    name: 'sqlite-memory',
    capabilities: {
      engine: 'sqlite',
      separateStorage: true,
      durable: false,
      containsTenantSql: false,
      reach: 'no server',
    },

    async start(environment) {
      if (running) throw new Error('a driver serves one tenancy: make another with sqliteMemory()')
      assertNotProduction(process.env.NODE_ENV)
      const sqlite = await import('node:sqlite')
      assertAuthorizerExists(sqlite.DatabaseSync.prototype)
      running = { sqlite, environment, migrator: new SqliteMigrator(environment.migrations), storages: new Map() }
    },

    locator: (tenantId, epoch) => `t${epoch}_${tenantId}`,

    provision,

    async applied(location) {
      return started().migrator.applied(storageOf(location))
    },

    async migrate(location, options) {
      const { migrator } = started()
      migrator.assertNoSql()
      return migrator.up(storageOf(location), options)
    },

    async rollback(location, steps, options) {
      return started().migrator.down(storageOf(location), steps, options)
    },

    async execute(location, statement) {
      return alone(storageOf(location), statement)
    },

    async connect(location) {
      const storage = storageOf(location)
      storage.assertNotFenced()
      return new SqliteConnection(storage)
    },

    /** Storage that is not there needs no fence: nothing can be asked of it. */
    async fence(location) {
      const storage = started().storages.get(keyOf(location))
      if (storage) storage.isFenced = true
    },

    async unfence(location) {
      storageOf(location).isFenced = false
    },

    async isFenced(location) {
      return started().storages.get(keyOf(location))?.isFenced ?? false
    },

    mayBeFence: (error) => StorageFenced.matches(error),

    async drain(location, options) {
      await started().storages.get(keyOf(location))?.drain(options)
    },

    async export(location, work, { signal }) {
      const { sqlite, migrator } = started()
      return copyOut({ sqlite, storage: storageOf(location), isolation: 'sqlite-memory', migrator }, work, signal)
    },

    async import(location, copy, options) {
      const { migrator, storages } = started()
      migrator.assertNoSql()
      migrator.assertKnownMigrations(copy.description.migrations)
      if (storages.has(keyOf(location))) throw isThere()
      const imported = await made(location, async (storage) => {
        options.onPhase?.('making')
        await migrator.installOnly(
          storage,
          copy.description.migrations.map(({ name }) => name),
        )
        const rows = await copyIn(storage, copy, options)
        options.onPhase?.('migrating')
        const migrations = await migrator.install(storage)
        options.signal.throwIfAborted()
        return { migrations, rows }
      })
      if (!imported) throw isThere()
      return imported
    },

    async drop(location) {
      const { storages } = started()
      const storage = storages.get(keyOf(location))
      await storage?.drop()
      if (storages.get(keyOf(location)) === storage) storages.delete(keyOf(location))
    },

    /** No server, no catalog. */
    async *audit() {},

    /** Of each tenant's database one: busy while a statement or a transaction has it. */
    connections() {
      if (!running) return []
      const { environment, storages } = running
      return [...environment.placements.keys()].map((placement) => {
        const all = [...storages.values()].filter((storage) => storage.placement === placement)
        const busy = all.filter(({ isTaken }) => isTaken).length
        const waiting = all.reduce((sum, storage) => sum + storage.waiting, 0)
        return { placement, idle: all.length - busy, busy, waiting, hits: 0, misses: 0 }
      })
    },

    async stop() {
      const storages = running?.storages
      running = undefined
      await Promise.all([...(storages?.values() ?? [])].map((storage) => storage.close()))
    },
  }
}

/** Two copies would become one. */
const isThere = () => StorageExists('The storage for the copy is there already; nothing was changed.')

/** A locator is unique on its placement. */
const keyOf = ({ placement, locator }: StorageLocation): string => JSON.stringify([placement, locator])

function limitsOf({ placements }: DriverEnvironment, { placement }: StorageLocation) {
  const found = placements.get(placement)
  if (!found) throw unknownPlacement(placement)
  return found.connections
}

function assertNotProduction(nodeEnv: string | undefined): void {
  if (nodeEnv !== 'production') return
  throw new Error(
    'sqlite-memory keeps tenants in the memory of one process, which loses them when it ends: it does not start with ' +
      'NODE_ENV=production; use schema-pg, rowscope-pg or database-pg',
  )
}

/** Without one, SQL could attach files. @param prototype that of DatabaseSync. */
export function assertAuthorizerExists(prototype: object, version = process.version): void {
  if ('setAuthorizer' in prototype) return
  throw new Error(
    `sqlite-memory needs Node 24.10 or later, this is ${version}: node:sqlite cannot refuse ATTACH there (setAuthorizer)`,
  )
}
