/**
 * Reads all that a tenant has out of its database: as it was when nobody had it, for a moment, and then beside the tenant, who may
 * go on. A fence keeps statements out, not this.
 */
import { setImmediate } from 'node:timers/promises'
import type {
  CopiedTable,
  CopyDescription,
  TableCopy,
  TableTotals,
  TenantCopy,
} from '../../../tenants/isolation/copy.ts'
import { copiedColumns } from '../catalog/tables.ts'
import { csvLine, csvName } from '../copy/csv.ts'
import { copiedValue } from './copied-values.ts'
import type { Sqlite } from './database.ts'
import type { SqliteMigrator } from './migrator.ts'
import type { SqliteSnapshot } from './snapshot.ts'
import type { SqliteStorage } from './storage.ts'
import { quoted, sqliteSequences, sqliteTables } from './tables.ts'

/** For a transaction that has the storage, as for a migration. */
const WAIT_MS = 10_000
const CHUNK_LENGTH = 65_536

export interface SqliteSource {
  readonly sqlite: Sqlite
  readonly storage: SqliteStorage
  readonly isolation: string
  readonly migrator: SqliteMigrator
}

export async function copyOut<T>(
  { sqlite, storage, isolation, migrator }: SqliteSource,
  work: (copy: TenantCopy) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  signal.throwIfAborted()
  const snapshot = await storage.snapshot(sqlite, WAIT_MS)
  try {
    signal.throwIfAborted()
    return await work(new SqliteCopy(snapshot, described(snapshot, isolation, migrator), signal))
  } finally {
    snapshot.close()
  }
}

function described(snapshot: SqliteSnapshot, isolation: string, migrator: SqliteMigrator): CopyDescription {
  const query = snapshot.query.bind(snapshot)
  const tables = sqliteTables(query)
  return {
    engine: 'sqlite',
    isolation,
    migrations: migrator.recorded(query),
    tables: tables.map((table) => ({ name: table.name, columns: copiedColumns(table) })),
    sequences: sqliteSequences(query)
      .filter(({ name }) => tables.some((table) => table.name === name))
      .map(({ name, lastValue }) => ({ name, lastValue, isCalled: true })),
  }
}

class SqliteCopy implements TenantCopy {
  readonly description: CopyDescription
  readonly estimatedRows: number
  readonly #snapshot: SqliteSnapshot
  readonly #signal: AbortSignal
  #totals: TableTotals[] = []

  constructor(snapshot: SqliteSnapshot, description: CopyDescription, signal: AbortSignal) {
    this.#snapshot = snapshot
    this.#signal = signal
    this.description = description
    this.estimatedRows = description.tables.reduce(
      (sum, { name }) => sum + snapshot.query(`select count(*) as count from ${quoted(name)}`)[0].count,
      0,
    )
  }

  async *tables(): AsyncGenerator<TableCopy, void, void> {
    this.#totals = []
    for (const table of this.description.tables) {
      const read = this.#totals.length
      yield { table, csv: this.#csv(table) }
      if (this.#totals.length === read) throw new Error(`the table "${table.name}" was not read to its end`)
    }
  }

  async totals(): Promise<readonly TableTotals[]> {
    if (this.#totals.length < this.description.tables.length) {
      throw new Error('not all tables of the copy have been read')
    }
    return this.#totals
  }

  async *#csv(table: CopiedTable): AsyncGenerator<Buffer, void, void> {
    let [rows, bytes] = [0, 0]
    for (const { lines, text } of chunksOf(this.#snapshot, table)) {
      this.#signal.throwIfAborted()
      const chunk = Buffer.from(text)
      rows += lines
      bytes += chunk.length
      yield chunk
      await setImmediate() // whoever takes it in may never wait, and others want to run too
    }
    this.#totals.push({ name: table.name, rows, bytes })
  }
}

/** Rows of about that length together, the header before the first. */
function* chunksOf(snapshot: SqliteSnapshot, { name, columns }: CopiedTable) {
  let text = csvLine(columns.map((column) => csvName(column.name)))
  let lines = 0
  const selected = columns.map((column) => quoted(column.name)).join(', ') || 'null'
  for (const row of snapshot.rows(`select ${selected} from ${quoted(name)}`)) {
    text += csvLine(columns.map((_, at) => copiedValue(row[at] ?? null)))
    lines++
    if (text.length < CHUNK_LENGTH) continue
    yield { lines, text }
    text = ''
    lines = 0
  }
  yield { lines, text }
}
