import { z } from 'zod'
import { jobType, type Recurring } from '../../kernel/jobs/jobs.ts'
import { job } from './part.ts'

/** How often the hourly job may find a table locked before it leaves the rest to the next. */
const TRIES = 10

export const DeliverWebhooks = jobType({
  name: 'DeliverWebhooks',
  summary: 'Looks for deliveries that are due, in case that nobody was told of them',
  data: z.object({}),
  workers: 1,
})

export const TrimWebhooks = jobType({
  name: 'TrimWebhooks',
  summary: 'Drops deliveries past their retention, and makes room for those to come',
  data: z.object({}),
  workers: 1,
})

export const jobs = [
  job(DeliverWebhooks, async (webhooks) => webhooks.wake()),
  job(
    TrimWebhooks,
    async ({ partitions }, _, { signal }) => void (await partitions.keep({ maxAttempts: TRIES, signal })),
  ),
]

export const schedule: readonly Recurring[] = [
  { type: DeliverWebhooks, cron: '* * * * *' },
  { type: TrimWebhooks, cron: '23 * * * *' },
]
