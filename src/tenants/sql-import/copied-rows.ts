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

type Values = readonly (string | null)[]

/** Writes rows in the transaction of an import. */
export interface RowWriter {
  /** Whether the transaction is open. */
  readonly inTransaction: boolean
  /**
   * Returns the number of rows.
   * @param into `insert into "a"."b" ("c") values `
   */
  insert(into: string, rows: readonly Values[]): Promise<number>
  /** Sets the savepoint, releases it, or rolls back to it. */
  savepoint(how: 'set' | 'release' | 'roll back'): Promise<void>
}

const SAVEPOINTS = {
  set: 'savepoint copied_rows',
  release: 'release savepoint copied_rows',
  'roll back': 'rollback to savepoint copied_rows',
} as const

/** Writes to the tenant's connection, with parameters. */
export function connectionWriter(connection: TenantConnection): RowWriter {
  let last = { rows: 0, text: '' }
  const textOf = (into: string, { length }: readonly Values[], width: number) => {
    if (last.rows !== length) last = { rows: length, text: into + parameters(length, width) }
    return last.text
  }
  return {
    get inTransaction() {
      return connection.inTransaction
    },
    async insert(into, rows) {
      const { rowCount } = await connection.query({
        text: textOf(into, rows, rows[0]?.length ?? 0),
        values: rows.flat(),
        keepsScope: true,
      })
      return rowCount ?? 0
    },
    async savepoint(how) {
      await connection.query({ text: SAVEPOINTS[how] })
    },
  }
}

const parameters = (rows: number, width: number): string => {
  const row = (n: number) => `(${Array.from({ length: width }, (_, at) => `$${n * width + at + 1}`).join(',')})`
  return Array.from({ length: rows }, (_, n) => row(n)).join(',')
}

export class CopiedRows {
  readonly #writer: RowWriter
  readonly #into: string
  readonly #width: number
  readonly #most: number
  #batch: ReadRow[] = []
  #characters = 0
  #inserted = 0

  /** @param writer for this table only @param table quoted @param columns unquoted names */
  constructor(writer: RowWriter, table: string, columns: readonly string[]) {
    this.#writer = writer
    const names = columns.map((name) => `"${name.replaceAll('"', '""')}"`).join(', ')
    this.#into = `insert into ${table} (${names}) overriding system value values `
    this.#width = columns.length
    this.#most = Math.max(1, Math.min(ROWS_AT_ONCE, Math.floor(PARAMETERS_AT_ONCE / columns.length)))
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
    await this.#writer.savepoint('set')
    try {
      await this.#insert(batch)
    } catch (error) {
      if (!this.#writer.inTransaction) throw toImportError(`line ${batch[0]?.line}`, error)
      await this.#writer.savepoint('roll back')
      for (const row of batch) {
        await this.#insert([row]).catch((failure) => {
          throw toImportError(`line ${row.line}`, failure)
        })
      }
      throw toImportError(`line ${batch[0]?.line}`, error) // no single row fails
    }
    await this.#writer.savepoint('release')
  }

  async #insert(rows: readonly ReadRow[]): Promise<void> {
    this.#inserted += await this.#writer.insert(
      this.#into,
      rows.map(({ values }) => values),
    )
  }
}
