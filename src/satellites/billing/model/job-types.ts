import { z } from 'zod'
import { jobType } from '../../../kernel/jobs/jobs.ts'

/** One of a tenant at a time: they would wait for each other, in the place of those of others. */
export const ProcessProviderEvent = jobType({
  name: 'ProcessProviderEvent',
  summary: 'Brings subscriptions, plans and dunning up to an event of the payment provider',
  data: z.object({ eventId: z.string() }),
  retries: 2,
  retryDelaySeconds: 30,
  timeoutSeconds: 120,
  perTenant: 1,
})

/** Tried again by the job only where its process has ended: what the provider has not taken says itself when it is due. */
export const ReportUsageBatch = jobType({
  name: 'ReportUsageBatch',
  summary: 'Reports what a tenant has used of a meter to the payment provider',
  data: z.object({ id: z.uuid() }),
  retries: 3,
  retryDelaySeconds: 10,
  timeoutSeconds: 120,
})

export const SweepBilling = jobType({
  name: 'SweepBilling',
  summary: 'Ends graces that are over, and sends again what was lost on the way',
  data: z.object({}),
  workers: 1,
})

export const PingProvider = jobType({
  name: 'PingProvider',
  summary: 'Measures whether the payment provider answers',
  data: z.object({}),
  workers: 1,
  retries: 0,
  timeoutSeconds: 60,
})

export const CleanUpBilling = jobType({
  name: 'CleanUpBilling',
  summary: 'Removes events of the payment provider that are done with and past their retention',
  data: z.object({}),
  workers: 1,
})

/**
 * Without a tenant: what is left to do at the provider outlives it. It is tried for a week, each hour in the end: nobody else ends what
 * is paid for nothing.
 */
export const CancelSubscriptions = jobType({
  name: 'CancelSubscriptions',
  summary: 'Cancels the subscriptions of a tenant that was deleted',
  data: z.object({ customerId: z.string() }),
  retries: 175,
  retryDelaySeconds: 30,
  retryDelayMaxSeconds: 3_600,
  timeoutSeconds: 120,
})
