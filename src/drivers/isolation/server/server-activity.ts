/**
 * Reads the sessions of a server for the doctor. A role without administrative rights sees only the number of others'
 * sessions. So the owner reads its own and those of single tenants' logins, of which it is a member; the shared login
 * reads its own, on a connection outside of its budget.
 */
import type pg from 'pg'
import { withTimeout } from '../../../kernel/base/with-timeout.ts'
import type { ActivityOptions, LongSession, ServerActivity } from '../../../tenants/isolation/server-activity.ts'
import { RESPONSE_TIMEOUT_MS, timeoutError } from '../connections/timeouts.ts'
import { DDL_APPLICATION, type PostgresServer } from './postgres-server.ts'

const MAX_SESSIONS = 1_000
const SQL_LENGTH = 200

export async function activityOf(server: PostgresServer, options: ActivityOptions): Promise<ServerActivity> {
  const read = (client: pg.ClientBase) => sessions(client, options, server)
  const ofOwner = await server.ownedWithTimeout(async (client) => ({
    ...(await client.query(CAPACITY)).rows[0],
    sessions: await read(client),
  }))
  // A full server rejects the login; the finding is that it is full. The doctor changes nothing, so the login is not
  // restored.
  const isFull = ofOwner.connections >= ofOwner.available
  const ofLogin = await withTimeout(server.asLogin(read, { restores: false }), RESPONSE_TIMEOUT_MS, timeoutError).catch(
    (error) => {
      if (isFull) return []
      throw error
    },
  )
  const all: LongSession[] = [...ofOwner.sessions, ...ofLogin]
  return { ...ofOwner, sessions: all.sort((a, b) => a.since.getTime() - b.since.getTime()) }
}

const sessions = async (
  client: pg.ClientBase,
  { longMs, showsSql }: ActivityOptions,
  { login, scopeRole }: PostgresServer,
): Promise<LongSession[]> => (await client.query(SESSIONS, [longMs, showsSql, DDL_APPLICATION, login, scopeRole])).rows

/** Every role may count the sessions of others, by database. */
const CAPACITY = `
  select (select sum(numbackends) from pg_stat_database where datid <> 0)::int as connections,
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
      - coalesce(current_setting('reserved_connections', true)::int, 0) as available`

const SESSIONS = `
  select pid, role, application, nullif(database, current_database()) as database, state, since, "waitsFor", "isUpkeep", sql
  from (
    select pid, usename::text as role, application_name as application, datname::text as database, state,
      case state when 'active' then query_start else state_change end as since,
      case when wait_event_type <> 'Activity' then wait_event_type || ': ' || wait_event end as "waitsFor",
      application_name = $3 as "isUpkeep",
      case when $2 then left(regexp_replace(query, '\\s+', ' ', 'g'), ${SQL_LENGTH}) end as sql
    from pg_stat_activity
    where (usename = session_user or session_user <> $4 and usename = datname and pg_has_role(usesysid, $5::name, 'member'))
      and backend_type = 'client backend' and pid <> pg_backend_pid() and state in ('active', 'idle in transaction', 'idle in transaction (aborted)')
  ) session
  where since < clock_timestamp() - $1 * interval '1 millisecond' order by since limit ${MAX_SESSIONS}`
