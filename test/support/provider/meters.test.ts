/**
 * Tests meters of the fake against Stripe's documentation: usage is counted once, and billed with the period of the
 * usage.
 *
 * - Meters: https://docs.stripe.com/api/billing/meter
 * - Identifiers, unique for 24 hours, and times, from 35 days ago to in 5 minutes:
 *   https://docs.stripe.com/api/billing/meter-event/create
 * - Summaries: https://docs.stripe.com/api/billing/meter-event-summary/list
 * - The last invoice of a subscription that is canceled (`invoice_now`):
 *   https://docs.stripe.com/api/subscriptions/cancel
 * - Metered prices: https://docs.stripe.com/billing/subscriptions/usage-based
 *
 * The documentation does not define whether a repeated identifier is rejected or ignored, so the fake supports both.
 */
import Stripe from 'stripe'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Provider, startProvider } from './provider.ts'

let provider: Provider
let stripe: Stripe
let customer: string

beforeEach(async () => {
  provider = await startProvider({ start: new Date('2026-01-01T00:00:00Z') })
  stripe = new Stripe(provider.apiKey, { ...provider.clientOptions, maxNetworkRetries: 0 })
  customer = provider.customer().id
})
afterEach(() => provider.close())

const report = (value: number, more: Partial<Stripe.Billing.MeterEventCreateParams> = {}) =>
  stripe.billing.meterEvents.create({
    event_name: 'exports',
    payload: { stripe_customer_id: customer, value: String(value) },
    ...more,
  })
const seconds = (date: string) => new Date(date).getTime() / 1000

test('meters can be created, listed and read', async () => {
  const made = await stripe.billing.meters.create({
    display_name: 'Exports',
    event_name: 'exports',
    default_aggregation: { formula: 'sum' },
  })
  expect(await stripe.billing.meters.retrieve(made.id)).toMatchObject({ event_name: 'exports', status: 'active' })
  expect((await stripe.billing.meters.list({ status: 'active' })).data.map(({ id }) => id)).toEqual([made.id])
  expect((await stripe.billing.meters.list({ status: 'inactive' })).data).toEqual([])
})

test('an identifier counts once while the provider remembers it', async () => {
  provider.meter({ eventName: 'exports' })
  await report(5, { identifier: 'batch-1' })
  const repeated = await report(5, { identifier: 'batch-1' }).catch((error) => error)
  expect(repeated).toBeInstanceOf(Stripe.errors.StripeInvalidRequestError)
  expect(repeated).toMatchObject({ statusCode: 400, code: undefined })
  expect(repeated.message).toBe('An event already exists with identifier batch-1.')
  await report(2, { identifier: 'batch-2' })
  expect(provider.usage('exports', customer)).toBe(7)

  provider.settings.repeatedMeterEvents = 'accept'
  await report(5, { identifier: 'batch-1' })
  expect(provider.usage('exports', customer)).toBe(7)
  provider.advance({ days: 1 })
  await report(5, { identifier: 'batch-1' })
  expect(provider.usage('exports', customer)).toBe(12)
})

test('invalid usage is rejected', async () => {
  provider.meter({ eventName: 'exports' })
  const now = provider.now().getTime() / 1000
  await expect(report(1, { timestamp: now - 35 * 86_400 - 1 })).rejects.toMatchObject({ param: 'timestamp' })
  await expect(report(1, { timestamp: now + 301 })).rejects.toMatchObject({ param: 'timestamp' })
  await expect(report(1, { event_name: 'imports' })).rejects.toMatchObject({ param: 'event_name' })
  await expect(report(Number.NaN)).rejects.toMatchObject({ param: 'payload[value]' })
  const stranger = { stripe_customer_id: 'cus_none', value: '1' }
  await expect(report(1, { payload: stranger })).rejects.toMatchObject({ code: 'resource_missing' })
  expect(provider.usage('exports', customer)).toBe(0)
  await report(1, { timestamp: now - 35 * 86_400 })
  await report(1, { timestamp: now + 300 })
  expect(provider.usage('exports', customer)).toBe(2)
})

test('summaries add up a period, in total or per hour', async () => {
  const { id } = provider.meter({ eventName: 'exports' })
  provider.advance({ hours: 5 })
  await report(1, { timestamp: seconds('2026-01-01T01:10:00Z') })
  await report(2, { timestamp: seconds('2026-01-01T01:50:00Z') })
  await report(4, { timestamp: seconds('2026-01-01T03:00:00Z') })
  const span = { customer, start_time: seconds('2026-01-01T01:00:00Z'), end_time: seconds('2026-01-01T03:00:00Z') }
  const values = async (more = {}) =>
    (await stripe.billing.meters.listEventSummaries(id, { ...span, ...more })).data.map((one) => one.aggregated_value)
  expect(await values()).toEqual([3])
  expect(await values({ end_time: seconds('2026-01-01T04:00:00Z'), value_grouping_window: 'hour' })).toEqual([4, 3])
  await expect(values({ start_time: span.start_time + 30 })).rejects.toMatchObject({ param: 'start_time' })
})

test('usage is billed with the period of the usage', async () => {
  const meter = provider.meter({ eventName: 'exports' }).id
  const product = provider.product({ name: 'Exports' }).id
  const price = provider.price({ product, amount: 10, interval: 'month', meter }).id
  const { id } = provider.subscribe(customer, price)
  expect((await stripe.subscriptions.retrieve(id)).items.data[0]).not.toHaveProperty('quantity')
  provider.advance({ days: 10 })
  await report(7)
  provider.advance({ days: 21, hours: 1 })
  const { data } = await stripe.invoices.list({ subscription: id })
  expect(data.map(({ status, amount_paid }) => [status, amount_paid])).toEqual([
    ['paid', 70],
    ['paid', 0],
  ])
})

describe('usage of a shortened period', () => {
  let subscription: string
  let licensed: string

  beforeEach(async () => {
    const meter = provider.meter({ eventName: 'exports' }).id
    const product = provider.product({ name: 'Exports' }).id
    licensed = provider.price({ product, amount: 1_000, interval: 'month' }).id
    const metered = provider.price({ product, amount: 10, interval: 'month', meter }).id
    const items = [{ price: licensed, quantity: 1 }, { price: metered }]
    subscription = (await stripe.subscriptions.create({ customer, items })).id
    provider.advance({ days: 10 })
  })
  const invoices = async () =>
    (await stripe.invoices.list({ subscription })).data.map(({ status, amount_due }) => [status, amount_due])

  test('is on a last invoice with invoice_now', async () => {
    await report(7)
    const ended = await stripe.subscriptions.cancel(subscription, { invoice_now: true })
    expect(ended).toMatchObject({ status: 'canceled', latest_invoice: expect.stringMatching(/^in_/) })
    expect(await stripe.invoices.retrieve(ended.latest_invoice as string)).toMatchObject({
      status: 'paid',
      amount_paid: 70,
      lines: { data: [{ amount: 70, quantity: 7, period: { end: ended.ended_at } }] },
    })
    provider.advance({ days: 40 })
    expect(await invoices()).toEqual([
      ['paid', 70],
      ['paid', 1_000],
    ])
  })

  test('is on no invoice without invoice_now', async () => {
    await report(7)
    await stripe.subscriptions.cancel(subscription)
    provider.advance({ days: 40 })
    expect(await invoices()).toEqual([['paid', 1_000]])
  })

  test('is on the last invoice of a subscription that ends with its period', async () => {
    await stripe.subscriptions.update(subscription, { cancel_at_period_end: true })
    await report(7)
    provider.advance({ days: 31 })
    expect(await invoices()).toEqual([
      ['paid', 70],
      ['paid', 1_000],
    ])
  })

  test('of zero creates no invoice, and pending prorations create one', async () => {
    await stripe.subscriptions.cancel(subscription, { invoice_now: true })
    expect(await invoices()).toEqual([['paid', 1_000]])
    const other = provider.subscribe(customer, licensed).id
    const dearer = provider.price({
      product: provider.product({ name: 'Pro' }).id,
      amount: 3_000,
      interval: 'month',
    }).id
    provider.changePrice(other, dearer)
    await stripe.subscriptions.cancel(other, { invoice_now: true })
    const { data } = await stripe.invoices.list({ subscription: other })
    expect(data.map(({ amount_paid: paid }) => paid)).toEqual([2_000, 1_000])
  })

  test('stays an open invoice if its payment fails, and the subscription stays canceled', async () => {
    await report(7)
    provider.setPaymentMethod(customer, 'declines')
    await stripe.subscriptions.cancel(subscription, { invoice_now: true })
    expect(await invoices()).toEqual([
      ['open', 70],
      ['paid', 1_000],
    ])
    provider.advance({ days: 40 })
    expect((await stripe.subscriptions.retrieve(subscription)).status).toBe('canceled')
  })

  test('is free during a trial', async () => {
    const metered = (await stripe.subscriptions.retrieve(subscription)).items.data[1]?.price.id
    const trial = await stripe.subscriptions.create({ customer, items: [{ price: metered }], trial_period_days: 7 })
    await report(7)
    const { latest_invoice: last } = await stripe.subscriptions.cancel(trial.id, { invoice_now: true })
    expect(last).toBe(trial.latest_invoice)
  })
})
