/**
 * Writes one table of a copy to a server by COPY. Throws errors of the source unchanged, and errors of the server as
 * converted by `toRowRejection`.
 */
import { pipeline } from 'node:stream/promises'
import pg from 'pg'
import { from } from 'pg-copy-streams'
import { BackupIncompatible, type CopiedTable } from '../../../tenants/isolation/copy.ts'
import { ready } from '../connections/client-state.ts'
import { toRowRejection } from './compatibility.ts'

export interface Into {
  /** Qualified and quoted. */
  readonly name: string
  /** Whether rows can be written frozen: the table was emptied in this transaction. */
  readonly isFreezing: boolean
}

const NEWLINE = 0x0a

/** Returns the number of rows that the server has inserted. */
export async function copyTableIn(
  client: pg.ClientBase,
  { name, isFreezing }: Into,
  table: CopiedTable,
  csv: AsyncIterable<Buffer>,
): Promise<number> {
  if (table.columns.length === 0) return defaultsIn(client, name, await linesOf(csv))
  const columns = table.columns.map((column) => pg.escapeIdentifier(column.name)).join(', ')
  const options = `format csv, header match, encoding 'UTF8'${isFreezing ? ', freeze' : ''}`
  const stream = client.query(from(`copy ${name} (${columns}) from stdin (${options})`))
  stream.on('error', () => undefined) // Also for errors after the end of the pipeline.
  const source = new Source(csv)
  try {
    await pipeline(source, stream)
  } catch (error) {
    await ready(client)
    throw source.hasFailed ? source.failure : toRowRejection(error, table.name)
  }
  return stream.rowCount
}

/** Records an error of the source: a pipeline throws only the first of two errors. */
class Source implements AsyncIterable<Buffer> {
  readonly #csv: AsyncIterable<Buffer>
  hasFailed = false
  failure: unknown

  constructor(csv: AsyncIterable<Buffer>) {
    this.#csv = csv
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer, void, void> {
    try {
      yield* this.#csv
    } catch (error) {
      this.hasFailed = true
      this.failure = error
      throw error
    }
  }
}

/** For a table without columns to copy: each row is an empty line, which COPY cannot read. */
async function defaultsIn(client: pg.ClientBase, name: string, lines: number): Promise<number> {
  if (lines === 0) throw BackupIncompatible(`The copy of the table ${name} is incomplete.`)
  const { rowCount } = await client.query(`insert into ${name} select from generate_series(1, $1::bigint)`, [lines - 1])
  return rowCount ?? 0
}

async function linesOf(csv: AsyncIterable<Buffer>): Promise<number> {
  let lines = 0
  for await (const chunk of csv) for (const byte of chunk) if (byte === NEWLINE) lines++
  return lines
}
