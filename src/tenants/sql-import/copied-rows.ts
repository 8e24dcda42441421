/**
 * Inserts the rows of COPY with multi-row INSERTs and parameters: row level security does not support COPY, and a scope
 * accepts only statements. A server parses a parameter like a value of COPY.
 *
 * A failed batch is repeated row by row, so that the error has the line of its row.
 */
import { InvalidRequest } from '../../kernel/base/errors.ts'
import type { TenantConnection } from '../isolation/driver.ts'
import { type CopiedRow, valuesOf } from './copy-data.ts'
import { toImportError } from './errors.ts'

const ROWS_AT_ONCE = 500
/** The limit of the protocol is 65,535. */
const PARAMETERS_AT_ONCE = 50_000
const CHARACTERS_AT_ONCE = 1024 * 1024

interface ReadRow {
  readonly line: number
  readonly values: readonly (string | null)[]
}

export class CopiedRows {
  readonly #connection: TenantConnection
  readonly #into: string
  readonly #width: number
  readonly #most: number
  #batch: ReadRow[] = []
  #characters = 0
  #inserted = 0
  readonly #fullText: string

  /** @param table quoted @param columns unquoted names */
  constructor(connection: TenantConnection, table: string, columns: readonly string[]) {
    this.#connection = connection
    const names = columns.map((name) => `"${name.replaceAll('"', '""')}"`).join(', ')
    this.#into = `insert into ${table} (${names}) overriding system value values `
    this.#width = columns.length
    this.#most = Math.max(1, Math.min(ROWS_AT_ONCE, Math.floor(PARAMETERS_AT_ONCE / columns.length)))
    this.#fullText = this.#textFor(this.#most)
  }

  async add(row: CopiedRow): Promise<void> {
    const values = valuesOf(row)
    if (values.length !== this.#width) {
      throw InvalidRequest(`line ${row.line}: this row of COPY has ${values.length} values for ${this.#width} columns`)
    }
    this.#batch.push({ line: row.line, values })
    this.#characters += row.row.length
    if (this.#batch.length === this.#most || this.#characters >= CHARACTERS_AT_ONCE) await this.#send()
  }

  /** Returns the number of rows. */
  async end(): Promise<number> {
    if (this.#batch.length > 0) await this.#send()
    return this.#inserted
  }

  async #send(): Promise<void> {
    const batch = this.#batch
    this.#batch = []
    this.#characters = 0
    await this.#connection.query({ text: 'savepoint copied_rows' })
    try {
      await this.#insert(batch)
    } catch (error) {
      if (!this.#connection.inTransaction) throw toImportError(`line ${batch[0]?.line}`, error)
      await this.#connection.query({ text: 'rollback to savepoint copied_rows' })
      for (const row of batch) {
        await this.#insert([row]).catch((failure) => {
          throw toImportError(`line ${row.line}`, failure)
        })
      }
      throw toImportError(`line ${batch[0]?.line}`, error) // no single row fails
    }
    await this.#connection.query({ text: 'release savepoint copied_rows' })
  }

  async #insert(rows: readonly ReadRow[]): Promise<void> {
    const text = rows.length === this.#most ? this.#fullText : this.#textFor(rows.length)
    const { rowCount } = await this.#connection.query({
      text,
      values: rows.flatMap(({ values }) => values),
      keepsScope: true,
    })
    this.#inserted += rowCount ?? 0
  }

  #textFor(rows: number): string {
    const row = (n: number) =>
      `(${Array.from({ length: this.#width }, (_, at) => `$${n * this.#width + at + 1}`).join(',')})`
    return this.#into + Array.from({ length: rows }, (_, n) => row(n)).join(',')
  }
}
