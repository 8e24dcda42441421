/** A store in a PostgreSQL database of its own, whose time can be moved. */
import { inject } from 'vitest'
import { systemClock } from '../../kernel/clock.ts'
import { Database } from '../../kernel/database.ts'
import { createLogger } from '../../kernel/logger.ts'
import { migrate } from '../../kernel/migrations.ts'
import { createTestDatabase } from '../../testing/database.ts'
import { startProxy } from '../../testing/proxy.ts'
import type { OpenedStore } from '../../testing/store-suite.ts'
import { type PostgresStoreOptions, postgresStore } from './postgres.ts'

export interface OpenedInPostgres extends OpenedStore {
  /** By a way of its own. */
  readonly database: Database
  /** The store's way to the server. */
  readonly proxy: Awaited<ReturnType<typeof startProxy>>
  cleanUp(): Promise<void>
}

export async function openInPostgres(options: PostgresStoreOptions = {}): Promise<OpenedInPostgres> {
  const log = createLogger({ level: 'silent' })
  const { url, drop } = await createTestDatabase(inject('postgresUrl'))
  const proxy = await startProxy(url)
  const database = new Database({ url, max: 2 }, log)
  const byProxy = new Database({ url: proxy.url, max: 2 }, log)
  let offsetMs = 0
  const driver = postgresStore({ clockOffsetMs: () => offsetMs, ...options })
  // As most servers are: they do not look whether somebody still waits for the answer.
  await database.sql(`alter database ${new URL(url).pathname.slice(1)} set client_connection_check_interval = 0`)
  await migrate(database, [{ part: 'store', migrations: driver.tables ?? [] }])
  return {
    database,
    proxy,
    store: driver.open({ database: byProxy, clock: systemClock, log }),
    advance(ms) {
      offsetMs += ms
    },
    async cleanUp() {
      await byProxy.close()
      await database.close()
      await proxy.close()
      await drop()
    },
  }
}
