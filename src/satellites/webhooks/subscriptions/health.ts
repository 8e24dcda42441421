/** The health of subscriptions. The cost of each is bounded for any number of deliveries. */
import type { Database } from '../../../kernel/database/database.ts'
import { type Health, MAX_WAITING, toHealth } from '../model/subscription.ts'
import type { SubscriptionRow } from '../model/tables.ts'

/** Number of deliveries among which the last successful one is found. */
const MAX_READ = 1_000
const AFTER_ALL_IDS = "'ffffffff-ffff-ffff-ffff-ffffffffffff'"

/** A failing subscription has no success after the start of the failures, so later deliveries are not read. */
const HEALTH = `
  select s.id,
    (select delivered_at from (
      select state, delivered_at from multitenancy.webhook_deliveries
      where webhook_id = s.id and id < coalesce(multitenancy.webhook_id_floor(s.failing_since), ${AFTER_ALL_IDS})
      order by id desc limit ${MAX_READ}) newest where state = 'delivered' limit 1) as "lastDeliveredAt",
    (select count(*) from (select from multitenancy.webhook_deliveries
      where is_ready and partition_key = coalesce(s.tenant_id, '-') and webhook_id = s.id limit ${MAX_WAITING}) ready)
    + (select count(*) from (select from multitenancy.webhook_deliveries
      where state = 'retry_scheduled' and not is_ready and webhook_id = s.id limit ${MAX_WAITING}) later) as waiting
  from multitenancy.webhook_subscriptions s where s.id = any($1::uuid[])`

/** By id of the subscription. */
export async function healthOf(
  database: Database,
  subscriptions: readonly SubscriptionRow[],
): Promise<Map<string, Health>> {
  if (subscriptions.length === 0) return new Map()
  const { rows } = await database.sql(HEALTH, [subscriptions.map(({ id }) => id)])
  const found = new Map(rows.map((row) => [row.id, row]))
  return new Map(
    subscriptions.map((subscription) => [subscription.id, toHealth(subscription, found.get(subscription.id))]),
  )
}
