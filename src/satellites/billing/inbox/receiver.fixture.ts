/** What the inbox has of received events. */
import type Stripe from 'stripe'
import type { OpenBilling } from '../billing.fixture.ts'

/** Reads on the connections of `open`, whatever the connections of a receiver do. */
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
