/** Sample copies, archives of them, and readers and editors of archives. */
import { createHash } from 'node:crypto'
import { readdirSync, readlinkSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { packTar } from 'modern-tar'
import { expect } from 'vitest'
import { BackupIncompatible, type CopyDescription, type TableTotals, type TenantCopy } from '../../isolation/copy.ts'
import type { Sum } from './format.ts'
import { member } from './gzip.ts'
import { readArchive } from './reader.ts'
import { archived } from './writer.ts'

export interface MadeUpTable {
  readonly name: string
  /** In chunks, as a driver yields them. */
  readonly csv: readonly Uint8Array[]
  readonly rows?: number
}

export const SUBJECT = {
  backupId: '0198f0a4-0000-7000-8000-000000000001',
  tenantId: 'acme',
  createdAt: new Date('2026-03-04T05:06:07.890Z'),
}

export const DESCRIPTION: Omit<CopyDescription, 'tables'> = {
  engine: 'postgres',
  isolation: 'schema-pg',
  migrations: [{ name: '0001_orders', checksum: 'a1' }],
  sequences: [{ name: 'orders_id_seq', lastValue: '9223372036854775807', isCalled: true }],
}

export const table = (name: string, ...csv: string[]): MadeUpTable => ({
  name,
  csv: csv.map((text) => Buffer.from(text)),
})

export const SMALL = [
  table('customers', 'id,name\n', '1,"Zoë"\n2,\n'),
  table('Order Lines', ''),
  table('orders', 'id,total\n1,9.50\n'),
]

export function copyOf(tables: readonly MadeUpTable[], description: Partial<CopyDescription> = {}): TenantCopy {
  const described = tables.map(({ name }) => ({ name, columns: [{ name: 'id', type: 'character varying(20)' }] }))
  return {
    description: { ...DESCRIPTION, tables: described, ...description },
    estimatedRows: undefined,
    async *tables() {
      for (const [index, { csv }] of tables.entries()) {
        yield { table: described[index] ?? { name: '', columns: [] }, csv: asBuffers(csv) }
      }
    },
    totals: async () => totalsOf(tables),
  }
}

export const totalsOf = (tables: readonly MadeUpTable[]): TableTotals[] =>
  tables.map(({ name, csv, rows = 1 }) => {
    const bytes = Buffer.concat(csv)
    return { name, rows, bytes: bytes.length }
  })

export const sumsOf = (tables: readonly MadeUpTable[]): Sum[] =>
  tables.map(({ csv }) => {
    const bytes = Buffer.concat(csv)
    return { bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') }
  })

export const archiveOf = async (tables: readonly MadeUpTable[], subject = SUBJECT): Promise<Buffer> =>
  bytesOf(archived(copyOf(tables), subject))

export const bytesOf = async (chunks: AsyncIterable<Uint8Array>): Promise<Buffer> =>
  Buffer.concat(await Array.fromAsync(chunks))

export async function* inPieces(bytes: Uint8Array, size = 1_000): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

export interface ReadArchive {
  readonly description: CopyDescription
  readonly contents: readonly Buffer[]
  readonly totals: readonly TableTotals[]
}

/** The full content of an archive, as a restore reads it. */
export async function readAll(
  chunks: AsyncIterable<Uint8Array>,
  expected: { tenantId: string; backupId: string } = SUBJECT,
): Promise<ReadArchive> {
  const copy = await readArchive(chunks, expected)
  const contents: Buffer[] = []
  const names: string[] = []
  for await (const { table, csv } of copy.tables()) {
    names.push(table.name)
    contents.push(await bytesOf(csv))
  }
  const totals = await copy.totals()
  if (`${names}` !== `${copy.description.tables.map(({ name }) => name)}`) throw new Error(`the tables were ${names}`)
  return { description: copy.description, contents, totals }
}

/** Changes of one byte: the lowest bit, the highest bit, all bits, and all set bits. */
export const changesOf = (archive: Buffer, at: number): number[] => [0x01, 0x80, 0xff, archive[at] || 0x10]

/** Truncates the archive after every `step` bytes and expects an error each time. */
export async function cutShort(archive: Buffer, step = 1): Promise<void> {
  for (let length = 0; length < archive.length; length += step) {
    await expect(readAll(inPieces(archive.subarray(0, length))), `${length} bytes`).rejects.toMatchObject({
      code: BackupIncompatible.code,
      message: expect.stringContaining('truncated'),
    })
  }
}

/**
 * Reads the archive with one changed byte at a time. Each read must fail or return the same content. Returns the number
 * of failures.
 *
 * @param changes for the byte; undefined removes it
 */
export async function changeEachByte(archive: Buffer, changes: (at: number) => readonly number[]): Promise<number> {
  const whole = await readAll(inPieces(archive))
  let refusals = 0
  for (let at = 0; at < archive.length; at++) {
    for (const change of changes(at)) {
      const changed = Buffer.from(archive)
      changed[at] = (changed[at] ?? 0) ^ change
      const outcome = await readAll(inPieces(changed)).catch((error) => error)
      if (BackupIncompatible.matches(outcome)) refusals++
      // Time, system and the encoding of zeros in a gzip header do not affect the content.
      else expect(outcome, `byte ${at}`).toEqual(whole)
    }
  }
  return refusals
}

export interface ForgedEntry {
  readonly name: string
  readonly content?: string | Buffer
  readonly type?: 'symlink' | 'link' | 'directory' | 'fifo'
  readonly linkname?: string
}

/** The entries of an archive with short names. */
export function unpacked(archive: Uint8Array): { name: string; content: Buffer }[] {
  const tar = gunzipSync(archive)
  const entries: { name: string; content: Buffer }[] = []
  for (let at = 0; tar[at] !== 0; ) {
    const name = tar.toString('latin1', at, tar.indexOf(0, at))
    const size = Number.parseInt(tar.toString('latin1', at + 124, at + 135), 8)
    entries.push({ name, content: tar.subarray(at + 512, at + 512 + size) })
    at += 512 + Math.ceil(size / 512) * 512
  }
  return entries
}

/** A compressed tar file with arbitrary entries. */
export async function forged(entries: readonly ForgedEntry[]): Promise<Buffer> {
  const packed = entries.map(({ content = '', ...header }) => ({
    header: { size: header.type ? 0 : Buffer.byteLength(content), ...header },
    body: header.type ? undefined : content,
  }))
  return member(Buffer.from(await packTar(packed)))
}

/** The unlinked temporary files that this process holds open. */
export const openSpools = (): string[] =>
  readdirSync('/proc/self/fd').flatMap((number) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${number}`)
      return target.includes('tenantry-spool-') ? [target] : []
    } catch {
      return [] // the descriptor of the folder itself
    }
  })

/** Yields the CSV as buffers, as a connection does. */
async function* asBuffers(csv: readonly Uint8Array[]): AsyncGenerator<Buffer> {
  for (const piece of csv) yield Buffer.from(piece)
}
