/**
 * Errors of SQLite under the SQLSTATEs that hosts distinguish: violations of constraints. All others have the class
 * `42000`.
 */

export class SqliteError extends Error {
  override readonly name = 'SqliteError'
  /** SQLSTATE */
  readonly code: string

  constructor(code: string, message: string, cause?: unknown) {
    super(message, { cause })
    this.code = code
  }
}

/** By the extended result code. */
const CONSTRAINTS: Readonly<Record<number, string>> = {
  275: '23514', // check
  787: '23503', // foreign key
  1299: '23502', // not null
  1555: '23505', // primary key
  2067: '23505', // unique
  2579: '23505', // rowid
}

/** Converts an error of SQLite; returns any other error unchanged. */
export function toSqliteError(error: unknown): unknown {
  if (!(error instanceof Error) || !('errcode' in error)) return error
  return new SqliteError(CONSTRAINTS[Number(error.errcode)] ?? '42000', error.message, error)
}
