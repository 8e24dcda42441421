/**
 * Takes a copy into a database that nobody else has yet: its rows, in one transaction.
 *
 *   compatible? ─► triggers dropped, tables emptied ─► rows, table by table ─► numbers, triggers back, foreign keys looked at ─► COMMIT
 *
 * Tables are emptied because rows that migrations put there are in the copy too; one that the copy does not have keeps its rows.
 * Triggers have been at work where the copy was read, so none is now. What refers to what is looked at when all rows are there.
 */
import {
  BackupIncompatible,
  type CopyDescription,
  type TableCopy,
  type TenantCopy,
} from '../../../tenants/isolation/copy.ts'
import type { TransferOptions } from '../../../tenants/isolation/driver.ts'
import { iterateTables, type Rows } from '../catalog/iterate-tables.ts'
import { assertCompatible } from '../copy/compatibility.ts'
import { type CsvField, csvRows } from '../copy/csv.ts'
import { fromPostgresCopy, fromSqliteCopy } from './copied-values.ts'
import type { SqliteDatabase } from './database.ts'
import { SqliteError } from './errors.ts'
import type { SqliteStorage } from './storage.ts'
import { quoted, type SqliteTable, sqliteTables } from './tables.ts'

/** A row that a constraint refuses, or a type where types are strict. */
const REFUSED = /^(23|42804)/

/** Returns how many rows of each table are there. */
export async function copyIn(
  storage: SqliteStorage,
  copy: TenantCopy,
  { signal, onPhase }: TransferOptions,
): Promise<Rows> {
  await storage.take()
  try {
    const { database } = storage
    const tables = sqliteTables((text, values) => database.own(text, values))
    // What PostgreSQL calls its types says nothing here; its sequences have no others to be.
    assertCompatible({ ...copy.description, engine: 'sqlite' }, { tables, sequences: [] })
    const taken = tables.filter(({ name }) => copy.description.tables.some((table) => table.name === name))
    return await database.unguarded({ shadows: taken.some(({ isShadow }) => isShadow) }, async () => {
      const triggers = emptied(database, taken)
      onPhase?.('loading')
      const rows = await load(database, copy, signal)
      onPhase?.('indexing')
      setNumbers(database, copy.description, taken)
      for (const { sql } of triggers) database.own(sql)
      assertForeignKeys(database, taken)
      return rows
    })
  } finally {
    storage.give()
  }
}

/** Returns the triggers, as they are to be made again. */
function emptied(database: SqliteDatabase, tables: readonly SqliteTable[]): readonly { readonly sql: string }[] {
  const triggers = database.own(`select name, sql from sqlite_schema where type = 'trigger' order by rowid`)
  for (const { name } of triggers) database.own(`drop trigger ${quoted(name)}`)
  for (const { name } of tables) database.own(`delete from ${quoted(name)}`)
  return triggers
}

const load = (database: SqliteDatabase, copy: TenantCopy, signal: AbortSignal): Promise<Rows> =>
  iterateTables(copy, async (table) => {
    await loadTable(database, table, copy.description.engine, signal)
    return database.own(`select count(*) as count from ${quoted(table.table.name)}`)[0].count
  })

async function loadTable(
  database: SqliteDatabase,
  { table: { name, columns }, csv }: TableCopy,
  engine: CopyDescription['engine'],
  signal: AbortSignal,
): Promise<void> {
  const names = columns.length > 0 ? columns.map((column) => column.name) : ['']
  const readings = columns.map(({ type }) => (engine === 'sqlite' ? fromSqliteCopy : fromPostgresCopy(type)))
  const insert = database.repeated(insertText(name, columns))
  let isHeader = true
  for await (const rows of csvRows(csv)) {
    signal.throwIfAborted()
    for (const row of rows) {
      if (row.length !== names.length)
        throw BackupIncompatible(`A row of the copy for the table "${name}" is not whole.`)
      if (isHeader) assertColumnNames(name, row, names)
      else take(name, () => insert(readings.map((read, at) => read(row[at] as CsvField))))
      isHeader = false
    }
  }
  if (isHeader) throw BackupIncompatible(`The copy of the table "${name}" is not whole.`)
}

const insertText = (name: string, columns: readonly { readonly name: string }[]): string =>
  columns.length === 0
    ? `insert into ${quoted(name)} default values`
    : `insert into ${quoted(name)} (${columns.map((column) => quoted(column.name)).join(', ')})
       values (${columns.map(() => '?').join(', ')})`

function assertColumnNames(table: string, header: readonly CsvField[], names: readonly string[]): void {
  if (header.every(({ text }, at) => text === names[at])) return
  throw BackupIncompatible(`The copy of the table "${table}" does not begin with the names of its columns.`)
}

function take(table: string, work: () => void): void {
  try {
    work()
  } catch (error) {
    if (BackupIncompatible.matches(error)) {
      throw BackupIncompatible(`${error.message} It is in the table "${table}".`, { cause: error })
    }
    if (!(error instanceof SqliteError) || !REFUSED.test(error.code)) throw error
    throw BackupIncompatible(`A row of the copy for the table "${table}" is refused there.`, { cause: error })
  }
}

/** The number after which a table goes on, whatever rows it has left. PostgreSQL keeps it in a sequence that is named after the column. */
function setNumbers(database: SqliteDatabase, { engine, sequences }: CopyDescription, tables: readonly SqliteTable[]) {
  for (const { name, autoincrement } of tables) {
    if (autoincrement === undefined) continue
    const source = engine === 'sqlite' ? name : `${name}_${autoincrement}_seq`
    const sequence = sequences.find((one) => one.name === source)
    if (!sequence) continue
    const last = BigInt(sequence.lastValue) - (sequence.isCalled ? 0n : 1n)
    database.own('update sqlite_sequence set seq = max(seq, ?) where name = ?', [last, name])
    database.own(
      'insert into sqlite_sequence (name, seq) select ?, ? where not exists (select 1 from sqlite_sequence where name = ?)',
      [name, last, name],
    )
  }
}

function assertForeignKeys(database: SqliteDatabase, tables: readonly SqliteTable[]): void {
  for (const { name } of tables) {
    if (database.own(`select 1 from pragma_foreign_key_check(?) limit 1`, [name]).length === 0) continue
    throw BackupIncompatible(`A row of the copy for the table "${name}" refers to one that is not there.`)
  }
}
