/** What SQLite refuses, under the SQLSTATE that PostgreSQL has for it: a host looks at one `code` with every driver. */

export class SqliteError extends Error {
  override readonly name = 'SqliteError'
  /** SQLSTATE */
  readonly code: string

  constructor(code: string, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
  }
}

export const SYNTAX_ERROR = '42601'
export const NOT_ALLOWED = '42501'
export const NO_SUCH_PARAMETER = '42P02'
export const NOT_A_VALUE = '22P02'
export const OUT_OF_RANGE = '22003'
export const IN_TRANSACTION = '25001'
export const IN_FAILED_TRANSACTION = '25P02'

/** By SQLite's extended result code. */
const CONSTRAINTS: Readonly<Record<number, string>> = {
  275: '23514', // check
  787: '23503', // foreign key
  1299: '23502', // not null
  1555: '23505', // primary key
  1811: 'P0001', // raised by a trigger
  2067: '23505', // unique
  2579: '23505', // rowid
}
const CONSTRAINT = 19
/** By SQLite's result code. */
const RESULTS: Readonly<Record<number, string>> = {
  8: '25006', // read only
  13: '53200', // full: of memory, as nothing is on a disk
  18: '54000', // too big
  [CONSTRAINT]: '23000',
  20: '42804', // mismatch
  23: NOT_ALLOWED,
}
const MESSAGES: readonly (readonly [RegExp, string])[] = [
  [/syntax error|incomplete input|unrecognized token/, SYNTAX_ERROR],
  [/^no such table/, '42P01'],
  [/no such column|has no column named/, '42703'],
  [/^no such function/, '42883'],
  [/^no such savepoint/, '3B001'],
  [/already exists/, '42P07'],
  [/from within a transaction/, IN_TRANSACTION],
]
const REFUSED_STATEMENT = '42000'
const INTERNAL = 'XX000'

/** For what SQLite threw; anything else is answered as it is. */
export function sqliteError(error: unknown): unknown {
  if (!(error instanceof Error) || !('errcode' in error)) return error
  return new SqliteError(stateOf(Number(error.errcode), error.message), error.message, error)
}

function stateOf(extended: number, message: string): string {
  const result = extended & 0xff
  const named = CONSTRAINTS[extended] ?? RESULTS[result]
  if (named) return named
  return result === 1 ? (MESSAGES.find(([words]) => words.test(message))?.[1] ?? REFUSED_STATEMENT) : INTERNAL
}
