/**
 * Takes the lock of one storage with a timeout. A hanging process keeps its locks for as long as its connection lives.
 * After the timeout, the error names the holder of the lock, and the caller can repeat the call later. The timeout is a
 * setting of a transaction, so it does not stay on the connection.
 */
import type pg from 'pg'
import { DependencyUnavailable, type TenancyError } from '../../../kernel/base/errors.ts'
import { sqlState } from '../../../kernel/database/database.ts'
import { destroyClient } from '../connections/close-client.ts'
import { inTransaction, lockOf, orRollback, type TransactionOptions } from './owner-transaction.ts'

const LOCK_TIMEOUT_MS = 10_000
const RETRY_AFTER_SECONDS = 30
const LOCK_NOT_AVAILABLE = '55P03'

export interface AloneOptions<T = unknown> extends Pick<TransactionOptions<T>, 'last'> {
  /** Maximum wait in ms for this lock and for any lock of a statement; default 10,000. */
  readonly lockTimeoutMs?: number | undefined
  /** The larger storage that contains this one: locked against migrations, not exclusively. */
  readonly partOf?: string | undefined
  /** A statement after the locks, in the same round trip. `work` receives its result last. */
  readonly first?: string | undefined
}

/**
 * Runs `work` in a transaction with exclusive use of the storage among all processes. Throws `E_DEPENDENCY_UNAVAILABLE`
 * if another session holds the lock, or a lock that the work needs, for longer than the timeout.
 */
export function aloneWithTimeout<T>(
  client: pg.ClientBase,
  locator: string,
  work: (opened: readonly pg.QueryResult[]) => Promise<T>,
  { lockTimeoutMs = LOCK_TIMEOUT_MS, partOf, first, last }: AloneOptions<T> = {},
): Promise<T> {
  const own = lockOf(locator)
  const begin = [bounded(lockTimeoutMs), `select pg_advisory_xact_lock(${own})`]
  if (partOf !== undefined) begin.push(`select pg_advisory_xact_lock_shared(${lockOf(partOf)})`)
  if (first !== undefined) begin.push(first)
  const keys = partOf === undefined ? [own] : [own, lockOf(partOf)]
  return orHeld(client, keys, () => inTransaction(client, work, { begin: begin.join('; '), last }))
}

/**
 * Runs `work` under a lock of the session, for statements that cannot run in a transaction.
 * @param lock as SQL
 */
export async function locked<T>(client: pg.ClientBase, lock: string, work: () => Promise<T>): Promise<T> {
  await client.query(`select pg_advisory_lock(${lock})`)
  return untilUnlocked(client, lock, work)
}

/** The same with the timeout of `aloneWithTimeout`. */
export async function lockedWithTimeout<T>(
  client: pg.ClientBase,
  lock: string,
  work: () => Promise<T>,
  { lockTimeoutMs = LOCK_TIMEOUT_MS }: Pick<AloneOptions, 'lockTimeoutMs'> = {},
): Promise<T> {
  const text = `${bounded(lockTimeoutMs)}; select pg_advisory_lock(${lock}); commit`
  await orHeld(client, [lock], () => orRollback(client, () => client.query(text)))
  return untilUnlocked(client, lock, work)
}

const bounded = (lockTimeoutMs: number): string => `begin; set local lock_timeout = ${Number(lockTimeoutMs)}`

async function untilUnlocked<T>(client: pg.ClientBase, lock: string, work: () => Promise<T>): Promise<T> {
  const unlock = () => client.query(`select pg_advisory_unlock(${lock})`)
  let result: T
  try {
    result = await work()
  } catch (error) {
    await unlock().catch((failure) => destroyClient(client, failure)) // The lock ends with its connection.
    throw error
  }
  await unlock()
  return result
}

async function orHeld<T>(client: pg.ClientBase, locks: readonly string[], work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (sqlState(error) !== LOCK_NOT_AVAILABLE) throw error
    throw heldBy((await client.query(holding(locks))).rows, error)
  }
}

interface Holder {
  readonly pid: number
  readonly name: string
  readonly address: string | null
  readonly state: string | null
  /** Null if the owner has no right to read it. */
  readonly since: Date | null
}

/** pg_locks has the two halves of the key in two columns. */
const holding = (locks: readonly string[]): string => `
  select pid, application_name as name, client_addr as address, state, coalesce(xact_start, state_change) as since
  from pg_locks join pg_stat_activity using (pid)
  where locktype = 'advisory' and granted and objsubid = 1 and ((classid::bigint << 32) | objid::bigint) in (${locks.join(', ')})
    and database = (select oid from pg_database where datname = current_database())
  order by since`

function heldBy(holders: readonly Holder[], cause: unknown): TenancyError {
  const since = holders.find((one) => one.since)?.since
  const details = holders.map(({ pid, name, address, state }) => `${pid} (${name}, ${address ?? 'local'}, ${state})`)
  return DependencyUnavailable(
    `The storage of the tenant is in use by another process${since ? ` since ${since.toISOString()}` : ''}. Wait until its work has ended, ` +
      'or end it at the database server. The call is repeated.',
    {
      retryAfterSeconds: RETRY_AFTER_SECONDS,
      cause: new Error(
        `held in the server by ${details.join(', ') || 'a session that has ended, or one without a lock of Tenantry'}`,
        {
          cause,
        },
      ),
    },
  )
}
