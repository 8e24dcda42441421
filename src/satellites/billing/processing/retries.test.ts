/**
 * Tests number and delay of attempts with the real job queue, whose clock is the database's. Tests make jobs due in
 * place of waiting.
 */
import { afterAll, afterEach, beforeAll, expect, inject, test, vi } from 'vitest'
import { eventually } from '../../../testing/base/tenancy.ts'
import { type BillingTenancy, type OpenBilling, openBilling, type Subscriber } from '../billing.fixture.ts'
import { BillingEventDeadLettered, SubscriptionUpdated } from '../model/events.ts'
import { ProcessProviderEvent } from '../model/job-types.ts'

vi.setConfig({ testTimeout: 60_000 })

const WAIT_TIMEOUT_MS = 30_000

let open: OpenBilling
let worker: BillingTenancy
let subscriber: Subscriber
/** Typed events that the worker has published. */
const receivedEvents: [string, unknown][] = []

beforeAll(async () => {
  open = await openBilling(inject('postgresUrl'))
  subscriber = await open.subscriber()
  worker = await open.open({ role: 'worker' })
  for (const type of [BillingEventDeadLettered, SubscriptionUpdated]) {
    worker.on(type, (event) => void receivedEvents.push([type.name, event]))
  }
})
afterAll(() => open.end())
afterEach(() => {
  open.provider.faults.clear()
  receivedEvents.splice(0)
})

const sql = async (text: string, values: readonly unknown[]): Promise<any[]> =>
  (await open.tenancy.kernel.database.sql(text, values)).rows

/** Changes the subscription, and delivers the event. */
async function changed(): Promise<string> {
  const { id, object } = open.provider.changePrice(subscriber.subscriptionId, nextPrice())
  expect(object).toBe('subscription')
  const event = open.provider.events.findLast(({ data }) => (data.object as { id?: string }).id === id)
  expect(await open.deliver()).not.toContain(503)
  return event?.id as string
}
let count = 0
const nextPrice = () => (count++ % 2 === 0 ? open.prices.scale : open.prices.pro)

/** Latest job of an event, with lower and upper bounds of its delay in seconds. */
async function jobOf(eventId: string) {
  const [job] = await sql(
    `select state, retry_count as "retried",
       extract(epoch from start_after - started_on)::float8 as "afterBegin",
       extract(epoch from start_after - clock_timestamp())::float8 as "fromNow"
     from multitenancy_jobs.job where name = 'tenantry.ProcessProviderEvent' and singleton_key = $1
     order by created_on desc limit 1`,
    [eventId],
  )
  return job
}
const rowOf = async (eventId: string) => (await open.inbox()).find((row) => row.eventId === eventId)
const makeDue = async (eventId: string) => {
  await sql(
    `update multitenancy_jobs.job set start_after = now()
     where name = 'tenantry.ProcessProviderEvent' and singleton_key = $1`,
    [eventId],
  )
  // A new job wakes the workers. Its event does not exist, so it has no effect.
  await open.tenancy.kernel.jobs.send(ProcessProviderEvent, { eventId: 'evt_unknown' })
}
const deadJobs = async () => sql(`select * from multitenancy_jobs.job where name = 'tenantry.dead-letter'`, [])

/** Waits until the event has failed that often, and its job is delayed by one to two times `seconds`. */
const isDelayed = (eventId: string, attempts: number, seconds: number) =>
  eventually(async () => {
    const [row, job] = [await rowOf(eventId), await jobOf(eventId)]
    expect(row).toMatchObject({ status: 'waiting', errorCode: 'provider_unavailable', attempts })
    expect(job).toMatchObject({ state: 'retry', retried: attempts - 1 })
    expect(job.afterBegin).toBeGreaterThanOrEqual(seconds)
    expect(job.fromNow).toBeLessThanOrEqual(2 * seconds)
  }, WAIT_TIMEOUT_MS)

test('an event is tried three times, after 30 to 60 and 60 to 120 seconds, and is then a dead letter', async () => {
  open.provider.faults.respond(500)
  const eventId = await changed()
  await isDelayed(eventId, 1, 30)
  await makeDue(eventId)
  await isDelayed(eventId, 2, 60)
  expect(receivedEvents).toEqual([])
  await makeDue(eventId)
  await eventually(async () => {
    expect(await rowOf(eventId)).toMatchObject({ status: 'failed', errorCode: 'provider_unavailable', attempts: 3 })
    expect(await jobOf(eventId)).toMatchObject({ state: 'completed', retried: 2 })
  }, WAIT_TIMEOUT_MS)
  const letter = { tenantId: subscriber.tenantId, eventId, errorCode: 'provider_unavailable' }
  expect(receivedEvents).toEqual([['BillingEventDeadLettered', expect.objectContaining(letter)]])
  expect(await deadJobs()).toEqual([])

  await open.tenancy.billing.inbox.replay(eventId)
  await isDelayed(eventId, 1, 30)
  open.provider.faults.clear()
  await makeDue(eventId)
  await eventually(async () => expect(await rowOf(eventId)).toMatchObject({ status: 'completed' }), WAIT_TIMEOUT_MS)
})

test('an event that succeeds on its second attempt is published once and not retried', async () => {
  open.provider.faults.respond(429, { times: 1 })
  const eventId = await changed()
  await eventually(async () => expect(await jobOf(eventId)).toMatchObject({ state: 'retry' }), WAIT_TIMEOUT_MS)
  expect(await rowOf(eventId)).toMatchObject({ status: 'waiting', errorCode: 'provider_rate_limited', attempts: 1 })
  await makeDue(eventId)
  await eventually(async () => expect(await jobOf(eventId)).toMatchObject({ state: 'completed' }), WAIT_TIMEOUT_MS)
  expect(await rowOf(eventId)).toMatchObject({ status: 'completed', errorCode: null, attempts: 1 })
  expect(receivedEvents.map(([name]) => name)).toEqual(['SubscriptionUpdated'])
  expect(await deadJobs()).toEqual([])
})

test('an event with a permanent error is tried once', async () => {
  open.provider.faults.respond(401)
  const eventId = await changed()
  await eventually(async () => expect(await jobOf(eventId)).toMatchObject({ state: 'completed' }), WAIT_TIMEOUT_MS)
  expect(await jobOf(eventId)).toMatchObject({ retried: 0 })
  expect(await rowOf(eventId)).toMatchObject({ status: 'failed', errorCode: 'authentication_failed', attempts: 1 })
  expect(receivedEvents.map(([name]) => name)).toEqual(['BillingEventDeadLettered'])
})
