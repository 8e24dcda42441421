/**
 * A tenant's backup as a file: a `.tar.gz` that `tar xzf` opens, format 1.
 *
 *   archive.json       what it is of, and what follows: who reads it as it comes knows everything before the first row
 *   data/<table>.csv   one for each table, in the order of archive.json, as COPY wrote it
 *   manifest.json      archive.json once more, with rows, bytes and SHA-256 of each table and of archive.json itself
 *
 * The manifest is last, so an archive without it is known to be incomplete. Its sums find what was damaged; they do not stop who
 * alters an archive and its sums as well: that is what sealing is for (kernel/crypto/encrypted-stream.ts).
 *
 * Members that are not known here are passed over, so that they may be added without a new format.
 */
import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import { BackupIncompatible, type CopyDescription, type TableTotals } from '../../isolation/copy.ts'
import { altered, foreign } from './errors.ts'
import { TABLE_FILE, tableFiles } from './files.ts'

export const HEADING_FILE = 'archive.json'
export const MANIFEST_FILE = 'manifest.json'
/** Of archive.json and of manifest.json, as these are held whole. */
export const MAX_JSON_BYTES = 16 * 1024 * 1024
const FORMAT = 1
const PROGRAM = 'tenantry'
/** What the manifest says of a table beyond archive.json, and of archive.json: less than this. */
const SUMS_BYTES = 256

const Sha256 = z.string().regex(/^[0-9a-f]{64}$/)
const Count = z.int().min(0)

const ArchivedTable = z.object({
  name: z.string().min(1),
  file: z.string().regex(TABLE_FILE),
  columns: z.array(z.object({ name: z.string().min(1), type: z.string().min(1) })),
})

const Heading = z.object({
  format: z.literal(FORMAT),
  program: z.literal(PROGRAM),
  backupId: z.string(),
  tenantId: z.string(),
  createdAt: z.iso.datetime(),
  engine: z.literal('postgres'),
  isolation: z.string(),
  migrations: z.array(z.object({ name: z.string(), checksum: z.string() })),
  tables: z.array(ArchivedTable).refine(areApart, 'two tables have one name, or one file'),
  sequences: z.array(
    z.object({ name: z.string().min(1), lastValue: z.string().regex(/^-?\d{1,19}$/), isCalled: z.boolean() }),
  ),
})

const Manifest = Heading.extend({
  tables: z.array(ArchivedTable.extend({ rows: Count, bytes: Count, sha256: Sha256 })),
  archive: z.object({ bytes: Count, sha256: Sha256 }),
})

/** What archive.json says. */
export type ArchiveHeading = Readonly<z.output<typeof Heading>>

/** What an archive is of. */
export interface ArchiveSubject {
  readonly backupId: string
  readonly tenantId: string
  readonly createdAt: Date
}

/** Of some bytes. */
export interface Sum {
  readonly bytes: number
  /** In hex. */
  readonly sha256: string
}

export const sumOf = (bytes: Buffer): Sum => ({
  bytes: bytes.length,
  sha256: createHash('sha256').update(bytes).digest('hex'),
})

export function headingOf(description: CopyDescription, subject: ArchiveSubject): ArchiveHeading {
  const { engine, isolation, migrations, tables, sequences } = description
  const files = tableFiles(tables.map(({ name }) => name))
  return Heading.parse({
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

/** The bytes of archive.json. Fails before anything was read when the manifest would become too large to be read again. */
export function headingBytes(heading: ArchiveHeading): Buffer {
  const bytes = jsonBytes(heading)
  const most = bytes.length + (heading.tables.length + 1) * SUMS_BYTES
  if (most > MAX_JSON_BYTES) throw new Error(`the description of what is archived is too large: ${bytes.length} bytes`)
  return bytes
}

/** @param totals in the order of the tables, as are their sums */
export function manifestBytes(
  heading: ArchiveHeading,
  { archive, sums, totals }: { archive: Sum; sums: readonly Sum[]; totals: readonly TableTotals[] },
): Buffer {
  const tables = heading.tables.map((table, index) => ({ ...table, ...totals[index], ...sums[index] }))
  return jsonBytes(Manifest.parse({ ...heading, tables, archive }))
}

export function readHeading(bytes: Buffer, expected: Omit<ArchiveSubject, 'createdAt'>): ArchiveHeading {
  const json = parsedJson(bytes)
  const { success, data: program } = z.object({ program: z.literal(PROGRAM), format: z.int().min(1) }).safeParse(json)
  if (!success) throw foreign(`its ${HEADING_FILE} is that of another program`)
  if (program.format > FORMAT) {
    const formats = `format ${program.format}; this one reads up to ${FORMAT}`
    throw BackupIncompatible(`The backup was made by a newer version: ${formats}.`)
  }
  const heading = Heading.safeParse(json)
  if (!heading.success) throw altered(`its ${HEADING_FILE} is not as format ${FORMAT} has it`, heading.error)
  if (heading.data.tenantId !== expected.tenantId) throw BackupIncompatible('The backup is of another tenant.')
  if (heading.data.backupId !== expected.backupId) throw BackupIncompatible('The file is that of another backup.')
  return heading.data
}

/** The totals, once the manifest and what was read agree. @param sums of the tables, in their order */
export function verifiedTotals(
  bytes: Buffer,
  { heading, archive, sums }: { heading: ArchiveHeading; archive: Sum; sums: readonly Sum[] },
): TableTotals[] {
  const manifest = Manifest.safeParse(parsedJson(bytes))
  if (!manifest.success) throw altered(`its ${MANIFEST_FILE} is not as format ${FORMAT} has it`, manifest.error)
  const repeated = Heading.safeParse(manifest.data)
  if (!isDeepStrictEqual(repeated.data, heading) || !isDeepStrictEqual(manifest.data.archive, archive)) {
    throw altered(`${MANIFEST_FILE} and ${HEADING_FILE} contradict each other`)
  }
  return manifest.data.tables.map(({ name, rows, bytes, sha256 }, index) => {
    if (!isDeepStrictEqual({ bytes, sha256 }, sums[index])) {
      throw altered(`the table "${name}" is not the one that was written`)
    }
    return { name, rows, bytes }
  })
}

const jsonBytes = (value: unknown): Buffer => Buffer.from(`${JSON.stringify(value, null, 2)}\n`)

/** Undefined where it is none. */
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
