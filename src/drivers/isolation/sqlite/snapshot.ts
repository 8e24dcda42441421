/**
 * A tenant's database as it was at one moment, in memory of its own: to be read row by row while the tenant goes on. SQLite copies
 * its pages, beside the event loop; a database of more than 1 GiB is more than it keeps so.
 */
import { randomUUID } from 'node:crypto'
import type { DatabaseSync, SQLInputValue, SQLOutputValue } from 'node:sqlite'
import { sqliteError } from './errors.ts'

/** So that all pages go in one step. */
const ALL_PAGES = 2 ** 31 - 1

export class SqliteSnapshot {
  readonly #database: DatabaseSync

  /** Nothing else may be done with `database` until it is there. */
  static async of(
    database: DatabaseSync,
    { DatabaseSync, backup }: typeof import('node:sqlite'),
  ): Promise<SqliteSnapshot> {
    const name = `file:/tenantry-${randomUUID()}?vfs=memdb` // in memory, for as long as somebody has it open
    const copy = new DatabaseSync(name, { allowExtension: false, defensive: true, limits: { attach: 0 } })
    try {
      await backup(database, name, { rate: ALL_PAGES })
      copy.exec('pragma query_only = on')
    } catch (error) {
      copy.close()
      throw sqliteError(error)
    }
    return new SqliteSnapshot(copy)
  }

  private constructor(database: DatabaseSync) {
    this.#database = database
  }

  query(text: string, values: readonly unknown[] = []): any[] {
    return this.#database.prepare(text).all(...(values as SQLInputValue[]))
  }

  /** One after the other, each as its values. */
  rows(text: string): Iterable<SQLOutputValue[]> {
    const statement = this.#database.prepare(text)
    statement.setReturnArrays(true)
    statement.setReadBigInts(true)
    return statement.iterate() as unknown as Iterable<SQLOutputValue[]>
  }

  close(): void {
    this.#database.close()
  }
}
