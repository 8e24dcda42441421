/** Ends the sessions of tenants' queries in the database of one tenant. */
import { setTimeout as sleep } from 'node:timers/promises'
import { DependencyUnavailable } from '../../../kernel/base/errors.ts'
import type { PostgresServer } from './postgres-server.ts'

const SESSIONS_END_WITHIN_MS = 10_000
const POLL_MS = 10

/** Sessions that are being started; the lock is released after the session is in the list. */
const STARTING = `select from pg_locks where locktype = 'object' and classid = 'pg_database'::regclass
  and mode = 'RowExclusiveLock' and objid = (select oid from pg_database where datname = $1)`

/** Whether the owner may end the session of `usesysid`. */
export const MAY_END = `(pg_has_role(usesysid, 'usage') or pg_has_role('pg_signal_backend', 'usage'))`

/**
 * The owner need not have the rights of the login. A role may end its own sessions, unless that right was revoked from
 * PUBLIC.
 */
const END_OWN = `select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and usename = session_user`

/**
 * Sessions of the installation's logins, including that of an earlier configuration; sessions of administrators are
 * left alone.
 */
const SESSIONS = `
  from pg_stat_activity join pg_database on pg_database.oid = datid join pg_roles on pg_roles.oid = usesysid
  where pg_database.datname = $1 and usesysid <> datdba and not rolsuper and pg_has_role(usesysid, $2::name, 'member')`

/**
 * A session that was admitted before the database was closed may not be in the list of sessions yet. Until it is, it
 * holds a lock on the database, so the locks are read first.
 */
export async function endSessions(server: PostgresServer, name: string): Promise<void> {
  const deadline = performance.now() + SESSIONS_END_WITHIN_MS
  for (;;) {
    const [starting, sessions] = await server.ownedWithTimeout(async (client) => {
      const starting = await client.query(STARTING, [name])
      const sessions = await client.query(`select pid, ${MAY_END} as "mayEnd" ${SESSIONS}`, [name, server.scopeRole])
      const pids = sessions.rows.filter(({ mayEnd }) => mayEnd).map(({ pid }) => pid)
      if (pids.length > 0) await client.query('select pg_terminate_backend(unnest($1::int[]))', [pids])
      return [starting.rows, sessions.rows]
    })
    if (starting.length === 0 && sessions.length === 0) return
    if (performance.now() > deadline) {
      throw DependencyUnavailable('Sessions in the database of the tenant could not be ended in time.')
    }
    if (sessions.some(({ mayEnd }) => !mayEnd)) await server.asLogin((client) => client.query(END_OWN, [name]))
    await sleep(POLL_MS)
  }
}
