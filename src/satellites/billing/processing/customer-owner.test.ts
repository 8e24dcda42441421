/** Tests that a tenant has one customer, and that a second customer replaces the first when the first is deleted. */
import type Stripe from 'stripe'
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { WAITING_LOCKS } from '../../../testing/base/database.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { namesOf, type OpenBilling, openBilling } from '../billing.fixture.ts'
import { BillingMisconfigured } from '../model/events.ts'

let open: OpenBilling
beforeAll(async () => {
  open = await openBilling(inject('postgresUrl'), { options: { onTenantDelete: 'detach' } })
})
beforeEach(() => void open.receivedEvents.splice(0))
afterAll(() => open.end())

const planOf = async (tenantId: string) => (await open.tenancy.tenants.get(tenantId)).metadata.plan ?? 'free'
const customerOf = async (tenantId: string) => (await open.tenancy.billing.of(tenantId)).customerId
const published = () => namesOf(open.receivedEvents).filter((name) => name !== 'SubscriptionUpdated')
const lastOf = (type: Stripe.Event.Type) => open.provider.events.findLast((event) => event.type === type)?.id as string

/** A tenant with a mapped customer, and a second customer whose events were rejected. */
async function withSecondCustomer() {
  const first = await open.subscriber()
  const second = open.provider.customer({ metadata: { tenantId: first.tenantId } })
  open.provider.subscribe(second.id, open.prices.scale)
  open.receivedEvents.splice(0)
  await open.deliverAndProcess()
  expect(new Set(published())).toEqual(new Set(['BillingMisconfigured']))
  expect([await planOf(first.tenantId), await customerOf(first.tenantId)]).toEqual(['pro', first.customerId])
  open.receivedEvents.splice(0)
  return { ...first, secondId: second.id }
}

test('a second customer is mapped when the first is deleted at the provider, and its rejected events are published', async () => {
  const { tenantId, customerId, secondId } = await withSecondCustomer()
  open.provider.deleteCustomer(customerId)
  await open.deliverAndProcess()
  expect([await planOf(tenantId), await customerOf(tenantId)]).toEqual(['scale', secondId])
  expect(published().sort()).toEqual(['PaymentSucceeded', 'SubscriptionActivated', 'SubscriptionCanceled'])
})

test('a second customer is mapped when a sync finds that the first was deleted', async () => {
  const { tenantId, customerId, secondId } = await withSecondCustomer()
  open.provider.deleteCustomer(customerId)
  await Array.fromAsync(open.tenancy.billing.sync.run(tenantId))
  await open.process()
  expect([await planOf(tenantId), await customerOf(tenantId)]).toEqual(['scale', secondId])
})

test('a second customer is mapped when the first is closed while an event of the second is rejected', async () => {
  const { database, events } = open.tenancy.kernel
  const { tenantId, customerId } = await open.subscriber()
  let closing: Promise<unknown> | undefined
  const waiting = `select from ${WAITING_LOCKS} where locktype = 'advisory'`
  const end = events.subscribe(BillingMisconfigured, 'within', async () => {
    if (closing) return
    open.provider.deleteCustomer(customerId)
    closing = database.outside(() => open.tenancy.billing.customers.closeGone(customerId))
    const waits = eventually(async () => {
      expect((await database.outside(() => database.sql(waiting))).rows).toHaveLength(1)
    })
    await Promise.race([waits, closing])
  })
  const second = open.provider.customer({ metadata: { tenantId } })
  open.provider.subscribe(second.id, open.prices.scale)
  // No later event of the second customer may map it.
  await open.deliver(open.provider.events.filter(({ id }) => id === lastOf('customer.subscription.created')))
  await open.process()
  await closing
  await open.process()
  end()
  expect([await planOf(tenantId), await customerOf(tenantId)]).toEqual(['scale', second.id])
  await open.deliverAndProcess()
})

test('a replay of a rejected event publishes nothing, before and after the second customer is mapped', async () => {
  const { tenantId, customerId } = await withSecondCustomer()
  const rejected = lastOf('customer.subscription.created')
  await open.tenancy.billing.inbox.replay(rejected)
  await open.process()
  expect(open.receivedEvents).toEqual([])
  open.provider.deleteCustomer(customerId)
  await open.deliverAndProcess()
  expect(published().filter((name) => name === 'SubscriptionActivated')).toHaveLength(1)
  open.receivedEvents.splice(0)
  await open.tenancy.billing.inbox.replay(rejected)
  await open.process()
  expect(open.receivedEvents).toEqual([])
  expect(await planOf(tenantId)).toBe('scale')
})

test('a second customer is mapped with all its rejected events after the tenant is restored without the first', async () => {
  const { tenantId, secondId } = await withSecondCustomer()
  await open.tenancy.tenants.delete(tenantId)
  await open.tenancy.tenants.restore(tenantId)
  expect([await planOf(tenantId), await customerOf(tenantId)]).toEqual(['free', null])
  open.receivedEvents.splice(0)
  const { data } = open.provider.events.findLast(({ type }) => type === 'customer.subscription.created') ?? {}
  open.provider.emit('customer.subscription.updated', data?.object as never)
  await open.deliverAndProcess()
  expect([await planOf(tenantId), await customerOf(tenantId)]).toEqual(['scale', secondId])
  expect(published().sort()).toEqual(['PaymentSucceeded', 'SubscriptionActivated'])
  open.receivedEvents.splice(0)
  open.provider.deleteCustomer(secondId)
  await open.deliverAndProcess()
  expect(published()).toEqual(['SubscriptionCanceled'])
})

test('the customer of another tenant is not a second customer of a tenant without one', async () => {
  const payer = await open.subscriber()
  const tenantId = await open.tenant()
  const { object } = open.provider.events.findLast(({ type }) => type === 'checkout.session.completed')?.data ?? {}
  open.receivedEvents.splice(0)
  open.provider.emit('checkout.session.completed', { ...object, client_reference_id: tenantId, subscription: null })
  await open.deliverAndProcess()
  expect(open.receivedEvents).toEqual([])
  expect([await customerOf(tenantId), await customerOf(payer.tenantId)]).toEqual([null, payer.customerId])
})
