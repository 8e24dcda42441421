import type { Recurring } from '../../kernel/jobs/jobs.ts'
import {
  CancelSubscriptions,
  CleanUpBilling,
  PingProvider,
  ProcessProviderEvent,
  ReportUsageBatch,
  SweepBilling,
} from './model/job-types.ts'
import { job } from './part.ts'

export const jobs = [
  job(ProcessProviderEvent, ({ processing }, { eventId }, { isLast }) => processing.process(eventId, isLast)),
  job(ReportUsageBatch, ({ usage }, { id }) => usage.send(id)),
  job(CancelSubscriptions, ({ tenantDeletion }, { customerId }) => tenantDeletion.cancelAll(customerId)),
  job(SweepBilling, async ({ dunning, inbox, usage }, _, { signal }) => {
    // A failed sweep does not prevent the others.
    const swept = await Promise.allSettled([dunning.sweep(signal), inbox.resend(), usage.resend(signal)])
    const failures = swept.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
    if (failures.length > 0) throw new AggregateError(failures, 'some sweeps of billing failed')
  }),
  job(PingProvider, ({ health }) => health.measure()),
  job(CleanUpBilling, async ({ inbox, usage }) => {
    await inbox.cleanUp()
    await usage.cleanUp()
  }),
]

export const schedule: readonly Recurring[] = [
  { type: SweepBilling, cron: '* * * * *' },
  { type: PingProvider, cron: '* * * * *' },
  { type: CleanUpBilling, cron: '27 3 * * *' },
]
