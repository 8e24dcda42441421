/** A fresh, empty database on a PostgreSQL server, so that no test meets what another one left. */
import { randomBytes } from 'node:crypto'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'

export interface TestDatabase {
  readonly url: string
  /** Also when somebody is still connected: their connections are ended. */
  drop(): Promise<void>
}

/**
 * @param serverUrl of any database there, by a role that may create others.
 * @param template the database to copy; it has no connections meanwhile.
 */
export async function createTestDatabase(serverUrl: string, template = 'template1'): Promise<TestDatabase> {
  const name = `test_${randomBytes(8).toString('hex')}`
  await onServer(serverUrl, async (server) => {
    // Copying files is three times as fast as the log, but it makes a checkpoint: only for a server that waits for no disk.
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

/** @param name of another database of the same server. */
export function databaseUrl(serverUrl: string, name: string): string {
  const url = new URL(serverUrl)
  url.pathname = name
  return url.href
}

/** The URL of the same database where no server listens. */
export const unreachableUrl = (url: string): string => Object.assign(new URL(url), { port: '1' }).href

/**
 * The locks that sessions of the current database wait for. Copies of one template have the same OIDs: the OID of a table names it
 * only together with its database.
 *
 * @example `select pid from ${WAITING_LOCKS} where locktype = 'advisory'`
 */
export const WAITING_LOCKS = `(select pg_locks.* from pg_locks join pg_stat_activity using (pid)
  where datname = current_database() and not granted) waiting_locks`

/** Closes its connection afterwards, so that none stays open in the database that it names. */
export async function onServer<T>(serverUrl: string, work: (server: Database) => Promise<T>): Promise<T> {
  const server = new Database({ url: serverUrl, max: 1 }, createLogger({ level: 'silent' }))
  try {
    return await work(server)
  } finally {
    await server.close()
  }
}
