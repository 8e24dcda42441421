/**
 * What a purged tenant had: its subscriptions, and their deliveries with everything that belongs to them. What the host's own
 * subscriptions hear of the tenant is the host's, and goes when its time is over.
 */
import type { Database } from '../../kernel/database.ts'

export async function forgetTenant(database: Database, tenantId: string): Promise<void> {
  await database.sql(
    `with own as (select id from multitenancy.webhook_subscriptions where tenant_id = $1),
     gone as (
       delete from multitenancy.webhook_deliveries where webhook_id in (select id from own) returning id, message_id
     ), attempts as (
       delete from multitenancy.webhook_attempts where delivery_id in (select id from gone)
     ), shared as (
       -- A delivery has the first fifteen digits of its message.
       select distinct message_id from multitenancy.webhook_deliveries d join gone using (message_id)
       where d.id not in (select id from gone)
     )
     delete from multitenancy.webhook_messages m using gone
     where m.id = gone.message_id and m.id not in (select message_id from shared)`,
    [tenantId],
  )
  await database.sql('delete from multitenancy.webhook_subscriptions where tenant_id = $1', [tenantId])
  await database.sql('delete from multitenancy.webhook_tallies where tenant_id = $1', [tenantId])
}
