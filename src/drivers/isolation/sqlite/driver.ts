/**
 * The isolation driver sqlite-memory: a database for each tenant in the memory of this process, for tests and
 * development.
 *
 * - SQL is SQLite's. Statements of a tenant run one after the other and block the event loop. Nothing is durable.
 * - Copies are not supported: backups, restores, clones and moves are rejected with `E_NOT_SUPPORTED`.
 */
import {
  copiesNotSupported,
  type DriverEnvironment,
  type IsolationDriver,
  StorageFenced,
  type StorageLocation,
  unknownPlacement,
} from '../../../tenants/isolation/driver.ts'
import { execute, SqliteConnection } from './connection.ts'
import type { Sqlite } from './database.ts'
import { SqliteMigrator } from './migrator.ts'
import { sqliteOutbox } from './outbox.ts'
import { SqliteStorage, storageMissing } from './storage.ts'

const NAME = 'sqlite-memory'

interface Running {
  readonly sqlite: Sqlite
  readonly environment: DriverEnvironment
  readonly migrator: SqliteMigrator
  readonly storages: Map<string, SqliteStorage>
}

export function sqliteMemory(): IsolationDriver {
  let running: Running | undefined
  const started = (): Running => {
    if (!running) throw new Error('The driver sqlite-memory is not started')
    return running
  }
  const storageOf = (location: StorageLocation): SqliteStorage => {
    const storage = started().storages.get(keyOf(location))
    if (!storage) throw storageMissing()
    return storage
  }

  /** Storage is found by others only when it is complete. The first of concurrent calls makes it. */
  const provision = async (location: StorageLocation): Promise<readonly string[]> => {
    const { sqlite, environment, migrator, storages } = started()
    const key = keyOf(location)
    const placement = environment.placements.get(location.placement)
    if (!placement) throw unknownPlacement(location.placement)
    const existing = storages.get(key)
    const storage = existing ?? new SqliteStorage(sqlite, location.tenantId, placement.connections)
    try {
      await migrator.up(storage)
      if (running?.storages !== storages) throw stopped()
      if (!existing && !storages.has(key)) storages.set(key, storage)
    } finally {
      if (storages.get(key) !== storage) storage.close(storageMissing())
    }
    if (storages.get(key) !== storage) return provision(location)
    storage.isFenced = false
    return migrator.applied(storage)
  }

  return {
    name: NAME,
    capabilities: {
      engine: 'sqlite',
      separateStorage: true,
      durable: false,
      copies: false,
      containsTenantSql: false,
      reach: 'no server',
    },

    async start(environment) {
      if (running) throw new Error('A driver serves one tenancy. Create another driver with sqliteMemory()')
      if (process.env.NODE_ENV === 'production') {
        throw new Error(
          'sqlite-memory loses all tenants when the process ends, so it does not start with NODE_ENV=production; ' +
            'use schema-pg, rowscope-pg or database-pg',
        )
      }
      const sqlite = await import('node:sqlite')
      if (!('setAuthorizer' in sqlite.DatabaseSync.prototype)) {
        throw new Error(
          `sqlite-memory needs Node 24.10 or later and this is ${process.version}: in older versions SQL can attach files`,
        )
      }
      running = { sqlite, environment, migrator: new SqliteMigrator(environment.migrations), storages: new Map() }
    },

    locator: (tenantId, epoch) => `t${epoch}_${tenantId}`,

    provision,

    async applied(location) {
      return started().migrator.applied(storageOf(location))
    },

    async migrate(location, options) {
      return started().migrator.up(storageOf(location), options)
    },

    async rollback(location, steps, options) {
      return started().migrator.down(storageOf(location), steps, options)
    },

    async execute(location, statement) {
      return execute(storageOf(location), statement)
    },

    async connect(location) {
      const storage = storageOf(location)
      storage.assertUsable(false)
      return new SqliteConnection(storage)
    },

    /** Storage that does not exist needs no fence. */
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

    outbox: sqliteOutbox((location) => running?.storages.get(keyOf(location))),

    mayBeFence: (error) => StorageFenced.matches(error),

    async drain(location, options) {
      await started().storages.get(keyOf(location))?.drain(options)
    },

    async export() {
      throw copiesNotSupported(NAME)
    },

    async import() {
      throw copiesNotSupported(NAME)
    },

    async drop(location) {
      const { storages } = started()
      storages.get(keyOf(location))?.close(storageMissing())
      storages.delete(keyOf(location))
    },

    /** No server, no catalog. */
    async *audit() {},

    connections: () => [],

    async stop() {
      for (const storage of running?.storages.values() ?? []) storage.close(stopped())
      running = undefined
    },
  }
}

const stopped = () => new Error('The driver sqlite-memory was stopped')

/** A locator is unique on its placement. */
const keyOf = ({ placement, locator }: StorageLocation): string => JSON.stringify([placement, locator])
