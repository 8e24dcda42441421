/**
 * Imports an SQL file with data into the storage of one tenant in one transaction, with only the current statement in
 * memory. An error has the line of its statement or row, and rolls everything back.
 *
 *   accepted statements   rules.ts; all others are rejected before they reach a server
 *   accepted names        the tenant's own tables and sequences (target.ts), which are sent with their schema
 *   accepted changes      rows: after each statement, the driver compares role, search path and tenant with the scope,
 *                         which a trigger or a default of the host may have changed
 *
 * - Deferred constraints are checked as the last statement, so that their errors are reported in the same way, also in
 *   a dry run.
 * - Sequences move before the commit: a rollback may skip numbers, but no number is used twice.
 */
import { InvalidRequest } from '../../kernel/base/errors.ts'
import type { ImportSource } from '../handles/router.ts'
import type { CopiedSequence } from '../isolation/copy.ts'
import type { Capabilities, TenantConnection } from '../isolation/driver.ts'
import { CopiedRows, connectionWriter } from './copied-rows.ts'
import { lineBreaks, offsetOf, toImportError, toRolledBack } from './errors.ts'
import { LONGEST_STATEMENT, readFile } from './file.ts'
import type { SqlName } from './parser.ts'
import { type ImportStatement, parseStatement } from './rules.ts'
import { lineAt, type SqlStatement, StatementReader } from './splitter.ts'
import { ImportTarget } from './target.ts'

export interface ImportTotals {
  /** Executed statements. */
  readonly statements: number
  /** Inserted rows, as counted by the server. */
  readonly rows: number
  /** Size of the file. */
  readonly bytes: number
  /** Skipped settings of a dump. */
  readonly passedOver: number
}

export interface ImportOptions {
  readonly engine: Capabilities['engine']
  /** Ends the import before the next statement with the signal's reason, and rolls back. */
  readonly signal: AbortSignal
  /** Whether to run and check the whole file, and roll it back. */
  readonly isDryRun?: boolean | undefined
  readonly onProgress?: ((totals: ImportTotals) => void) | undefined
}

/**
 * Throws `E_INVALID_REQUEST` for a statement that is not accepted and `E_SQL_REJECTED` for an error of the server; both
 * messages start with the line. Errors found only by the commit are thrown unchanged.
 *
 * @example
 *   await importSql(tenants.handles.source('acme'), createReadStream('rows.sql'), { engine: 'postgres', signal })
 */
export async function importSql(
  source: Pick<ImportSource, 'begin' | 'advanceSequences'>,
  file: AsyncIterable<Uint8Array>,
  options: ImportOptions,
): Promise<ImportTotals> {
  const { signal, isDryRun } = options
  signal.throwIfAborted()
  const connection = await source.begin({})
  try {
    const run = new ImportRun(source, connection, await ImportTarget.open(connection, options.engine), options)
    try {
      await run.file(file)
    } catch (error) {
      await connection.end('rollback').catch(() => undefined) // a connection that is not idle afterwards is destroyed
      signal.throwIfAborted()
      throw toRolledBack(error)
    }
    await connection.end(isDryRun ? 'rollback' : 'commit')
    return run.totals
  } finally {
    connection.release()
  }
}

/** The checks of a commit. */
const CHECKS = { postgres: 'set constraints all immediate', sqlite: 'pragma foreign_key_check' } as const

class ImportRun {
  readonly totals = { statements: 0, rows: 0, bytes: 0, passedOver: 0 }
  readonly #source: Pick<ImportSource, 'advanceSequences'>
  readonly #connection: TenantConnection
  readonly #target: ImportTarget
  readonly #options: ImportOptions
  readonly #reader: StatementReader
  /** By name; the last setval of a sequence counts. */
  readonly #sequences = new Map<string, { readonly wanted: CopiedSequence; readonly line: number }>()
  #copied: CopiedRows | undefined

  constructor(
    source: Pick<ImportSource, 'advanceSequences'>,
    connection: TenantConnection,
    target: ImportTarget,
    options: ImportOptions,
  ) {
    this.#source = source
    this.#connection = connection
    this.#target = target
    this.#options = options
    this.#reader = new StatementReader({ engine: options.engine, longest: LONGEST_STATEMENT })
  }

  async file(file: AsyncIterable<Uint8Array>): Promise<void> {
    const { signal, onProgress, isDryRun } = this.#options
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
    await this.#checkDeferred()
    signal.throwIfAborted()
    if (!isDryRun) for (const { wanted, line } of this.#sequences.values()) await this.#advance(wanted, line)
  }

  async #take(statement: SqlStatement): Promise<void> {
    const { engine } = this.#options
    const parsed = parseStatement(statement, engine)
    if (parsed.kind === 'setting' || (parsed.kind === 'setval' && engine === 'sqlite')) {
      this.totals.passedOver++ // a column of SQLite continues after its last value automatically
      return
    }
    if (parsed.kind === 'setval') await this.#setval(statement, parsed)
    else {
      const table = (await this.#target.table(parsed.table)) ?? this.#notOurs(statement, parsed.table, 'table')
      if (parsed.kind === 'copy') {
        this.#reader.expectRows()
        this.#copied = new CopiedRows(connectionWriter(this.#connection), table, parsed.columns)
      } else await this.#insert(statement, parsed.table, table)
    }
    this.totals.statements++
  }

  async #insert(statement: SqlStatement, name: SqlName, table: string): Promise<void> {
    const { text, start } = statement
    const written = text.slice(name.start, name.end)
    const lines = '\n'.repeat(written.split('\n').length - 1) // the server counts characters, an import counts lines
    const sent = `${text.slice(start, name.start)}${table}${lines}${text.slice(name.end)}`
    try {
      const { rowCount } = await this.#connection.query({ text: apart(sent), keepsScope: true })
      this.totals.rows += rowCount ?? 0
    } catch (error) {
      const before = lineAt(statement, start)
      throw toImportError(`line ${before + lineBreaks(sent, offsetOf(error, sent) ?? 0)}`, error)
    }
  }

  async #setval(statement: SqlStatement, { sequence, lastValue, isCalled }: SetvalStatement): Promise<void> {
    const name = (await this.#target.sequence(sequence)) ?? this.#notOurs(statement, sequence, 'sequence')
    const line = lineAt(statement, statement.start)
    this.#sequences.set(name, { wanted: { name, lastValue, isCalled }, line })
  }

  #notOurs(statement: SqlStatement, { start, end }: SqlName, what: 'table' | 'sequence'): never {
    const written = statement.text.slice(start, end)
    throw InvalidRequest(
      `line ${lineAt(statement, start)}: ${written} is not a ${what} of this tenant; name its own, with "public." or nothing before the name`,
    )
  }

  async #endCopy(): Promise<void> {
    this.totals.rows += (await this.#copied?.end()) ?? 0
    this.#copied = undefined
  }

  async #checkDeferred(): Promise<void> {
    try {
      const { rows } = await this.#connection.query({ text: CHECKS[this.#options.engine], keepsScope: true })
      if (rows.length > 0) throw new Error('FOREIGN KEY constraint failed')
    } catch (error) {
      throw toImportError('at the end of the file', error)
    }
  }

  /** Requires a lock that excludes transactions with a value of the sequence, including this one. */
  async #advance(wanted: CopiedSequence, line: number): Promise<void> {
    try {
      if (await this.#target.isLocked(wanted.name)) {
        throw InvalidRequest(
          `rows of this file take their numbers from the sequence "${wanted.name}": write the number in each row, or remove this line`,
        )
      }
      await this.#source.advanceSequences([wanted], this.#options.signal)
    } catch (error) {
      throw toImportError(`line ${line}`, error)
    }
  }
}

type SetvalStatement = Extract<ImportStatement, { kind: 'setval' }>

/** Copies a text: a substring would keep the whole chunk of the file in memory. */
const apart = (text: string): string => Buffer.from(text).toString()
