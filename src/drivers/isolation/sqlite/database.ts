/**
 * One tenant's database in the memory of this process. A statement of the host is one statement, runs in a transaction that was
 * begun before it, and passes the authorizer; statements of our own do not. Temporary objects end with their transaction.
 */
import type { DatabaseSync, SQLInputValue, SQLOutputValue, StatementSync } from 'node:sqlite'
import type { Statement, StatementResult } from '../../../tenants/isolation/driver.ts'
import { type Authorizer, hostAuthorizer } from './authorizer.ts'
import { NOT_ALLOWED, SqliteError, SYNTAX_ERROR, sqliteError } from './errors.ts'
import { SqliteSnapshot } from './snapshot.ts'
import { hasStatement, textOf } from './text.ts'
import { bound, fromSqlite, toSqlite } from './values.ts'

/** `node:sqlite`, loaded by who needs it: on some versions of Node it warns as soon as it is imported. */
export type Sqlite = typeof import('node:sqlite')

const COUNTED = new Set(['INSERT', 'UPDATE', 'DELETE'])
const NOTHING: StatementResult = { rows: [], rowCount: null, command: '', fields: [] }

export class SqliteDatabase {
  readonly #codes: Sqlite['constants']
  readonly #database: DatabaseSync
  readonly #mayHost: Authorizer
  /** Whose statement runs: everything here is synchronous, so it is one at a time. */
  #isOwn = false
  #rejection: string | undefined
  #hasTemporary = false
  #isReadOnly = false

  constructor({ DatabaseSync, constants }: Sqlite) {
    this.#codes = constants
    this.#mayHost = hostAuthorizer(constants)
    this.#database = new DatabaseSync(':memory:', { allowExtension: false, defensive: true, limits: { attach: 0 } })
    this.#database.setAuthorizer((action, first, second, schema) => this.#authorize(action, first, second, schema))
    this.own('pragma temp_store = memory')
  }

  begin(isReadOnly = false): void {
    this.own('begin')
    if (!isReadOnly) return
    this.#isReadOnly = true
    this.own('pragma query_only = on')
  }

  /** When it fails, it has rolled back. */
  commit(): void {
    try {
      if (this.#hasTemporary) this.#dropTemporary()
      this.own('commit')
    } catch (error) {
      this.rollback()
      throw error
    }
    this.#ended()
  }

  /** Also after a statement that has taken the whole transaction back. */
  rollback(): void {
    if (this.#database.isTransaction) this.own('rollback')
    this.#ended()
  }

  /** One statement of the host, in the transaction that is open. */
  run({ text, values, rowMode }: Statement): StatementResult {
    const read = textOf(text)
    if (read.command === '' && !hasStatement(text)) return NOTHING
    const given = bound(read, values) as SQLOutputValue[]
    return this.#checked(() => {
      const statement = this.#database.prepare(text)
      assertOneStatement(text, statement)
      const fields = statement.columns().map(({ name }) => ({ name }))
      const { command } = read
      if (fields.length === 0) {
        const { changes } = statement.run(...given)
        return { rows: [], rowCount: COUNTED.has(command) ? Number(changes) : null, command, fields }
      }
      const rows = allRows(statement, given)
      return {
        rows: rowMode === 'array' ? rows : rows.map((row) => named(fields, row)),
        rowCount: COUNTED.has(command) || command === 'SELECT' ? rows.length : null,
        command,
        fields,
      }
    })
  }

  /** A statement of our own, which the authorizer lets pass. Returns its rows. */
  own(text: string, values: readonly unknown[] = []): any[] {
    return this.#asOurs(() => {
      const statement = this.#database.prepare(text)
      const fields = statement.columns()
      return allRows(statement, values.map(toSqlite) as SQLOutputValue[]).map((row) => named(fields, row))
    })
  }

  /** A statement of our own that is run many times, with values as SQLite has them. */
  repeated(text: string): (values: readonly SQLInputValue[]) => void {
    const statement = this.#asOurs(() => this.#database.prepare(text))
    return (values) => this.#asOurs(() => statement.run(...values))
  }

  /**
   * One transaction of our own in which foreign keys are not looked at, and the tables that virtual ones stand on may be written to.
   * When it throws, the database is to be given up.
   */
  async unguarded<T>({ shadows }: { readonly shadows: boolean }, work: () => Promise<T>): Promise<T> {
    this.own('pragma foreign_keys = off') // to no effect within a transaction
    if (shadows) this.#database.enableDefensive?.(false) // before Node 24.12 nothing is defended
    this.begin()
    let result: T
    try {
      result = await work()
    } catch (error) {
      this.rollback()
      throw error
    }
    this.commit()
    if (shadows) this.#database.enableDefensive?.(true)
    this.own('pragma foreign_keys = on')
    return result
  }

  /** Nothing else may be done with the database until it is there. */
  snapshot(sqlite: Sqlite): Promise<SqliteSnapshot> {
    return SqliteSnapshot.of(this.#database, sqlite)
  }

  /** Everything in it is lost. */
  close(): void {
    this.#database.close()
  }

  #authorize(action: number, first: string | null, second: string | null, schema: string | null): number {
    const { SQLITE_OK, SQLITE_DENY, SQLITE_INSERT } = this.#codes
    if (this.#isOwn) return SQLITE_OK
    this.#hasTemporary ||= action === SQLITE_INSERT && schema === 'temp' // whatever is made is first entered there
    const rejection = this.#mayHost(action, first, second)
    this.#rejection ??= rejection
    return rejection === undefined ? SQLITE_OK : SQLITE_DENY
  }

  #asOurs<T>(work: () => T): T {
    this.#isOwn = true
    try {
      return this.#checked(work)
    } finally {
      this.#isOwn = false
    }
  }

  #checked<T>(work: () => T): T {
    this.#rejection = undefined
    try {
      return work()
    } catch (error) {
      if (this.#rejection !== undefined) throw new SqliteError(NOT_ALLOWED, this.#rejection, error)
      throw sqliteError(error)
    }
  }

  /** Views, triggers and virtual tables first: they stand on tables, or have some of their own. */
  #dropTemporary(): void {
    const objects = this.own(
      `select type, name from temp.sqlite_schema where type in ('table', 'view', 'trigger') and name not like 'sqlite\\_%' escape '\\'
       order by rootpage`,
    )
    for (const { type, name } of objects) this.own(`drop ${type} if exists temp."${name.replaceAll('"', '""')}"`)
  }

  #ended(): void {
    this.#hasTemporary = false
    if (!this.#isReadOnly) return
    this.#isReadOnly = false
    this.own('pragma query_only = off')
  }
}

/** SQLite prepares the first statement of a text and leaves the rest. */
function assertOneStatement(text: string, { sourceSQL }: StatementSync): void {
  if (!hasStatement(text.slice(sourceSQL.length))) return
  throw new SqliteError(SYNTAX_ERROR, 'cannot insert multiple commands into a prepared statement: send one at a time')
}

function allRows(statement: StatementSync, values: SQLOutputValue[]): unknown[][] {
  statement.setReturnArrays(true)
  statement.setReadBigInts(true)
  return (statement.all(...values) as unknown as SQLOutputValue[][]).map((row) => row.map(fromSqlite))
}

/** Of columns with one name the last is kept, as node-postgres does. */
const named = (fields: readonly { readonly name: string }[], row: readonly unknown[]): Record<string, unknown> =>
  Object.fromEntries(fields.map(({ name }, at) => [name, row[at]]))
