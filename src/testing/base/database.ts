/** Creates empty databases on a PostgreSQL server, one for each test file. */
import { randomBytes } from 'node:crypto'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'

export interface TestDatabase {
  readonly url: string
  /** Drops the database and ends its remaining connections. */
  drop(): Promise<void>
}

/**
 * Creates a database with a random name.
 *
 * @param serverUrl URL of any database of the server, with a role that may create databases.
 * @param template database to copy; it must have no connections during the call.
 * @example
 * const database = await createTestDatabase('postgres://postgres@localhost/postgres')
 * afterAll(() => database.drop())
 */
export async function createTestDatabase(serverUrl: string, template = 'template1'): Promise<TestDatabase> {
  const name = `test_${randomBytes(8).toString('hex')}`
  await onServer(serverUrl, async (server) => {
    // FILE_COPY is three times as fast as WAL_LOG, but it forces a checkpoint: only for a server without fsync.
    const { rows } = await server.sql(
      `select case current_setting('fsync') when 'off' then 'file_copy' else 'wal_log' end as strategy`,
    )
    await server.sql(`create database ${name} template ${template} strategy ${rows[0].strategy}`)
  })
  return {
    url: databaseUrl(serverUrl, name),
    drop: async () => {
      await onServer(serverUrl, (server) => server.sql(`drop database if exists ${name} with (force)`))
    },
  }
}

/** @param name name of another database of the same server. */
export function databaseUrl(serverUrl: string, name: string): string {
  const url = new URL(serverUrl)
  url.pathname = name
  return url.href
}

/** Same database, with a port on which no server listens. */
export const unreachableUrl = (url: string): string => Object.assign(new URL(url), { port: '1' }).href

/**
 * Locks that sessions of the current database wait for. Copies of one template have the same OIDs, so the OID of a
 * table is unique only within its database.
 *
 * @example `select pid from ${WAITING_LOCKS} where locktype = 'advisory'`
 */
export const WAITING_LOCKS = `(select pg_locks.* from pg_locks join pg_stat_activity using (pid)
  where datname = current_database() and not granted) waiting_locks`

/** Runs `work` with one connection, and closes it: an open connection would prevent the database from being dropped. */
export async function onServer<T>(serverUrl: string, work: (server: Database) => Promise<T>): Promise<T> {
  const server = new Database({ url: serverUrl, max: 1 }, createLogger({ level: 'silent' }))
  try {
    return await work(server)
  } finally {
    await server.close()
  }
}
