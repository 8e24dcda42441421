import { z } from 'zod'
import { jobType, type Recurring } from '../../kernel/jobs/jobs.ts'
import { part } from '../../kernel/part.ts'
import type { AuditLogs } from './audit-logs.ts'

const { job } = part<AuditLogs>()

/** Attempts of the hourly job on a locked table. After them, the next run continues. */
const TRIES = 10

export const SealAuditLog = jobType({
  name: 'SealAuditLog',
  summary: 'Seals new entries into the chains that reveal tampering',
  data: z.object({}),
  workers: 1,
})

export const TrimAuditLog = jobType({
  name: 'TrimAuditLog',
  summary: 'Drops months of the audit log past their retention, and creates partitions for future months',
  data: z.object({}),
  workers: 1,
})

export const jobs = [
  job(SealAuditLog, async ({ sealer }, _, { signal }) => void (await sealer.seal(signal))),
  job(TrimAuditLog, async ({ sealer, months }, _, { signal }) => {
    await sealer.seal(signal)
    await months.keep({ maxAttempts: TRIES, signal })
  }),
]

export const schedule: readonly Recurring[] = [
  { type: SealAuditLog, cron: '* * * * *' },
  { type: TrimAuditLog, cron: '43 * * * *' },
]
