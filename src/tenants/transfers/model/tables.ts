/** What the backoffice keeps of transfers, of the archives they made, and of storage that is not a tenant's yet, or no more. */
import { type Kind, NO_PROGRESS, type Phase, type Progress, type State, type Transfer } from './transfer.ts'

export interface TransferRow {
  /** Of a backup, that of the backup too. */
  id: string
  kind: Kind
  /** Whose storage is made, or whose backup. */
  tenantId: string
  /** Of a clone, the tenant that is cloned. */
  sourceId: string | null
  backupId: string | null
  withData: boolean
  /** Where to; of a backup, where from. */
  isolation: string
  placement: string
  state: State
  phase: Phase
  progress: Progress | null
  /** Whether the tenant's maintenance is of its making, and ends with it. */
  enteredMaintenance: boolean
  attempts: number
  /** The attempt that is at work, as long as its lease lasts. */
  worker: string | null
  leaseUntil: Date
  /** Of a rehearsal that has succeeded: what was compared. */
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
  /** Its key; empty until it is whole. */
  archive: string | null
  isSealed: boolean
  sizeBytes: number | null
  sha256: string | null
  rows: number | null
  tables: number | null
  migrations: string[] | null
  createdAt: Date
  completedAt: Date | null
  /** Its archive is to be removed, then the row. */
  deletedAt: Date | null
}

/**
 * Storage beside the one that the tenant's row names.
 *
 *   making ──the switch──► the tenant's own ──the next switch──► former ──undone──► the tenant's own
 *     └──failed, killed──► abandoned ──dropped──► gone                └──purgeAt──► gone
 *
 * The row is committed before anything is made, and goes after everything is dropped: no storage is without one.
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

/** The transfer as the API shows it. */
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
