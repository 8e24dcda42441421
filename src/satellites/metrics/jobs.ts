import { z } from 'zod'
import { jobType, type Recurring } from '../../kernel/jobs/jobs.ts'
import { job } from './part.ts'

export const FlushMetrics = jobType({
  name: 'FlushMetrics',
  summary: 'Stores the counts of tenants, and removes rows past their retention',
  data: z.object({}),
  retries: 20, // at least seven minutes: an outage of the store leaves no dead letter
  retryDelayMaxSeconds: 60,
  workers: 1,
})

export const jobs = [job(FlushMetrics, async (metrics, _, { signal }) => void (await metrics.flush(signal)))]

export const schedule: readonly Recurring[] = [{ type: FlushMetrics, cron: '*/5 * * * *' }]
