import { z } from 'zod'
import { jobType, type Recurring } from '../../kernel/jobs/jobs.ts'
import { job } from './part.ts'

/** Attempts of the hourly job to lock the tables. The next run continues. */
const MAX_ATTEMPTS = 10

export const DeliverWebhooks = jobType({
  name: 'DeliverWebhooks',
  summary: 'Sends due deliveries for which no worker was notified',
  data: z.object({}),
  workers: 1,
})

export const TrimWebhooks = jobType({
  name: 'TrimWebhooks',
  summary: 'Drops partitions of deliveries past their retention, and creates future ones',
  data: z.object({}),
  workers: 1,
})

export const StreamToWebhooks = jobType({
  name: 'StreamToWebhooks',
  summary: 'Sends ordered streams, such as the audit log, to subscriptions of the host',
  data: z.object({}),
  workers: 1,
})

export const jobs = [
  job(DeliverWebhooks, async (webhooks) => webhooks.wake()),
  job(StreamToWebhooks, ({ streams }, _, { signal }) => streams.send(signal)),
  job(
    TrimWebhooks,
    async ({ partitions }, _, { signal }) => void (await partitions.keep({ maxAttempts: MAX_ATTEMPTS, signal })),
  ),
]

export const schedule: readonly Recurring[] = [
  { type: DeliverWebhooks, cron: '* * * * *' },
  { type: StreamToWebhooks, cron: '* * * * *' },
  { type: TrimWebhooks, cron: '23 * * * *' },
]
