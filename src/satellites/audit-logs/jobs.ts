import { z } from 'zod'
import { jobType, type Recurring } from '../../kernel/jobs/jobs.ts'
import { part } from '../../kernel/part.ts'
import type { AuditLogs } from './audit-logs.ts'

const { job } = part<AuditLogs>()

/** How often the hourly job may find a table locked before it leaves the rest to the next. */
const TRIES = 10

export const SealAuditLog = jobType({
  name: 'SealAuditLog',
  summary: 'Seals what was recorded into the chains that show whether it was tampered with',
  data: z.object({}),
  workers: 1,
})

export const TrimAuditLog = jobType({
  name: 'TrimAuditLog',
  summary: 'Drops months of the audit log past their retention, and makes room for those to come',
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
