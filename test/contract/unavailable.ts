/** A database that rejects one role, as a server does when all connections of the role are in use. */
import { randomBytes } from 'node:crypto'
import { onServer } from '../../src/testing/base/database.ts'

export interface RefusableRole {
  /** URL of the given database, with this role. */
  readonly url: string
  /** Ends the sessions of the role and rejects new ones. */
  refuse(): Promise<void>
  admit(): Promise<void>
  drop(): Promise<void>
}

/** @param url database, with a superuser: the role has the same rights, but is subject to a connection limit */
export async function createRefusableRole(url: string): Promise<RefusableRole> {
  const name = `test_${randomBytes(8).toString('hex')}`
  const own = new URL(url)
  own.username = name
  own.password = name
  const run = (...statements: readonly string[]) =>
    onServer(url, async (server) => {
      for (const statement of statements) await server.sql(statement)
    })
  await run(
    `create role ${name} login createdb createrole password '${name}'`,
    `do $$ begin execute format('grant %I to ${name}', current_user); end $$`,
  )
  const ended = `select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = '${name}'`
  return {
    url: own.href,
    // A session that has just passed the check of the limit appears shortly afterwards.
    refuse: () => run(`alter role ${name} connection limit 0`, ended, 'select pg_sleep(0.2)', ended),
    admit: () => run(`alter role ${name} connection limit -1`),
    drop: () => run(`drop owned by ${name}`, `drop role ${name}`),
  }
}
