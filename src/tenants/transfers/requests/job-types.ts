/** Jobs of transfers. Their data is only the id of the transfer; its row has everything else. */
import { z } from 'zod'
import { type JobType, jobType } from '../../../kernel/jobs/jobs.ts'
import type { Kind } from '../model/transfer.ts'

const ofTransfer = z.object({ transferId: z.uuid() })

/** A large tenant takes hours. The heartbeat and the lease detect a lost worker. */
const common = { data: ofTransfer, retries: 4, retryDelaySeconds: 5, timeoutSeconds: 23 * 3_600, workers: 2 }

export const BackupTenant = jobType({
  name: 'BackupTenant',
  summary: "Writes a tenant's rows to an archive",
  ...common,
})

export const RestoreTenant = jobType({
  name: 'RestoreTenant',
  summary: 'Fills new storage from an archive and switches the tenant to it, or rehearses the restore',
  ...common,
})

export const CloneTenant = jobType({
  name: 'CloneTenant',
  summary: 'Creates the storage of a new tenant from that of another',
  ...common,
})

export const MoveTenant = jobType({
  name: 'MoveTenant',
  summary: "Moves a tenant's storage to another driver or server, or back",
  ...common,
})

export const RecoverTransfers = jobType({
  name: 'RecoverTransfers',
  summary: 'Resumes lost transfers and drops abandoned storage',
  data: z.object({}),
  workers: 1,
})

export const RunBackups = jobType({
  name: 'RunBackups',
  summary: 'Creates due backups and removes expired ones',
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
