/**
 * Statements that a host writes for node-postgres, as SQLite takes them.
 *
 *   values    undefined, null -> NULL    boolean -> 1, 0      whole number, bigint -> integer    other number -> float
 *             Date -> ISO 8601 text      object -> JSON text  Buffer, typed array -> blob
 *   columns   integer -> number, or a bigint beyond 2^53      blob -> Buffer
 */
import type { SQLInputValue, SQLOutputValue } from 'node:sqlite'
import { SqliteError } from './errors.ts'

const COMMENT = String.raw`--[^\n]*(?:\n|$)|/\*(?:(?!\*/)[\s\S])*(?:\*/|$)`
const BLANK = new RegExp(`^(?:[\\s;]|${COMMENT})*$`)
const QUOTED_OR_COMMENT = new RegExp(`'(?:[^']+|'')*'|"(?:[^"]+|"")*"|\`[^\`]*\`|\\[[^\\]]*\\]|${COMMENT}`, 'g')
const PARAMETER = /(?<![\w$])\$\d+|\?\d*/g
const CHANGES = new Set(['INSERT', 'REPLACE', 'UPDATE', 'DELETE'])

/** Whether a text has only blanks, comments and semicolons. */
export const isBlank = (text: string): boolean => BLANK.test(text)

/** `SELECT`, `INSERT` .. as PostgreSQL reports it, also of a statement after WITH. */
export function commandOf(text: string): string {
  let outer = text.replace(QUOTED_OR_COMMENT, ' ')
  const first = /\w+/.exec(outer)?.[0].toUpperCase() ?? ''
  if (first !== 'WITH') return first === 'REPLACE' ? 'INSERT' : first
  for (let before = ''; before !== outer; ) {
    before = outer
    outer = outer.replace(/\([^()]*\)/g, ' ')
  }
  const words = outer.toUpperCase().match(/\w+/g) ?? []
  return words.find((word) => CHANGES.has(word)) ?? 'SELECT'
}

/** Parameters of a prepared statement, for `$1`, `?1` or `?`. Throws unless there is one value for each. */
export function parametersOf(
  text: string,
  values: readonly unknown[] = [],
): [Record<string, SQLInputValue>] | SQLInputValue[] {
  const names = text.replace(QUOTED_OR_COMMENT, ' ').match(PARAMETER) ?? []
  const plain = names.filter((name) => name === '?').length
  const expected = plain || Math.max(0, ...names.map((name) => Number(name.slice(1))))
  if (values.length !== expected) {
    throw new SqliteError('42P02', `The statement has ${expected} parameters, the call has ${values.length} values.`)
  }
  if (plain > 0 || names.length === 0) return values.map(toSqlite)
  return [Object.fromEntries(names.map((name) => [name, toSqlite(values[Number(name.slice(1)) - 1])]))]
}

function toSqlite(value: unknown): SQLInputValue {
  if (value === undefined || value === null) return null
  if (typeof value === 'boolean') return value ? 1n : 0n
  if (typeof value === 'number' && Number.isSafeInteger(value)) return BigInt(value) // a number would become a float
  if (value instanceof Date) return value.toISOString()
  if (typeof value === 'object' && !ArrayBuffer.isView(value)) return JSON.stringify(value) ?? null
  return value as SQLInputValue
}

export function fromSqlite(value: SQLOutputValue): unknown {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : value
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  return value
}
