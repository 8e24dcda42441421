/**
 * Tests that an event with the response 200 is in the inbox, also when the database or its connection fails during the
 * receipt.
 */
import type Stripe from 'stripe'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type FaultProxy, startFaultProxy } from '../../../../test/support/fault-proxy.ts'
import { startProxy } from '../../../../test/support/proxy.ts'
import type { Mountable } from '../../../http/app.ts'
import { createReceivers } from '../../../http/receivers.ts'
import { type OpenBilling, openBilling, SECRET } from '../billing.fixture.ts'
import { countKept } from './receiver.fixture.ts'

const UNAVAILABLE = { status: 503, retryAfter: '5', code: 'E_DEPENDENCY_UNAVAILABLE' }
const RECEIVED = { status: 200, retryAfter: null, code: undefined, received: true }
const DUPLICATE = { ...RECEIVED, duplicate: true }

let open: OpenBilling
let made = 0

beforeAll(async () => {
  open = await openBilling(inject('postgresUrl'))
})
afterAll(() => open.end())

const emitEvent = (): Stripe.Event => open.provider.emit('product.updated', { id: `prod_${++made}`, object: 'product' })

async function post(receivers: Mountable, event: Stripe.Event, secret = SECRET) {
  const { body, headers } = open.provider.signed(event, { secret, at: new Date() })
  const request = new Request('http://localhost/webhooks/stripe', { method: 'POST', body, headers: { ...headers } })
  const response = await receivers.fetch(request)
  const { received, duplicate, code } = (await response.json()) as { received?: true; duplicate?: true; code?: string }
  return { status: response.status, retryAfter: response.headers.get('retry-after'), code, received, duplicate }
}

const kept = (events: readonly Stripe.Event[]) => countKept(open, events)

describe('receiver while the database is unavailable', () => {
  let proxy: Awaited<ReturnType<typeof startProxy>>
  let receivers: Mountable

  beforeAll(async () => {
    proxy = await startProxy(open.url)
    receivers = createReceivers(await open.open({ database: { url: proxy.url } }))
  })
  afterAll(() => proxy.close())

  test('responds 503 with retry-after, and receives the repeated event after the outage', async () => {
    const events = Array.from({ length: 5 }, emitEvent)
    await proxy.close()
    const responses = await Promise.all(events.map((event) => post(receivers, event)))
    for (const response of responses) expect(response).toEqual(UNAVAILABLE)
    expect(await kept(events)).toEqual({ events: 0, jobs: 0 })
    await proxy.open()
    for (const event of events) expect(await post(receivers, event)).toEqual(RECEIVED)
    expect(await kept(events)).toEqual({ events: 5, jobs: 5 })
  })

  test('responds 401 to an invalid signature, without a hint at the outage', async () => {
    await proxy.close()
    const response = await post(receivers, emitEvent(), 'whsec_of_another_endpoint')
    expect(response).toEqual({ status: 401, retryAfter: null, code: 'E_SIGNATURE_INVALID' })
    await proxy.open()
  })

  test('an event with the response 200 before an outage is in the inbox with its job', async () => {
    const events = Array.from({ length: 400 }, emitEvent)
    const responded = Promise.withResolvers<void>()
    const all = Promise.all(
      events.map(async (event, n) => {
        const { status } = await post(receivers, event)
        if (n === 120) responded.resolve()
        return { event, status }
      }),
    )
    await responded.promise
    await proxy.close()
    const responses = await all
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200, 503]))
    const received = responses.flatMap(({ event, status }) => (status === 200 ? [event] : []))
    expect(await kept(received)).toEqual({ events: received.length, jobs: received.length })
    await proxy.open()
    for (const { event, status } of responses) if (status !== 200) await post(receivers, event)
    expect(await kept(events)).toEqual({ events: 400, jobs: 400 })
  })
})

describe('receiver when the database connection breaks', () => {
  let proxy: FaultProxy
  let receivers: Mountable

  beforeAll(async () => {
    proxy = await startFaultProxy(open.url)
    receivers = createReceivers(await open.open({ database: { url: proxy.through(open.url) } }))
  })
  afterAll(() => proxy.close())

  test.each(['begin', 'insert into multitenancy.billing_inbox', 'INSERT INTO multitenancy_jobs.', 'commit'])(
    'before “%s” is executed: responds 503 and stores nothing',
    async (statement) => {
      const event = emitEvent()
      const fault = proxy.at(statement, 'cut the line')
      expect(await post(receivers, event)).toEqual(UNAVAILABLE)
      expect(fault.hasHappened).toBe(true)
      expect(await kept([event])).toEqual({ events: 0, jobs: 0 })
      expect(await post(receivers, event)).toEqual(RECEIVED)
      expect(await kept([event])).toEqual({ events: 1, jobs: 1 })
    },
  )

  test('before the response to the commit: responds 503, and reports the repeated event as a duplicate', async () => {
    const event = emitEvent()
    const fault = proxy.at('commit', 'lose the answer')
    expect(await post(receivers, event)).toEqual(UNAVAILABLE)
    expect(fault.hasHappened).toBe(true)
    expect(await kept([event])).toEqual({ events: 1, jobs: 1 })
    expect(await post(receivers, event)).toEqual(DUPLICATE)
    expect(await kept([event])).toEqual({ events: 1, jobs: 1 })
  })

  test('without an error: the stuck event times out with 503, and later events do not wait for it', async () => {
    const [stuck, ...later] = Array.from({ length: 5 }, emitEvent) as [Stripe.Event, ...Stripe.Event[]]
    const fault = proxy.at('insert into multitenancy.billing_inbox', 'hang')
    const first = post(receivers, stuck)
    await fault.happened
    const others = later.map((event) => post(receivers, event))
    expect(await first).toEqual(UNAVAILABLE)
    for (const response of await Promise.all(others)) expect(response).toEqual(RECEIVED)
    expect(await kept([stuck, ...later])).toEqual({ events: 4, jobs: 4 })
    fault.end()
    expect(await post(receivers, stuck)).toEqual(RECEIVED)
  })
})
