/**
 * Deletes the subscriptions of a purged tenant, with their deliveries. Deliveries of the tenant's events to subscriptions of the host
 * stay for their retention.
 */
import type { Database } from '../../../kernel/database/database.ts'
import { CHANNEL } from '../sql/functions.ts'

/** The tables are large and the purge deletes few rows, so it must use indexes. */
const BY_INDEX = ['enable_hashjoin', 'enable_mergejoin', 'enable_seqscan']

/** Call it in the transaction of the purge. */
export async function forgetTenant(database: Database, tenantId: string): Promise<void> {
  await database.transaction(async () => {
    const plan = (value: string) =>
      database.sql('select set_config(name, $1, true) from unnest($2::text[]) name', [value, BY_INDEX])
    await plan('off')
    await database.sql(
      `with own as materialized (select id from multitenancy.webhook_subscriptions where tenant_id = $1),
       gone as (
         delete from multitenancy.webhook_deliveries d using own where d.webhook_id = own.id returning d.id, d.message_id
       ), attempts as (
         delete from multitenancy.webhook_attempts a using gone where a.delivery_id = gone.id
       )
       -- A delivery has the first fifteen digits of its message, so those of one message are adjacent.
       delete from multitenancy.webhook_messages m using (
         select message_id from gone
         union select id from multitenancy.webhook_messages where tenant_id = $1 and is_undelivered) of(message_id)
       where m.id = of.message_id and not exists (
         select from multitenancy.webhook_deliveries d
         where d.id >= (left(m.id::text, 15) || '000-0000-000000000000')::uuid
           and d.id <= (left(m.id::text, 15) || 'fff-ffff-ffffffffffff')::uuid
           and d.message_id = m.id and not exists (select from own where own.id = d.webhook_id))`,
      [tenantId],
    )
    await plan('on')
    // Workers release their claims of these subscriptions.
    await database.sql(
      `with gone as (delete from multitenancy.webhook_subscriptions where tenant_id = $1 returning id)
       select pg_notify('${CHANNEL}', id::text) from gone`,
      [tenantId],
    )
  })
}
