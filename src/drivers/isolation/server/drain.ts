/**
 * The wait behind a fence, until nothing that was begun before it can change anything any more.
 *
 *   the fence is committed ─► what is open now? ─► each of it has ended
 *                                  │
 *                                  ├─ known to be another tenant's    not waited for
 *                                  ├─ known to be this tenant's       ended by us after `graceMs`
 *                                  └─ not known whose                 waited for; E_DEPENDENCY_UNAVAILABLE after `maxMs`
 *
 * A transaction goes on by the rights and rows that it saw when it began. It has its virtual id before it looks at any, so what may
 * have missed the fence is among the ids that are there once the fence is committed; what is not among them meets the fence. An id
 * is not given twice, and is there until all can see how its transaction ended. No setting of the server hides it, and everybody may
 * see it: so it is asked as the owner, who comes past a pooler that has no session left.
 *
 * Whose a transaction is, its mark says: an advisory lock that is taken with its BEGIN (scoped-query.ts). A statement alone has none,
 * as that would cost it something; it is short as a rule, and waited for whoever it belongs to. Two tenants have the same mark once
 * in four thousand million times: a transaction of the one is then waited for, and ended after `graceMs`, as if it were the other's.
 *
 * What the owner does is not waited for: a fence does not concern its migrations.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { DependencyUnavailable } from '../../../kernel/base/errors.ts'
import { withTimeout } from '../../../kernel/base/with-timeout.ts'
import { DRAIN_DEFAULTS, type DrainOptions } from '../../../tenants/isolation/driver.ts'
import { destroyClient } from '../connections/close-client.ts'
import { RESPONSE_TIMEOUT_MS, timeoutError } from '../connections/timeouts.ts'
import { MARKS, markOf } from '../scope/scoped-query.ts'
import type { PostgresServer } from './postgres-server.ts'
import { endSessions, MAY_END } from './tenant-database.ts'

/** What takes long is looked at less often: all locks of the server are read each time. */
const [FIRST_POLL_MS, LONGEST_POLL_MS] = [5, 100]
const END_AGAIN_MS = 1_000
const RETRY_AFTER_SECONDS = 30

/** A transaction that is open. */
interface Open {
  readonly id: string
  /** Null for one that is prepared: it is in no session. */
  readonly pid: number | null
  /** By its mark; null when it has none. Those of other tenants are not asked for. */
  readonly isOwn: true | null
  /** Whether the owner may end it. */
  readonly mayEnd: boolean
  /** Null when the owner may not know. */
  readonly since: Date | null
}

/**
 * In a database that tenants share.
 * @param tenantId as the scope of its transactions has it
 */
export const drainTransactions = (server: PostgresServer, tenantId: string, options?: DrainOptions): Promise<void> =>
  ended(server, () => all(server, OPEN, tenantId), options)

/** In one of its own, whose fence has ended all sessions. */
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
      failure = await end(server, open).catch((error) => error) // told when it does not end by itself either
    }
    await sleep(pollMs, undefined, { signal })
  }
}

/** Those with the mark of the tenant. The owner need not have the rights of the login; a role may always end its own sessions. */
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
    if (login) destroyClient(login, timeoutError()) // by a pooler it may be kept waiting for the very session that it is to end
    return timeoutError()
  })
}

/**
 * Of whoever may take the scope role: the login, and that of an earlier configuration. What works for another transaction has no
 * mark, and ends before it. $1: the scope role, $2: the tenant.
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

/** By the id and not by the session, which may be at another tenant's by now. */
const END = `
  select pg_terminate_backend(pid) from pg_locks join pg_stat_activity using (pid)
  where locktype = 'virtualxid' and mode = 'ExclusiveLock' and virtualxid = any($1) and ${MAY_END}`

function stillOpen(open: readonly Open[], maxMs: number, failure: unknown): Error {
  const [oldest] = open.flatMap(({ since }) => since ?? []).sort((one, other) => one.getTime() - other.getTime())
  const what = open.every(({ pid }) => pid === null) ? 'A prepared transaction' : 'A statement or transaction'
  const which = open.map(({ pid, id }) => (pid === null ? id : `in process ${pid}`)).join(', ')
  return DependencyUnavailable(
    `${what} of the tenants' login, begun before the storage was closed, has been open ` +
      `${oldest ? `since ${oldest.toISOString()}` : `for more than ${maxMs} ms`}: wait until it is over, or end it at the ` +
      'database server, and try again.',
    { retryAfterSeconds: RETRY_AFTER_SECONDS, cause: new Error(`still open: ${which}`, { cause: failure }) },
  )
}
