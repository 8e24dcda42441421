/**
 * The session of a transaction that reads a copy or takes one in: settings with which the same value is always the same text, and
 * that let it last as long as it has to; and the end of it when nobody wants it any more.
 */
import type pg from 'pg'
import { destroyClient } from '../connections/close-client.ts'
import type { Semaphore } from '../connections/semaphore.ts'

export type Settings = Readonly<Record<string, string>>

/** How values are written, and how they are read: both have to say the same. */
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
 * Whoever takes in what is read may be slow, and an index takes as long as it takes. A server that works for a client that is gone
 * finds out within the second, where its system can tell it.
 */
const TIMEOUTS: Settings = {
  statement_timeout: '0',
  transaction_timeout: '0',
  idle_in_transaction_session_timeout: '0',
  lock_timeout: `${LOCK_TIMEOUT_MS}`,
  client_connection_check_interval: '1s',
}

export const READING: Settings = { ...VALUES, ...TIMEOUTS, synchronize_seqscans: 'off' }

/** What is built again says itself where. */
export const LOADING: Settings = { ...VALUES, ...TIMEOUTS, default_tablespace: '' }

/** No trigger runs. Only for who may set it, also to set it back. */
export const TRIGGERS_DISABLED: Settings = { session_replication_role: 'replica' }

/** Not every version knows every setting, and not every system can watch a client. */
export const setting = (settings: Settings): string => `
  select set_config(name, value, true) from (values ${rowsOf(settings)}) as wanted (name, value)
  where (current_setting(name, true) is not null or name like '%.%')
    and (name <> 'client_connection_check_interval' or version() ~* 'linux|darwin|bsd')`

/** More memory for indexes, unless there is more of it already. */
export const MORE_MEMORY = `select set_config('maintenance_work_mem', '${MAINTENANCE_MEMORY_KB}kB', true)
  where pg_size_bytes(current_setting('maintenance_work_mem')) < ${MAINTENANCE_MEMORY_KB * 1024}`

/** In a transaction. Afterwards everything is as it was before, for what the transaction still has to do. */
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

/** What `abortable` may end: work on one connection, which is lost then. */
export type Holding = <T>(client: pg.ClientBase, work: () => Promise<T>) => Promise<T>

/** `abortable`, once there is room for another copy of this kind. */
export const copying = <T>(
  semaphore: Semaphore,
  signal: AbortSignal,
  work: (hold: Holding) => Promise<T>,
): Promise<T> => semaphore.run(signal, () => abortable(signal, work))

/** Runs `work` until `signal` aborts. What it holds then is cut, as no answer of a server is waited for; what is thrown is the reason. */
export async function abortable<T>(signal: AbortSignal, work: (hold: Holding) => Promise<T>): Promise<T> {
  const held = new Set<pg.ClientBase>()
  const end = () => {
    for (const client of held)
      destroyClient(client, new Error('nobody waits for it any more', { cause: signal.reason }))
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
    signal.throwIfAborted() // a connection that was cut tells the same in other words
    throw error
  } finally {
    signal.removeEventListener('abort', end)
  }
}
