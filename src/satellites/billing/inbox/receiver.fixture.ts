/** Counts stored events and their jobs. */
import type Stripe from 'stripe'
import type { OpenBilling } from '../billing.fixture.ts'

/** Uses the connections of `open`, independent of the receiver's connections. */
export async function countKept(
  { tenancy }: OpenBilling,
  events: readonly Stripe.Event[],
): Promise<{ events: number; jobs: number }> {
  const { rows } = await tenancy.kernel.database.sql(
    `select (select count(*)::int from multitenancy.billing_inbox where event_id = any($1)) as events,
       (select count(*)::int from multitenancy_jobs.job
        where name = 'tenantry.ProcessProviderEvent' and singleton_key = any($1)) as jobs`,
    [events.map(({ id }) => id)],
  )
  return rows[0]
}
