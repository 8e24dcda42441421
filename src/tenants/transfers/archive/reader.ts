/**
 * Reads an archive (format.ts) as a tenant copy, streaming and in constant memory.
 *
 * - An invalid archive is `E_BACKUP_INCOMPATIBLE`. Errors of the backup storage pass through unchanged.
 * - Rows are yielded before the archive is verified. Only `totals` proves that it is complete: the importer must keep
 *   the rows separate until then.
 */
import { createHash } from 'node:crypto'
import { ByteSource, joined } from '../../../kernel/base/byte-source.ts'
import { once } from '../../../kernel/base/once.ts'
import { DecryptionError, isEncrypted, MAGIC_BYTES } from '../../../kernel/crypto/encrypted-stream.ts'
import {
  BackupIncompatible,
  type CopyDescription,
  type TableCopy,
  type TableTotals,
  type TenantCopy,
} from '../../isolation/copy.ts'
import { altered, foreign, truncated } from './errors.ts'
import {
  type ArchiveHeader,
  type ArchiveSubject,
  HEADER_FILE,
  MANIFEST_FILE,
  MAX_JSON_BYTES,
  readHeader,
  type Sum,
  sumOf,
  verifiedTotals,
} from './format.ts'
import { GZIP_MAGIC_BYTES, gunzipped, isGzip } from './gzip.ts'
import { type TarEntry, TarReader } from './tar-reading.ts'

export interface ArchiveCopy extends TenantCopy {
  readonly archive: ArchiveHeader
  /** Closes the source. Required if the archive is not read to its end. */
  close(): Promise<void>
}

/** Resolves after archive.json has been read. */
export async function readArchive(
  chunks: AsyncIterable<Uint8Array>,
  expected: Omit<ArchiveSubject, 'createdAt'>,
): Promise<ArchiveCopy> {
  const tar = new TarReader(gunzipped(compressed(chunks)))
  try {
    const entry = await tar.next((cause) => foreign('it is not a tar file', cause))
    if (!entry?.isFile || entry.name !== HEADER_FILE) throw foreign(`it does not start with ${HEADER_FILE}`)
    const bytes = await json(entry)
    return new OpenArchive(tar, readHeader(bytes, expected), sumOf(bytes))
  } catch (error) {
    await tar.close()
    throw error
  }
}

class OpenArchive implements ArchiveCopy {
  readonly archive: ArchiveHeader
  readonly description: CopyDescription
  readonly estimatedRows = undefined
  readonly #tar: TarReader
  readonly #archiveSum: Sum
  /** Of the tables read to their end. */
  readonly #sums: Sum[] = []
  #hasStarted = false

  constructor(tar: TarReader, header: ArchiveHeader, archiveSum: Sum) {
    const { engine, isolation, migrations, tables, sequences } = header
    const described = tables.map(({ name, columns }) => ({ name, columns }))
    this.archive = header
    this.description = { engine, isolation, migrations, tables: described, sequences }
    this.#tar = tar
    this.#archiveSum = archiveSum
  }

  async *tables(): AsyncGenerator<TableCopy, void, undefined> {
    if (this.#hasStarted) throw new Error('the tables of an archive are read once')
    this.#hasStarted = true
    try {
      for (const [index, { name, columns, file }] of this.archive.tables.entries()) {
        yield { table: { name, columns }, csv: this.#csv(await this.#entry(file)) }
        if (this.#sums.length <= index) throw new Error(`the table "${name}" was not read to its end`)
      }
    } finally {
      if (!this.#hasAllTables()) await this.close()
    }
  }

  async totals(): Promise<readonly TableTotals[]> {
    if (!this.#hasAllTables()) throw new Error('the tables of the archive have not been read')
    return this.#readToEnd()
  }

  async close(): Promise<void> {
    await this.#tar.close()
  }

  readonly #readToEnd = once(async () => {
    try {
      const manifest = await json(await this.#entry(MANIFEST_FILE))
      const totals = verifiedTotals(manifest, {
        header: this.archive,
        archive: this.#archiveSum,
        sums: this.#sums,
      })
      if (await this.#tar.next()) throw altered(`data follows ${MANIFEST_FILE}`)
      return totals
    } finally {
      await this.close()
    }
  })

  #hasAllTables(): boolean {
    return this.#sums.length === this.archive.tables.length
  }

  async #entry(file: string): Promise<TarEntry> {
    const entry = await this.#tar.next()
    if (!entry) throw altered(`${file} is missing`)
    if (entry.isFile && entry.name === file) return entry
    const announced = [HEADER_FILE, ...this.archive.tables.map((table) => table.file), MANIFEST_FILE]
    if (!entry.isFile || !announced.includes(entry.name)) throw altered('it contains an unexpected entry')
    throw altered(`${file} is out of order`)
  }

  async *#csv(entry: TarEntry): AsyncGenerator<Buffer, void, undefined> {
    const hash = createHash('sha256')
    for await (const piece of entry.content) {
      hash.update(piece)
      yield piece
    }
    this.#sums.push({ bytes: entry.size, sha256: hash.digest('hex') })
  }
}

/** Passes the chunks through if they can be gzip. */
async function* compressed(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer, void, undefined> {
  const source = new ByteSource(chunks)
  try {
    const first = await source.peek(Math.max(MAGIC_BYTES, GZIP_MAGIC_BYTES))
    if (isEncrypted(first))
      throw BackupIncompatible('The backup is encrypted and was not decrypted with an application key.')
    if (first.length < GZIP_MAGIC_BYTES) throw truncated()
    if (!isGzip(first)) throw foreign('it is not compressed with gzip')
    yield* source.rest()
  } catch (error) {
    throw error instanceof DecryptionError
      ? BackupIncompatible(`The backup cannot be decrypted: ${error.message}.`, { cause: error })
      : error
  } finally {
    await source.close()
  }
}

async function json(entry: TarEntry): Promise<Buffer> {
  if (entry.size > MAX_JSON_BYTES) throw altered(`${entry.name} is too large`)
  const pieces: Buffer[] = []
  for await (const piece of entry.content) pieces.push(piece)
  return joined(pieces)
}
