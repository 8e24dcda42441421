/**
 * Values of SQLite in a copy, and those of PostgreSQL on their way into SQLite.
 *
 *   SQLite      as a copy has it                           PostgreSQL              in SQLite
 *   NULL        nothing                                    boolean                 1, 0
 *   text        in quotes, always                          whole numbers           integer
 *   integer     in digits                                  real, double precision  float; NaN, which SQLite has not, as text
 *   float       with a point, an exponent, or Infinity     bytea                   blob
 *   blob        `\x…` in hex                               timestamptz             as a Date is kept: ISO 8601 in UTC with Z
 *                                                          all else                its text; what the column makes of it counts
 *
 * What SQLite writes, it reads back as the same value of the same type. Nothing is cut off: where PostgreSQL has more digits of a
 * second than a Date, they stay, and times that a Date cannot have stay as PostgreSQL writes them.
 */
import type { SQLInputValue, SQLOutputValue } from 'node:sqlite'
import { BackupIncompatible } from '../../../tenants/isolation/copy.ts'
import { type CsvField, csvQuoted } from '../copy/csv.ts'

/** As a field of CSV stands in its line. */
export function copiedValue(value: SQLOutputValue): string {
  if (value === null) return ''
  if (typeof value === 'string') return csvQuoted(value)
  if (typeof value === 'bigint') return String(value)
  if (typeof value === 'number') return floatText(value)
  return `\\x${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('hex')}`
}

/** With as many digits as it takes to be the same again, and never like an integer. */
function floatText(value: number): string {
  const text = Object.is(value, -0) ? '-0' : String(value)
  return /^-?\d+$/.test(text) ? `${text}.0` : text
}

export type Reading = (field: CsvField) => SQLInputValue

const BLOB = /^\\x(?:[0-9a-f]{2})*$/i
const INTEGER = /^-?\d+$/
const FLOAT = /^-?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|infinity)$/i
const TIMESTAMPTZ = /^timestamp(?:\(\d\))? with time zone$/
/** Others have years that ISO 8601 has no four digits for, or are none at all: infinity. */
const INSTANT = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?\+00$/

/** What SQLite wrote. */
export const fromSqliteCopy: Reading = ({ text, isQuoted }) => {
  if (isQuoted) return text
  if (text === '') return null
  if (BLOB.test(text)) return blob(text)
  return INTEGER.test(text) ? integer(text) : float(text)
}

/** What PostgreSQL wrote of a column. @param type as format_type has it */
export function fromPostgresCopy(type: string): Reading {
  const read = readingOf(type)
  return ({ text, isQuoted }) => (text === '' && !isQuoted ? null : read(text))
}

function readingOf(type: string): (text: string) => SQLInputValue {
  if (type === 'boolean') return boolean
  if (type === 'smallint' || type === 'integer' || type === 'bigint') return integer
  if (type === 'real' || type === 'double precision') return (text) => (text === 'NaN' ? text : float(text))
  if (type === 'bytea') return blob
  if (TIMESTAMPTZ.test(type)) return instant
  return (text) => text
}

function boolean(text: string): bigint {
  if (text === 't') return 1n
  if (text === 'f') return 0n
  throw notA('boolean')
}

function integer(text: string): bigint {
  const value = INTEGER.test(text) ? BigInt(text) : undefined
  if (value === undefined || BigInt.asIntN(64, value) !== value) throw notA('integer')
  return value
}

function float(text: string): number {
  if (!FLOAT.test(text)) throw notA('number')
  return Number(text.replace(/infinity/i, 'Infinity'))
}

function blob(text: string): Buffer {
  if (!BLOB.test(text)) throw notA('row of bytes')
  return Buffer.from(text.slice(2), 'hex')
}

function instant(text: string): string {
  const [, date, time, fraction = ''] = INSTANT.exec(text) ?? []
  return date === undefined ? text : `${date}T${time}.${fraction.padEnd(3, '0')}Z`
}

const notA = (what: string) => BackupIncompatible(`A value of the copy is not the ${what} that its column has.`)
