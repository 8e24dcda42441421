/**
 * Tests that a sync applies lost changes, including the deletion of a customer, and continues after an unknown
 * customer.
 */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type OpenBilling, openBilling, type Subscriber } from './billing.fixture.ts'

let open: OpenBilling
beforeAll(async () => {
  open = await openBilling(inject('postgresUrl'))
})
afterAll(() => open.end())

const planAndStatus = async (tenantId: string) => {
  const { plan, subscription } = await open.tenancy.billing.of(tenantId)
  return `${plan} ${subscription?.status}`
}
const all = () => Array.fromAsync(open.tenancy.billing.sync.all())
const run = (tenantId: string) => Array.fromAsync(open.tenancy.billing.sync.run(tenantId))
/** Deletes the customer at the provider; returns the undelivered events. */
const deleted = ({ customerId }: Subscriber) => {
  const from = open.provider.events.length
  open.provider.deleteCustomer(customerId)
  return open.provider.events.slice(from)
}
const ended = ({ tenantId, customerId }: Subscriber) => ({ tenantId, customerId, subscriptions: 1, plan: 'free' })

describe('sync of a deleted customer', () => {
  test('without received events and before a new checkout of the tenant: its subscription has ended', async () => {
    const others = await open.tenancy.billing.sync.count()
    const one = await open.subscriber()
    const { tenantId } = one
    const allOfOne = async () => (await all()).filter((line) => line.tenantId === tenantId)
    deleted(one)
    await open.tenancy.billing.checkout(tenantId, {
      priceId: open.prices.pro,
      successUrl: 'https://app.example/paid',
      cancelUrl: 'https://app.example/plans',
    })
    const { customerId } = await open.tenancy.billing.of(tenantId)
    expect(customerId).not.toBe(one.customerId)
    expect(await planAndStatus(tenantId)).toBe('pro active')
    expect(await open.tenancy.billing.sync.count()).toBe(others + 2)
    expect(await allOfOne()).toEqual([ended(one), { tenantId, customerId, subscriptions: 0, plan: 'free' }])
    expect(await planAndStatus(tenantId)).toBe('free canceled')
    expect(await allOfOne()).toEqual([{ tenantId, customerId, subscriptions: 0, plan: 'free' }])
  })

  test('with only the received deletion: its subscription has ended', async () => {
    const one = await open.subscriber()
    await open.deliver(deleted(one).filter(({ type }) => type === 'customer.deleted'))
    await open.process()
    expect(await planAndStatus(one.tenantId)).toBe('pro active')
    expect(await open.tenancy.billing.of(one.tenantId)).toMatchObject({ customerId: null })
    expect(await run(one.tenantId)).toEqual([ended(one)])
    expect(await planAndStatus(one.tenantId)).toBe('free canceled')
    expect(await run(one.tenantId)).toEqual([])
  })
})

test('sync reports a customer that the provider does not know among all customers, and throws for this customer only', async () => {
  const [before, unknown, after] = [await open.subscriber(), await open.subscriber(), await open.subscriber()]
  for (const { subscriptionId } of [before, after]) open.provider.changePrice(subscriptionId, open.prices.scale)
  open.provider.forget(unknown.customerId)
  const { tenantId, customerId } = unknown
  const done = await all()
  expect(done.filter((one) => 'error' in one)).toEqual([{ tenantId, customerId, error: 'customer_not_found' }])
  for (const one of [before, after]) expect(await planAndStatus(one.tenantId)).toBe('scale active')
  expect(await planAndStatus(tenantId)).toBe('pro active')
  await expect(run(tenantId)).rejects.toMatchObject({ code: 'customer_not_found' })
  open.provider.faults.respond(500)
  await expect(all()).rejects.toMatchObject({ code: 'provider_unavailable' })
  open.provider.faults.clear()
})
