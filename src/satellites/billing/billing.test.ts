/** A tenant subscribes, changes, pays or does not, and leaves: what comes of it, with the real client at a provider. */
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
  '"%s" is no price, and nobody is made a customer for it',
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
  test('is what the tenant has paid for', async () => {
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

  test('changes its plan, by the product of its price too', async () => {
    const { tenantId, subscriptionId } = await open.subscriber('pro')
    open.receivedEvents.splice(0)
    open.provider.changePrice(subscriptionId, open.prices.scale)
    await open.deliverAndProcess()
    expect(await planOf(tenantId)).toBe('scale')
    expect(open.receivedEvents).toMatchObject([
      ['SubscriptionUpdated', { tenantId, subscriptionId, plan: 'scale', changed: ['items'] }],
    ])
  })

  test('ends, and the plan with it', async () => {
    const { tenantId, subscriptionId } = await open.subscriber('pro')
    open.receivedEvents.splice(0)
    open.provider.cancel(subscriptionId)
    await open.deliverAndProcess()
    expect(await planOf(tenantId)).toBe('free')
    expect(namesOf(open.receivedEvents)).toEqual(['SubscriptionCanceled'])
  })
})
