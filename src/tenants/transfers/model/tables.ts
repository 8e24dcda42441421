/** Tables of transfers, backups, and storage locations that are not in use yet or are former. */
import { type Kind, NO_PROGRESS, type Phase, type Progress, type State, type Transfer } from './transfer.ts'

export interface TransferRow {
  /** For a backup, also the id of the backup. */
  id: string
  kind: Kind
  /** The tenant of the new storage or the backup. */
  tenantId: string
  /** For a clone, the cloned tenant. */
  sourceId: string | null
  backupId: string | null
  withData: boolean
  /** The target; for a backup, the source. */
  isolation: string
  placement: string
  state: State
  phase: Phase
  progress: Progress | null
  /** Whether the transfer started the tenant's maintenance, and ends it. */
  enteredMaintenance: boolean
  attempts: number
  /** The attempt that holds the lease. */
  worker: string | null
  leaseUntil: Date
  /** For a completed rehearsal: the extent of the comparison. */
  compared: 'contents' | 'counts' | null
  failure: { code: string; message: string } | null
  createdAt: Date
  startedAt: Date | null
  finishedAt: Date | null
}

export interface BackupRow {
  id: string
  tenantId: string
  note: string | null
  isScheduled: boolean
  isolation: string
  /** The key; null until the archive is complete. */
  archive: string | null
  isSealed: boolean
  sizeBytes: number | null
  sha256: string | null
  rows: number | null
  tables: number | null
  migrations: string[] | null
  createdAt: Date
  completedAt: Date | null
  /** The archive is to be removed, then the row. */
  deletedAt: Date | null
}

/**
 * A storage location other than the one in the tenant's row.
 *
 *   making ──switch──► the tenant's own ──next switch──► former ──undo──► the tenant's own
 *     └──failed, killed──► abandoned ──dropped──► (no row)      └──purgeAt──► (no row)
 *
 * The row is committed before the storage is created and deleted after it is dropped: all storage has a row.
 */
export interface PlaceRow {
  isolation: string
  placement: string
  locator: string
  epoch: number
  tenantId: string
  transferId: string | null
  state: 'making' | 'former' | 'abandoned'
  schemaVersion: string
  since: Date
  purgeAt: Date | null
}

/** Converts a row to the resource of the API. */
export const toTransfer = (row: TransferRow): Transfer => ({
  id: row.id,
  tenantId: row.tenantId,
  kind: row.kind,
  state: row.state,
  phase: row.phase,
  progress: row.progress ?? NO_PROGRESS,
  isolation: row.isolation,
  placement: row.placement,
  backupId: row.backupId,
  sourceId: row.sourceId,
  compared: row.compared,
  attempts: row.attempts,
  createdAt: row.createdAt.toISOString(),
  startedAt: row.startedAt?.toISOString() ?? null,
  finishedAt: row.finishedAt?.toISOString() ?? null,
  failure: row.failure,
})
