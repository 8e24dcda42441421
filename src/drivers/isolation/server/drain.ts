/**
 * Waits behind a fence until no transaction that began before it can change anything.
 *
 *   fence committed ─► list open transactions ─► all of them have ended
 *                           │
 *                           ├─ of another tenant, by its mark    not waited for
 *                           ├─ of this tenant, by its mark       ended after `graceMs`
 *                           └─ without a mark                    waited for; E_DEPENDENCY_UNAVAILABLE after `maxMs`
 *
 * - A transaction keeps the rights and rows that it saw when it began. It has its virtual id before it reads any, so a
 *   transaction that may have missed the fence is among the ids that exist after the fence is committed. Ids are not
 *   reused, and exist until the result of their transaction is visible. Every role may see them, so the owner reads
 *   them, even if the pooler is full.
 * - The mark of a transaction is an advisory lock that is taken with its BEGIN (scoped-query.ts). A single statement
 *   has none, because of the cost; it is usually short, and waited for with any tenant. Two tenants share a mark with a
 *   probability of one in four thousand million: then a transaction of the other tenant is waited for, and ended after
 *   `graceMs`.
 * - Statements of the owner are not waited for, because a fence does not apply to its migrations.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { DependencyUnavailable } from '../../../kernel/base/errors.ts'
import { withTimeout } from '../../../kernel/base/with-timeout.ts'
import { DRAIN_DEFAULTS, type DrainOptions } from '../../../tenants/isolation/driver.ts'
import { destroyClient } from '../connections/close-client.ts'
import { RESPONSE_TIMEOUT_MS, timeoutError } from '../connections/timeouts.ts'
import { MARKS, markOf } from '../scope/scoped-query.ts'
import { endSessions, MAY_END } from './end-sessions.ts'
import type { PostgresServer } from './postgres-server.ts'

/** The interval grows, because each poll reads all locks of the server. */
const [FIRST_POLL_MS, LONGEST_POLL_MS] = [5, 100]
const END_AGAIN_MS = 1_000
const RETRY_AFTER_SECONDS = 30

/** An open transaction. */
interface Open {
  readonly id: string
  /** Null for a prepared transaction, which has no session. */
  readonly pid: number | null
  /** Whether its mark is that of the tenant; null without a mark. Transactions of other tenants are not read. */
  readonly isOwn: true | null
  /** Whether the owner may end it. */
  readonly mayEnd: boolean
  /** Null if the owner has no right to see it. */
  readonly since: Date | null
}

/**
 * Drains a tenant in a database that tenants share.
 * @param tenantId as in the scope of its transactions
 */
export const drainTransactions = (server: PostgresServer, tenantId: string, options?: DrainOptions): Promise<void> =>
  ended(server, () => all(server, OPEN, tenantId), options)

/** Drains the database of one tenant, whose fence has ended all sessions. */
export async function drainDatabase(server: PostgresServer, database: string, options?: DrainOptions): Promise<void> {
  await endSessions(server, database)
  await ended(server, () => all(server, PREPARED, database), options)
}

async function all(server: PostgresServer, text: string, what: string): Promise<Open[]> {
  const { rows } = await server.ownedWithTimeout((client) => client.query(text, [server.scopeRole, what]))
  return rows
}

async function ended(
  server: PostgresServer,
  read: () => Promise<readonly Open[]>,
  { graceMs = DRAIN_DEFAULTS.graceMs, maxMs = DRAIN_DEFAULTS.maxMs, signal }: DrainOptions = {},
): Promise<void> {
  const started = performance.now()
  const older = new Set((await read()).map(({ id }) => id))
  let endAfterMs = graceMs
  let failure: unknown
  for (let pollMs = FIRST_POLL_MS; older.size > 0; pollMs = Math.min(2 * pollMs, LONGEST_POLL_MS)) {
    signal?.throwIfAborted()
    const open = (await read()).filter(({ id }) => older.has(id))
    if (open.length === 0) return
    const waitedMs = performance.now() - started
    if (waitedMs >= maxMs) throw stillOpen(open, maxMs, failure)
    if (waitedMs >= endAfterMs) {
      endAfterMs = waitedMs + END_AGAIN_MS
      failure = await end(server, open).catch((error) => error) // thrown when the transaction does not end either
    }
    await sleep(pollMs, undefined, { signal })
  }
}

/**
 * Ends transactions with the mark of the tenant. The owner need not have the rights of the login; a role may always end
 * its own sessions.
 */
async function end(server: PostgresServer, open: readonly Open[]): Promise<void> {
  const ours = open.filter(({ isOwn, pid }) => isOwn && pid !== null)
  const [byOwner, byLogin] = [true, false].map((may) => ours.filter(({ mayEnd }) => mayEnd === may).map(({ id }) => id))
  if (byOwner?.length) await server.ownedWithTimeout((client) => client.query(END, [byOwner]))
  if (!byLogin?.length) return
  let login: pg.ClientBase | undefined
  const done = server.asLogin((client) => {
    login = client
    return client.query(END, [byLogin])
  })
  await withTimeout(done, RESPONSE_TIMEOUT_MS, () => {
    if (login) destroyClient(login, timeoutError()) // a pooler may delay it behind the very session that it is to end
    return timeoutError()
  })
}

/**
 * Open transactions of all roles that may take the scope role: the login, and that of an earlier configuration.
 * Parallel workers have no mark, and end before their leader. $1: the scope role, $2: the tenant.
 */
const OPEN = `
  with locks as materialized (
    select coalesce(pid::text, virtualtransaction) as holder, pid, virtualxid, transactionid, locktype, objid from pg_locks
    where granted and (locktype = 'virtualxid' and mode = 'ExclusiveLock' or locktype = 'transactionid' and pid is null
      or locktype = 'advisory' and classid = ${MARKS} and objsubid = 2
        and database = (select oid from pg_database where datname = current_database()))
  ), marks as (
    select holder, bool_or(objid = (${markOf('$2')}::bigint & 4294967295)::oid) as "isOwn"
    from locks where locktype = 'advisory' group by holder
  )
  select virtualxid as id, pid, "isOwn", ${MAY_END} as "mayEnd", xact_start as since
  from locks left join marks using (holder) join pg_stat_activity using (pid) join pg_roles on pg_roles.oid = usesysid
  where locktype = 'virtualxid' and datname = current_database() and leader_pid is null
    and not rolsuper and rolname <> session_user and pg_has_role(usesysid, $1::name, 'member') and "isOwn" is distinct from false
  union all
  select 'prepared ' || transaction, null, "isOwn", false, prepared
  from pg_prepared_xacts left join locks on transactionid = transaction left join marks using (holder)
  where database = current_database() and pg_has_role(owner, $1::name, 'member') and "isOwn" is distinct from false`

/** $2: the database. */
const PREPARED = `
  select 'prepared ' || transaction as id, null as pid, true as "isOwn", false as "mayEnd", prepared as since
  from pg_prepared_xacts where database = $2 and pg_has_role(owner, $1::name, 'member')`

/** By transaction id and not by session, which may serve another tenant by now. */
const END = `
  select pg_terminate_backend(pid) from pg_locks join pg_stat_activity using (pid)
  where locktype = 'virtualxid' and mode = 'ExclusiveLock' and virtualxid = any($1) and ${MAY_END}`

function stillOpen(open: readonly Open[], maxMs: number, failure: unknown): Error {
  const [oldest] = open.flatMap(({ since }) => since ?? []).sort((one, other) => one.getTime() - other.getTime())
  const what = open.every(({ pid }) => pid === null) ? 'A prepared transaction' : 'A statement or transaction'
  const which = open.map(({ pid, id }) => (pid === null ? id : `in process ${pid}`)).join(', ')
  return DependencyUnavailable(
    `${what} of the tenants' login, which began before the storage was closed, has been open ` +
      `${oldest ? `since ${oldest.toISOString()}` : `for more than ${maxMs} ms`}: wait until it has ended, or end it at the ` +
      'database server, and try again.',
    { retryAfterSeconds: RETRY_AFTER_SECONDS, cause: new Error(`still open: ${which}`, { cause: failure }) },
  )
}
