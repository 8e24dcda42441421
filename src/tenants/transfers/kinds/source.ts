/** Reads an archive for a restore, and verifies its size and hash against the row of the backup. */
import { createHash } from 'node:crypto'
import { isUuid } from '../../../kernel/base/ids.ts'
import { DecryptionError } from '../../../kernel/crypto/encrypted-stream.ts'
import { BackupIncompatible, type TenantCopy } from '../../isolation/copy.ts'
import type { TenantTables } from '../../tenant/tables.ts'
import { readArchive } from '../archive/reader.ts'
import type { Attempt } from '../execution/attempt.ts'
import type { BackupRow } from '../model/tables.ts'
import { BackupNotFound } from '../requests/errors.ts'
import { archivesOf } from './backup.ts'
import type { TransferDependencies } from './dependencies.ts'

/** Runs `work` with the copy from the backup of this transfer. */
export async function withCopy<T>(
  dependencies: TransferDependencies,
  { transfer }: Attempt,
  work: (copy: TenantCopy) => Promise<T>,
): Promise<T> {
  const { tenantId, backupId } = transfer
  const row = await archiveOf(dependencies, tenantId, backupId ?? '')
  const copy = await readArchive(plain(dependencies, row), { tenantId, backupId: row.id })
  const { description } = copy
  const known = {
    description,
    estimatedRows: row.rows ?? undefined,
    tables: () => copy.tables(),
    totals: () => copy.totals(),
  }
  try {
    return await work(known)
  } finally {
    await copy.close()
  }
}

/** The decrypted bytes of an archive. They are verified only after the iteration has ended without an error. */
export async function archiveBytes(
  dependencies: TransferDependencies,
  tenantId: string,
  backupId: string,
): Promise<AsyncIterable<Uint8Array>> {
  return opened(plain(dependencies, await archiveOf(dependencies, tenantId, backupId)))
}

type Archived = BackupRow & { readonly archive: string }

async function archiveOf({ kernel }: TransferDependencies, tenantId: string, backupId: string): Promise<Archived> {
  const query = kernel.database
    .query<TenantTables>()
    .selectFrom('backups')
    .selectAll()
    .where('id', '=', backupId)
    .where('tenantId', '=', tenantId)
    .where('deletedAt', 'is', null)
  const row = isUuid(backupId) ? await query.executeTakeFirst() : undefined
  if (!row?.archive) throw BackupNotFound(`Archive of backup "${backupId}" of tenant "${tenantId}" not found.`)
  return { ...row, archive: row.archive }
}

function plain(dependencies: TransferDependencies, row: Archived): AsyncIterable<Uint8Array> {
  const stored = unaltered(archivesOf(dependencies).read(row.archive), row)
  return row.isSealed ? dependencies.kernel.secrets.decryptStream(stored, row.id) : stored
}

/** Throws at the end if the bytes are not the written ones. */
async function* unaltered(chunks: AsyncIterable<Uint8Array>, row: BackupRow): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  let bytes = 0
  for await (const chunk of chunks) {
    hash.update(chunk)
    bytes += chunk.length
    yield chunk
  }
  if (bytes < (row.sizeBytes ?? 0)) {
    throw BackupIncompatible(`The archive is truncated: it has ${bytes} of ${row.sizeBytes} bytes.`)
  }
  if (hash.digest('hex') !== row.sha256) throw BackupIncompatible('The archive was altered after its creation.')
}

/** Throws if the archive was altered, or its key is not configured. */
async function* opened(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* chunks
  } catch (error) {
    if (!(error instanceof DecryptionError)) throw error
    throw BackupIncompatible(`The backup cannot be decrypted: ${error.message}.`, { cause: error })
  }
}
