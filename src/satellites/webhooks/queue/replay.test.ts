/** Replays of one delivery and of all failed deliveries, in a tenancy without workers. */
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { type Receiver, startReceiver } from '../../../../test/support/receiver.ts'
import type { TestTenancy } from '../../../testing/base/tenancy.ts'
import { clockOfToday, openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from '../webhooks.fixture.ts'
import { activeTenant, apiOf, type Call, changesOf, deliveriesOf } from '../webhooks-api.fixture.ts'

const SECOND_MS = 1_000
const HOUR_MS = 3_600_000
const BASES_MS = [10, 60, 300, 1_800].map((seconds) => seconds * SECOND_MS)

const clock = clockOfToday()
let opened: TestTenancy<WebhooksSatellites>
let tenancy: WebhooksTenancy
let receiver: Receiver
let changes: ReturnType<typeof changesOf>
let call: Call
let id: string
let webhookId: string
let path: string
beforeAll(async () => {
  opened = await openWebhooks(inject('postgresUrl'), {}, { role: 'api', clock })
  tenancy = opened.tenancy
  changes = changesOf(tenancy)
  call = apiOf(tenancy)
  receiver = await startReceiver()
})
afterAll(async () => {
  await receiver?.close()
  await opened?.end()
})
/** Deliveries of one test are not sent by the next one. */
afterEach(() => tenancy.kernel.database.sql('truncate multitenancy.webhook_deliveries, multitenancy.webhook_attempts'))
beforeEach(async () => {
  id = await activeTenant(tenancy)
  path = `/${randomUUID()}`
  ;({ webhookId } = await tenancy.webhooks.create(id, { url: receiver.url + path, events: ['*'] }))
  receiver.respondWith(() => ({ status: 200 }))
})

const send = () => tenancy.webhooks.retry()
const fails = (status = 500) => receiver.respondWith(() => ({ status }))
const succeeds = () => receiver.respondWith(() => ({ status: 200 }))
const received = () => receiver.received.filter((one) => one.path === path)
const read = (deliveryId: string) => tenancy.webhooks.delivery(id, webhookId, deliveryId)
const replay = (deliveryId: string) => tenancy.webhooks.replay(id, webhookId, deliveryId)
const inCode = (code: string) => expect.objectContaining({ code })
const replaysOf = (deliveryId: string) => changes.filter(({ after }) => after?.deliveryId === deliveryId)

async function dispatched(event = 'order.paid'): Promise<string> {
  clock.advance(1)
  const [deliveryId = ''] = await tenancy.webhooks.dispatch(id, event, { n: randomUUID() })
  return deliveryId
}

/** Sends until the budget is used. */
async function failed(event?: string): Promise<string> {
  fails()
  const deliveryId = await dispatched(event)
  for (let attempt = 0; attempt < 5; attempt++) {
    await send()
    clock.advance(HOUR_MS)
  }
  expect(await read(deliveryId)).toMatchObject({ state: 'failed' })
  return deliveryId
}

describe('a replay', () => {
  test('sends a delivered delivery again under its id', async () => {
    const deliveryId = await dispatched()
    await send()
    expect(await read(deliveryId)).toMatchObject({
      state: 'delivered',
      attemptCount: 1,
      deliveredAt: expect.any(String),
    })
    const at = `/tenants/${id}/webhooks/${webhookId}/deliveries/${deliveryId}`
    const response = await call('POST', `${at}/replay`)
    expect(response.status).toBe(202)
    expect(response.headers.get('location')).toBe(`/admin/multitenancy${at}`)
    const pending = {
      id: deliveryId,
      webhookId,
      state: 'pending',
      attemptCount: 1,
      nextRetryAt: null,
      deliveredAt: null,
    }
    expect(response.json).toMatchObject(pending)
    expect((await call('GET', at)).json).toMatchObject({
      ...pending,
      explanation: 'Replayed after one attempt. Waiting for a worker.',
    })
    clock.advance(SECOND_MS)
    expect(await send()).toBe(1)
    const detail = await read(deliveryId)
    expect(detail).toMatchObject({ state: 'delivered', attemptCount: 2, lastStatus: 200 })
    expect(detail.attempts.map(({ number, status }) => [number, status])).toEqual([
      [1, 200],
      [2, 200],
    ])
    const [first, second] = received()
    expect(second?.body).toBe(first?.body)
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id'])
    expect(second?.headers['webhook-timestamp']).not.toBe(first?.headers['webhook-timestamp'])
    expect(replaysOf(deliveryId)).toMatchObject([
      {
        action: 'webhookDeliveries.replay',
        tenantId: id,
        target: `webhook:${webhookId}`,
        after: { deliveryId, event: 'order.paid' },
      },
    ])
  })

  test('gives a failed delivery a new budget and schedule, and continues its attempt numbers', async () => {
    const deliveryId = await failed()
    expect(await replay(deliveryId)).toMatchObject({ state: 'pending', attemptCount: 5, lastStatus: 500 })
    for (const [index, base] of BASES_MS.entries()) {
      expect(await send()).toBe(1)
      const { state, attemptCount, nextRetryAt } = await read(deliveryId)
      expect([state, attemptCount]).toEqual(['retry_scheduled', 6 + index])
      const inMs = new Date(nextRetryAt ?? 0).getTime() - clock.now().getTime()
      expect(inMs).toBeGreaterThan(base * 0.8 - SECOND_MS)
      expect(inMs).toBeLessThan(base * 1.2 + SECOND_MS)
      expect(await send()).toBe(0)
      clock.advance(base * 1.3)
    }
    expect(await send()).toBe(1)
    const detail = await read(deliveryId)
    expect(detail).toMatchObject({ state: 'failed', attemptCount: 10, nextRetryAt: null })
    expect(detail.attempts.map(({ number }) => number)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    expect(detail.explanation).toMatch(
      /^10 attempts were made, the last with status 500\. There is no automatic retry\./,
    )
    expect(received()).toHaveLength(10)
    clock.advance(10 * HOUR_MS)
    expect(await send()).toBe(0)
  })

  test('starts a scheduled retry immediately with the same budget', async () => {
    fails()
    const deliveryId = await dispatched()
    await send()
    const { nextRetryAt } = await read(deliveryId)
    expect(await send()).toBe(0)
    const response = await replay(deliveryId)
    expect(response).toMatchObject({ state: 'retry_scheduled', attemptCount: 1 })
    expect(Date.parse(response.nextRetryAt ?? '')).toBeLessThan(Date.parse(nextRetryAt ?? ''))
    expect((await replay(deliveryId)).nextRetryAt).toBe(response.nextRetryAt)
    expect(replaysOf(deliveryId)).toHaveLength(1)
    expect(await send()).toBe(1)
    for (let attempt = 3; attempt <= 5; attempt++) {
      clock.advance(HOUR_MS)
      expect(await send()).toBe(1)
    }
    expect(await read(deliveryId)).toMatchObject({ state: 'failed', attemptCount: 5 })
  })

  test('does not change a pending delivery', async () => {
    const deliveryId = await dispatched()
    const before = await read(deliveryId)
    expect(await replay(deliveryId)).toMatchObject({ state: 'pending', attemptCount: 0 })
    expect(await read(deliveryId)).toEqual(before)
    expect(await send()).toBe(1)
    expect(replaysOf(deliveryId)).toEqual([])
  })

  test('does not change a delivery in progress', async () => {
    const deliveryId = await dispatched()
    const responses: unknown[] = []
    receiver.respondWith((_, response) => {
      void replay(deliveryId).then((replayed) => {
        responses.push(replayed)
        response.writeHead(200).end()
      })
      return undefined
    })
    expect(await send()).toBe(1)
    expect(responses).toMatchObject([{ id: deliveryId, state: 'delivering', attemptCount: 0 }])
    expect(await read(deliveryId)).toMatchObject({ state: 'delivered', attemptCount: 1 })
    expect(await send()).toBe(0)
    expect(received()).toHaveLength(1)
    expect(replaysOf(deliveryId)).toEqual([])
  })

  test('returns the settled delivery to a caller that waits', async () => {
    const deliveryId = await failed()
    const worker = await opened.open({ role: 'all' })
    const callWorker = apiOf(worker)
    const at = `/tenants/${id}/webhooks/${webhookId}/deliveries/${deliveryId}/replay`
    succeeds()
    const response = await callWorker('POST', at, { headers: { prefer: 'wait=20' } })
    expect(response).toMatchObject({ status: 200, json: { state: 'delivered', attemptCount: 6, lastStatus: 200 } })
    expect(response.headers.get('preference-applied')).toBe('wait=20')
    fails()
    const again = await callWorker('POST', at, { headers: { prefer: 'wait=20' } })
    expect(again).toMatchObject({ status: 200, json: { state: 'retry_scheduled', attemptCount: 7, lastStatus: 500 } })
    await worker.stop()
  })

  test('of a delivery of the host is recorded under the operation of the host', async () => {
    const host = await tenancy.webhooks.create(null, { url: receiver.url + path, events: ['of_the_host'] })
    await dispatched('of_the_host')
    await send()
    const [{ id: deliveryId = '' } = {}] = await deliveriesOf(tenancy, null, host.webhookId)
    const at = `/webhooks/${host.webhookId}`
    expect((await call('POST', `${at}/deliveries/${deliveryId}/replay`)).status).toBe(202)
    fails(400)
    for (let attempt = 0; attempt < 5; attempt++) {
      await send()
      clock.advance(HOUR_MS)
    }
    expect((await call('POST', `${at}/replay-failed`)).json).toEqual({ count: 1 })
    const ofHost = changes.filter(({ target }) => target === `webhook:${host.webhookId}`)
    expect(ofHost.map(({ action, tenantId }) => [action, tenantId])).toEqual([
      ['hostWebhooks.create', null],
      ['hostWebhookDeliveries.replay', null],
      ['hostWebhooks.replayFailed', null],
    ])
    await tenancy.webhooks.delete(null, host.webhookId)
    await send()
  })

  test('is rejected for a disabled subscription; a dry run counts', async () => {
    const deliveryId = await failed()
    await tenancy.webhooks.update(id, webhookId, { enabled: false })
    const at = `/tenants/${id}/webhooks/${webhookId}`
    const rejected = { status: 409, json: { code: 'E_WEBHOOK_DISABLED' } }
    expect(await call('POST', `${at}/deliveries/${deliveryId}/replay`)).toMatchObject(rejected)
    expect(await call('POST', `${at}/replay-failed`)).toMatchObject(rejected)
    const counted = await call('POST', `${at}/replay-failed`, { body: { dryRun: true } })
    expect(counted).toMatchObject({ status: 202, json: { count: 1 } })
    await expect(replay(deliveryId)).rejects.toThrow(inCode('E_WEBHOOK_DISABLED'))
    expect(await read(deliveryId)).toMatchObject({ state: 'failed' })
    await tenancy.webhooks.update(id, webhookId, { enabled: true })
    expect(await replay(deliveryId)).toMatchObject({ state: 'pending' })
    await send()
  })

  test('of an unknown delivery is not found', async () => {
    const at = `/tenants/${id}/webhooks/${webhookId}/deliveries`
    const missing = await call('POST', `${at}/${randomUUID()}/replay`)
    expect(missing).toMatchObject({ status: 404, json: { code: 'E_DELIVERY_NOT_FOUND' } })
    expect(await call('POST', `${at}/nonsense/replay`)).toMatchObject({ status: 400 })
    await expect(replay(randomUUID())).rejects.toThrow(inCode('E_DELIVERY_NOT_FOUND'))
    const deliveryId = await failed()
    await tenancy.webhooks.delete(id, webhookId)
    await expect(replay(deliveryId)).rejects.toThrow(inCode('E_WEBHOOK_NOT_FOUND'))
    await expect(tenancy.webhooks.replayFailed(id, webhookId)).rejects.toThrow(inCode('E_WEBHOOK_NOT_FOUND'))
  })
})

describe('a replay of all failed deliveries', () => {
  const replayFailed = (body?: object) =>
    call('POST', `/tenants/${id}/webhooks/${webhookId}/replay-failed`, body === undefined ? {} : { body })
  const statesOf = async () =>
    Object.fromEntries((await deliveriesOf(tenancy, id, webhookId)).map(({ event, state }) => [event, state]))

  /** Creates one delivery of each kind. Returns the times of their dispatch. */
  async function ofEachKind() {
    const moments: Record<string, Date> = {}
    const dispatchedAt = async (event: string) => {
      clock.advance(60 * SECOND_MS)
      await tenancy.webhooks.dispatch(id, event, {})
      moments[event] = clock.now()
    }
    receiver.respondWith(({ headers }) => ({ status: headers['x-webhook-event'] === 'delivered' ? 200 : 500 }))
    for (const event of ['failed.one', 'failed.two', 'delivered', 'failed.three']) await dispatchedAt(event)
    for (let attempt = 0; attempt < 5; attempt++) {
      await send()
      clock.advance(HOUR_MS)
    }
    await dispatchedAt('scheduled')
    await send()
    await dispatchedAt('pending')
    succeeds()
    return moments as Record<'failed.one' | 'failed.two' | 'failed.three' | 'pending', Date>
  }
  const KINDS = {
    'failed.one': 'failed',
    'failed.two': 'failed',
    delivered: 'delivered',
    'failed.three': 'failed',
    scheduled: 'retry_scheduled',
    pending: 'pending',
  }

  test('sends only failed deliveries of the subscription', async () => {
    const other = await tenancy.webhooks.create(id, { url: receiver.url + path, events: ['failed.one'] })
    await ofEachKind()
    expect(await replayFailed()).toMatchObject({ status: 202, json: { count: 3 } })
    const pending = { 'failed.one': 'pending', 'failed.two': 'pending', 'failed.three': 'pending' }
    expect(await statesOf()).toEqual({ ...KINDS, ...pending })
    expect(await deliveriesOf(tenancy, id, other.webhookId)).toMatchObject([{ state: 'failed' }])
    expect(await replayFailed()).toMatchObject({ status: 202, json: { count: 0 } })
    const recorded = changes.filter(({ action, tenantId }) => action === 'webhooks.replayFailed' && tenantId === id)
    expect(recorded).toMatchObject([{ target: `webhook:${webhookId}`, after: { count: 3 } }])
    expect(await send()).toBe(5)
    const after = await deliveriesOf(tenancy, id, webhookId)
    expect(
      after.filter(({ event }) => event.startsWith('failed')).map(({ state, attemptCount }) => [state, attemptCount]),
    ).toEqual(Array(3).fill(['delivered', 6]))
    clock.advance(HOUR_MS)
    await send()
  })

  test('includes the start of the window and excludes its end', async () => {
    const at = await ofEachKind()
    const [one, two, three] = [at['failed.one'], at['failed.two'], at['failed.three']].map((date) => date.toISOString())
    const later = (text = '') => new Date(Date.parse(text) + 1).toISOString()
    const counted = async (window: object) => (await replayFailed({ ...window, dryRun: true })).json.count
    expect(await counted({})).toBe(3)
    expect(await counted({ from: one })).toBe(3)
    expect(await counted({ from: later(one) })).toBe(2)
    expect(await counted({ to: three })).toBe(2)
    expect(await counted({ to: later(three) })).toBe(3)
    expect(await counted({ from: two, to: later(two) })).toBe(1)
    expect(await counted({ from: later(one), to: two })).toBe(0)
    expect(await counted({ from: '1970-01-01', to: '2400-01-01T00:00:00+02:00' })).toBe(3)
    expect(await counted({ from: '1969-01-01' })).toBe(3)
    expect(await statesOf()).toEqual(KINDS)
    expect(changes.filter(({ action, tenantId }) => action === 'webhooks.replayFailed' && tenantId === id)).toEqual([])

    expect((await replayFailed({ from: two, to: three })).json).toEqual({ count: 1 })
    expect(await statesOf()).toEqual({ ...KINDS, 'failed.two': 'pending' })
    const inCode = await tenancy.webhooks.replayFailed(id, webhookId, { to: at['failed.two'] })
    expect(inCode).toEqual({ count: 1 })
    expect(await statesOf()).toEqual({ ...KINDS, 'failed.one': 'pending', 'failed.two': 'pending' })
    expect(
      changes.filter(({ action, tenantId }) => action === 'webhooks.replayFailed' && tenantId === id),
    ).toMatchObject([
      { after: { from: two, to: three, count: 1 } },
      { after: { from: '1970-01-01T00:00:00.000Z', to: two, count: 1 } },
    ])
    clock.advance(HOUR_MS)
    await send()
  })

  test.each<[body: unknown]>([
    [{ from: '2026-01-02', to: '2026-01-01' }],
    [{ from: '2026-01-01', to: '2026-01-01' }],
    [{ from: 'yesterday' }],
    [{ to: '2026-02-30' }],
    [{ from: 0 }],
    [{ from: null }],
    [{ dryRun: 'true' }],
    [{ state: 'failed' }],
    [[]],
  ])('rejects the window %j', async (body) => {
    const response = await call('POST', `/tenants/${id}/webhooks/${webhookId}/replay-failed`, { body })
    expect(response).toMatchObject({ status: 400, json: { code: 'E_INVALID_REQUEST' } })
  })
})

describe('listed deliveries', () => {
  test('are paged newest first, and filtered by state, event and time', async () => {
    const ids: string[] = []
    const moments: string[] = []
    receiver.respondWith(({ headers }) => ({ status: headers['x-webhook-event'] === 'a.b' ? 200 : 500 }))
    for (const event of ['a.b', 'c', 'a.b', 'c', 'a.b']) {
      ids.unshift(await dispatched(event))
      moments.unshift(clock.now().toISOString())
    }
    await send()
    ids.unshift(await dispatched('a.b'))
    moments.unshift(clock.now().toISOString())
    const at = `/tenants/${id}/webhooks/${webhookId}/deliveries`
    const listed = async (query: string) => {
      const { status, json } = await call('GET', `${at}?${query}`)
      expect(status, query).toBe(200)
      return json.data.map((one: { id: string }) => ids.indexOf(one.id))
    }
    expect(await listed('')).toEqual([0, 1, 2, 3, 4, 5])
    expect(await listed('state=pending')).toEqual([0])
    expect(await listed('state=delivered')).toEqual([1, 3, 5])
    expect(await listed('state=retry_scheduled&event=c')).toEqual([2, 4])
    expect(await listed('state=failed')).toEqual([])
    expect(await listed('event=a.b')).toEqual([0, 1, 3, 5])
    expect(await listed(`from=${moments[2]}`)).toEqual([0, 1, 2])
    expect(await listed(`to=${moments[2]}`)).toEqual([3, 4, 5])
    expect(await listed(`from=${moments[4]}&to=${moments[1]}&event=a.b`)).toEqual([3])

    const seen: string[] = []
    let cursor = ''
    do {
      const { json } = await call('GET', `${at}?limit=2&event=a.b${cursor}`)
      seen.push(...json.data.map((one: { id: string }) => one.id))
      cursor = json.nextCursor ? `&cursor=${json.nextCursor}` : ''
      if (cursor) expect((await call('GET', `${at}?limit=2${cursor}`)).status).toBe(400)
    } while (cursor)
    expect(seen.map((one) => ids.indexOf(one))).toEqual([0, 1, 3, 5])
    for (const query of ['state=done', 'event=A', 'event=*', 'from=yesterday', 'limit=201', 'cursor=x', 'colour=red'])
      expect((await call('GET', `${at}?${query}`)).status, query).toBe(400)
    clock.advance(HOUR_MS)
    succeeds()
    await send()
  })

  test('have no body; a single delivery has its body and all attempts', async () => {
    fails(503)
    const deliveryId = await dispatched()
    await send()
    const { data } = (await call('GET', `/tenants/${id}/webhooks/${webhookId}/deliveries`)).json
    expect(data).toEqual([
      {
        id: deliveryId,
        webhookId,
        tenantId: id,
        event: 'order.paid',
        state: 'retry_scheduled',
        attemptCount: 1,
        lastStatus: 503,
        nextRetryAt: expect.any(String),
        createdAt: clock.now().toISOString(),
        deliveredAt: null,
      },
    ])
    const { payload, attempts, explanation, schedule, ...short } = await read(deliveryId)
    expect(short).toEqual(data[0])
    expect(payload).toEqual({ n: expect.any(String) })
    expect(schedule.map(({ number }) => number)).toEqual([1, 2, 3, 4, 5])
    expect(schedule[1]?.at).toBe(short.nextRetryAt)
    expect(explanation).toMatch(
      /^One attempt was made, the last with status 503\. The next attempt starts at 20.+Z\. Attempts left: 4\.$/,
    )
    const [{ headers = {} } = {}] = received()
    expect(attempts).toEqual([
      {
        number: 1,
        startedAt: clock.now().toISOString(),
        durationMs: expect.any(Number),
        status: 503,
        error: null,
        address: '127.0.0.1',
        requestHeaders: expect.objectContaining({
          'x-webhook-signature': headers['x-webhook-signature'],
          'webhook-signature': headers['webhook-signature'],
        }),
        responseHeaders: expect.objectContaining({ date: expect.any(String) }),
        responseBody: '',
      },
    ])
    clock.advance(HOUR_MS)
    succeeds()
    await send()
  })
})
