/** Opens a store in a separate PostgreSQL database, with an adjustable clock. */
import { inject } from 'vitest'
import { systemClock } from '../../kernel/base/clock.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'
import { migrate } from '../../kernel/database/migrations.ts'
import { createTestDatabase } from '../../testing/base/database.ts'
import type { OpenedStore } from '../../testing/store/opened-store.ts'
import { type PostgresStoreOptions, postgresStore } from './postgres.ts'

/** Long enough for a busy machine. */
const TIMEOUT_MS = 20_000

export interface OpenedInPostgres extends OpenedStore {
  /** Connections in addition to those of the store. */
  readonly database: Database
  cleanUp(): Promise<void>
}

/** @param route URL for the store, if it connects by a proxy */
export async function openInPostgres(
  options: PostgresStoreOptions = {},
  route = async (url: string) => url,
): Promise<OpenedInPostgres> {
  const log = createLogger({ level: 'silent' })
  const { url, drop } = await createTestDatabase(inject('postgresUrl'))
  const database = new Database({ url, max: 2 }, log)
  const databaseOfStore = new Database({ url: await route(url), max: 2 }, log)
  let offsetMs = 0
  const driver = postgresStore({ clockOffsetMs: () => offsetMs, timeoutMs: TIMEOUT_MS, ...options })
  // The default of most servers: they do not check whether a client still waits for its result.
  await database.sql(`alter database ${new URL(url).pathname.slice(1)} set client_connection_check_interval = 0`)
  await migrate(database, [{ part: 'store', migrations: driver.tables ?? [] }])
  return {
    database,
    store: driver.open({ database: databaseOfStore, clock: systemClock, log }),
    advance(ms) {
      offsetMs += ms
    },
    async cleanUp() {
      await databaseOfStore.close()
      await database.close()
      await drop()
    },
  }
}
