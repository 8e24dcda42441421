/**
 * What does not fit at the provider is said: a price that stands for no plan, and another customer for a tenant that has one. Where the
 * host decides which plan tenants have, see host-plans.test.ts.
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
  if (!event) throw new Error(`there is no ${type}`)
  return event
}

/** At the provider, by hand, to a price that is in no mapping. */
async function astray(): Promise<Subscriber> {
  const subscriber = await open.subscriber('scale')
  open.provider.changePrice(subscriber.subscriptionId, open.prices.unmapped)
  open.receivedEvents.splice(0)
  return subscriber
}

describe('a price in no mapping', () => {
  test('is said of with its event, once, and the default plan is served', async () => {
    const one = await astray()
    await open.deliverAndProcess()
    expect(misconfigurations()).toEqual([unmapped(one)])
    expect(await planOf(one.tenantId)).toBe('free')
    await open.tenancy.billing.inbox.replay(lastOf('customer.subscription.updated').id)
    await open.process()
    expect(misconfigurations()).toHaveLength(1)
  })

  test('is said of by each event that tells of it, and not by its end', async () => {
    const one = await astray()
    open.provider.cancel(one.subscriptionId, { atPeriodEnd: true })
    await open.deliverAndProcess()
    expect(misconfigurations()).toEqual([unmapped(one), unmapped(one)])
    open.receivedEvents.splice(0)
    open.provider.cancel(one.subscriptionId)
    await open.deliverAndProcess()
    expect(misconfigurations()).toEqual([])
  })

  test('is said of by a sync, once by each', async () => {
    const one = await astray()
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

  test('is not said of by a sync once it has ended, nor of what is mapped', async () => {
    const [gone, fine] = [await astray(), await open.subscriber('pro')]
    open.provider.cancel(gone.subscriptionId)
    open.receivedEvents.splice(0)
    await Array.fromAsync(open.tenancy.billing.sync.run(gone.tenantId))
    await Array.fromAsync(open.tenancy.billing.sync.run(fine.tenantId))
    expect(misconfigurations()).toEqual([])
    await open.deliverAndProcess()
  })

  test('is not said of beside one that is mapped', async () => {
    const one = await open.subscriber('pro')
    open.receivedEvents.splice(0)
    const { object } = lastOf('customer.subscription.created').data
    const { items, ...rest } = object as Stripe.Subscription
    const beside = { ...items.data[0], id: 'si_beside', price: { id: open.prices.unmapped, product: 'prod_other' } }
    open.provider.emit('customer.subscription.updated', { ...rest, items: { ...items, data: [beside, ...items.data] } })
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

  test('is refused, and said of with each event that names the tenant, once', async () => {
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
    expect(open.log.join()).toContain('a second customer for a tenant was refused')
  })

  test('has its turn when the first was deleted, however long that takes', async () => {
    const first = await open.subscriber('pro')
    const customerId = checkedOut(first.tenantId)
    await open.deliverAndProcess()
    const { rows: refused } = await open.tenancy.kernel.database.sql(
      'select event_id as "eventId" from multitenancy.billing_inbox where rejected_for = $1',
      [first.tenantId],
    )
    expect(refused.length).toBeGreaterThan(1)
    const kept = async () => {
      const ids = new Set((await open.inbox()).map(({ eventId }) => eventId))
      return refused.filter(({ eventId }) => ids.has(eventId)).length
    }
    const { inbox } = open.tenancy.billing
    const age = () =>
      open.tenancy.kernel.database.sql(
        `update multitenancy.billing_inbox set processed_at = processed_at - interval '400 days'`,
      )
    await age()
    expect(await inbox.cleanUp()).toBeGreaterThan(0)
    expect(await kept()).toBe(refused.length)
    open.provider.deleteCustomer(first.customerId)
    await open.deliverAndProcess()
    expect(await open.tenancy.billing.of(first.tenantId)).toMatchObject({ customerId })
    expect(await planOf(first.tenantId)).toBe('scale')
    await age()
    await inbox.cleanUp()
    expect(await kept()).toBe(0)
  })

  test('is none once the first was deleted', async () => {
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
