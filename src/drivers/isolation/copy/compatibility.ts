/** Whether a copy goes into tables as they are, without a database; and what is told of a row that does not. */
import type pg from 'pg'
import { sqlState } from '../../../kernel/database/database.ts'
import { BackupIncompatible, type CopyDescription } from '../../../tenants/isolation/copy.ts'
import type { StoredSchema, StoredTable } from '../catalog/tables.ts'

/** More of them tell nothing more. */
const MAX_REPORTED = 5

/** Throws `E_BACKUP_INCOMPATIBLE`, naming tables and columns. */
export function assertCompatible(description: CopyDescription, stored: StoredSchema): void {
  const found = schemaMismatches(description, stored)
  if (found.length === 0) return
  const more = found.length > MAX_REPORTED ? `; and ${found.length - MAX_REPORTED} more` : ''
  throw BackupIncompatible(
    `The copy does not fit the tables here: ${found.slice(0, MAX_REPORTED).join('; ')}${more}. Its migrations make other tables than the ones it was read from.`,
  )
}

export function schemaMismatches({ tables, sequences }: CopyDescription, stored: StoredSchema): string[] {
  const names = tables.map(({ name }) => name)
  return [
    ...names.filter((name, index) => names.indexOf(name) < index).map((name) => `the table "${name}" is in it twice`),
    ...tables.flatMap((table) => {
      const into = stored.tables.find(({ name }) => name === table.name)
      return into ? tableMismatches(table, into) : [`there is no table "${table.name}"`]
    }),
    ...sequences.flatMap(({ name, lastValue }) => {
      if (!stored.sequences.some((one) => one.name === name)) return [`there is no sequence "${name}"`]
      return /^-?\d+$/.test(lastValue) ? [] : [`the sequence "${name}" is at no number`]
    }),
  ]
}

function tableMismatches({ name: table, columns }: CopyDescription['tables'][number], into: StoredTable): string[] {
  const of = (name: string) => `the column "${name}" of the table "${table}"`
  const names = columns.map(({ name }) => name)
  return [
    ...names.filter((name, index) => names.indexOf(name) < index).map((name) => `${of(name)} is in it twice`),
    ...columns.flatMap(({ name, type }) => {
      const column = into.columns.find((one) => one.name === name)
      if (!column) return [`there is no column "${name}" in the table "${table}"`]
      if (column.isGenerated) return [`${of(name)} is generated`]
      if (column.isFilled) return [`${of(name)} says whose a row is, which no copy does`]
      if (column.type !== type) return [`${of(name)} is ${column.type}, not ${type}`]
      return []
    }),
    ...into.columns
      .filter(({ name, isRequired }) => isRequired && !names.includes(name))
      .map(({ name }) => `${of(name)} must have values, and it has none`),
  ]
}

/** A value or a row that PostgreSQL does not take: classes 22 and 23. */
const REJECTED = /^2[23]/

/** What is told of a row of the copy that was refused; any other error as it is. */
export function toRowRejection(error: unknown, table?: string): unknown {
  if (!REJECTED.test(sqlState(error) ?? '')) return error
  const databaseError = error as pg.DatabaseError
  const name = databaseError.table ?? table
  const where = name === undefined ? 'A row of the copy' : `A row of the copy for the table "${name}"`
  const why = databaseError.constraint
    ? `violates its constraint "${databaseError.constraint}"`
    : 'is not what the columns take'
  return BackupIncompatible(`${where} ${why}.`, { cause: error })
}

/** Runs `work` with rows of the copy alone. */
export async function withRows<T>(work: () => Promise<T>, table?: string): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw toRowRejection(error, table)
  }
}
