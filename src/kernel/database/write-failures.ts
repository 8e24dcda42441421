/** Classifies errors of a server that responds and cannot store data, such as a read-only or full database. */
import { isDatabaseUnavailable, sqlState } from './availability.ts'

/** Reasons by SQLSTATE, without details of the server. */
export const WRITE_FAILURES: Readonly<Record<string, string>> = {
  '25006': 'database is read-only',
  '53100': 'disk is full',
  '53200': 'server is out of memory',
  '58030': 'I/O error of the server',
}

/** States in which the server remains. The others can be failures of one statement. */
const LASTING = new Set(['25006', '53100'])

/** The reason why the server could not store data; undefined for any other error. */
export function writeFailure(error: unknown): string | undefined {
  if (error instanceof AggregateError) return error.errors.map(writeFailure).find((reason) => reason !== undefined)
  if (error instanceof Error && error.message.startsWith('out of shared memory')) return undefined // too many locks of a statement
  return WRITE_FAILURES[sqlState(error) ?? '']
}

/** Whether a write failed because of the server: it is unavailable, read-only, or lacks disk space or memory. */
export const isWriteOutage = (error: unknown): boolean =>
  isDatabaseUnavailable(error) || writeFailure(error) !== undefined

/** Whether the server is read-only or its disk is full. */
export const isStorageOutage = (error: unknown): boolean =>
  error instanceof AggregateError ? error.errors.some(isStorageOutage) : LASTING.has(sqlState(error) ?? '')

/** A sort or a large result needs the disk space that a new row needs, and leaves nothing behind. */
const SPILLED_ROWS = 10_000

export const WRITE_PROBE = `do $probe$ begin
    if current_setting('transaction_read_only')::boolean then
      raise read_only_sql_transaction using message = 'the database is read-only';
    end if;
    perform set_config('work_mem', '64kB', true);
    perform count(*) from generate_series(1, ${SPILLED_ROWS});
  end $probe$`
