/** Tests that concurrent receivers store an event once, with one job, before they respond. */
import type Stripe from 'stripe'
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { shuffled } from '../../../../test/support/provider/provider.ts'
import { createReceivers } from '../../../http/receivers.ts'
import { type BillingTenancy, type OpenBilling, openBilling, SECRET } from '../billing.fixture.ts'
import { billing } from '../index.ts'
import { countKept } from './receiver.fixture.ts'

let open: OpenBilling
let tenancies: readonly BillingTenancy[]
let made = 0

beforeAll(async () => {
  open = await openBilling(inject('postgresUrl'), { events: 'all' })
  tenancies = [open.tenancy, ...(await Promise.all([1, 2, 3].map(() => open.open())))]
})
afterAll(() => open.end())

const emitEvents = (count: number): Stripe.Event[] =>
  Array.from({ length: count }, () =>
    open.provider.emit('product.updated', { id: `prod_${++made}`, object: 'product' }),
  )

async function received(by: BillingTenancy, event: Stripe.Event): Promise<{ status: number; json: any }> {
  const { body, headers } = open.provider.signed(event, { secret: SECRET, at: new Date() })
  const request = new Request('http://localhost/webhooks/stripe', { method: 'POST', body, headers: { ...headers } })
  const response = await createReceivers(by).fetch(request)
  return { status: response.status, json: await response.json() }
}

const kept = (events: readonly Stripe.Event[]) => countKept(open, events)

const rejectEvent = (eventId: string) =>
  open.tenancy.kernel.database.sql(
    `create or replace function public.reject_event() returns trigger language plpgsql as $$
       begin raise check_violation using message = 'rejected for the test'; end $$;
     create or replace trigger rejected before insert on multitenancy.billing_inbox
       for each row when (new.event_id = '${eventId}') execute function public.reject_event()`,
  )

describe('concurrent receipt of one event', () => {
  test('stores an event once in one process', async () => {
    const [event] = emitEvents(1) as [Stripe.Event]
    const responses = await Promise.all(Array.from({ length: 10 }, () => received(open.tenancy, event)))
    expect(responses.map(({ status }) => status)).toEqual(Array(10).fill(200))
    expect(responses.filter(({ json }) => !json.duplicate)).toHaveLength(1)
    expect(await kept([event])).toEqual({ events: 1, jobs: 1 })
  })

  test('stores an event once in several processes', async () => {
    const [event] = emitEvents(1) as [Stripe.Event]
    const by = (n: number) => tenancies[n % tenancies.length] as BillingTenancy
    const responses = await Promise.all(Array.from({ length: 10 }, (_, n) => received(by(n), event)))
    expect(responses.map(({ status }) => status)).toEqual(Array(10).fill(200))
    expect(responses.filter(({ json }) => !json.duplicate)).toHaveLength(1)
    expect(await kept([event])).toEqual({ events: 1, jobs: 1 })
  })
})

test('stores each of many events once when all processes receive them in different orders', async () => {
  const events = emitEvents(250)
  const responses = await Promise.all(
    tenancies.flatMap((tenancy, n) =>
      shuffled(events, n).map(async (event) => ({ id: event.id, ...(await received(tenancy, event)) })),
    ),
  )
  expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]))
  const first = responses.filter(({ json }) => !json.duplicate).map(({ id }) => id)
  expect(first.toSorted()).toEqual(events.map(({ id }) => id).toSorted())
  expect(await kept(events)).toEqual({ events: 250, jobs: 250 })
})

test('an event that PostgreSQL rejects gets 503, and the other events of its batch get 200', async () => {
  const events = emitEvents(40)
  const poison = events[17] as Stripe.Event
  const good = events.filter((event) => event !== poison)
  await rejectEvent(poison.id)
  const responses = await Promise.all(events.map((event) => received(open.tenancy, event)))
  expect(responses.flatMap(({ status }, n) => (status === 200 ? [] : [[n, status]]))).toEqual([[17, 503]])
  expect(responses[17]?.json).toMatchObject({ code: 'E_DEPENDENCY_UNAVAILABLE' })
  expect(JSON.stringify(responses[17])).not.toContain('rejected for the test')
  expect(open.log.join('')).toContain('rejected for the test')
  expect(await kept(good)).toEqual({ events: 39, jobs: 39 })
  expect(await kept([poison])).toEqual({ events: 0, jobs: 0 })
  await rejectEvent('nothing')
  expect(await received(open.tenancy, poison)).toMatchObject({ status: 200, json: { received: true } })
  expect(await kept([poison])).toEqual({ events: 1, jobs: 1 })
})

describe('an event that billing does not process', () => {
  const outcome = async ({ id }: Stripe.Event) => (await open.inbox()).find(({ eventId }) => eventId === id)

  test('of an unhandled type is stored and completed', async () => {
    const event = open.provider.emit('tax.settings.updated' as never, { object: 'tax.settings', status: 'active' })
    expect(await received(open.tenancy, event)).toMatchObject({ status: 200, json: { received: true } })
    await open.process()
    expect(await outcome(event)).toMatchObject({ type: 'tax.settings.updated', status: 'completed', errorCode: null })
  })

  test('of the other mode is stored and ignored, without a request to the provider', async () => {
    const { tenantId, customerId, subscriptionId } = await open.subscriber('pro')
    const before = await open.tenancy.billing.of(tenantId)
    open.provider.setLivemode(true)
    open.provider.changePrice(subscriptionId, open.prices.scale)
    open.provider.cancel(subscriptionId)
    open.provider.deleteCustomer(customerId)
    open.provider.setLivemode(false)
    const live = open.provider.events.filter(({ livemode }) => livemode)
    expect(live.map(({ type }) => type)).toContain('customer.subscription.deleted')
    const requestsBefore = open.provider.requests.length
    open.receivedEvents.splice(0)
    await open.deliverAndProcess()
    for (const event of live) expect(await outcome(event)).toMatchObject({ status: 'ignored', errorCode: null })
    expect(await kept(live)).toEqual({ events: live.length, jobs: live.length })
    expect(open.provider.requests.length).toBe(requestsBefore)
    expect(open.receivedEvents).toEqual([])
    expect(await open.tenancy.billing.of(tenantId)).toEqual(before)
  })

  test('of test mode is ignored in production with the live key', async () => {
    const { tenantId, customerId, subscriptionId } = await open.subscriber('pro')
    const before = await open.tenancy.billing.of(tenantId)
    vi.stubEnv('NODE_ENV', 'production')
    const { endpoint: _, ...stripe } = open.options.stripe
    const live = await open.open({
      satellites: [billing({ ...open.options, stripe: { ...stripe, apiKey: 'sk_live_51Abc', timeoutMs: 100 } })],
    })
    vi.unstubAllEnvs()
    expect(live.billing.dependencies.payments.isLive).toBe(true)
    const from = open.provider.events.length
    open.provider.changePrice(subscriptionId, open.prices.scale)
    open.provider.cancel(subscriptionId)
    open.provider.deleteCustomer(customerId)
    const events = open.provider.events.slice(from)
    expect(events.map(({ type, livemode }) => `${type} ${livemode}`)).toContain('customer.subscription.deleted false')
    open.log.splice(0)
    for (const event of events) expect(await received(live, event)).toMatchObject({ status: 200 })
    await open.process(live)
    for (const event of events) expect(await outcome(event)).toMatchObject({ status: 'ignored', errorCode: null })
    // A request would go to Stripe itself, and would fail or time out.
    expect(open.log.join('')).not.toMatch(/did not respond|processing of a provider event failed/)
    expect(await live.billing.of(tenantId)).toEqual(before)
    expect((await live.tenants.get(tenantId)).metadata.plan).toBe('pro')
  })
})
