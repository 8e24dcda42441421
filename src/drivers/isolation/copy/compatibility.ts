/**
 * Checks without a database whether a copy is compatible with existing tables, and converts errors of rejected rows.
 */
import type pg from 'pg'
import { sqlState } from '../../../kernel/database/database.ts'
import { BackupIncompatible, type CopyDescription } from '../../../tenants/isolation/copy.ts'
import type { StoredSchema, StoredTable } from '../catalog/tables.ts'

/** Limits the message. */
const MAX_REPORTED = 5

/**
 * Throws `E_BACKUP_INCOMPATIBLE` with the tables and columns.
 * @param mayName whether the copy may have the tenant column: separate storage does not know a given one
 */
export function assertCompatible(description: CopyDescription, stored: StoredSchema, mayName = false): void {
  const found = schemaMismatches(description, stored, mayName)
  if (found.length === 0) return
  const more = found.length > MAX_REPORTED ? `; and ${found.length - MAX_REPORTED} more` : ''
  throw BackupIncompatible(
    `The copy is not compatible with the tables here: ${found.slice(0, MAX_REPORTED).join('; ')}${more}. Its migrations create other tables than the copy was read from.`,
  )
}

export function schemaMismatches(
  { tables, sequences }: CopyDescription,
  stored: StoredSchema,
  mayName = false,
): string[] {
  const names = tables.map(({ name }) => name)
  return [
    ...names
      .filter((name, index) => names.indexOf(name) < index)
      .map((name) => `the copy contains the table "${name}" twice`),
    ...tables.flatMap((table) => {
      const into = stored.tables.find(({ name }) => name === table.name)
      return into ? tableMismatches(table, into, mayName) : [`there is no table "${table.name}"`]
    }),
    ...sequences.flatMap(({ name, lastValue }) => {
      if (!stored.sequences.some((one) => one.name === name)) return [`there is no sequence "${name}"`]
      return /^-?\d+$/.test(lastValue) ? [] : [`the value of the sequence "${name}" is not a number`]
    }),
  ]
}

function tableMismatches(
  { name: table, columns }: CopyDescription['tables'][number],
  into: StoredTable,
  mayName: boolean,
): string[] {
  const of = (name: string) => `the column "${name}" of the table "${table}"`
  const names = columns.map(({ name }) => name)
  return [
    ...names.filter((name, index) => names.indexOf(name) < index).map((name) => `the copy contains ${of(name)} twice`),
    ...columns.flatMap(({ name, type }) => {
      const column = into.columns.find((one) => one.name === name)
      if (!column) return [`there is no column "${name}" in the table "${table}"`]
      if (column.isGenerated) return [`${of(name)} is generated`]
      if (column.isFilled && !mayName) return [`${of(name)} names the tenant of a row, which copies do not contain`]
      if (column.type !== type) return [`${of(name)} is ${column.type}, not ${type}`]
      return []
    }),
    ...into.columns
      .filter(({ name, isRequired }) => isRequired && !names.includes(name))
      .map(({ name }) => `${of(name)} is required, and the copy has no values for it`),
  ]
}

/** SQLSTATE classes 22 and 23: rejected values and rows. */
const REJECTED = /^2[23]/

/** Converts the error of a rejected row of the copy; returns any other error unchanged. */
export function toRowRejection(error: unknown, table?: string): unknown {
  if (!REJECTED.test(sqlState(error) ?? '')) return error
  const databaseError = error as pg.DatabaseError
  const name = databaseError.table ?? table
  const where = name === undefined ? 'A row of the copy' : `A row of the copy for the table "${name}"`
  const why = databaseError.constraint
    ? `violates its constraint "${databaseError.constraint}"`
    : 'has a value that is invalid for its column'
  return BackupIncompatible(`${where} ${why}.`, { cause: error })
}

/** Runs `work`, which must write only rows of the copy. */
export async function withRows<T>(work: () => Promise<T>, table?: string): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw toRowRejection(error, table)
  }
}
