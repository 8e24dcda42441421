/**
 * Tests Checkout, the portal, and personal data in events of the fake against Stripe's documentation.
 *
 * - Sessions, their statuses, and their 24 hours: https://docs.stripe.com/api/checkout/sessions/object
 * - Parameters, and no quantity for metered prices: https://docs.stripe.com/api/checkout/sessions/create
 * - Expiry by request, of open sessions only: https://docs.stripe.com/api/checkout/sessions/expire
 * - Events after a payment: https://docs.stripe.com/billing/subscriptions/webhooks
 * - The portal: https://docs.stripe.com/api/customer_portal/sessions/create
 * - Personal data: https://docs.stripe.com/api/customers/object, https://docs.stripe.com/api/invoices/object,
 *   https://docs.stripe.com/api/payment_methods/object, https://docs.stripe.com/api/charges/object
 */
import Stripe from 'stripe'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Provider, startProvider } from './provider.ts'

let provider: Provider
let stripe: Stripe
let price: string

beforeEach(async () => {
  provider = await startProvider({ start: new Date('2026-03-10T12:00:00Z') })
  stripe = new Stripe(provider.apiKey, { ...provider.clientOptions, maxNetworkRetries: 0 })
  price = provider.price({ product: provider.product({ name: 'Pro' }).id, amount: 2900, interval: 'month' }).id
})
afterEach(() => provider.close())

const sessionParams = (more: Stripe.Checkout.SessionCreateParams = {}): Stripe.Checkout.SessionCreateParams => ({
  mode: 'subscription',
  line_items: [{ price, quantity: 2 }],
  success_url: 'https://app.example/done',
  cancel_url: 'https://app.example/back',
  client_reference_id: 'acme',
  ...more,
})

test('a completed session creates a customer, a subscription, and their events in order', async () => {
  const made = await stripe.checkout.sessions.create(
    sessionParams({ subscription_data: { metadata: { tenantId: 'acme' } }, metadata: { tenantId: 'acme' } }),
  )
  expect(made).toMatchObject({ status: 'open', payment_status: 'unpaid', customer: null, amount_total: 5800 })
  expect(made.url).toContain(made.id)
  const eventCount = provider.events.length
  const { customer, subscription } = provider.completeCheckout(made.id, { email: 'ada@example.com', name: 'Ada' })
  expect(provider.events.slice(eventCount).map(({ type }) => type)).toEqual([
    'customer.created',
    'payment_method.attached',
    'customer.updated',
    'checkout.session.completed',
    'customer.subscription.created',
    'invoice.created',
    'invoice.finalized',
    'charge.succeeded',
    'invoice.paid',
    'invoice.payment_succeeded',
  ])
  const completed = provider.events.find(({ type }) => type === 'checkout.session.completed')
  expect(completed?.data.object).toMatchObject({
    client_reference_id: 'acme',
    customer,
    subscription,
    status: 'complete',
    payment_status: 'paid',
    customer_details: { email: 'ada@example.com', name: 'Ada' },
  })
  const read = await stripe.checkout.sessions.retrieve(made.id, { expand: ['line_items', 'subscription', 'customer'] })
  expect(read).toMatchObject({
    line_items: { data: [{ price: { id: price }, quantity: 2, amount_total: 5800 }] },
    subscription: { id: subscription, status: 'active', metadata: { tenantId: 'acme' } },
    customer: { email: 'ada@example.com' },
  })
})

test('a session with a known customer uses this customer, and its trial costs nothing', async () => {
  const customer = provider.customer({ card: null }).id
  const { id } = await stripe.checkout.sessions.create(
    sessionParams({ customer, subscription_data: { trial_period_days: 14 } }),
  )
  const completed = provider.completeCheckout(id)
  expect(completed).toMatchObject({ customer, payment_status: 'no_payment_required', amount_total: 0 })
  const { data } = await stripe.subscriptions.list({ customer })
  expect(data.map(({ status }) => status)).toEqual(['trialing'])
})

test('a metered price has no quantity, and costs nothing before usage', async () => {
  const meter = provider.meter({ eventName: 'calls' }).id
  const product = provider.product({ name: 'Calls' }).id
  const metered = provider.price({ product, amount: 10, interval: 'month', meter }).id
  const withUse = (quantity?: number) =>
    sessionParams({
      line_items: [
        { price, quantity: 1 },
        { price: metered, ...(quantity ? { quantity } : {}) },
      ],
    })
  await expect(stripe.checkout.sessions.create(withUse(1))).rejects.toMatchObject({ param: 'line_items[1][quantity]' })
  const { id, amount_total: total } = await stripe.checkout.sessions.create(withUse())
  expect(total).toBe(2_900)
  const { subscription } = provider.completeCheckout(id)
  const { items } = await stripe.subscriptions.retrieve(subscription as string)
  expect(items.data.map(({ price: { id }, quantity }) => [id, quantity])).toEqual([
    [price, 1],
    [metered, undefined],
  ])
})

test('a session expires by request or after 24 hours, unless it is complete', async () => {
  const { id } = await stripe.checkout.sessions.create(sessionParams())
  provider.completeCheckout(id)
  await expect(stripe.checkout.sessions.expire(id)).rejects.toMatchObject({ statusCode: 400 })
  const early = await stripe.checkout.sessions.create(sessionParams())
  expect((await stripe.checkout.sessions.expire(early.id)).status).toBe('expired')
  const late = await stripe.checkout.sessions.create(sessionParams())
  provider.advance({ days: 1 })
  expect(await stripe.checkout.sessions.retrieve(late.id)).toMatchObject({ status: 'expired', url: null })
  const expired = provider.events.filter(({ type }) => type === 'checkout.session.expired')
  expect(expired.map(({ data }) => (data.object as Stripe.Checkout.Session).id)).toEqual([early.id, late.id])
})

test('a session without a required parameter is rejected', async () => {
  await expect(stripe.checkout.sessions.create(sessionParams({ line_items: [] }))).rejects.toMatchObject({
    param: 'line_items',
  })
  const unknown = sessionParams({ line_items: [{ price: 'price_none' }] })
  await expect(stripe.checkout.sessions.create(unknown)).rejects.toMatchObject({
    code: 'resource_missing',
    param: 'line_items[0][price]',
  })
  await expect(stripe.checkout.sessions.create(sessionParams({ customer: 'cus_none' }))).rejects.toMatchObject({
    code: 'resource_missing',
    param: 'customer',
  })
})

test('a portal session is for one customer', async () => {
  const customer = provider.customer().id
  const session = await stripe.billingPortal.sessions.create({ customer, return_url: 'https://app.example/' })
  expect(session).toMatchObject({ customer, return_url: 'https://app.example/' })
  expect(session.url).toMatch(/^https:\/\//)
})

test('events contain personal data in the documented members', () => {
  const { id } = provider.customer({
    name: 'Ada Planted',
    email: 'planted@example.com',
    phone: '+41440000000',
    address: { line1: 'Planted Street 1', city: 'Bern', country: 'CH' },
    card: { last4: '9876', brand: 'mastercard', billingDetails: { name: 'A. Cardholder' } },
  })
  provider.subscribe(id, price)
  const holding = (word: string) =>
    provider.events.filter((event) => JSON.stringify(event).includes(word)).map(({ type }) => type)
  expect(holding('planted@example.com')).toEqual(expect.arrayContaining(['customer.created', 'invoice.paid']))
  expect(holding('Planted Street 1')).toEqual(expect.arrayContaining(['customer.created', 'invoice.paid']))
  expect(holding('9876')).toEqual(['payment_method.attached', 'charge.succeeded'])
  expect(holding('A. Cardholder')).toEqual(['payment_method.attached', 'charge.succeeded'])
})
