/**
 * Counts the tables, rows and bytes of a running copy. Rows of the table in progress are an estimate from the length of
 * its first rows; the server reports the exact number at the end of a table.
 */
import type { TableCopy, TableTotals, TenantCopy } from '../../isolation/copy.ts'
import { NO_PROGRESS, type Progress } from '../model/transfer.ts'

const NEWLINE = 10

export class Meter {
  #progress: Progress = NO_PROGRESS
  /** Of finished tables. */
  #rows = 0
  #table = { bytes: 0, bytesPerRow: 0 }

  get progress(): Progress {
    const { bytes, bytesPerRow } = this.#table
    const guess = bytesPerRow === 0 ? 0 : Math.max(Math.round(bytes / bytesPerRow) - 1, 0) // without the header
    return { ...this.#progress, rows: this.#rows + guess }
  }

  /** Returns the same copy, with counters. */
  watch(copy: TenantCopy): TenantCopy {
    const { tables } = copy.description
    this.#progress = { ...NO_PROGRESS, estimate: { tables: tables.length, rows: copy.estimatedRows ?? null } }
    const watched = (table: TableCopy): TableCopy => ({ table: table.table, csv: this.#watched(table.csv) })
    return {
      description: copy.description,
      estimatedRows: copy.estimatedRows,
      async *tables() {
        for await (const table of copy.tables()) yield watched(table)
      },
      totals: async () => {
        const totals = await copy.totals()
        this.#settle(totals)
        return totals
      },
    }
  }

  async *#watched(csv: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    this.#table = { bytes: 0, bytesPerRow: 0 }
    for await (const chunk of csv) {
      if (this.#table.bytes === 0) this.#table.bytesPerRow = chunk.length / Math.max(linesIn(chunk), 1)
      this.#table.bytes += chunk.length
      this.#progress = { ...this.#progress, bytes: this.#progress.bytes + chunk.length }
      yield chunk
    }
    this.#rows = this.progress.rows
    this.#table = { bytes: 0, bytesPerRow: 0 }
    this.#progress = { ...this.#progress, tables: this.#progress.tables + 1 }
  }

  #settle(totals: readonly TableTotals[]): void {
    this.#rows = totals.reduce((sum, { rows }) => sum + rows, 0)
  }
}

function linesIn(chunk: Buffer): number {
  let lines = 0
  for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, at + 1)) lines++
  return lines
}
