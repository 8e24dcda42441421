/**
 * Format 1 of a tenant backup: a `.tar.gz` file.
 *
 *   archive.json       tenant, time, migrations and the list of tables, before the first row
 *   data/<table>.csv   one per table, in the order of archive.json, in COPY's CSV format
 *   manifest.json      archive.json plus rows, bytes and SHA-256 of each table and of archive.json
 *
 * - The manifest is last: an archive without it is incomplete.
 * - The hashes detect damage. Only encryption (kernel/crypto/encrypted-stream.ts) detects a deliberate change.
 * - Unknown JSON members are ignored, so new members need no new format.
 */
import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import { BackupIncompatible, type CopyDescription, type TableTotals } from '../../isolation/copy.ts'
import { altered, foreign } from './errors.ts'
import { TABLE_FILE, tableFiles } from './files.ts'

export const HEADER_FILE = 'archive.json'
export const MANIFEST_FILE = 'manifest.json'
/** Limit of archive.json and of manifest.json, which are read into memory. */
export const MAX_JSON_BYTES = 16 * 1024 * 1024
const FORMAT = 1
const PROGRAM = 'tenantry'
/** Upper limit of the manifest's additional bytes per table, and for archive.json. */
const SUMS_BYTES = 256

const Sha256 = z.string().regex(/^[0-9a-f]{64}$/)
const Count = z.int().min(0)

const ArchivedTable = z.object({
  name: z.string().min(1),
  file: z.string().regex(TABLE_FILE),
  columns: z.array(z.object({ name: z.string().min(1), type: z.string().min(1) })),
})

const Header = z.object({
  format: z.literal(FORMAT),
  program: z.literal(PROGRAM),
  backupId: z.string(),
  tenantId: z.string(),
  createdAt: z.iso.datetime(),
  engine: z.literal('postgres'),
  isolation: z.string(),
  migrations: z.array(z.object({ name: z.string(), checksum: z.string() })),
  tables: z.array(ArchivedTable).refine(areApart, 'two tables have the same name or the same file'),
  sequences: z.array(
    z.object({ name: z.string().min(1), lastValue: z.string().regex(/^-?\d{1,19}$/), isCalled: z.boolean() }),
  ),
})

const Manifest = Header.extend({
  tables: z.array(ArchivedTable.extend({ rows: Count, bytes: Count, sha256: Sha256 })),
  archive: z.object({ bytes: Count, sha256: Sha256 }),
})

/** The content of archive.json. */
export type ArchiveHeader = Readonly<z.output<typeof Header>>

/** Backup, tenant and time of an archive. */
export interface ArchiveSubject {
  readonly backupId: string
  readonly tenantId: string
  readonly createdAt: Date
}

/** Length and hash of a byte sequence. */
export interface Sum {
  readonly bytes: number
  /** Hexadecimal. */
  readonly sha256: string
}

export const sumOf = (bytes: Buffer): Sum => ({
  bytes: bytes.length,
  sha256: createHash('sha256').update(bytes).digest('hex'),
})

export function headerOf(description: CopyDescription, subject: ArchiveSubject): ArchiveHeader {
  const { engine, isolation, migrations, tables, sequences } = description
  const files = tableFiles(tables.map(({ name }) => name))
  return Header.parse({
    format: FORMAT,
    program: PROGRAM,
    ...subject,
    createdAt: subject.createdAt.toISOString(),
    engine,
    isolation,
    migrations,
    tables: tables.map(({ name, columns }, index) => ({ name, file: files[index], columns })),
    sequences,
  })
}

/** The bytes of archive.json. Throws before any read if the manifest would exceed the size limit of the reader. */
export function headerBytes(header: ArchiveHeader): Buffer {
  const bytes = jsonBytes(header)
  const most = bytes.length + (header.tables.length + 1) * SUMS_BYTES
  if (most > MAX_JSON_BYTES)
    throw new Error(`The description of the tables is too large for an archive: ${bytes.length} bytes.`)
  return bytes
}

/** @param totals in the order of the tables, as are the hashes */
export function manifestBytes(
  header: ArchiveHeader,
  { archive, sums, totals }: { archive: Sum; sums: readonly Sum[]; totals: readonly TableTotals[] },
): Buffer {
  const tables = header.tables.map((table, index) => ({ ...table, ...totals[index], ...sums[index] }))
  return jsonBytes(Manifest.parse({ ...header, tables, archive }))
}

export function readHeader(bytes: Buffer, expected: Omit<ArchiveSubject, 'createdAt'>): ArchiveHeader {
  const json = parsedJson(bytes)
  const { success, data: program } = z.object({ program: z.literal(PROGRAM), format: z.int().min(1) }).safeParse(json)
  if (!success) throw foreign(`${HEADER_FILE} is from another program`)
  if (program.format > FORMAT) {
    const formats = `the file has format ${program.format}, this version reads up to format ${FORMAT}`
    throw BackupIncompatible(`The backup was created by a newer version of Tenantry: ${formats}.`)
  }
  const header = Header.safeParse(json)
  if (!header.success) throw altered(`${HEADER_FILE} does not match format ${FORMAT}`, header.error)
  if (header.data.tenantId !== expected.tenantId) throw BackupIncompatible('The backup belongs to another tenant.')
  if (header.data.backupId !== expected.backupId) throw BackupIncompatible('The file belongs to another backup.')
  return header.data
}

/** Returns the totals. Throws unless the manifest matches the read bytes. @param sums of the tables, in their order */
export function verifiedTotals(
  bytes: Buffer,
  { header, archive, sums }: { header: ArchiveHeader; archive: Sum; sums: readonly Sum[] },
): TableTotals[] {
  const manifest = Manifest.safeParse(parsedJson(bytes))
  if (!manifest.success) throw altered(`${MANIFEST_FILE} does not match format ${FORMAT}`, manifest.error)
  const repeated = Header.safeParse(manifest.data)
  if (!isDeepStrictEqual(repeated.data, header) || !isDeepStrictEqual(manifest.data.archive, archive)) {
    throw altered(`${MANIFEST_FILE} contradicts ${HEADER_FILE}`)
  }
  return manifest.data.tables.map(({ name, rows, bytes, sha256 }, index) => {
    if (!isDeepStrictEqual({ bytes, sha256 }, sums[index])) {
      throw altered(`the content of the table "${name}" does not match its hash`)
    }
    return { name, rows, bytes }
  })
}

const jsonBytes = (value: unknown): Buffer => Buffer.from(`${JSON.stringify(value, null, 2)}\n`)

/** Undefined if the bytes are not JSON. */
function parsedJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    return undefined
  }
}

function areApart(tables: readonly { name: string; file: string }[]): boolean {
  const names = new Set(tables.map(({ name }) => name))
  const files = new Set(tables.map(({ file }) => file.toLowerCase()))
  return names.size === tables.length && files.size === tables.length
}
