/** Subscribed tenants for tests of deletion, restoration and purge. */
import { expect, inject } from 'vitest'
import { sqlOf } from '../../../kernel/database/migrations.ts'
import { type OpenBilling, openBilling, type Subscriber } from '../billing.fixture.ts'
import type { BillingOptions } from '../index.ts'
import { tables } from '../model/tables.ts'

export type OnTenantDelete = NonNullable<BillingOptions['onTenantDelete']>

/** A tenancy in which a deleted tenant can be purged immediately. */
export const openWith = async (onTenantDelete: OnTenantDelete): Promise<OpenBilling> => {
  const open = await openBilling(inject('postgresUrl'), {
    options: { onTenantDelete, usage: { calls: { meter: 'api_calls' } } },
    config: { tenants: { retentionDays: 0, autoPurge: false } },
  })
  open.provider.meter({ eventName: 'api_calls' })
  return open
}

export const statusOf = async ({ tenancy }: OpenBilling, { tenantId }: Subscriber) =>
  (await tenancy.billing.of(tenantId)).subscription?.status
export const atProvider = async ({ tenancy }: OpenBilling, { subscriptionId }: Subscriber) =>
  (await tenancy.billing.dependencies.payments.subscription(subscriptionId))?.status
export const planOf = async ({ tenancy }: OpenBilling, { tenantId }: Subscriber) =>
  (await tenancy.tenants.get(tenantId)).metadata.plan ?? 'free'
export const track = ({ tenancy }: OpenBilling, { tenantId }: Subscriber, amount: number) =>
  tenancy.kernel.store.counters.take(tenantId, [{ name: 'calls', amount, limit: null }])
export const sendUsage = async ({ tenancy }: OpenBilling) => {
  await tenancy.billing.windows.close()
  const { rows } = await tenancy.kernel.database.sql('select id from multitenancy.billing_usage where sent_at is null')
  for (const { id } of rows) await tenancy.billing.usage.send(id)
}
/** Published events about one of the ids of the subscriber. */
export const receivedOf = ({ receivedEvents }: OpenBilling, payer: Subscriber) =>
  receivedEvents.filter(([, event]) => Object.values(payer).some((id) => JSON.stringify(event).includes(id)))

export const TABLES = [...sqlOf(tables[0]?.up ?? '').matchAll(/create table (\w+)/g)].map(([, name]) => name as string)

/** Names of tables whose rows contain one of the texts. */
export const tablesContaining = async ({ tenancy }: OpenBilling, ...texts: string[]) => {
  const found: string[] = []
  for (const table of TABLES) {
    const { rows } = await tenancy.kernel.database.sql(`select * from multitenancy.${table}`)
    if (texts.some((text) => JSON.stringify(rows).includes(text))) found.push(table)
  }
  return found
}

/**
 * Purges a tenant while an event of its subscription is processed and its usage is closed, and checks that no row
 * mentions the tenant.
 *
 * @param order of the purge and the response that the processing waits for
 */
export async function purgesDuringWork(
  open: OpenBilling,
  order: (purge: () => Promise<unknown>, respond: () => void) => Promise<unknown>,
): Promise<void> {
  const payer = await open.subscriber()
  open.provider.changePrice(payer.subscriptionId, open.prices.scale)
  await open.deliver()
  await track(open, payer, 5)
  const held = open.provider.faults.hold({ path: `/v1/subscriptions/${payer.subscriptionId}` })
  const processing = open.process()
  await held.arrived
  const { billing, tenants } = open.tenancy
  await tenants.delete(payer.tenantId)
  await order(() => Promise.all([tenants.installation.purge(payer.tenantId), billing.windows.close()]), held.release)
  await processing
  const left = await tablesContaining(open, payer.tenantId, payer.customerId)
  expect(left.filter((table) => table !== 'billing_inbox')).toEqual([])
}
