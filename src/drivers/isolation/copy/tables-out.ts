/**
 * Reads the tables of a copy from a server, one after the other, by COPY on one connection.
 *
 * If the caller stops within a table, the server waits to send the rest: the connection is then destroyed, because it
 * cannot be used otherwise. After a table was read to its end, the connection can be reused.
 */
import type pg from 'pg'
import { type CopyToStreamQuery, to } from 'pg-copy-streams'
import type {
  CopiedTable,
  CopyDescription,
  TableCopy,
  TableTotals,
  TenantCopy,
} from '../../../tenants/isolation/copy.ts'
import { ready } from '../connections/client-state.ts'
import { destroyClient } from '../connections/close-client.ts'

export interface TableRead {
  readonly table: CopiedTable
  readonly query: string
}

export class TablesOut implements TenantCopy {
  readonly description: CopyDescription
  readonly estimatedRows: number
  readonly #client: pg.ClientBase
  readonly #reads: readonly TableRead[]
  #current: Outgoing | undefined
  #totals: TableTotals[] = []

  constructor(client: pg.ClientBase, description: CopyDescription, reads: readonly TableRead[], estimatedRows: number) {
    this.#client = client
    this.description = description
    this.#reads = reads
    this.estimatedRows = estimatedRows
  }

  async *tables(): AsyncGenerator<TableCopy, void, void> {
    this.#totals = []
    for (const { table, query } of this.#reads) {
      if (!(await this.#isThrough())) throw new Error('The previous table was not read to its end')
      const outgoing = new Outgoing(this.#client, query)
      this.#current = outgoing
      yield { table, csv: outgoing.csv() }
      if (!(await this.#isThrough())) throw new Error(`The table "${table.name}" was not read to its end`)
      this.#totals.push({ name: table.name, ...outgoing.totals() })
    }
  }

  async totals(): Promise<readonly TableTotals[]> {
    if (this.#totals.length < this.#reads.length) throw new Error('Not all tables of the copy have been read')
    return this.#totals
  }

  /** Whether the connection can be reused. Destroys it if not. */
  async isEnded(): Promise<boolean> {
    if (await this.#isThrough()) return true
    destroyClient(this.#client, new Error('A table was not read to its end'))
    await ready(this.#client)
    return false
  }

  /** The server reports the number of rows after all of them have been read. */
  async #isThrough(): Promise<boolean> {
    if (!this.#current) return true
    if (!this.#current.isRead) return false
    await ready(this.#client)
    return true
  }
}

class Outgoing {
  readonly #stream: CopyToStreamQuery
  #bytes = 0
  #isRead = false

  constructor(client: pg.ClientBase, query: string) {
    this.#stream = client.query(to(`copy (${query}) to stdout (format csv, header, encoding 'UTF8')`))
    // The reader handles errors. Without a reader, an unhandled error would end the process.
    this.#stream.on('error', () => undefined)
  }

  get isRead(): boolean {
    return this.#isRead
  }

  async *csv(): AsyncGenerator<Buffer, void, void> {
    for await (const chunk of this.#stream as AsyncIterable<Buffer>) {
      this.#bytes += chunk.length
      yield chunk
    }
    this.#isRead = true
  }

  totals(): Omit<TableTotals, 'name'> {
    return { rows: this.#stream.rowCount, bytes: this.#bytes }
  }
}
