/**
 * The lock of one storage, for whoever must not wait for it without end. A process that hangs in the middle of its work keeps what it
 * has for as long as its connection lives: so it is waited for a while, and then what holds the storage is said, for whoever tries the
 * same again later. What bounds the wait is a setting of a transaction, so that nothing of it stays on the connection.
 */
import type pg from 'pg'
import { DependencyUnavailable, type TenancyError } from '../../../kernel/base/errors.ts'
import { sqlState } from '../../../kernel/database/database.ts'
import { destroyClient } from '../connections/close-client.ts'
import { inTransaction, lockOf, orRollback } from './owner-transaction.ts'

const LOCK_TIMEOUT_MS = 10_000
const RETRY_AFTER_SECONDS = 30
const LOCK_NOT_AVAILABLE = '55P03'

export interface AloneOptions {
  /** How long it may wait, for this and for any lock of a statement; default 10,000. */
  readonly lockTimeoutMs?: number | undefined
  /** The storage that this is a part of: not left to it alone, but kept from migrations meanwhile. */
  readonly partOf?: string | undefined
}

/**
 * Runs `work` in a transaction that has the storage alone among all processes. Throws `E_DEPENDENCY_UNAVAILABLE` when somebody else
 * has it, or what the work needs of it, for longer than it may wait.
 */
export function aloneWithTimeout<T>(
  client: pg.ClientBase,
  locator: string,
  work: () => Promise<T>,
  { lockTimeoutMs = LOCK_TIMEOUT_MS, partOf }: AloneOptions = {},
): Promise<T> {
  const own = lockOf(locator)
  const begin = [bounded(lockTimeoutMs), `select pg_advisory_xact_lock(${own})`]
  if (partOf !== undefined) begin.push(`select pg_advisory_xact_lock_shared(${lockOf(partOf)})`)
  const keys = partOf === undefined ? [own] : [own, lockOf(partOf)]
  return orHeld(client, keys, () => inTransaction(client, work, { begin: begin.join('; ') }))
}

/**
 * Runs `work` under a lock of the session: what is no part of a transaction cannot be done under one that ends with it.
 * @param lock as SQL
 */
export async function locked<T>(client: pg.ClientBase, lock: string, work: () => Promise<T>): Promise<T> {
  await client.query(`select pg_advisory_lock(${lock})`)
  return untilUnlocked(client, lock, work)
}

/** The same with an end to the wait, as `aloneWithTimeout` has it. */
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
    await unlock().catch((failure) => destroyClient(client, failure)) // with its connection the lock is gone in any case
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
  /** Null when the owner may not know. */
  readonly since: Date | null
}

/** A lock has the halves of its number in two columns. */
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
    `Somebody else is at work on the storage of the tenant${since ? `, since ${since.toISOString()}` : ''}: wait until that is over, ` +
      'or end it at the database server. It is tried again.',
    {
      retryAfterSeconds: RETRY_AFTER_SECONDS,
      cause: new Error(
        `held in the server by ${details.join(', ') || 'what has ended since, or has no lock of ours'}`,
        {
          cause,
        },
      ),
    },
  )
}
