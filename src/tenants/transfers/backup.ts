/**
 * A backup: the tenant's storage, read in one snapshot, becomes an archive. Under its key it is whole or not there, and it is listed
 * as completed only by the transaction that also knows its size and its hash. Each attempt has a key of its own, so that nothing
 * that an attempt still writes which was given up can take the place of an archive that was verified.
 */
import { createHash } from 'node:crypto'
import { TenantState } from '../errors.ts'
import { TenantBackedUp } from '../events.ts'
import { toPlace } from '../registry.ts'
import type { TenantTables } from '../tables.ts'
import { archived } from './archive-writer.ts'
import type { Archives } from './archives.ts'
import type { Attempt } from './attempt.ts'
import { BackupsNotConfigured } from './errors.ts'
import type { Course, TransferParts } from './parts.ts'
import { lockedRow } from './switch.ts'

/** A row as CSV, compressed; only to choose how large the parts of an upload are. */
const BYTES_PER_ROW = 100

export const backup: Course = {
  async carryOut(parts, attempt) {
    const { kernel, registry, storage } = parts
    const { id, tenantId } = attempt.transfer
    const archives = archivesOf(parts)
    await forgetEarlier(archives, attempt)
    const row = await registry.row(tenantId)
    if (row.status !== 'active' && row.status !== 'suspended') {
      throw TenantState(`The tenant "${tenantId}" is ${row.status}; there is nothing to back up.`, {
        extras: { from: row.status },
      })
    }
    const key = archiveKey(attempt, parts.isSealing)
    const written = { bytes: 0, hash: createHash('sha256') }
    const wholly = await storage.driver(row.isolation).export(
      toPlace(row),
      async (copy) => {
        await attempt.phase('writing')
        const watched = attempt.meter.watch(copy)
        const plain = archived(watched, { backupId: id, tenantId, createdAt: attempt.transfer.createdAt })
        const chunks = parts.isSealing ? kernel.secrets.sealStream(plain, id) : plain
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
      const tenant = await lockedRow(parts, tenantId)
      await attempt.hold()
      await database
        .query<TenantTables>()
        .updateTable('backups')
        .set({
          archive: key,
          isSealed: parts.isSealing,
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

  async giveUp(parts, attempt) {
    const { archives, kernel } = parts
    if (!archives) return
    kernel.database.afterCommit(() => archives.delete(archiveKey(attempt, parts.isSealing)))
  },
}

export function archivesOf({ archives }: Pick<TransferParts, 'archives'>): Archives {
  if (archives) return archives
  throw BackupsNotConfigured('No place for backups is configured: set `backups.directory` or `backups.s3`.')
}

const SUFFIXES = ['.tar.gz', '.tar.gz.sealed'] as const

/** `acme/<backup>.<attempt>.tar.gz` */
const keyOf = (attempt: Attempt, number: number, isSealed: boolean): string =>
  `${attempt.transfer.tenantId}/${attempt.transfer.id}.${number}${SUFFIXES[isSealed ? 1 : 0]}`

const archiveKey = (attempt: Attempt, isSealed: boolean): string => keyOf(attempt, attempt.transfer.attempts, isSealed)

/** What an attempt that was killed has written. */
async function forgetEarlier(archives: Archives, attempt: Attempt): Promise<void> {
  for (let number = 1; number < attempt.transfer.attempts; number++) {
    await archives.delete(keyOf(attempt, number, false))
    await archives.delete(keyOf(attempt, number, true))
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
