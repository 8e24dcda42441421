/**
 * Values between a host, which writes them for node-postgres, and SQLite, which has integers, floats, texts and blobs only.
 *
 *   in    undefined, null -> NULL           boolean -> 1, 0              Date -> ISO 8601 text in UTC
 *         whole number, bigint -> integer   other number -> float        object, array -> JSON text
 *         Buffer, typed array -> blob
 *   out   integer -> number, a bigint beyond 2^53    blob -> Buffer    all else as it is
 *
 * So a boolean comes back as 1 or 0, a Date and JSON as texts.
 */
import type { SQLInputValue, SQLOutputValue } from 'node:sqlite'
import { NO_SUCH_PARAMETER, NOT_A_VALUE, OUT_OF_RANGE, SqliteError } from './errors.ts'
import type { SqliteText } from './text.ts'

/** As `all(...)` of a prepared statement takes them. Throws when there are not as many as parameters. */
export function bound(
  { parameters }: SqliteText,
  values: readonly unknown[] = [],
): [Record<string, SQLInputValue>] | SQLInputValue[] {
  const wanted = typeof parameters === 'number' ? parameters : Math.max(0, ...parameters.values())
  if (values.length !== wanted) {
    throw new SqliteError(NO_SUCH_PARAMETER, `${values.length} values were given for ${wanted} parameters`)
  }
  if (typeof parameters === 'number') return values.map(toSqlite)
  if (parameters.size === 0) return []
  return [Object.fromEntries([...parameters].map(([name, number]) => [name, toSqlite(values[number - 1])]))]
}

export function toSqlite(value: unknown): SQLInputValue {
  if (value === undefined || value === null) return null
  if (typeof value === 'string') return value
  if (typeof value === 'boolean') return value ? 1n : 0n
  if (typeof value === 'bigint') return integer(value)
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : float(value)
  if (value instanceof Date) return time(value)
  if (ArrayBuffer.isView(value)) return value as NodeJS.ArrayBufferView
  if (typeof value === 'object') return JSON.stringify(value) ?? null
  throw new SqliteError(NOT_A_VALUE, `a ${typeof value} cannot be stored`)
}

export function fromSqlite(value: SQLOutputValue): unknown {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : value
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  return value
}

function integer(value: bigint): bigint {
  if (BigInt.asIntN(64, value) === value) return value
  throw new SqliteError(OUT_OF_RANGE, `${value} has more than 64 bits`)
}

/** SQLite would make NULL of it. */
function float(value: number): number {
  if (!Number.isNaN(value)) return value
  throw new SqliteError(NOT_A_VALUE, 'NaN cannot be stored')
}

function time(value: Date): string {
  if (!Number.isNaN(value.getTime())) return value.toISOString()
  throw new SqliteError(NOT_A_VALUE, 'an invalid Date cannot be stored')
}
