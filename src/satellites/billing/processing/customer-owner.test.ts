/** A tenant has one customer: another is refused, and has its turn when the first is gone. */
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

/** A tenant with a customer, and a second one that pays for it, and was refused. */
async function two() {
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

test('it is taken up when the first was deleted at the provider, and says what it had not', async () => {
  const { tenantId, customerId, secondId } = await two()
  open.provider.deleteCustomer(customerId)
  await open.deliverAndProcess()
  expect([await planOf(tenantId), await customerOf(tenantId)]).toEqual(['scale', secondId])
  expect(published().sort()).toEqual(['PaymentSucceeded', 'SubscriptionActivated', 'SubscriptionCanceled'])
})

test('so it is when nothing was heard of that, and the first is found to be gone', async () => {
  const { tenantId, customerId, secondId } = await two()
  open.provider.deleteCustomer(customerId)
  await Array.fromAsync(open.tenancy.billing.sync.run(tenantId))
  await open.process()
  expect([await planOf(tenantId), await customerOf(tenantId)]).toEqual(['scale', secondId])
})

test('so it is when the first is found to be gone at the very moment at which the second is refused', async () => {
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
  // Nothing else is heard of it that would have it mapped.
  await open.deliver(open.provider.events.filter(({ id }) => id === lastOf('customer.subscription.created')))
  await open.process()
  await closing
  await open.process()
  end()
  expect([await planOf(tenantId), await customerOf(tenantId)]).toEqual(['scale', second.id])
  await open.deliverAndProcess()
})

test('a replay of what was refused says nothing again, and nothing twice when it is taken up', async () => {
  const { tenantId, customerId } = await two()
  const refused = lastOf('customer.subscription.created')
  await open.tenancy.billing.inbox.replay(refused)
  await open.process()
  expect(open.receivedEvents).toEqual([])
  open.provider.deleteCustomer(customerId)
  await open.deliverAndProcess()
  expect(published().filter((name) => name === 'SubscriptionActivated')).toHaveLength(1)
  open.receivedEvents.splice(0)
  await open.tenancy.billing.inbox.replay(refused)
  await open.process()
  expect(open.receivedEvents).toEqual([])
  expect(await planOf(tenantId)).toBe('scale')
})

test('it is taken up when the tenant is back without the first, with all that was refused of it', async () => {
  const { tenantId, secondId } = await two()
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

test("another tenant's customer is no second one of a tenant that has none", async () => {
  const payer = await open.subscriber()
  const tenantId = await open.tenant()
  const { object } = open.provider.events.findLast(({ type }) => type === 'checkout.session.completed')?.data ?? {}
  open.receivedEvents.splice(0)
  open.provider.emit('checkout.session.completed', { ...object, client_reference_id: tenantId, subscription: null })
  await open.deliverAndProcess()
  expect(open.receivedEvents).toEqual([])
  expect([await customerOf(tenantId), await customerOf(payer.tenantId)]).toEqual([null, payer.customerId])
})
