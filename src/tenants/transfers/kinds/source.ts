/** An archive as it is read for a restore: what its row says of it must be true of every byte. */
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

/** Runs `work` with the copy that the backup of this transfer holds. */
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

/** The archive of a backup as anybody can open it, decrypted. What it yields is true only once it has ended well. */
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
  if (!row?.archive) throw BackupNotFound(`The tenant "${tenantId}" has no archive of a backup "${backupId}".`)
  return { ...row, archive: row.archive }
}

function plain(dependencies: TransferDependencies, row: Archived): AsyncIterable<Uint8Array> {
  const stored = unaltered(archivesOf(dependencies).read(row.archive), row)
  return row.isSealed ? dependencies.kernel.secrets.decryptStream(stored, row.id) : stored
}

/** Fails at its end when it is not what was written. */
async function* unaltered(chunks: AsyncIterable<Uint8Array>, row: BackupRow): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  let bytes = 0
  for await (const chunk of chunks) {
    hash.update(chunk)
    bytes += chunk.length
    yield chunk
  }
  if (bytes < (row.sizeBytes ?? 0)) {
    throw BackupIncompatible(`The archive is cut off: it has ${bytes} of ${row.sizeBytes} bytes.`)
  }
  if (hash.digest('hex') !== row.sha256) throw BackupIncompatible('The archive has been altered since it was made.')
}

/** What cannot be decrypted was altered, or its key is not here. */
async function* opened(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* chunks
  } catch (error) {
    if (!(error instanceof DecryptionError)) throw error
    throw BackupIncompatible(`The backup cannot be opened: ${error.message}.`, { cause: error })
  }
}
