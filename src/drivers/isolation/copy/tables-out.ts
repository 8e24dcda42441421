/**
 * The tables of a copy on their way out of a server, one after the other, by COPY on one connection.
 *
 * Whoever stops in the middle of a table leaves a server that waits to be heard out: the connection is cut then, as nothing else
 * can be said on it. A table that has been read to its end leaves the connection as it was.
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
      if (!(await this.#isThrough())) throw new Error('the table before was not read to its end')
      const outgoing = new Outgoing(this.#client, query)
      this.#current = outgoing
      yield { table, csv: outgoing.csv() }
      if (!(await this.#isThrough())) throw new Error(`the table "${table.name}" was not read to its end`)
      this.#totals.push({ name: table.name, ...outgoing.totals() })
    }
  }

  async totals(): Promise<readonly TableTotals[]> {
    if (this.#totals.length < this.#reads.length) throw new Error('not all tables of the copy have been read')
    return this.#totals
  }

  /** Whether the connection can be used for something else; lost when it cannot. */
  async isEnded(): Promise<boolean> {
    if (await this.#isThrough()) return true
    destroyClient(this.#client, new Error('a table was not read to its end'))
    await ready(this.#client)
    return false
  }

  /** The server says how many rows there were when all of them have been read. */
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
    // Heard by who reads; unheard when nobody does any more, and would end the process.
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
