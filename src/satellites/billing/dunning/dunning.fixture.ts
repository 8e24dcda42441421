/** Tenants whose payments fail, and what has become of them. */
import type Stripe from 'stripe'
import { expect, inject } from 'vitest'
import { TenantActivated, TenantSuspended } from '../../../tenants/tenant/events.ts'
import { type OpenBilling, openBilling, type Subscriber } from '../billing.fixture.ts'

export interface Debtors {
  /** A tenant that has gone through a checkout. */
  payer(price?: 'pro' | 'scale'): Promise<Subscriber>
  /** One whose card is declined from then on, and the first attempt of whose next period has failed. */
  debtor(price?: 'pro' | 'scale'): Promise<Subscriber>
  /** Several, all in the same second. */
  debtors(count: number, price?: 'pro' | 'scale'): Promise<Subscriber[]>
  /** Time goes by, the provider tells of it, and what is due is done. */
  pass(by: Parameters<OpenBilling['provider']['advance']>[0]): Promise<void>
  /** Of a subscription, the latest first, as they were last told of. */
  invoices(subscriptionId: string): Stripe.Invoice[]
  /** Events about a customer and what it has, the oldest first. */
  eventsOf(customerId: string): Stripe.Event[]
  /** The state of the tenant's cases, by period. */
  cases(tenantId: string): Promise<string[]>
  /** `active pro` */
  standing(tenantId: string): Promise<string>
  /** What was heard of one tenant: billing's own, and whether it was suspended or activated. */
  receivedNamesOf(tenantId: string): string[]
  /** Deletes the customers at the provider; removes all cases and received events. The events of the deletion are not delivered. */
  clear(): Promise<void>
}

/** Days until the second and last attempt, and days of grace after it, of `openDebtors`. */
export const DAYS = { retry: 3, grace: 7 }
export type Action = 'none' | 'downgrade' | 'suspend'

/** Each with a database and a provider of its own. */
export async function openDebtors(action: Action): Promise<OpenBilling & Debtors> {
  const open = await openBilling(inject('postgresUrl'), {
    options: { dunning: { maxAttempts: 2, graceDays: DAYS.grace, action } },
    provider: { start: new Date('2026-03-31T10:00:00Z'), afterRetries: 'past_due', retryDays: [DAYS.retry, 60] },
  })
  return Object.assign(open, debtorsOf(open))
}

export const standingAndCases = async (open: Debtors, tenantId: string) => [
  await open.standing(tenantId),
  await open.cases(tenantId),
]

/** The grace of a debtor ends, and the next period is paid, while the invoice of the one before stays open. */
export async function paysNextPeriod(open: OpenBilling & Debtors, state: string): Promise<Subscriber> {
  const one = await open.debtor()
  await open.pass({ days: DAYS.retry })
  await open.pass({ days: DAYS.grace })
  expect(await open.cases(one.tenantId)).toEqual([state])
  open.provider.setPaymentMethod(one.customerId, 'good')
  open.receivedEvents.splice(0)
  open.provider.advance({ days: 30 })
  const [latest, owed] = open.invoices(one.subscriptionId)
  expect([latest?.status, owed?.status]).toEqual(['paid', 'open'])
  return one
}

export function debtorsOf(open: OpenBilling): Debtors {
  const { provider, tenancy } = open
  const all: Subscriber[] = []
  for (const type of [TenantSuspended, TenantActivated]) {
    tenancy.on(type, ({ tenantId }) => void open.receivedEvents.push([type.name, { tenantId }]))
  }
  const payer: Debtors['payer'] = async (price = 'pro') => {
    const tenantId = await open.tenant()
    const { id } = await tenancy.billing.checkout(tenantId, {
      priceId: open.prices[price],
      successUrl: 'https://app.example/paid',
      cancelUrl: 'https://app.example/plans',
    })
    const { customer, subscription } = provider.completeCheckout(id as string)
    await open.deliverAndProcess()
    const one = { tenantId, customerId: customer as string, subscriptionId: subscription as string }
    all.push(one)
    return one
  }
  const debtors: Debtors['debtors'] = async (count, price) => {
    const some: Subscriber[] = []
    for (let made = 0; made < count; made++) some.push(await payer(price))
    for (const { customerId } of some) provider.setPaymentMethod(customerId, 'declines')
    const { periodEnd } = (await tenancy.billing.of(some[0]?.tenantId ?? '')).subscription ?? {}
    const seconds = (Date.parse(periodEnd ?? '') - provider.now().getTime()) / 1000
    provider.advance({ seconds: seconds + provider.settings.draftSeconds })
    await open.deliverAndProcess()
    return some
  }
  return {
    payer,
    debtors,
    async debtor(price) {
      const [one] = await debtors(1, price)
      return one as Subscriber
    },
    async pass(by) {
      provider.advance(by)
      await open.deliverAndProcess()
      await tenancy.billing.dunning.sweep()
    },
    invoices(subscriptionId) {
      const found = new Map<string, Stripe.Invoice>()
      for (const { data } of provider.events) {
        const object = data.object as Stripe.Invoice
        const isOf = object.parent?.subscription_details?.subscription === subscriptionId
        if (object.object === 'invoice' && isOf) found.set(object.id as string, object)
      }
      return [...found.values()].reverse()
    },
    eventsOf: (customerId) =>
      provider.events.filter(({ data }) => (data.object as { customer?: unknown }).customer === customerId),
    async cases(tenantId) {
      const { rows } = await tenancy.kernel.database.sql(
        'select state from multitenancy.billing_dunning where tenant_id = $1 order by period_end',
        [tenantId],
      )
      return rows.map(({ state }) => state)
    },
    async standing(tenantId) {
      const { status, metadata } = await tenancy.tenants.get(tenantId)
      return `${status} ${metadata.plan ?? 'free'}`
    },
    receivedNamesOf: (tenantId) =>
      open.receivedEvents.flatMap(([name, event]) => (event.tenantId === tenantId ? [name] : [])),
    async clear() {
      const gone = new Set(
        provider.events.flatMap(({ type, data }) => (type === 'customer.deleted' ? [data.object.id] : [])),
      )
      for (const { customerId } of all.splice(0)) if (!gone.has(customerId)) provider.deleteCustomer(customerId)
      open.skip()
      const { database } = tenancy.kernel
      await database.sql('delete from multitenancy.billing_dunning')
      await database.sql('delete from multitenancy.billing_inbox')
    },
  }
}
