import { z } from 'zod'
import type { BackupRow, TransferRow } from '../model/tables.ts'
import { Failure, NO_PROGRESS, Progress } from '../model/transfer.ts'

const moment = z.iso.datetime()

export const Backup = z
  .object({
    id: z.uuid(),
    tenantId: z.string(),
    state: z.enum(['pending', 'running', 'completed', 'failed']),
    progress: Progress,
    sizeBytes: z.number().int().nullable().meta({ description: 'Size of the archive' }),
    sha256: z.string().nullable().meta({ description: 'SHA-256 of the archive, in hex' }),
    isolation: z
      .string()
      .meta({ description: 'Isolation driver of the source; a backup can be restored into any driver' }),
    migrations: z.array(z.string()).nullable().meta({ description: 'Migrations that had been applied to the storage' }),
    note: z.string().nullable(),
    isScheduled: z.boolean().meta({ description: 'Whether the backup was scheduled, and is subject to retention' }),
    isSealed: z.boolean().meta({ description: 'Whether the archive is encrypted with the application key' }),
    createdAt: moment,
    completedAt: moment.nullable(),
    failure: Failure,
  })
  .meta({ id: 'Backup' })
export type Backup = z.output<typeof Backup>

export type BackupWithTransfer = BackupRow & Pick<TransferRow, 'state' | 'progress' | 'failure'>

export const toBackup = (row: BackupWithTransfer): Backup => ({
  id: row.id,
  tenantId: row.tenantId,
  state: row.state === 'cancelled' ? 'failed' : row.state,
  progress: row.progress ?? NO_PROGRESS,
  sizeBytes: row.sizeBytes,
  sha256: row.sha256,
  isolation: row.isolation,
  migrations: row.migrations,
  note: row.note,
  isScheduled: row.isScheduled,
  isSealed: row.isSealed,
  createdAt: row.createdAt.toISOString(),
  completedAt: row.completedAt?.toISOString() ?? null,
  failure: row.failure,
})
