/**
 * Runs the statements and rows of a file that contains tables. Only the current statement and one batch of rows are in
 * memory.
 *
 * - Triggers of the file exist only after its rows: no row is accepted after the first trigger.
 * - Sequences belong to the file, so `setval` runs in the transaction.
 */
import { InvalidRequest } from '../../../kernel/base/errors.ts'
import type { TableImport } from '../../isolation/table-import.ts'
import { CopiedRows, type RowWriter } from '../copied-rows.ts'
import { lineBreaks, offsetOf, toImportError } from '../errors.ts'
import { LONGEST_STATEMENT, readFile } from '../file.ts'
import type { SqlName } from '../parser.ts'
import { parseStatement } from '../rules.ts'
import { lineAt, type SqlStatement, StatementReader } from '../splitter.ts'
import { SchemaNames } from './schema-names.ts'
import { dumpStatement, type Skipped } from './statements.ts'
import { edited, toLiteral } from './tokens.ts'

export interface TableImportTotals {
  /** Executed statements. */
  statements: number
  /** Inserted rows. */
  rows: number
  /** Size of the file. */
  bytes: number
  /** Skipped statements by kind. */
  readonly skipped: Partial<Record<Skipped, number>>
  /** Strings that contain the schema of the dump, such as 'public.notes', and were not changed. */
  unchangedTexts: number
  /** Differences between the tables and those of the migrations, as sentences. */
  differences: readonly string[]
}

export interface TablesRunOptions {
  readonly signal: AbortSignal
  readonly onProgress?: ((totals: TableImportTotals) => void) | undefined
}

export class TablesRun {
  readonly totals: TableImportTotals = {
    statements: 0,
    rows: 0,
    bytes: 0,
    skipped: {},
    unchangedTexts: 0,
    differences: [],
  }
  readonly #tables: TableImport
  readonly #options: TablesRunOptions
  readonly #names: SchemaNames
  readonly #reader = new StatementReader({ longest: LONGEST_STATEMENT })
  #copied: CopiedRows | undefined
  #hasTriggers = false

  constructor(tables: TableImport, options: TablesRunOptions) {
    this.#tables = tables
    this.#options = options
    this.#names = new SchemaNames(tables.schema)
  }

  async file(file: AsyncIterable<Uint8Array>): Promise<void> {
    const { signal, onProgress } = this.#options
    await readFile(file, this.#reader, {
      signal,
      row: (row) => this.#copied?.add(row),
      statement: async (statement) => {
        await this.#endCopy()
        await this.#take(statement)
      },
      onBytes: (bytes) => {
        this.totals.bytes += bytes
        onProgress?.(this.totals)
      },
    })
    await this.#endCopy()
    signal.throwIfAborted()
    this.totals.unchangedTexts = this.#names.unchangedTexts
  }

  async #take(statement: SqlStatement): Promise<void> {
    const parsed = dumpStatement(statement, this.#names)
    if (parsed.action === 'rows') return this.#takeRows(statement)
    if (parsed.action === 'skip') return this.#skip(parsed.what)
    if (parsed.kind === 'CREATE TRIGGER') this.#hasTriggers = true
    await this.#run(statement, parsed.text, parsed.kind)
    this.totals.statements++
  }

  #skip(what: Skipped): void {
    this.totals.skipped[what] = (this.totals.skipped[what] ?? 0) + 1
  }

  async #takeRows(statement: SqlStatement): Promise<void> {
    const parsed = parseStatement(statement, 'postgres')
    if (parsed.kind === 'setting') return this.#skip('settings')
    if (parsed.kind === 'setval') {
      const { sequence, lastValue, isCalled } = parsed
      const name = toLiteral(this.#own(statement, sequence))
      await this.#run(statement, `select pg_catalog.setval(${name}, ${lastValue}, ${isCalled})`, 'setval')
    } else {
      const table = this.#own(statement, parsed.table)
      if (this.#hasTriggers) {
        const line = lineAt(statement, statement.start)
        throw InvalidRequest(
          `line ${line}: rows are not accepted after a trigger; move the trigger to the end of the file`,
        )
      }
      if (parsed.kind === 'copy') {
        this.#reader.expectRows()
        this.#copied = new CopiedRows(literalWriter(this.#tables), table, parsed.columns)
      } else {
        const { start, end } = parsed.table
        const text = edited(statement.text, [{ start, end, text: table }]).slice(statement.start)
        this.totals.rows += await this.#run(statement, text, 'INSERT')
      }
    }
    this.totals.statements++
  }

  /** The name with the schema of the tenant. */
  #own(statement: SqlStatement, { schema, name, start }: SqlName): string {
    if (schema === undefined || this.#names.accept(schema)) return this.#names.qualified(name)
    throw InvalidRequest(
      `line ${lineAt(statement, start)}: ${schema} is not the schema of this file, which is ${this.#names.own ?? 'not known yet'}`,
    )
  }

  async #run(statement: SqlStatement, text: string, kind: string): Promise<number> {
    try {
      return await this.#tables.run(Buffer.from(text).toString()) // a substring would keep the whole chunk in memory
    } catch (error) {
      const line = lineAt(statement, statement.start) + lineBreaks(text, offsetOf(error, text) ?? 0)
      throw toImportError(`line ${line}: ${kind}`, error)
    }
  }

  async #endCopy(): Promise<void> {
    this.totals.rows += (await this.#copied?.end()) ?? 0
    this.#copied = undefined
  }
}

/** Writes the values as strings: the statements of the import have no parameters. */
function literalWriter(tables: TableImport): RowWriter {
  const row = (values: readonly (string | null)[]) =>
    `(${values.map((value) => (value === null ? 'null' : toLiteral(value))).join(',')})`
  return {
    get inTransaction() {
      return tables.inTransaction
    },
    insert: (into, rows) => tables.run(into + rows.map(row).join(',')),
    savepoint: (how) => tables.savepoint(how),
  }
}
