/** Tests metered prices: in a checkout, after a plan change, and on the last invoice. */
import Stripe from 'stripe'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { type OpenBilling, openBilling } from '../billing.fixture.ts'

const [PRO, SCALE, CALLS, LOOKS] = ['price_pro', 'price_scale', 'price_calls', 'price_looks']
const urls = { successUrl: 'https://app.example/paid', cancelUrl: 'https://app.example/plans' }

let open: OpenBilling

beforeAll(async () => {
  open = await openBilling(inject('postgresUrl'), {
    options: {
      products: { [PRO]: 'pro', [SCALE]: 'scale', [CALLS]: 'scale' },
      usage: {
        calls: { meter: 'api_calls', priceId: CALLS },
        looks: { meter: 'looks_taken', priceId: LOOKS },
        stares: { meter: 'looks_taken', priceId: LOOKS },
        free: { meter: 'free_things' },
      },
      dunning: { action: 'suspend', graceDays: 1 },
    },
  })
  const { provider } = open
  const priced = (id: string, amount: number, meter?: string) =>
    provider.price({
      id,
      product: provider.product({ name: id }).id,
      amount,
      interval: 'month',
      ...(meter ? { meter } : {}),
    })
  priced(PRO, 2_900)
  priced(SCALE, 29_900)
  priced(CALLS, 10, provider.meter({ eventName: 'api_calls' }).id)
  priced(LOOKS, 20, provider.meter({ eventName: 'looks_taken' }).id)
})
afterAll(() => open.end())
beforeEach(() => void open.receivedEvents.splice(0))

const billing = () => open.tenancy.billing
const checkout = async (priceId: string) => {
  const tenantId = await open.tenant()
  const { id } = await billing().checkout(tenantId, { priceId, ...urls })
  return { tenantId, sessionId: id ?? '' }
}
const askedFor = () =>
  open.provider.requests.findLast(({ path }) => path === '/v1/checkout/sessions')?.params.line_items
const subscriber = async (priceId: string) => {
  const { tenantId, sessionId } = await checkout(priceId)
  const { customer } = open.provider.completeCheckout(sessionId)
  await open.deliverAndProcess()
  return { tenantId, customerId: customer as string }
}
const itemsOf = async (tenantId: string) =>
  (await billing().of(tenantId)).subscription?.items.map(({ priceId }) => priceId)

describe('a checkout', () => {
  test('adds each metered price once to the plan, without a quantity', async () => {
    await checkout(PRO)
    expect(askedFor()).toEqual([{ price: PRO, quantity: '1' }, { price: CALLS }, { price: LOOKS }])
  })

  test('for a metered plan contains its price once, without a quantity', async () => {
    await checkout(CALLS)
    expect(askedFor()).toEqual([{ price: CALLS }, { price: LOOKS }])
  })

  test('results in the plan of its price', async () => {
    const { tenantId } = await subscriber(PRO)
    expect(await billing().of(tenantId)).toMatchObject({ plan: 'pro' })
    expect(await itemsOf(tenantId)).toEqual([PRO, CALLS, LOOKS])
  })
})

describe('a plan change', () => {
  test('changes only the price of the plan', async () => {
    const { tenantId } = await subscriber(PRO)
    expect(await billing().changePlan(tenantId, { priceId: SCALE })).toMatchObject({ plan: 'scale' })
    expect(await itemsOf(tenantId)).toEqual([SCALE, CALLS, LOOKS])
  })

  test('changes the price of the plan if a metered item comes first', async () => {
    const tenantId = await open.tenant()
    const customer = await billing().ensureCustomer(tenantId)
    open.provider.setPaymentMethod(customer, 'good')
    const { id } = open.provider.subscribe(customer, LOOKS)
    await new Stripe(open.provider.apiKey, open.provider.clientOptions).subscriptions.update(id, {
      items: [{ price: PRO }],
    })
    await open.deliverAndProcess()
    expect(await billing().changePlan(tenantId, { priceId: SCALE })).toMatchObject({ plan: 'scale' })
    expect(await itemsOf(tenantId)).toEqual([LOOKS, SCALE])
  })
})

describe('the last invoice of an ended subscription', () => {
  const used = async (tenantId: string, amount: number) => {
    await open.tenancy.kernel.store.counters.take(tenantId, [{ name: 'looks', amount, limit: null }])
  }

  test('publishes its payment', async () => {
    const { tenantId } = await subscriber(PRO)
    await used(tenantId, 6)
    await billing().cancel(tenantId, { atPeriodEnd: false })
    await open.deliverAndProcess()
    expect(open.receivedEvents.filter(([name]) => name === 'PaymentSucceeded').at(-1)?.[1]).toMatchObject({
      tenantId,
      amount: 120,
    })
    expect(await billing().of(tenantId)).toMatchObject({ plan: 'free', unreportedUsage: [], dunning: null })
  })

  test('opens no dunning case if its payment fails', async () => {
    const { tenantId, customerId } = await subscriber(PRO)
    await used(tenantId, 6)
    open.provider.setPaymentMethod(customerId, 'declines')
    await billing().cancel(tenantId, { atPeriodEnd: false })
    await open.deliverAndProcess()
    open.provider.advance({ days: 30 })
    await open.deliverAndProcess()
    await billing().dunning.sweep()
    expect(open.receivedEvents.map(([name]) => name)).toContain('PaymentFailed')
    expect(await billing().of(tenantId)).toMatchObject({ plan: 'free', dunning: null })
    expect(await open.tenancy.tenants.get(tenantId)).toMatchObject({ status: 'active' })
  })
})
