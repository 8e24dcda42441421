/** Tests a tenant that subscribes, changes and cancels, with Stripe's client at the fake provider. */
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { namesOf, type OpenBilling, openBilling } from './billing.fixture.ts'

let open: OpenBilling

beforeAll(async () => {
  open = await openBilling(inject('postgresUrl'), {
    options: { dunning: { maxAttempts: 2, graceDays: 7, action: 'suspend' } },
    provider: { afterRetries: 'keep' as never },
  })
})
afterAll(() => open.end())
beforeEach(() => void open.receivedEvents.splice(0))

const planOf = async (tenantId: string) => (await open.tenancy.tenants.get(tenantId)).metadata.plan ?? 'free'

test.each(['constructor', 'toString', '__proto__'])(
  'a checkout with the price "%s" is rejected without creating a customer',
  async (priceId) => {
    const tenantId = await open.tenant()
    const customers = () =>
      open.provider.requests.filter(({ method, path }) => method === 'POST' && path === '/v1/customers')
    const before = customers().length
    const request = { priceId, successUrl: 'https://app.example/paid', cancelUrl: 'https://app.example/plans' }
    await expect(open.tenancy.billing.checkout(tenantId, request)).rejects.toMatchObject({ code: 'E_PRICE_NOT_MAPPED' })
    expect(customers()).toHaveLength(before)
  },
)

describe('a subscription', () => {
  test('determines the plan of the tenant', async () => {
    const { tenantId, customerId, subscriptionId } = await open.subscriber('pro')
    expect(await planOf(tenantId)).toBe('pro')
    expect(new Set(namesOf(open.receivedEvents))).toEqual(new Set(['SubscriptionActivated', 'PaymentSucceeded']))
    expect(await open.tenancy.billing.of(tenantId)).toMatchObject({
      tenantId,
      customerId,
      plan: 'pro',
      subscription: { id: subscriptionId, status: 'active', plan: 'pro' },
      dunning: null,
      unreportedUsage: [],
    })
  })

  test('changes the plan with its price, also by the product of the price', async () => {
    const { tenantId, subscriptionId } = await open.subscriber('pro')
    open.receivedEvents.splice(0)
    open.provider.changePrice(subscriptionId, open.prices.scale)
    await open.deliverAndProcess()
    expect(await planOf(tenantId)).toBe('scale')
    expect(open.receivedEvents).toMatchObject([
      ['SubscriptionUpdated', { tenantId, subscriptionId, plan: 'scale', changed: ['items'] }],
    ])
  })

  test('that ends resets the tenant to the default plan', async () => {
    const { tenantId, subscriptionId } = await open.subscriber('pro')
    open.receivedEvents.splice(0)
    open.provider.cancel(subscriptionId)
    await open.deliverAndProcess()
    expect(await planOf(tenantId)).toBe('free')
    expect(namesOf(open.receivedEvents)).toEqual(['SubscriptionCanceled'])
  })
})
