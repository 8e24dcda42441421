/**
 * The in-memory database of one tenant. Statements of the host cannot reach files, other databases or the transaction
 * itself.
 */
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite'
import type { Statement, StatementResult } from '../../../tenants/isolation/driver.ts'
import { SqliteError, toSqliteError } from './errors.ts'
import { OUTBOX } from './outbox-table.ts'
import { commandOf, fromSqlite, isBlank, parametersOf } from './statement.ts'

/** Some versions of Node log a warning when `node:sqlite` is imported, so only the start of the driver imports it. */
export type Sqlite = typeof import('node:sqlite')

const COUNTED = new Set(['INSERT', 'UPDATE', 'DELETE'])
const NOTHING: StatementResult = { rows: [], rowCount: null, command: '', fields: [] }
/**
 * With an argument these read the schema, and the last one ends with the transaction; others would change a setting.
 */
const ALLOWED_PRAGMAS = /^((table|index)_x?(info|list)|foreign_key_(list|check)|defer_foreign_keys)$/i

export class SqliteDatabase {
  readonly #codes: Sqlite['constants']
  readonly #database: DatabaseSync
  #isReadOnly = false
  /** Whether a statement of the host is running; all calls are synchronous. */
  #isHost = false
  #refusal: string | undefined

  constructor({ DatabaseSync, constants }: Sqlite) {
    this.#codes = constants
    this.#database = new DatabaseSync(':memory:', { allowExtension: false, defensive: true })
    this.#database.exec(`pragma temp_store = memory; ${OUTBOX}`)
    this.#database.setAuthorizer((action, first, second) => {
      const refusal = this.#isHost ? this.#refusalOf(action, first, second) : undefined
      this.#refusal ??= refusal
      return refusal === undefined ? constants.SQLITE_OK : constants.SQLITE_DENY
    })
  }

  begin(isReadOnly: boolean): void {
    this.#isReadOnly = isReadOnly
    this.#database.exec('begin')
  }

  commit(): void {
    try {
      this.#database.exec('commit')
    } catch (error) {
      throw toSqliteError(error)
    }
  }

  /** Has no effect if the database is closed, or after a statement that has rolled back. */
  rollback(): void {
    if (this.#database.isOpen && this.#database.isTransaction) this.#database.exec('rollback')
  }

  /** Runs one statement of the host in the open transaction. */
  run({ text, values, rowMode }: Statement): StatementResult {
    if (isBlank(text)) return NOTHING
    this.#isHost = true
    this.#refusal = undefined
    try {
      const statement = this.#database.prepare(text)
      if (!isBlank(text.slice(statement.sourceSQL.length))) {
        throw new SqliteError('42601', 'cannot insert multiple commands into a prepared statement')
      }
      statement.setReturnArrays(true)
      statement.setReadBigInts(true)
      const command = commandOf(text)
      const fields = statement.columns().map(({ name }) => ({ name }))
      const parameters = parametersOf(text, values) as SQLOutputValue[]
      if (fields.length === 0) {
        const { changes } = statement.run(...parameters)
        return { rows: [], rowCount: COUNTED.has(command) ? Number(changes) : null, command, fields }
      }
      const found = statement.all(...parameters) as unknown as SQLOutputValue[][]
      const arrays = found.map((row) => row.map(fromSqlite))
      const rows = rowMode === 'array' ? arrays : arrays.map((row) => toObject(fields, row))
      return { rows, rowCount: rows.length, command, fields }
    } catch (error) {
      throw this.#refusal === undefined ? toSqliteError(error) : new SqliteError('42501', this.#refusal, error)
    } finally {
      this.#isHost = false
    }
  }

  /** All rows are lost. */
  close(): void {
    this.#database.close()
  }

  #refusalOf(action: number, first: string | null, second: string | null): string | undefined {
    const codes = this.#codes
    if (action === codes.SQLITE_ATTACH || action === codes.SQLITE_DETACH) return 'ATTACH and DETACH are not available'
    if (action === codes.SQLITE_TRANSACTION) return 'A statement must not begin or end its transaction'
    if (action === codes.SQLITE_PRAGMA && second !== null && !ALLOWED_PRAGMAS.test(first ?? '')) {
      return `PRAGMA ${first} is not available with a value`
    }
    const isWrite = [codes.SQLITE_INSERT, codes.SQLITE_UPDATE, codes.SQLITE_DELETE].includes(action)
    return isWrite && this.#isReadOnly ? 'The transaction is read only' : undefined
  }
}

/** Of columns with one name the last is kept, as node-postgres does. */
const toObject = (fields: readonly { readonly name: string }[], row: readonly unknown[]): Record<string, unknown> =>
  Object.fromEntries(fields.map(({ name }, at) => [name, row[at]]))
