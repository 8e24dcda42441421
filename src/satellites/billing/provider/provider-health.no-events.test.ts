/** Tests which events count as received webhooks in the health check, and which subscriptions expect webhooks. */
import { afterEach, beforeEach, expect, inject, test, vi } from 'vitest'
import { type OpenBilling, openBilling, SECRET } from '../billing.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

let open: OpenBilling

beforeEach(async () => {
  open = await openBilling(inject('postgresUrl'), { options: { onTenantDelete: 'detach' }, events: 'all' })
  await open.tenancy.billing.health.measure()
})
afterEach(() => open.end())

/** Advances the clock by an hour with a responding provider and no received event. */
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
/** Number of jobs per event. */
const jobsOf = async (events: OpenBilling['provider']['events']) => {
  const { rows } = await open.tenancy.kernel.database.sql(
    `select singleton_key as event, count(*)::int as count from multitenancy_jobs.job
     where name = 'tenantry.ProcessProviderEvent' and singleton_key = any($1) group by 1 order by 1`,
    [events.map(({ id }) => id)],
  )
  expect(rows).toHaveLength(events.length)
  return rows
}

test('a replayed event does not count as a received event', async () => {
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

test('a fetched event does not count as received, and an event that is sent later does', async () => {
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

test('an event that is fetched first and sent later counts as received, and is processed once', async () => {
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

test('an event that is sent first and fetched later, or sent and fetched concurrently, stays received', async () => {
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
  if (!event) throw new Error('the provider has no event')
  const taken = await Promise.all([true, false, true].map((isFetched) => inbox.take(event, { isFetched })))
  expect(taken.filter((isNew) => isNew)).toHaveLength(1)
  await open.process()
  expect(await codes()).toEqual([])
})

test('events of a detached customer are not expected, although its subscription is stored as active', async () => {
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
