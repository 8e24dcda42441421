/**
 * A backup: reads the tenant's storage in one snapshot into an archive.
 *
 * - The transaction that stores size and hash also completes the backup.
 * - Each attempt has its own key, so late writes of a lost attempt cannot replace a verified archive.
 */
import { createHash } from 'node:crypto'
import { toLocation } from '../../registry/registry.ts'
import { TenantState } from '../../tenant/errors.ts'
import { TenantBackedUp } from '../../tenant/events.ts'
import type { TenantTables } from '../../tenant/tables.ts'
import type { Archives } from '../archive/port.ts'
import { archived } from '../archive/writer.ts'
import type { Attempt } from '../execution/attempt.ts'
import type { TransferRow } from '../model/tables.ts'
import { BackupsNotConfigured } from '../requests/errors.ts'
import { lockedRow } from './cutover.ts'
import type { TransferDependencies, TransferHandler } from './dependencies.ts'

/** Compressed size of a row as CSV, for the part size of uploads. */
const BYTES_PER_ROW = 100

export const backup: TransferHandler = {
  async run(dependencies, attempt) {
    const { kernel, registry, storage } = dependencies
    const { id, tenantId } = attempt.transfer
    const archives = archivesOf(dependencies)
    await removeArchives(archives, attempt.transfer, 1, attempt.transfer.attempts - 1) // files of killed attempts
    const row = await registry.row(tenantId)
    if (row.status !== 'active' && row.status !== 'suspended') {
      throw TenantState(`Tenant "${tenantId}" is ${row.status} and has no storage to back up.`, {
        extras: { from: row.status },
      })
    }
    const key = archiveKey(attempt, dependencies.isEncrypting)
    const written = { bytes: 0, hash: createHash('sha256') }
    const wholly = await storage.driver(row.isolation).export(
      toLocation(row),
      async (copy) => {
        await attempt.phase('writing')
        const watched = attempt.meter.watch(copy)
        const plain = archived(watched, { backupId: id, tenantId, createdAt: attempt.transfer.createdAt })
        const chunks = dependencies.isEncrypting ? kernel.secrets.encryptStream(plain, id) : plain
        await archives.write(key, measured(chunks, written), {
          signal: attempt.signal,
          estimatedBytes: (copy.estimatedRows ?? 0) * BYTES_PER_ROW,
        })
        return { description: copy.description, totals: await copy.totals() }
      },
      attempt.options,
    )
    await attempt.phase('switching')
    const { database, events, clock } = kernel
    await database.transaction(async () => {
      const tenant = await lockedRow(dependencies, tenantId)
      await attempt.hold()
      await database
        .query<TenantTables>()
        .updateTable('backups')
        .set({
          archive: key,
          isSealed: dependencies.isEncrypting,
          isolation: wholly.description.isolation,
          sizeBytes: written.bytes,
          sha256: written.hash.digest('hex'),
          rows: wholly.totals.reduce((sum, { rows }) => sum + rows, 0),
          tables: wholly.totals.length,
          migrations: wholly.description.migrations.map(({ name }) => name),
          completedAt: clock.now(),
        })
        .where('id', '=', id)
        .execute()
      await attempt.end('completed')
      await registry.changed(tenant.id)
      await events.publish(TenantBackedUp, { tenantId, backupId: id, sizeBytes: written.bytes })
    })
  },

  async release({ archives, kernel }, transfer) {
    if (archives) kernel.database.afterCommit(() => removeArchives(archives, transfer))
  },

  /** Only files of this attempt: another one may be writing. */
  async lost({ archives }, transfer) {
    if (archives) await removeArchives(archives, transfer, transfer.attempts)
  },
}

export function archivesOf({ archives }: Pick<TransferDependencies, 'archives'>): Archives {
  if (archives) return archives
  throw BackupsNotConfigured('No backup storage is configured. Set `backups.directory` or `backups.s3`.')
}

const SUFFIXES = ['.tar.gz', '.tar.gz.sealed'] as const

type Attempted = Pick<TransferRow, 'id' | 'tenantId' | 'attempts'>

/** `acme/<backup>.<attempt>.tar.gz` */
const keyOf = ({ tenantId, id }: Attempted, attempt: number, suffix: (typeof SUFFIXES)[number]): string =>
  `${tenantId}/${id}.${attempt}${suffix}`

const archiveKey = ({ transfer }: Attempt, isEncrypted: boolean): string =>
  keyOf(transfer, transfer.attempts, SUFFIXES[isEncrypted ? 1 : 0])

/** Removes all files that attempts of a backup may have written. @param from the first attempt */
export async function removeArchives(archives: Archives, backup: Attempted, from = 1, to = backup.attempts) {
  for (let attempt = from; attempt <= to; attempt++) {
    for (const suffix of SUFFIXES) await archives.delete(keyOf(backup, attempt, suffix))
  }
}

async function* measured(
  chunks: AsyncIterable<Uint8Array>,
  written: { bytes: number; readonly hash: ReturnType<typeof createHash> },
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    written.bytes += chunk.length
    written.hash.update(chunk)
    yield chunk
  }
}
