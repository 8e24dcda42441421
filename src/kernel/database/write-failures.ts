/** Detects a server that responds and cannot store data, such as a read-only or full database. */
import { withoutDeadline } from '../base/deadline.ts'
import { type Database, isDatabaseUnavailable, sqlState } from './database.ts'

/** Reasons by SQLSTATE, without details of the server. */
export const WRITE_FAILURES: Readonly<Record<string, string>> = {
  '25006': 'database is read-only',
  '53100': 'disk is full',
  '53200': 'server is out of memory',
  '58030': 'I/O error of the server',
}

/** A sort or a large result needs the disk space that a new row needs, and leaves nothing behind. */
const SPILLED_ROWS = 10_000

const PROBE = `do $probe$ begin
    if current_setting('transaction_read_only')::boolean then
      raise read_only_sql_transaction using message = 'the database is read-only';
    end if;
    perform set_config('work_mem', '64kB', true);
    perform count(*) from generate_series(1, ${SPILLED_ROWS});
  end $probe$`

/** The reason why the server could not store data; undefined for any other error. */
export function writeFailure(error: unknown): string | undefined {
  if (error instanceof AggregateError) return error.errors.map(writeFailure).find((reason) => reason !== undefined)
  if (error instanceof Error && error.message.startsWith('out of shared memory')) return undefined // too many locks of a statement
  return WRITE_FAILURES[sqlState(error) ?? '']
}

/** Whether a write failed because of the server: it is unavailable, read-only, or lacks disk space or memory. */
export const isWriteOutage = (error: unknown): boolean =>
  isDatabaseUnavailable(error) || writeFailure(error) !== undefined

/** Whether the server can store data. Throws if it is unavailable. */
export async function isWritable(database: Database): Promise<boolean> {
  try {
    await assertWritable(database)
    return true
  } catch (error) {
    if (writeFailure(error) === undefined) throw error
    return false
  }
}

/** More than the timeout of a check. A probe on a lost connection must not block the next ones. */
const PROBE_TIMEOUT_MS = 3_000
const running = new WeakMap<Database, Promise<unknown>>()

/**
 * Throws if the server does not respond, is read-only, or has no disk space for a temporary file. Concurrent calls share
 * one probe, because every client can request the probes of the service.
 */
export async function assertWritable(database: Database): Promise<void> {
  const probe =
    running.get(database) ??
    withoutDeadline(() => database.outside(() => database.sql({ text: PROBE, timeoutMs: PROBE_TIMEOUT_MS }))).finally(
      () => {
        running.delete(database)
      },
    )
  running.set(database, probe)
  await probe
}
