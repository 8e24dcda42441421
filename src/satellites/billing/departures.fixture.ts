/** Tenants that pay and are deleted, restored and purged, and what becomes of their subscriptions. */
import { inject } from 'vitest'
import { type OpenBilling, openBilling, type Subscriber } from './billing.fixture.ts'
import type { BillingOptions } from './index.ts'

export type OnTenantDelete = NonNullable<BillingOptions['onTenantDelete']>

/** Tenants can be purged as soon as they are deleted. */
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
  (await tenancy.billing.part.payments.subscription(subscriptionId))?.status
export const planOf = async ({ tenancy }: OpenBilling, { tenantId }: Subscriber) =>
  (await tenancy.tenants.get(tenantId)).metadata.plan ?? 'free'
export const track = ({ tenancy }: OpenBilling, { tenantId }: Subscriber, amount: number) =>
  tenancy.kernel.store.counters.take(tenantId, [{ name: 'calls', amount, limit: null }])
export const sendUsage = async ({ tenancy }: OpenBilling) => {
  await tenancy.billing.windows.close()
  const { rows } = await tenancy.kernel.database.sql('select id from multitenancy.billing_usage where sent_at is null')
  for (const { id } of rows) await tenancy.billing.usage.send(id)
}
/** Events about one of its ids; others of the tenancy go on paying. */
export const heardOf = ({ heard }: OpenBilling, payer: Subscriber) =>
  heard.filter(([, event]) => Object.values(payer).some((id) => JSON.stringify(event).includes(id)))
