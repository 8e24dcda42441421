/** Tests events that arrive before their tenant is known, or after their customer is deleted. */
import type Stripe from 'stripe'
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest'
import { type OpenBilling, openBilling } from '../billing.fixture.ts'
import { type Debtors, debtorsOf } from '../dunning/dunning.fixture.ts'

let open: OpenBilling & Debtors
beforeAll(async () => {
  const opened = await openBilling(inject('postgresUrl'))
  open = Object.assign(opened, debtorsOf(opened))
})
afterEach(async () => {
  await open.clear()
  open.receivedEvents.splice(0)
})
afterAll(() => open.end())

/** A tenant whose customer was deleted. */
async function freeTenant(): Promise<string> {
  const { tenantId, customerId } = await open.payer()
  open.provider.deleteCustomer(customerId)
  await open.deliverAndProcess()
  open.receivedEvents.splice(0)
  return tenantId
}

/** A subscription of a customer without a tenant; only the event of `checkout` names the tenant. */
function stranger(tenantId: string) {
  const { id } = open.provider.customer()
  const subscription = open.provider.subscribe(id, open.prices.pro)
  const created = lastOf('customer.subscription.created')
  const checkout = () =>
    open.provider.emit('checkout.session.completed', {
      id: `cs_test_${id}`,
      object: 'checkout.session',
      customer: id,
      subscription: subscription.id,
      client_reference_id: tenantId,
    })
  return { id, created, checkout }
}

const lastOf = (event: Stripe.Event.Type) => open.provider.events.findLast(({ type }) => type === event)?.id as string
const process = (eventId: string, isLast = true) => open.tenancy.billing.processing.process(eventId, isLast)
const statusOf = async (id: string) => (await open.inbox()).find(({ eventId }) => eventId === id)?.status
const mappingOf = async (customerId: string) => {
  const { rows } = await open.tenancy.kernel.database.sql(
    'select tenant_id as "tenantId", closed_at as "closedAt" from multitenancy.billing_customers where customer_id = $1',
    [customerId],
  )
  return rows[0]
}

test.each([
  ['have failed', true, 'failed'],
  ['wait for a retry', false, 'waiting'],
])('events of an unknown customer that %s are processed when the checkout is received', async (_, isLast, status) => {
  const tenantId = await freeTenant()
  const { created, checkout, id } = stranger(tenantId)
  await open.deliver()
  if (isLast) await process(created)
  else await expect(process(created, false)).rejects.toThrow('tenant_not_resolvable')
  expect(await statusOf(created)).toBe(status)
  checkout()
  await open.deliverAndProcess()
  expect(await statusOf(created)).toBe('completed')
  expect(open.receivedNamesOf(tenantId)).toEqual(expect.arrayContaining(['SubscriptionActivated', 'PaymentSucceeded']))
  expect(await open.statusAndPlan(tenantId)).toBe('active pro')
  open.provider.deleteCustomer(id)
})

test('an event is processed when another process maps its customer during the request to the provider', async () => {
  const tenantId = await freeTenant()
  const { created, checkout, id } = stranger(tenantId)
  const session = checkout()
  await open.deliver()
  const held = open.provider.faults.hold({ path: `/v1/customers/${id}` })
  const processing = process(created)
  await held.arrived
  await process(session.id)
  held.release()
  await processing
  expect(await statusOf(created)).toBe('completed')
  expect(open.receivedNamesOf(tenantId)).toContain('SubscriptionActivated')
  expect(open.receivedNamesOf(tenantId)).not.toContain('BillingEventDeadLettered')
  open.provider.deleteCustomer(id)
})

test('a customer that was deleted before it was mapped is mapped and closed', async () => {
  const tenantId = await freeTenant()
  const { checkout, id } = stranger(tenantId)
  const session = checkout()
  open.provider.deleteCustomer(id)
  await open.deliver()
  await process(lastOf('customer.deleted'))
  expect(await mappingOf(id)).toBeUndefined()
  await process(session.id)
  await open.process()
  expect(await mappingOf(id)).toEqual({ tenantId, closedAt: open.provider.now() })
  expect(open.receivedNamesOf(tenantId)).toContain('SubscriptionCanceled')
  expect(await open.statusAndPlan(tenantId)).toBe('active free')
})

test('a checkout event after the deletion of its customer does not count as a second customer', async () => {
  const tenantId = await freeTenant()
  const { checkout, id } = stranger(tenantId)
  await open.deliver()
  const session = checkout()
  await open.deliver()
  await process(session.id)
  open.provider.deleteCustomer(id)
  await open.deliverAndProcess()
  const late = open.provider.emit('checkout.session.completed', session.data.object)
  await open.deliverAndProcess()
  expect(await statusOf(late.id)).toBe('completed')
  expect(open.receivedNamesOf(tenantId)).not.toContain('BillingMisconfigured')
  expect((await mappingOf(id)).closedAt).toEqual(open.provider.now())
})
