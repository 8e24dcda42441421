/**
 * Tests failed payments of the fake against Stripe's documentation: the first payment, and later ones with retries.
 *
 * - Statuses, and the 23 hours of the first payment: https://docs.stripe.com/billing/subscriptions/overview
 * - `payment_behavior`: https://docs.stripe.com/api/subscriptions/create
 * - Declined cards: https://docs.stripe.com/declines
 * - Retries, and what follows the last one: https://docs.stripe.com/billing/revenue-recovery/smart-retries
 * - Drafts of an unpaid subscription: https://docs.stripe.com/billing/subscriptions/overview
 */
import Stripe from 'stripe'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { FAILED, type Lifecycle, PAID, startLifecycle } from './lifecycle.fixture.ts'

let lifecycle: Lifecycle
beforeEach(async () => {
  lifecycle = await startLifecycle()
})
afterEach(() => lifecycle.provider.close())

describe('the first payment of a subscription', () => {
  test('with a card that is declined leaves it incomplete, and paying makes it active', async () => {
    const { provider, stripe, customer, basic, published, latest } = lifecycle
    provider.setPaymentMethod(customer, 'declines')
    published()
    const made = await stripe.subscriptions.create({ customer, items: [{ price: basic }] })
    expect(made.status).toBe('incomplete')
    expect(published()).toEqual([
      'customer.subscription.created incomplete',
      'invoice.created',
      'invoice.finalized',
      ...FAILED,
    ])
    const error = await stripe.invoices.pay((await latest(made.id)).id).catch((thrown) => thrown)
    expect(error).toBeInstanceOf(Stripe.errors.StripeCardError)
    provider.setPaymentMethod(customer, 'good')
    published()
    expect(await stripe.invoices.pay((await latest(made.id)).id)).toMatchObject({ status: 'paid', attempt_count: 1 })
    expect(published()).toEqual([...PAID.slice(1), 'customer.subscription.updated active'])
    await expect(stripe.invoices.pay((await latest(made.id)).id)).rejects.toThrow('already paid')
  })

  test('that is missing for 23 hours expires the subscription', async () => {
    const { provider, stripe, customer, basic, published } = lifecycle
    const made = await stripe.subscriptions.create({
      customer,
      items: [{ price: basic }],
      payment_behavior: 'default_incomplete',
    })
    published()
    provider.advance({ hours: 23 })
    expect(published()).toEqual(['invoice.voided', 'customer.subscription.updated incomplete_expired'])
    expect((await stripe.subscriptions.retrieve(made.id)).status).toBe('incomplete_expired')
  })

  test('without a card is rejected, and with a declined card by error_if_incomplete', async () => {
    const { provider, stripe, customer, basic } = lifecycle
    const without = provider.customer({ card: null }).id
    await expect(stripe.subscriptions.create({ customer: without, items: [{ price: basic }] })).rejects.toMatchObject({
      statusCode: 400,
      code: 'resource_missing',
    })
    provider.setPaymentMethod(customer, 'declines')
    const strict = stripe.subscriptions.create({
      customer,
      items: [{ price: basic }],
      payment_behavior: 'error_if_incomplete',
    })
    await expect(strict).rejects.toMatchObject({ statusCode: 402, code: 'card_declined' })
    expect((await stripe.subscriptions.list({ status: 'all' })).data).toEqual([])
  })
})

describe('retries', () => {
  test.each([
    ['cancel', 'customer.subscription.deleted canceled'],
    ['unpaid', 'customer.subscription.updated unpaid'],
    ['past_due', undefined],
  ] as const)('after three, five and seven days end in %s', (afterRetries, end) => {
    const { provider, customer, basic, published } = lifecycle
    provider.settings.afterRetries = afterRetries
    provider.subscribe(customer, basic)
    provider.setPaymentMethod(customer, 'declines')
    provider.advance({ days: 28, hours: 1 })
    published()
    const days = [3, 2, 2, 10].map((days) => {
      provider.advance({ days })
      return published()
    })
    expect(days).toEqual([FAILED, FAILED, [...FAILED, ...(end ? [end] : [])], []])
  })

  test('that end in unpaid leave later invoices as drafts until the latest one is paid', async () => {
    const { provider, customer, basic, published, latest } = lifecycle
    provider.settings.afterRetries = 'unpaid'
    const { id } = provider.subscribe(customer, basic)
    provider.setPaymentMethod(customer, 'declines')
    provider.advance({ days: 60 })
    const draft = await latest(id)
    expect(draft).toMatchObject({ status: 'draft', auto_advance: false })
    published()
    provider.payInvoice(draft.id)
    expect(published()).toEqual([...PAID, 'customer.subscription.updated active'])
  })
})
