/**
 * Prepares the session of a transaction that reads or imports a copy: settings for a unique text of each value and
 * without timeouts; and ends the session of a cancelled copy.
 */
import type pg from 'pg'
import { destroyClient } from '../connections/close-client.ts'
import type { Semaphore } from '../connections/semaphore.ts'

export type Settings = Readonly<Record<string, string>>

/** Formats of values: reading and writing must use the same. */
const VALUES: Settings = {
  DateStyle: 'ISO',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  client_encoding: 'UTF8',
  extra_float_digits: '3',
  bytea_output: 'hex',
  xmloption: 'content',
  lc_monetary: 'C',
}

const LOCK_TIMEOUT_MS = 10_000
const MAINTENANCE_MEMORY_KB = 256 * 1024

/**
 * No timeouts: the reader of a copy may be slow, and indexes take long. The server detects a lost client within one
 * second, if its system supports it.
 */
const TIMEOUTS: Settings = {
  statement_timeout: '0',
  transaction_timeout: '0',
  idle_in_transaction_session_timeout: '0',
  lock_timeout: `${LOCK_TIMEOUT_MS}`,
  client_connection_check_interval: '1s',
}

export const READING: Settings = { ...VALUES, ...TIMEOUTS, synchronize_seqscans: 'off' }

/** The restored objects name their own tablespaces. */
export const LOADING: Settings = { ...VALUES, ...TIMEOUTS, default_tablespace: '' }

/** Disables all triggers. Needs the right to set it, also to reset it. */
export const TRIGGERS_DISABLED: Settings = { session_replication_role: 'replica' }

/** Skips settings that are unknown to the server's version, or that its system does not support. */
export const setting = (settings: Settings): string => `
  select set_config(name, value, true) from (values ${rowsOf(settings)}) as wanted (name, value)
  where (current_setting(name, true) is not null or name like '%.%')
    and (name <> 'client_connection_check_interval' or version() ~* 'linux|darwin|bsd')`

/** More memory for indexes, unless the setting is already higher. */
export const MORE_MEMORY = `select set_config('maintenance_work_mem', '${MAINTENANCE_MEMORY_KB}kB', true)
  where pg_size_bytes(current_setting('maintenance_work_mem')) < ${MAINTENANCE_MEMORY_KB * 1024}`

/** Runs in a transaction, and restores the settings afterwards for the rest of the transaction. */
export async function withSettings<T>(client: pg.ClientBase, settings: Settings, work: () => Promise<T>): Promise<T> {
  const names = Object.keys({ ...settings, maintenance_work_mem: '' })
  const { rows } = await client.query(
    'select name, current_setting(name, true) as value from unnest($1::text[]) as name',
    [names],
  )
  await client.query(`${setting(settings)}; ${MORE_MEMORY}`)
  const result = await work()
  await client.query(setting(Object.fromEntries(rows.map(({ name, value }) => [name, value ?? '']))))
  return result
}

const rowsOf = (settings: Settings): string =>
  Object.entries(settings)
    .map(([name, value]) => `('${name}', '${value.replaceAll("'", "''")}')`)
    .join(', ')

/** Work on one connection that `abortable` may end; the connection is then lost. */
export type Holding = <T>(client: pg.ClientBase, work: () => Promise<T>) => Promise<T>

/** Runs `abortable` when the limit of concurrent copies of this kind allows it. */
export const copying = <T>(
  semaphore: Semaphore,
  signal: AbortSignal,
  work: (hold: Holding) => Promise<T>,
): Promise<T> => semaphore.run(signal, () => abortable(signal, work))

/**
 * Runs `work` until `signal` aborts. Then destroys its connection without waiting for the server, and throws the
 * reason.
 */
export async function abortable<T>(signal: AbortSignal, work: (hold: Holding) => Promise<T>): Promise<T> {
  const held = new Set<pg.ClientBase>()
  const end = () => {
    for (const client of held) destroyClient(client, new Error('The copy was cancelled', { cause: signal.reason }))
  }
  const hold: Holding = async (client, work) => {
    signal.throwIfAborted()
    held.add(client)
    try {
      return await work()
    } finally {
      held.delete(client)
    }
  }
  signal.throwIfAborted()
  signal.addEventListener('abort', end)
  try {
    return await work(hold)
  } catch (error) {
    signal.throwIfAborted() // A destroyed connection causes the same error with another message.
    throw error
  } finally {
    signal.removeEventListener('abort', end)
  }
}
