/** Contract cases of billing for coverage.test.ts, with a separate fake provider. */
import type { Part, Runner } from '../../../test/contract/row.ts'
import { type Provider, startProvider } from '../../../test/support/provider/provider.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { billing } from './index.ts'

const SECRET = 'whsec_of_the_contract'
const PRICE = 'price_contract'
const absent = { tenant: 'none' } as const
const deleted = { given: ['DELETE /tenants/{id}'] } as const
const subscribed = { given: ['subscribed'] } as const
const checkout = { priceId: PRICE, successUrl: 'https://app.example/paid', cancelUrl: 'https://app.example/plans' }
const portal = { returnUrl: 'https://app.example/account' }

let provider: Provider

type BillingTenancy = Tenancy<[ReturnType<typeof billing>]>
const tenancyOf = ({ api }: Runner) => api.tenancy as unknown as BillingTenancy

async function subscribe(runner: Runner, tenantId: string): Promise<{ subscriptionId: string; customerId: string }> {
  const { billing } = tenancyOf(runner)
  const customerId = await billing.ensureCustomer(tenantId)
  provider.setPaymentMethod(customerId, 'good')
  const { id } = provider.subscribe(customerId, PRICE)
  for await (const _ of billing.sync.run(tenantId));
  return { subscriptionId: id, customerId }
}

/** Delivers and processes all events from index `from` on. */
async function deliverSince(runner: Runner, from: number): Promise<void> {
  const { billing } = tenancyOf(runner)
  for (const event of provider.events.slice(from)) {
    const { body, headers } = provider.signed(event, { secret: SECRET, at: new Date() })
    await billing.receiver.receive({ headers: new Headers(headers), ip: null, body: async () => Buffer.from(body) })
    await billing.processing.process(event.id, true)
  }
}

/** Drives a subscription through all states, so that every typed event is published. */
async function life(runner: Runner): Promise<void> {
  const { id: tenantId = '' } = await runner.prepare({})
  const from = provider.events.length
  const { subscriptionId, customerId } = await subscribe(runner, tenantId)
  provider.pause(subscriptionId)
  provider.resume(subscriptionId)
  provider.cancel(subscriptionId, { atPeriodEnd: true })
  provider.cancel(subscriptionId)
  const trial = provider.subscribe(customerId, PRICE, { trialDays: 3 })
  provider.emit('customer.subscription.trial_will_end', trial)
  const unmapped = provider.price({ product: provider.product({ name: 'Other' }).id, amount: 1, interval: 'month' })
  const other = provider.subscribe(customerId, unmapped.id)
  provider.setPaymentMethod(customerId, 'declines')
  provider.advance({ days: 32 })
  provider.cancel(other.id)
  await deliverSince(runner, from)
  const lost = provider.emit('customer.subscription.updated', { ...trial, customer: 'cus_unknown', metadata: {} })
  provider.forget(trial.id)
  await deliverSince(runner, provider.events.indexOf(lost))
}

export const part: Part = {
  async configured() {
    provider = await startProvider()
    const product = provider.product({ id: 'prod_contract', name: 'Pro' })
    provider.price({ id: PRICE, product: product.id, amount: 2_900, interval: 'month' })
    const stripe = { apiKey: provider.apiKey, webhookSecret: SECRET, endpoint: provider.url, maxNetworkRetries: 0 }
    const satellite = billing({ stripe, products: { [PRICE]: 'pro', prod_contract: 'pro' } })
    return { satellite, end: () => provider.close() }
  },
  happenings: {
    subscribed: (runner, { id = '' }) => subscribe(runner, id),
    rejected: async () => {
      provider.faults.respond(400, { times: 1, method: 'POST' })
      return {}
    },
    received: async (runner) => {
      const event = provider.emit('product.updated', provider.product({ name: 'Another' }))
      await deliverSince(runner, provider.events.indexOf(event))
      return { eventId: event.id }
    },
  },
  operations: {
    'billing.get': { success: subscribed, wrong: { query: { all: 'yes' } }, also: { E_TENANT_NOT_FOUND: absent } },
    'billing.list': {
      success: { ...subscribed, query: { status: 'active' } },
      wrong: { query: { dunning: 'yes' } },
      also: { E_PLAN_RESOLVED_BY_HOST: { query: { plan: 'pro' }, plansOfHost: true } },
    },
    'billing.checkout': {
      success: { body: checkout },
      wrong: { body: { ...checkout, priceId: 'the price' } },
      also: {
        E_TENANT_NOT_FOUND: { ...absent, body: checkout },
        E_TENANT_STATE: { ...deleted, body: checkout },
        E_PAYMENT_REJECTED: { given: ['rejected'], body: checkout },
        E_PRICE_NOT_MAPPED: { body: { ...checkout, priceId: 'price_unheard_of' } },
      },
    },
    'billing.portal': {
      success: { body: portal },
      wrong: { body: { returnUrl: 'nowhere' } },
      also: {
        E_TENANT_NOT_FOUND: { ...absent, body: portal },
        E_TENANT_STATE: { ...deleted, body: portal },
        E_PAYMENT_REJECTED: { given: ['rejected'], body: portal },
      },
    },
    'billing.cancel': {
      success: { ...subscribed, body: { atPeriodEnd: false } },
      wrong: { body: { atPeriodEnd: 'soon' } },
      also: {
        E_TENANT_NOT_FOUND: absent,
        E_SUBSCRIPTION_NOT_FOUND: {},
        E_PAYMENT_REJECTED: { given: ['subscribed', 'rejected'], body: { atPeriodEnd: true } },
      },
    },
  },
  commands: {
    'billing:show': { ...subscribed, line: ['{id}'] },
    'billing:list': { ...subscribed, line: ['--limit', '1'] },
    'billing:checkout': {
      line: ['{id}', '--price', PRICE, '--success-url', checkout.successUrl, '--cancel-url', checkout.cancelUrl],
    },
    'billing:portal': { line: ['{id}', '--return-url', portal.returnUrl] },
    'billing:cancel': { ...subscribed, line: ['{id}', '--no-at-period-end'] },
    'billing:sync': { ...subscribed, line: ['{id}'] },
    'billing:backfill': { given: ['received'], line: ['--since', '2020-01-01'] },
    'billing:replay': { given: ['received'], line: ['{eventId}'] },
    'billing:cleanup': { line: [] },
    'billing:doctor': { line: [] },
    'billing:test-webhook': { line: [] },
  },
  jobs: {
    ProcessProviderEvent: { given: ['received'], data: { eventId: '{eventId}' } },
    ReportUsageBatch: { data: { id: '00000000-0000-7000-8000-000000000000' } },
    CancelSubscriptions: { ...subscribed, data: { customerId: '{customerId}' } },
    SweepBilling: { data: {} },
    PingProvider: { data: {} },
    CleanUpBilling: { data: {} },
  },
  scenes: { 'the lifecycle of a subscription': life },
}
