/** Tests a tenant that subscribes, changes and cancels, with Stripe's client at the fake provider. */
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { Deadline } from '../../kernel/base/deadline.ts'
import { onServer, WAITING_LOCKS } from '../../testing/base/database.ts'
import { eventually } from '../../testing/base/tenancy.ts'
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

test('a customer that several requests create together is created after the deadline of the first one', async () => {
  const tenantId = await open.tenant()
  const { billing, kernel } = open.tenancy
  const deadline = new Deadline(60_000, () => new Error('too late'))
  const requests: Promise<string>[] = []
  await onServer(open.url, (other) =>
    other.transaction(async () => {
      await other.sql('lock table multitenancy.billing_customers in share mode')
      const first = deadline.run(() => billing.ensureCustomer(tenantId))
      await eventually(async () =>
        expect((await kernel.database.sql(`select from ${WAITING_LOCKS}`)).rows).toHaveLength(1),
      )
      requests.push(billing.ensureCustomer(tenantId))
      deadline.extend(-60_000)
      await expect(first).rejects.toThrow('too late')
    }),
  )
  expect(deadline.mayHaveCommitted).toBe(true)
  expect(await Promise.all(requests)).toEqual([await billing.ensureCustomer(tenantId)])
})

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
