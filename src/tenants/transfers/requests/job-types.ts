/** The jobs that carry out transfers: each carries its id and nothing else, as everything about it is in its row. */
import { z } from 'zod'
import { type JobType, jobType } from '../../../kernel/jobs/jobs.ts'
import type { Kind } from '../model/transfer.ts'

const ofTransfer = z.object({ transferId: z.uuid() })

/** A large tenant takes hours; one whose worker died is missed by its heartbeat and its lease. */
const common = { data: ofTransfer, retries: 4, retryDelaySeconds: 5, timeoutSeconds: 23 * 3_600, workers: 2 }

export const BackupTenant = jobType({
  name: 'BackupTenant',
  summary: "Writes a tenant's rows to an archive",
  ...common,
})

export const RestoreTenant = jobType({
  name: 'RestoreTenant',
  summary: 'Fills new storage from an archive, and lets the tenant have it; or rehearses that',
  ...common,
})

export const CloneTenant = jobType({
  name: 'CloneTenant',
  summary: "Makes a new tenant's storage from that of another",
  ...common,
})

export const MoveTenant = jobType({
  name: 'MoveTenant',
  summary: "Moves a tenant's storage to another driver or server, or back",
  ...common,
})

export const RecoverTransfers = jobType({
  name: 'RecoverTransfers',
  summary: 'Takes up transfers that were lost, and drops what was given up',
  data: z.object({}),
  workers: 1,
})

export const RunBackups = jobType({
  name: 'RunBackups',
  summary: 'Makes the backups that are due and removes those that are kept no longer',
  data: z.object({}),
  workers: 1,
})

export const JOBS: Readonly<Record<Kind, JobType<string, typeof ofTransfer>>> = {
  backup: BackupTenant,
  restore: RestoreTenant,
  rehearsal: RestoreTenant,
  clone: CloneTenant,
  move: MoveTenant,
  undo: MoveTenant,
}
