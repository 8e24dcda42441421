/** Whether webhooks arrive is told by those that came in, and by no other event; and by whoever has a subscription of which they would. */
import { afterEach, beforeEach, expect, inject, test, vi } from 'vitest'
import { type OpenBilling, openBilling, SECRET } from '../billing.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

let open: OpenBilling

beforeEach(async () => {
  open = await openBilling(inject('postgresUrl'), { options: { onTenantDelete: 'detach' }, events: 'all' })
  await open.tenancy.billing.health.measure()
})
afterEach(() => open.end())

/** An hour goes by in which the provider answers, and none of its events comes in. */
async function passHourWithoutEvents(): Promise<void> {
  open.provider.advance({ hours: 1 })
  await open.tenancy.billing.health.measure()
}
const codes = async () =>
  (await open.tenancy.billing.health.assessments()).flatMap((one) => (one.status === 'good' ? [] : [one.code]))

const arrivals = async () => {
  const { rows } = await open.tenancy.kernel.database.sql(
    'select event_id, is_fetched, received_at from multitenancy.billing_inbox order by event_id',
  )
  return rows
}
/** How many jobs there are, by event. */
const jobsOf = async (events: OpenBilling['provider']['events']) => {
  const { rows } = await open.tenancy.kernel.database.sql(
    `select singleton_key as event, count(*)::int as count from multitenancy_jobs.job
     where name = 'tenantry.ProcessProviderEvent' and singleton_key = any($1) group by 1 order by 1`,
    [events.map(({ id }) => id)],
  )
  expect(rows).toHaveLength(events.length)
  return rows
}

test('what is processed again has not come in again', async () => {
  await open.subscriber()
  expect(await codes()).toEqual([])
  await passHourWithoutEvents()
  expect(await codes()).toEqual(['silent'])
  const { inbox } = open.tenancy.billing
  const replayable = await inbox.replayable({ since: new Date(0) })
  expect(replayable).not.toEqual([])
  for (const { eventId } of replayable) await inbox.replay(eventId)
  await open.process()
  expect((await open.inbox()).every(({ status }) => status === 'completed')).toBe(true)
  expect(await codes()).toEqual(['silent'])
})

test('what was fetched has not come in; what is sent after it has', async () => {
  const { subscriptionId } = await open.subscriber()
  await passHourWithoutEvents()
  const { inbox, dependencies } = open.tenancy.billing
  open.provider.changePrice(subscriptionId, open.prices.scale)
  for await (const event of dependencies.payments.events(new Date(0))) await inbox.take(event, { isFetched: true })
  await open.process()
  expect(await codes()).toEqual(['silent'])
  open.provider.emit('product.updated', { id: 'prod_1', object: 'product' })
  await open.deliverAndProcess()
  expect(await codes()).toEqual([])
})

test('what was fetched and is sent afterwards has come in, and is processed once', async () => {
  const { subscriptionId } = await open.subscriber()
  await passHourWithoutEvents()
  const { inbox, dependencies } = open.tenancy.billing
  const from = open.provider.events.length
  open.provider.changePrice(subscriptionId, open.prices.scale)
  const late = open.provider.events.slice(from)
  for await (const event of dependencies.payments.events(new Date(0))) await inbox.take(event, { isFetched: true })
  await open.process()
  expect(await codes()).toEqual(['silent'])
  const jobs = await jobsOf(late)
  for (const event of late) {
    const { body, headers } = open.provider.signed(event, { secret: SECRET, at: new Date() })
    const { status, json } = await open.post(body, { ...headers })
    expect({ status, json }).toEqual({ status: 200, json: { received: true, duplicate: true } })
  }
  expect(await codes()).toEqual([])
  expect(await jobsOf(late)).toEqual(jobs)
  expect((await open.inbox()).every(({ status }) => status === 'completed')).toBe(true)
})

test('what was sent and is fetched afterwards, or in the same moment, stays as it came in', async () => {
  await open.subscriber()
  await passHourWithoutEvents()
  const { inbox, dependencies } = open.tenancy.billing
  const before = await arrivals()
  for await (const event of dependencies.payments.events(new Date(0))) {
    expect(await inbox.take(event, { isFetched: true })).toBe(false)
  }
  expect(await arrivals()).toEqual(before)
  expect(await codes()).toEqual(['silent'])
  open.provider.emit('product.updated', { id: 'prod_1', object: 'product' })
  const [event] = await Array.fromAsync(dependencies.payments.events(open.provider.now()))
  if (!event) throw new Error('there is one')
  const taken = await Promise.all([true, false, true].map((isFetched) => inbox.take(event, { isFetched })))
  expect(taken.filter((isNew) => isNew)).toHaveLength(1)
  await open.process()
  expect(await codes()).toEqual([])
})

test('nothing is missed of a customer that was detached, whatever is kept of its subscription', async () => {
  const left = await open.subscriber()
  await open.tenancy.tenants.delete(left.tenantId)
  await passHourWithoutEvents()
  const { rows } = await open.tenancy.kernel.database.sql('select status from multitenancy.billing_subscriptions')
  expect(rows).toEqual([{ status: 'active' }])
  expect(await codes()).toEqual([])
  await open.subscriber()
  await passHourWithoutEvents()
  expect(await codes()).toEqual(['silent'])
})
