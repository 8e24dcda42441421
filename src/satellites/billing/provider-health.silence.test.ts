/** Whether webhooks arrive is told by those that came in, and by no other event; and by whoever has a subscription of which they would. */
import { afterEach, beforeEach, expect, inject, test, vi } from 'vitest'
import { type OpenBilling, openBilling } from './billing.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

let open: OpenBilling

beforeEach(async () => {
  open = await openBilling(inject('postgresUrl'), { options: { onTenantDelete: 'detach' } })
  await open.tenancy.billing.health.measure()
})
afterEach(() => open.end())

/** An hour goes by in which the provider answers, and none of its events comes in. */
async function silence(): Promise<void> {
  open.provider.advance({ hours: 1 })
  await open.tenancy.billing.health.measure()
}
const codes = async () =>
  (await open.tenancy.billing.health.opinions()).flatMap((one) => (one.status === 'good' ? [] : [one.code]))

test('what is processed again has not come in again', async () => {
  await open.subscriber()
  expect(await codes()).toEqual([])
  await silence()
  expect(await codes()).toEqual(['silent'])
  const { inbox } = open.tenancy.billing
  for (const { eventId } of await inbox.replayable({ since: new Date(0) })) await inbox.replay(eventId)
  await open.process()
  expect((await open.inbox()).every(({ status }) => status === 'completed')).toBe(true)
  expect(await codes()).toEqual(['silent'])
})

test('what was fetched has not come in; what is sent after it has', async () => {
  const { subscriptionId } = await open.subscriber()
  await silence()
  const { inbox, part } = open.tenancy.billing
  open.provider.changePrice(subscriptionId, open.prices.scale)
  for await (const event of part.payments.events(new Date(0))) await inbox.take(event, { isFetched: true })
  await open.process()
  expect(await codes()).toEqual(['silent'])
  open.provider.emit('product.updated', { id: 'prod_1', object: 'product' })
  await open.settle()
  expect(await codes()).toEqual([])
})

test('nothing is missed of a customer that was detached, whatever is kept of its subscription', async () => {
  const left = await open.subscriber()
  await open.tenancy.tenants.delete(left.tenantId)
  await silence()
  const { rows } = await open.tenancy.kernel.database.sql('select status from multitenancy.billing_subscriptions')
  expect(rows).toEqual([{ status: 'active' }])
  expect(await codes()).toEqual([])
  await open.subscriber()
  await silence()
  expect(await codes()).toEqual(['silent'])
})
