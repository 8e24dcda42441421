import { z } from 'zod'
import { jobType } from '../../../kernel/jobs/jobs.ts'

/** One job per tenant at a time: parallel jobs would wait for the same lock and occupy the workers of other tenants. */
export const ProcessProviderEvent = jobType({
  name: 'ProcessProviderEvent',
  summary: 'Applies an event of the payment provider to subscriptions, plans and dunning',
  data: z.object({ eventId: z.string() }),
  retries: 2,
  retryDelaySeconds: 30,
  timeoutSeconds: 120,
  perTenant: 1,
})

/**
 * Retries cover only a process that ended. After a failed report, the row of the batch contains the time of the next
 * attempt.
 */
export const ReportUsageBatch = jobType({
  name: 'ReportUsageBatch',
  summary: "Reports a batch of a tenant's metered usage to the payment provider",
  data: z.object({ id: z.uuid() }),
  retries: 3,
  retryDelaySeconds: 10,
  timeoutSeconds: 120,
})

export const SweepBilling = jobType({
  name: 'SweepBilling',
  summary: 'Ends expired grace periods, and sends lost jobs of events and usage again',
  data: z.object({}),
  workers: 1,
})

export const PingProvider = jobType({
  name: 'PingProvider',
  summary: 'Measures the response time of the payment provider',
  data: z.object({}),
  workers: 1,
  retries: 0,
  timeoutSeconds: 60,
})

export const CleanUpBilling = jobType({
  name: 'CleanUpBilling',
  summary: 'Deletes processed events of the payment provider after their retention',
  data: z.object({}),
  workers: 1,
})

/**
 * Without a tenant, because the cancellation must survive the purge of the tenant. Retried for a week, at last hourly:
 * no other process ends a subscription of a deleted tenant.
 */
export const CancelSubscriptions = jobType({
  name: 'CancelSubscriptions',
  summary: 'Cancels the subscriptions of a deleted tenant',
  data: z.object({ customerId: z.string() }),
  retries: 175,
  retryDelaySeconds: 30,
  retryDelayMaxSeconds: 3_600,
  timeoutSeconds: 120,
})
