/** Tenants with failing payments, and queries for their state. */
import type Stripe from 'stripe'
import { expect, inject } from 'vitest'
import { TenantActivated, TenantSuspended } from '../../../tenants/tenant/events.ts'
import { type OpenBilling, openBilling, type Subscriber } from '../billing.fixture.ts'

export interface Debtors {
  /** A tenant with a completed checkout. */
  payer(price?: 'pro' | 'scale'): Promise<Subscriber>
  /** A payer whose card is declined, after the first failed attempt for its next period. */
  debtor(price?: 'pro' | 'scale'): Promise<Subscriber>
  /** Several debtors with the same times. */
  debtors(count: number, price?: 'pro' | 'scale'): Promise<Subscriber[]>
  /** Advances the clock, delivers and processes the events, and sweeps. */
  pass(by: Parameters<OpenBilling['provider']['advance']>[0]): Promise<void>
  /** Invoices of a subscription as of their last event, latest first. */
  invoices(subscriptionId: string): Stripe.Invoice[]
  /** Events about a customer and its objects, oldest first. */
  eventsOf(customerId: string): Stripe.Event[]
  /** States of the tenant's cases, by period. */
  cases(tenantId: string): Promise<string[]>
  /** Status and plan: `active pro` */
  statusAndPlan(tenantId: string): Promise<string>
  /** Names of the published events of one tenant: billing events, TenantSuspended and TenantActivated. */
  receivedNamesOf(tenantId: string): string[]
  /**
   * Deletes the customers at the provider; removes all cases and received events. The events of the deletion are not
   * delivered.
   */
  clear(): Promise<void>
}

/** Days until the second and last attempt, and days of the grace period, in `openDebtors`. */
export const DAYS = { retry: 3, grace: 7 }
export type Action = 'none' | 'downgrade' | 'suspend'

/** Each call opens a separate database and provider. */
export async function openDebtors(action: Action): Promise<OpenBilling & Debtors> {
  const open = await openBilling(inject('postgresUrl'), {
    options: { dunning: { maxAttempts: 2, graceDays: DAYS.grace, action } },
    provider: { start: new Date('2026-03-31T10:00:00Z'), afterRetries: 'past_due', retryDays: [DAYS.retry, 60] },
  })
  return Object.assign(open, debtorsOf(open))
}

export const statusAndCases = async (open: Debtors, tenantId: string) => [
  await open.statusAndPlan(tenantId),
  await open.cases(tenantId),
]

/** A debtor whose grace period has ended, and whose next period is paid while the earlier invoice stays open. */
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
    async statusAndPlan(tenantId) {
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
