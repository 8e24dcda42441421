/**
 * Converts a tenant copy to the bytes of an archive (format.ts), in constant memory.
 *
 *   table ─► hash ─► gzip ─► spool       the length of a table is known at its end
 *                              │
 *   header, its own member ─► the spooled member ─► padding, a member
 *
 * Each table is compressed once and spooled in memory or in a temporary file until it is yielded. Tables are processed
 * one at a time: the largest table determines the required space.
 */
import { createHash } from 'node:crypto'
import type { TableTotals, TenantCopy } from '../../isolation/copy.ts'
import {
  type ArchiveSubject,
  HEADER_FILE,
  headerBytes,
  headerOf,
  MANIFEST_FILE,
  manifestBytes,
  type Sum,
  sumOf,
} from './format.ts'
import { member, members } from './gzip.ts'
import { Spool } from './spool.ts'
import { entryHead, padding, TAR_END } from './tar-writing.ts'

/**
 * Returns the totals of the tables. Throws unless the read rows match the description of the copy. Errors of the copy
 * pass through unchanged. A caller that returns early waits for the current table: the copy decides how to interrupt
 * it.
 */
export async function* archived(
  copy: TenantCopy,
  subject: ArchiveSubject,
): AsyncGenerator<Buffer, readonly TableTotals[], undefined> {
  const header = headerOf(copy.description, subject)
  const mtime = subject.createdAt
  const archive = headerBytes(header)
  yield await wholeEntry(HEADER_FILE, archive, mtime)

  const sums: (Sum & { readonly name: string })[] = []
  for await (const { table, csv } of copy.tables()) {
    const { name, file } = header.tables[sums.length] ?? {}
    if (table.name !== name || !file)
      throw new Error(`The copy returned the table "${table.name}" instead of the expected table.`)
    const spool = new Spool()
    try {
      const sum = await spooled(csv, spool)
      yield await member(await entryHead({ name: file, size: sum.bytes, mtime }))
      yield* spool.read()
      if (padding(sum.bytes).length > 0) yield await member(padding(sum.bytes))
      sums.push({ name, ...sum })
    } finally {
      await spool.close()
    }
  }

  const totals = agreed(await copy.totals(), sums, header.tables.length)
  const manifest = manifestBytes(header, {
    archive: sumOf(archive),
    sums: sums.map(({ bytes, sha256 }) => ({ bytes, sha256 })),
    totals,
  })
  yield await wholeEntry(MANIFEST_FILE, manifest, mtime)
  yield await member(TAR_END)
  return totals
}

async function wholeEntry(name: string, content: Buffer, mtime: Date): Promise<Buffer> {
  const head = await entryHead({ name, size: content.length, mtime })
  return member(Buffer.concat([head, content, padding(content.length)]))
}

async function spooled(csv: AsyncIterable<Buffer>, spool: Spool): Promise<Sum> {
  const hash = createHash('sha256')
  let bytes = 0
  async function* measured() {
    for await (const piece of csv) {
      hash.update(piece)
      bytes += piece.length
      yield piece
    }
  }
  for await (const compressed of members(measured())) await spool.add(compressed)
  return { bytes, sha256: hash.digest('hex') }
}

function agreed(
  totals: readonly TableTotals[],
  sums: readonly (Sum & { readonly name: string })[],
  announced: number,
): readonly TableTotals[] {
  if (sums.length !== announced || totals.length !== announced) {
    throw new Error(
      `The copy declared ${announced} tables, yielded ${sums.length} and returned totals of ${totals.length}.`,
    )
  }
  return totals.map(({ name, rows, bytes }, index) => {
    const sum = sums[index]
    if (name !== sum?.name || bytes !== sum.bytes) {
      throw new Error(`The rows of the table "${sum?.name}" do not match the totals of the copy.`)
    }
    return { name, rows, bytes }
  })
}
