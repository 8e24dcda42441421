/** Reads many rows of the backoffice in pages. */
import type { Database } from './database.ts'

const READ_AT_ONCE = 500

/**
 * Yields all rows of a query, in the order of its key.
 *
 * @param text selects the rows whose key is after the parameters, and orders them by the key
 * @param first parameters of the first page
 * @param after parameters of the page after a row
 */
export async function* pagesOf<Row extends object>(
  database: Database,
  text: string,
  { first, after, signal }: Pages<Row>,
): AsyncGenerator<Row> {
  for (let parameters: readonly unknown[] | undefined = first; parameters; ) {
    signal.throwIfAborted()
    const { rows } = await database.sql(`${text} limit ${READ_AT_ONCE}`, [...parameters])
    yield* rows as Row[]
    parameters = rows.length < READ_AT_ONCE ? undefined : after(rows.at(-1) as Row)
  }
}

interface Pages<Row> {
  readonly first: readonly unknown[]
  readonly after: (row: Row) => readonly unknown[]
  readonly signal: AbortSignal
}
