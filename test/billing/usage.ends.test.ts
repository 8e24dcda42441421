/**
 * Tests that usage before an immediate end of a subscription is on its last invoice, and that failures do not block the
 * end.
 */
import Stripe from 'stripe'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { WAITING_LOCKS } from '../../src/testing/base/database.ts'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { latch } from '../support/latch.ts'
import { type Metered, openMetered } from './usage.fixture.ts'

const METER_EVENTS = '/v1/billing/meter_events'
const CENTS_PER_LOOK = 10

let open: Metered
let stripe: Stripe
let prices: string[]

beforeAll(async () => {
  open = await openMetered('postgres', { options: { usage: { looks: { meter: 'looks_taken' } } } })
  const { provider } = open
  stripe = new Stripe(provider.apiKey, provider.clientOptions)
  const meter = provider.meter({ eventName: 'looks_taken' }).id
  const product = provider.product({ name: 'Looks' }).id
  const metered = provider.price({ product, amount: CENTS_PER_LOOK, interval: 'month', meter })
  prices = [...Object.keys(open.options.products), metered.id]
})
afterAll(() => open.end())
beforeEach(() => void open.log.splice(0))
afterEach(() => open.provider.faults.clear())

const subscriber = async () => {
  const { tenantId, customerId } = await open.payer()
  open.provider.setPaymentMethod(customerId, 'good')
  const items = prices.map((price) => ({ price }))
  const { id } = await stripe.subscriptions.create({ customer: customerId, items, metadata: { tenantId } })
  for await (const _ of open.tenancy.billing.sync.run(tenantId));
  return { tenantId, customerId, subscriptionId: id }
}
const look = (tenantId: string, times: number) => open.tenancy.quotas.track(tenantId, 'looks', times)
const end = (tenantId: string) => open.tenancy.billing.cancel(tenantId, { atPeriodEnd: false })
const lastInvoice = async (subscriptionId: string) => {
  const { latest_invoice: last, status } = await stripe.subscriptions.retrieve(subscriptionId, {
    expand: ['latest_invoice'],
  })
  expect(status).toBe('canceled')
  return last as Stripe.Invoice
}
const ofLooks = (times: number) => ({ billing_reason: 'subscription_update', amount_paid: times * CENTS_PER_LOOK })
const NO_LOOKS = { billing_reason: 'subscription_create' }

describe.each([
  ['a subscription is cancelled', ({ tenantId }: { tenantId: string; customerId: string }) => end(tenantId)],
  [
    'its tenant is deleted',
    async ({ tenantId, customerId }: { tenantId: string; customerId: string }) => {
      await open.tenancy.tenants.delete(tenantId)
      await open.tenancy.billing.tenantDeletion.cancelAll(customerId)
    },
  ],
])('when %s', (_, ends) => {
  test('usage outside of batches and unsent batches are on the last invoice', async () => {
    const payer = await subscriber()
    await look(payer.tenantId, 3)
    await open.tenancy.billing.windows.close()
    await look(payer.tenantId, 4)
    await ends(payer)
    expect(await lastInvoice(payer.subscriptionId)).toMatchObject(ofLooks(7))
    expect(await open.batches(payer.tenantId)).toMatchObject([
      { sentAt: expect.any(Date) },
      { sentAt: expect.any(Date) },
    ])
    await open.report()
    expect(open.provider.usage('looks_taken', payer.customerId)).toBe(7)
    expect(open.log).toEqual([])
  })

  test('and the meter is unavailable, the subscription ends; the usage is reported later and not invoiced', async () => {
    const payer = await subscriber()
    await look(payer.tenantId, 3)
    open.provider.faults.respond(500, { path: METER_EVENTS, headers: { 'stripe-should-retry': 'false' } })
    await ends(payer)
    expect(await lastInvoice(payer.subscriptionId)).toMatchObject(NO_LOOKS)
    expect(open.log.join()).toContain('is not part of it')
    open.provider.faults.clear()
    await open.send()
    expect(open.provider.usage('looks_taken', payer.customerId)).toBe(3)
  })

  test('and windows cannot be closed, the subscription ends with the usage of closed windows', async () => {
    const payer = await subscriber()
    await look(payer.tenantId, 3)
    await open.tenancy.billing.windows.close()
    await look(payer.tenantId, 4)
    const { database } = open.tenancy.kernel
    await database.sql('alter table multitenancy.billing_usage_watermarks add constraint none check (false) not valid')
    await ends(payer)
    await database.sql('alter table multitenancy.billing_usage_watermarks drop constraint none')
    expect(await lastInvoice(payer.subscriptionId)).toMatchObject(ofLooks(3))
    expect(open.log.join()).toContain('usage was not closed before a cancellation')
    await open.report()
    expect(open.provider.usage('looks_taken', payer.customerId)).toBe(7)
  })

  test('and another process is closing the windows, the end waits', async () => {
    const payer = await subscriber()
    await look(payer.tenantId, 3)
    const lock = `hashtextextended('tenantry billing usage ${payer.tenantId}', 0)`
    const release = await latch(open.url, `select pg_advisory_xact_lock(${lock})`)
    const ending = ends(payer)
    await eventually(async () => {
      const { rows } = await open.tenancy.kernel.database.sql(
        `select from ${WAITING_LOCKS} where locktype = 'advisory'`,
      )
      expect(rows).toHaveLength(1)
    })
    await release()
    await ending
    expect(await lastInvoice(payer.subscriptionId)).toMatchObject(ofLooks(3))
  })
})

test('a missing meter of one quota does not keep the usage of others from the last invoice', async () => {
  const { tenantId, subscriptionId } = await subscriber()
  await open.tenancy.billing.reportUsage(tenantId, 'no_such_meter', 1, { id: crypto.randomUUID() })
  await look(tenantId, 3)
  await end(tenantId)
  expect(await lastInvoice(subscriptionId)).toMatchObject(ofLooks(3))
  expect(open.log.join()).toContain('"batches":1')
  // Other tests send all unsent batches.
  await open.tenancy.kernel.database.sql(`delete from multitenancy.billing_usage where tenant_id = $1`, [tenantId])
})

test('usage that was reported before an end that is rolled back stays reported once', async () => {
  const { tenantId, customerId, subscriptionId } = await subscriber()
  await look(tenantId, 3)
  const undone = open.tenancy.transaction(async () => {
    await end(tenantId)
    throw new Error('undone')
  })
  await expect(undone).rejects.toThrow('undone')
  expect(await lastInvoice(subscriptionId)).toMatchObject(ofLooks(3))
  await open.report()
  expect(open.provider.usage('looks_taken', customerId)).toBe(3)
})

test('an end with the period does not report usage immediately', async () => {
  const { tenantId, subscriptionId } = await subscriber()
  await look(tenantId, 3)
  await open.tenancy.billing.cancel(tenantId)
  expect(await open.batches(tenantId)).toEqual([])
  await open.report()
  open.provider.advance({ days: 32 })
  expect(await lastInvoice(subscriptionId)).toMatchObject(ofLooks(3))
})

test('without metered quotas, usage reported by the host is sent before the end, without other requests', async () => {
  const plain = await openMetered('postgres', { options: { usage: {} } })
  const { tenantId, customerId } = await plain.payer()
  plain.provider.setPaymentMethod(customerId, 'good')
  plain.provider.subscribe(customerId, Object.keys(plain.options.products)[0] ?? '')
  for await (const _ of plain.tenancy.billing.sync.run(tenantId));
  await plain.tenancy.billing.reportUsage(tenantId, 'api_calls', 3, { id: crypto.randomUUID() })
  const { subscription } = await plain.tenancy.billing.cancel(tenantId, { atPeriodEnd: false })
  expect(subscription).toMatchObject({ status: 'canceled' })
  expect(plain.counted(customerId)).toBe(3)
  expect(plain.log).toEqual([])
  await plain.end()
})
