/**
 * Tests BillingMisconfigured: unmapped prices and second customers. Hosts with plans.getPlan are tested in
 * host-plans.test.ts.
 */
import type Stripe from 'stripe'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { type OpenBilling, openBilling, type Subscriber } from './billing.fixture.ts'

let open: OpenBilling
beforeAll(async () => {
  open = await openBilling(inject('postgresUrl'))
})
afterAll(() => open.end())
beforeEach(() => void open.receivedEvents.splice(0))

const misconfigurations = () =>
  open.receivedEvents.flatMap(([name, { tenantId, reason, subscriptionId, customerId }]) =>
    name === 'BillingMisconfigured' ? [{ tenantId, reason, subscriptionId, customerId }] : [],
  )
const unmapped = ({ tenantId, subscriptionId, customerId }: Subscriber) => ({
  tenantId,
  reason: 'plan_unmapped',
  subscriptionId,
  customerId,
})
const planOf = async (tenantId: string) => (await open.tenancy.tenants.get(tenantId)).metadata.plan ?? 'free'
const lastOf = (type: Stripe.Event.Type) => {
  const event = open.provider.events.findLast((one) => one.type === type)
  if (!event) throw new Error(`the provider has no event ${type}`)
  return event
}

/** A subscriber whose price is changed at the provider to an unmapped one. */
async function withUnmappedPrice(): Promise<Subscriber> {
  const subscriber = await open.subscriber('scale')
  open.provider.changePrice(subscriber.subscriptionId, open.prices.unmapped)
  open.receivedEvents.splice(0)
  return subscriber
}

describe('an unmapped price', () => {
  test('is published once with its event, and results in the default plan', async () => {
    const one = await withUnmappedPrice()
    await open.deliverAndProcess()
    expect(misconfigurations()).toEqual([unmapped(one)])
    expect(await planOf(one.tenantId)).toBe('free')
    await open.tenancy.billing.inbox.replay(lastOf('customer.subscription.updated').id)
    await open.process()
    expect(misconfigurations()).toHaveLength(1)
  })

  test('is published with each event of the running subscription, and not with its end', async () => {
    const one = await withUnmappedPrice()
    open.provider.cancel(one.subscriptionId, { atPeriodEnd: true })
    await open.deliverAndProcess()
    expect(misconfigurations()).toEqual([unmapped(one), unmapped(one)])
    open.receivedEvents.splice(0)
    open.provider.cancel(one.subscriptionId)
    await open.deliverAndProcess()
    expect(misconfigurations()).toEqual([])
  })

  test('is published by each sync, once per subscription', async () => {
    const one = await withUnmappedPrice()
    const second = open.provider.subscribe(one.customerId, open.prices.unmapped)
    for (const _ of [1, 2]) {
      open.receivedEvents.splice(0)
      await Array.fromAsync(open.tenancy.billing.sync.run(one.tenantId))
      expect(misconfigurations()).toHaveLength(2)
      expect(misconfigurations()).toEqual(
        expect.arrayContaining([unmapped(one), unmapped({ ...one, subscriptionId: second.id })]),
      )
    }
    expect(await planOf(one.tenantId)).toBe('free')
    await open.deliverAndProcess()
  })

  test('of an ended subscription and a mapped price are not published by a sync', async () => {
    const [gone, fine] = [await withUnmappedPrice(), await open.subscriber('pro')]
    open.provider.cancel(gone.subscriptionId)
    open.receivedEvents.splice(0)
    await Array.fromAsync(open.tenancy.billing.sync.run(gone.tenantId))
    await Array.fromAsync(open.tenancy.billing.sync.run(fine.tenantId))
    expect(misconfigurations()).toEqual([])
    await open.deliverAndProcess()
  })

  test('is not published if another item of the subscription is mapped', async () => {
    const one = await open.subscriber('pro')
    open.receivedEvents.splice(0)
    const { object } = lastOf('customer.subscription.created').data
    const { items, ...rest } = object as Stripe.Subscription
    const unmappedItem = {
      ...items.data[0],
      id: 'si_unmapped',
      price: { id: open.prices.unmapped, product: 'prod_other' },
    }
    open.provider.emit('customer.subscription.updated', {
      ...rest,
      items: { ...items, data: [unmappedItem, ...items.data] },
    })
    await open.deliverAndProcess()
    expect(misconfigurations()).toEqual([])
    expect(await planOf(one.tenantId)).toBe('pro')
  })
})

describe('a second customer for a tenant', () => {
  const checkedOut = (tenantId: string) => {
    const { id: customerId } = open.provider.customer()
    const subscription = open.provider.subscribe(customerId, open.prices.scale, { metadata: { tenantId } })
    open.provider.emit('checkout.session.completed', {
      id: `cs_test_${customerId}`,
      object: 'checkout.session',
      customer: customerId,
      subscription: subscription.id,
      client_reference_id: tenantId,
    })
    return customerId
  }
  const second = (tenantId: string, customerId: string) => ({
    tenantId,
    reason: 'second_customer',
    subscriptionId: null,
    customerId,
  })

  test('is rejected, and published once with each event that names the tenant', async () => {
    const first = await open.subscriber('pro')
    open.receivedEvents.splice(0)
    const before = open.provider.events.length
    const customerId = checkedOut(first.tenantId)
    await open.deliver()
    const session = lastOf('checkout.session.completed').id
    await open.tenancy.billing.processing.process(session, true)
    expect(misconfigurations()).toEqual([second(first.tenantId, customerId)])
    await open.tenancy.billing.processing.process(lastOf('customer.subscription.created').id, true)
    expect(misconfigurations()).toEqual([second(first.tenantId, customerId), second(first.tenantId, customerId)])
    await open.process()
    open.receivedEvents.splice(0)
    for (const { id } of open.provider.events.slice(before)) await open.tenancy.billing.inbox.replay(id)
    const kept = (await open.inbox()).filter(({ status }) => status === 'waiting')
    expect(kept.length).toBeGreaterThan(1)
    await open.tenancy.billing.processing.process(session, true)
    await open.tenancy.billing.processing.process(lastOf('customer.subscription.created').id, true)
    expect(misconfigurations()).toEqual([])
    await open.process()

    expect(await open.tenancy.billing.of(first.tenantId)).toMatchObject({
      customerId: first.customerId,
      subscription: { id: first.subscriptionId },
    })
    expect(await planOf(first.tenantId)).toBe('pro')
    expect(open.log.join()).toContain('a second customer for a tenant was rejected')
  })

  test('is mapped when the first is deleted, regardless of the time between', async () => {
    const first = await open.subscriber('pro')
    const customerId = checkedOut(first.tenantId)
    await open.deliverAndProcess()
    const { rows: rejected } = await open.tenancy.kernel.database.sql(
      'select event_id as "eventId" from multitenancy.billing_inbox where rejected_for = $1',
      [first.tenantId],
    )
    expect(rejected.length).toBeGreaterThan(1)
    const kept = async () => {
      const ids = new Set((await open.inbox()).map(({ eventId }) => eventId))
      return rejected.filter(({ eventId }) => ids.has(eventId)).length
    }
    const { inbox } = open.tenancy.billing
    const age = () =>
      open.tenancy.kernel.database.sql(
        `update multitenancy.billing_inbox set processed_at = processed_at - interval '400 days'`,
      )
    await age()
    expect(await inbox.cleanUp()).toBeGreaterThan(0)
    expect(await kept()).toBe(rejected.length)
    open.provider.deleteCustomer(first.customerId)
    await open.deliverAndProcess()
    expect(await open.tenancy.billing.of(first.tenantId)).toMatchObject({ customerId })
    expect(await planOf(first.tenantId)).toBe('scale')
    await age()
    await inbox.cleanUp()
    expect(await kept()).toBe(0)
  })

  test('is mapped immediately if the first was deleted before', async () => {
    const first = await open.subscriber('pro')
    open.provider.deleteCustomer(first.customerId)
    await open.deliverAndProcess()
    open.receivedEvents.splice(0)
    const customerId = checkedOut(first.tenantId)
    await open.deliverAndProcess()
    expect(misconfigurations()).toEqual([])
    expect(await open.tenancy.billing.of(first.tenantId)).toMatchObject({ customerId })
    expect(await planOf(first.tenantId)).toBe('scale')
  })
})
