/**
 * Tests subscriptions of the fake against Stripe's documentation, from the trial to the end, with all events in order.
 *
 * - Events, the end of a trial three days before it, and the hour before an invoice is final:
 *   https://docs.stripe.com/billing/subscriptions/webhooks
 * - Statuses: https://docs.stripe.com/billing/subscriptions/overview
 * - Trials without a card: https://docs.stripe.com/billing/subscriptions/trials
 * - Prorations: https://docs.stripe.com/billing/subscriptions/prorations
 * - Paused subscriptions: https://docs.stripe.com/billing/subscriptions/pause,
 *   https://docs.stripe.com/api/subscriptions/resume
 * - Paused collection: https://docs.stripe.com/billing/subscriptions/pause-payment
 * - Cancellation: https://docs.stripe.com/billing/subscriptions/cancel
 * - Deleted customers: https://docs.stripe.com/api/customers/delete
 * - Periods that begin on the last day of a month: https://docs.stripe.com/billing/subscriptions/billing-cycle
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { FAILED, type Lifecycle, PAID, startLifecycle } from '../lifecycle.fixture.ts'

let lifecycle: Lifecycle
beforeEach(async () => {
  lifecycle = await startLifecycle()
})
afterEach(() => lifecycle.provider.close())

test('a subscription emits its events in order: trial, active, upgrade, failed payment, recovery, pause, resume, end of the period, deletion', async () => {
  const { provider, stripe, customer, basic, pro, published, latest } = lifecycle
  const { id } = await stripe.subscriptions.create({
    customer,
    items: [{ price: basic }],
    trial_period_days: 14,
    metadata: { tenantId: 'acme' },
  })
  expect(published()).toEqual([
    'customer.subscription.created trialing',
    'invoice.created',
    'invoice.finalized',
    'invoice.paid',
    'invoice.payment_succeeded',
  ])

  provider.advance({ days: 11 })
  expect(published()).toEqual(['customer.subscription.trial_will_end trialing'])
  provider.advance({ days: 3 })
  expect(published()).toEqual(['customer.subscription.updated active', 'invoice.created'])
  expect(await latest(id)).toMatchObject({
    status: 'draft',
    billing_reason: 'subscription_cycle',
    amount_due: 1000,
    parent: { subscription_details: { subscription: id, metadata: { tenantId: 'acme' } } },
  })
  provider.advance({ hours: 1 })
  expect(published()).toEqual(PAID)

  const subscription = await stripe.subscriptions.retrieve(id)
  const [item] = subscription.items.data
  expect(new Date((item?.current_period_end ?? 0) * 1000).toISOString()).toBe('2026-03-14T10:00:00.000Z')
  const upgraded = await stripe.subscriptions.update(id, {
    items: [{ id: item?.id, price: pro }],
    proration_behavior: 'always_invoice',
  })
  expect(upgraded.items.data[0]).toMatchObject({ id: item?.id, price: { id: pro, unit_amount: 4000 } })
  expect(published()).toEqual(['customer.subscription.updated active', 'invoice.created', ...PAID])
  expect((await latest(id)).amount_paid).toBeGreaterThan(2990)
  expect((await latest(id)).amount_paid).toBeLessThan(3000)

  provider.setPaymentMethod(customer, 'declines')
  published()
  provider.advance({ days: 28 })
  expect(provider.now().toISOString()).toBe('2026-03-14T11:00:00.000Z')
  expect(published()).toEqual([
    'customer.subscription.updated active',
    'invoice.created',
    'invoice.finalized',
    ...FAILED,
    'customer.subscription.updated past_due',
  ])
  const failed = await latest(id)
  expect(failed).toMatchObject({ status: 'open', attempt_count: 1, amount_remaining: 4000 })
  expect(failed.next_payment_attempt).toBe((failed.status_transitions.finalized_at ?? 0) + 3 * 86_400)

  provider.setPaymentMethod(customer, 'good')
  published()
  provider.advance({ days: 3 })
  expect(published()).toEqual([...PAID.slice(1), 'customer.subscription.updated active'])
  expect(await latest(id)).toMatchObject({ status: 'paid', attempt_count: 2, next_payment_attempt: null })

  expect(await stripe.subscriptions.pause(id)).toMatchObject({
    status: 'paused',
    status_details: { paused: { subscription: { type: 'pause_requested' } } },
  })
  expect(published()).toEqual(['customer.subscription.updated paused', 'customer.subscription.paused paused'])
  provider.advance({ days: 60 })
  expect(published()).toEqual([])
  expect((await stripe.subscriptions.resume(id)).status).toBe('active')
  expect(published()).toEqual([
    'customer.subscription.updated active',
    'customer.subscription.resumed active',
    'invoice.created',
    ...PAID,
  ])

  const ending = await stripe.subscriptions.update(id, { cancel_at_period_end: true })
  expect(ending).toMatchObject({
    status: 'active',
    cancel_at: ending.items.data[0]?.current_period_end,
    cancellation_details: { reason: 'cancellation_requested' },
  })
  expect(published()).toEqual(['customer.subscription.updated active'])
  provider.advance({ days: 31 })
  expect(published()).toEqual(['customer.subscription.deleted canceled'])
  expect((await stripe.subscriptions.retrieve(id)).ended_at).toBe(ending.cancel_at)
  await expect(stripe.subscriptions.update(id, { items: [{ price: pro }] })).rejects.toMatchObject({
    code: 'invalid_canceled_subscription_fields',
  })
  await expect(stripe.subscriptions.cancel(id)).rejects.toMatchObject({ statusCode: 404 })
  await stripe.customers.del(customer)
  expect(published()).toEqual(['customer.deleted'])
})

describe('a price change', () => {
  test('is prorated on the next invoice, immediately, or not at all, as requested', async () => {
    const { provider, customer, basic, pro, published, latest } = lifecycle
    const { id } = provider.subscribe(customer, basic)
    provider.advance({ days: 14 })
    provider.changePrice(id, pro)
    expect(published().at(-1)).toBe('customer.subscription.updated active')
    provider.advance({ days: 14 })
    const { lines } = await latest(id)
    expect(lines.data.map(({ amount }) => amount)).toEqual([-500, 2000, 4000])
    expect(lines.data[0]).toMatchObject({
      parent: { subscription_item_details: { proration: true, subscription: id } },
      pricing: { price_details: { price: basic } },
    })
    provider.changePrice(id, basic, 'none')
    provider.advance({ days: 31 })
    expect((await latest(id)).lines.data.map(({ amount }) => amount)).toEqual([1000])
  })

  test('to a yearly price begins a year, and is invoiced immediately', async () => {
    const { provider, stripe, customer, basic, published, latest } = lifecycle
    const yearly = provider.price({ product: provider.product({ name: 'Y' }).id, amount: 9000, interval: 'year' }).id
    const { id } = provider.subscribe(customer, basic)
    provider.advance({ days: 14 })
    published()
    provider.changePrice(id, yearly)
    expect(published()).toEqual(['customer.subscription.updated active', 'invoice.created', ...PAID])
    expect((await latest(id)).amount_paid).toBe(8500)
    const [item] = (await stripe.subscriptions.retrieve(id)).items.data
    expect(new Date((item?.current_period_end ?? 0) * 1000).toISOString()).toBe('2027-02-14T10:00:00.000Z')
  })
})

describe('payment collection', () => {
  test.each([
    ['keep_as_draft', 'draft'],
    ['mark_uncollectible', 'uncollectible'],
    ['void', 'void'],
  ] as const)('paused as %s does not change the status, and the invoice becomes %s', async (behavior, status) => {
    const { provider, stripe, customer, basic, latest } = lifecycle
    const { id } = provider.subscribe(customer, basic)
    await stripe.subscriptions.update(id, { pause_collection: { behavior } })
    provider.advance({ days: 29 })
    expect((await latest(id)).status).toBe(status)
    const resumed = await stripe.subscriptions.update(id, { pause_collection: '' })
    expect(resumed).toMatchObject({ status: 'active', pause_collection: null })
  })
})

describe('the end of a subscription', () => {
  test('with its period can be revoked', async () => {
    const { provider, stripe, customer, basic } = lifecycle
    const { id } = provider.subscribe(customer, basic)
    provider.cancel(id, { atPeriodEnd: true })
    const kept = await stripe.subscriptions.update(id, { cancel_at_period_end: false })
    expect(kept).toMatchObject({ cancel_at: null, canceled_at: null, cancellation_details: { reason: null } })
    provider.advance({ days: 40 })
    expect((await stripe.subscriptions.retrieve(id)).status).toBe('active')
  })

  test('follows the deletion of its customer', () => {
    const { provider, customer, basic, pro, published } = lifecycle
    provider.subscribe(customer, basic)
    provider.subscribe(customer, pro)
    published()
    provider.deleteCustomer(customer)
    expect(published()).toEqual([
      'customer.subscription.deleted canceled',
      'customer.subscription.deleted canceled',
      'customer.deleted',
    ])
    provider.advance({ days: 40 })
    expect(published()).toEqual([])
  })
})

test('a trial without a card pauses the subscription at its end, if requested', async () => {
  const { provider, stripe, basic, published, latest } = lifecycle
  const without = provider.customer({ card: null }).id
  const { id } = await stripe.subscriptions.create({
    customer: without,
    items: [{ price: basic }],
    trial_period_days: 2,
    trial_settings: { end_behavior: { missing_payment_method: 'pause' } },
  })
  expect(published().at(-1)).toBe('customer.subscription.trial_will_end trialing')
  provider.advance({ days: 2 })
  expect(published()).toEqual(['customer.subscription.updated paused', 'customer.subscription.paused paused'])
  provider.setPaymentMethod(without, 'declines')
  const resumption = { payment_behavior: 'resume_on_payment_success' } as const
  expect((await stripe.subscriptions.resume(id, resumption)).status).toBe('paused')
  published()
  provider.payInvoice((await latest(id)).id)
  expect(published()).toEqual([
    ...PAID.slice(1),
    'customer.subscription.updated active',
    'customer.subscription.resumed active',
  ])
})

test('a period that began on the 31st ends on the last day of each month', async () => {
  const { provider, stripe, customer, basic } = lifecycle
  const { id } = provider.subscribe(customer, basic)
  const ends: string[] = []
  for (const days of [28, 31, 30]) {
    const [item] = (await stripe.subscriptions.retrieve(id)).items.data
    ends.push(new Date((item?.current_period_end ?? 0) * 1000).toISOString().slice(0, 10))
    provider.advance({ days })
  }
  expect(ends).toEqual(['2026-02-28', '2026-03-31', '2026-04-30'])
})
