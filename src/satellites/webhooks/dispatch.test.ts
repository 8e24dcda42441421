/**
 * Dispatching: what is sent to whom, that it joins the host's transaction, that the bytes stay the same, and what the life of a
 * tenant does to it. The tenancy has no worker: `send` is one run of `tenant:webhooks:retry`.
 */
import { randomUUID } from 'node:crypto'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { ChangeRecorded } from '../../kernel/changes.ts'
import type { EventType } from '../../kernel/events.ts'
import { DependencyDegraded } from '../../kernel/resilience.ts'
import { type Received, type Receiver, startReceiver } from '../../testing/receiver.ts'
import { eventually, type TestTenancy } from '../../testing/tenancy.ts'
import { WebhookDeliveryFailed, WebhookSubscriptionDisabled, webhooks } from './index.ts'
import { clockOfToday, openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from './webhooks.fixture.ts'
import { activeTenant, apiOf, type Call, changesOf, createdTenant, deliveriesOf } from './webhooks-api.fixture.ts'

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
const MEBIBYTE = 1024 * 1024
const TABLES = ['subscriptions', 'messages', 'deliveries', 'attempts', 'tallies'] as const

const clock = clockOfToday()
let opened: TestTenancy<WebhooksSatellites>
let tenancy: WebhooksTenancy
let receiver: Receiver
let call: Call
let id: string
let path: string
beforeAll(async () => {
  opened = await openWebhooks(inject('postgresUrl'), {}, { role: 'api', clock })
  tenancy = opened.tenancy
  call = apiOf(tenancy)
  receiver = await startReceiver()
})
afterAll(async () => {
  await receiver?.close()
  await opened?.end()
})
beforeEach(async () => {
  id = await createdTenant(tenancy)
  path = `/${randomUUID()}`
  receiver.answers(() => ({}))
})
/** What a test leaves behind is heard in no other. */
afterEach(async () => {
  receiver.answers(() => ({}))
  await tenancy.kernel.database.sql('update multitenancy.webhook_subscriptions set deleted_at = now()')
  await send()
})

const subscribe = async (owner: string | null, events: string[], at = path): Promise<string> =>
  (await tenancy.webhooks.create(owner, { url: receiver.url + at, events })).webhookId
/** Each at a moment of its own, so that a list has them in order. */
const dispatch = (event: string, payload: Record<string, unknown> = {}, tenantId = id) => {
  clock.advance(1)
  return tenancy.webhooks.dispatch(tenantId, event, payload)
}
const send = () => tenancy.webhooks.retry()
const received = (at = path): readonly Received[] => receiver.received.filter((one) => one.path === at)
const eventsAt = (at = path) => received(at).map(({ headers }) => headers['x-webhook-event'])
const inCode = (code: string) => expect.objectContaining({ code })

async function rowsOf(event: string) {
  const { rows } = await tenancy.kernel.database.sql(
    `select (select count(*) from multitenancy.webhook_messages where event = $1) as messages,
       (select count(*) from multitenancy.webhook_deliveries where event = $1) as deliveries`,
    [event],
  )
  return rows[0]
}
const NOTHING = { messages: 0, deliveries: 0 }
const anyEvent = () => `of_a_test.n${randomUUID().replaceAll('-', '')}`

describe('within a transaction of the host', () => {
  const inTransaction = <T>(work: () => Promise<T>) => tenancy.transaction(work)
  const event = anyEvent()
  beforeEach(() => subscribe(id, ['of_a_test.*']))

  test('what is dispatched is sent when it commits, and not before', async () => {
    const event = anyEvent()
    const ids = await inTransaction(async () => {
      const ids = await dispatch(event, { n: 1 })
      await tenancy.kernel.database.outside(async () => {
        expect(await rowsOf(event)).toEqual(NOTHING)
        expect(await send()).toBe(0)
      })
      return ids
    })
    expect(ids).toHaveLength(1)
    expect(await rowsOf(event)).toEqual({ messages: 1, deliveries: 1 })
    expect(await send()).toBe(1)
    expect(received().map(({ headers, body }) => [headers['x-delivery-id'], body])).toEqual([[ids[0], '{"n":1}']])
  })

  test('nothing is left of it when that is rolled back', async () => {
    const event = anyEvent()
    const failing = inTransaction(async () => {
      expect(await dispatch(event)).toHaveLength(1)
      throw new Error('the order could not be placed')
    })
    await expect(failing).rejects.toThrow('the order could not be placed')
    expect(await rowsOf(event)).toEqual(NOTHING)
    expect(await send()).toBe(0)
    expect(received()).toEqual([])
  })

  test('it stands and falls with the savepoint that it is in', async () => {
    await inTransaction(async () => {
      await dispatch(event, { at: 'the beginning' })
      const failing = inTransaction(async () => {
        await dispatch(event, { at: 'a savepoint that fails' })
        throw new Error('no')
      })
      await expect(failing).rejects.toThrow('no')
      await inTransaction(async () => {
        await dispatch(event, { at: 'a savepoint' })
        await inTransaction(() => dispatch(event, { at: 'a savepoint within' }))
      })
    })
    await send()
    expect(new Set(received().map(({ body }) => JSON.parse(body).at))).toEqual(
      new Set(['the beginning', 'a savepoint', 'a savepoint within']),
    )
    const failing = inTransaction(async () => {
      await inTransaction(() => dispatch(event))
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect(await send()).toBe(0)
  })

  test('what is refused leaves the transaction as it was', async () => {
    const event = anyEvent()
    await inTransaction(async () => {
      await expect(dispatch('Order', {})).rejects.toThrow(inCode('E_INVALID_REQUEST'))
      await expect(dispatch(event, {}, 'nobody')).rejects.toThrow(inCode('E_TENANT_NOT_FOUND'))
      await dispatch(event)
    })
    expect(await rowsOf(event)).toEqual({ messages: 1, deliveries: 1 })
    await send()
  })

  test('workers of any process hear of its commit, and of no rollback', async () => {
    const worker = await opened.open({ role: 'all' })
    const sender = await opened.open({ role: 'all' })
    const failing = sender.transaction(async () => {
      await sender.webhooks.dispatch(id, event, { n: 'rolled back' })
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    await sender.transaction(() => sender.webhooks.dispatch(id, event, { n: 'by one that works' }))
    await inTransaction(() => dispatch(event, { n: 'by one that does not' }))
    await dispatch(event, { n: 'without a transaction' })
    await eventually(() => expect(received()).toHaveLength(3))
    const bodies = received().map(({ body }) => JSON.parse(body).n)
    expect(new Set(bodies)).toEqual(new Set(['by one that works', 'by one that does not', 'without a transaction']))
    await Promise.all([worker.stop(), sender.stop()])
  })
})

describe('who hears of it', () => {
  test.each([
    ['order.paid', ['order.paid', 'order.*', '*', 'several']],
    ['order.line.added', ['order.*', '*', 'order.line.*', 'several']],
    ['order', ['*']],
    ['orders.paid', ['*']],
    ['order.paid_back', ['order.*', '*', 'several']],
  ])('%s: %j', async (event, expected) => {
    const all = { 'order.paid': ['order.paid'], 'order.*': ['order.*'], 'order.line.*': ['order.line.*'], '*': ['*'] }
    for (const [name, events] of Object.entries({ ...all, several: ['order.paid', 'order.*', 'x'] })) {
      await subscribe(id, events, `${path}/${name}`)
    }
    expect(await dispatch(event)).toHaveLength(expected.length)
    await send()
    const heard = receiver.received.filter((one) => one.path.startsWith(path)).map((one) => one.path)
    expect(heard.sort()).toEqual(expected.map((name) => `${path}/${name}`).sort())
  })

  test('a tenant hears of itself alone, the host of all', async () => {
    const event = anyEvent()
    const other = await createdTenant(tenancy)
    await subscribe(id, ['*'])
    await subscribe(other, ['*'], `${path}/other`)
    const hosts = await subscribe(null, [event], `${path}/host`)
    const [mine, others] = [await dispatch(event, { of: id }), await dispatch(event, { of: other }, other)]
    expect([mine.length, others.length]).toEqual([2, 2])
    expect(new Set([...mine, ...others]).size).toBe(4)
    await send()
    expect(received().map(({ body }) => JSON.parse(body).of)).toEqual([id])
    expect(received(`${path}/other`).map(({ body }) => JSON.parse(body).of)).toEqual([other])
    expect(new Set(received(`${path}/host`).map(({ body }) => JSON.parse(body).of))).toEqual(new Set([id, other]))
    expect(received(`${path}/host`)).toHaveLength(2)
    const deliveries = await deliveriesOf(tenancy, null, hosts)
    expect(deliveries).toMatchObject([{ tenantId: id }, { tenantId: other }])
  })

  test('nobody: then nothing is kept of it', async () => {
    const event = anyEvent()
    await subscribe(id, ['another.event'])
    expect(await dispatch(event)).toEqual([])
    expect(await rowsOf(event)).toEqual(NOTHING)
  })

  test('not who is disabled or deleted, nor by way of enabling it later', async () => {
    const event = anyEvent()
    const [disabled, deleted] = [await subscribe(id, ['*']), await subscribe(id, ['*'])]
    await tenancy.webhooks.update(id, disabled, { enabled: false })
    await tenancy.webhooks.delete(id, deleted)
    expect(await dispatch(event)).toEqual([])
    await tenancy.webhooks.update(id, disabled, { enabled: true })
    expect(await send()).toBe(0)
    expect(await dispatch(event)).toHaveLength(1)
    await send()
    expect(eventsAt()).toEqual([event])
  })

  test('each of many at once gets the answer of its own', async () => {
    const webhookId = await subscribe(id, ['of_many.*'])
    const other = await createdTenant(tenancy)
    const gone = await activeTenant(tenancy)
    await tenancy.tenants.delete(gone)
    const all = await Promise.allSettled(
      Array.from({ length: 400 }, (_, n) =>
        dispatch(`of_many.n${n}`, { n }, [id, other, 'nobody', gone][n % 4] as string),
      ),
    )
    for (const [n, one] of all.entries()) {
      if (n % 4 === 0) expect(one).toMatchObject({ status: 'fulfilled', value: [expect.any(String)] })
      if (n % 4 === 1) expect(one).toMatchObject({ status: 'fulfilled', value: [] })
      if (n % 4 === 2) expect(one).toMatchObject({ status: 'rejected', reason: { code: 'E_TENANT_NOT_FOUND' } })
      if (n % 4 === 3) expect(one).toMatchObject({ status: 'rejected', reason: { code: 'E_TENANT_STATE' } })
    }
    const answered = all.flatMap((one, n) =>
      one.status === 'fulfilled' ? one.value.map((deliveryId) => [deliveryId, `of_many.n${n}`] as const) : [],
    )
    const kept = await deliveriesOf(tenancy, id, webhookId)
    expect(new Map(kept.map((one) => [one.id, one.event]))).toEqual(new Map(answered))
    expect(kept).toHaveLength(100)
    expect(await send()).toBe(100)
    for (const { headers, body } of received()) {
      expect(headers['x-webhook-event']).toBe(`of_many.n${JSON.parse(body).n}`)
    }
  })
})

describe('the body', () => {
  const STRANGE = {
    z: 1,
    a: { b: [null, true, 1e21, 1e-7, -0, 2 ** 64] },
    text: 'ä 🦋 \u2028 \u0000 \ud83d "\\ </script>',
    10: 'numbers come first',
    nothing: undefined,
    at: new Date(0),
    ...JSON.parse('{"constructor":{"prototype":1},"toString":2}'),
  }

  test('is the same, byte by byte, at each attempt and after a replay', async () => {
    const webhookId = await subscribe(id, ['order.paid'])
    receiver.answers(() => ({ status: 500 }))
    const payload = structuredClone(STRANGE)
    const dispatching = dispatch('order.paid', payload)
    payload.z = 2 // what the caller does with it afterwards is its own affair
    const [deliveryId = ''] = await dispatching
    for (let attempt = 0; attempt < 5; attempt++) {
      expect(await send()).toBe(1)
      clock.advance(HOUR_MS)
    }
    expect(await tenancy.webhooks.delivery(id, webhookId, deliveryId)).toMatchObject({
      state: 'failed',
      attemptCount: 5,
    })
    receiver.answers(() => ({ status: 200 }))
    await tenancy.webhooks.replay(id, webhookId, deliveryId)
    expect(await send()).toBe(1)

    const bodies = received().map(({ body }) => body)
    expect(bodies).toEqual(Array(6).fill(JSON.stringify(STRANGE)))
    const unchanged = ['x-webhook-signature', 'webhook-id', 'x-delivery-id', 'x-webhook-event', 'content-length']
    for (const name of unchanged) expect(new Set(received().map(({ headers }) => headers[name])).size).toBe(1)
    for (const name of ['webhook-timestamp', 'webhook-signature'])
      expect(new Set(received().map(({ headers }) => headers[name])).size).toBe(6)
    expect(received()[0]?.headers['content-length']).toBe(String(Buffer.byteLength(JSON.stringify(STRANGE))))
    const { payload: kept } = await tenancy.webhooks.delivery(id, webhookId, deliveryId)
    expect(JSON.stringify(kept)).toBe(JSON.stringify(STRANGE))
  })

  test('may have members of any name, and pollutes nothing', async () => {
    const webhookId = await subscribe(id, ['order.paid'])
    const text = '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}},"a":1}'
    const [inCode = ''] = await dispatch('order.paid', JSON.parse(text))
    const body = `{"event":"order.paid","payload":${text}}`
    const overHttp = await call('POST', `/tenants/${id}/dispatch`, { body })
    expect(overHttp.status).toBe(202)
    await send()
    expect(received().map(({ body }) => body)).toEqual([text, text])
    for (const deliveryId of [inCode, overHttp.json.deliveries[0]]) {
      const shown = await call('GET', `/tenants/${id}/webhooks/${webhookId}/deliveries/${deliveryId}`)
      expect(shown.text).toContain(`"payload":${text}`)
    }
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
  })

  test('may be a mebibyte, and no byte more', async () => {
    const event = anyEvent()
    await subscribe(id, [event])
    const of = (bytes: number) => ({ text: 'ä'.repeat((bytes - 12) / 2), n: 1 }) // {"text":"","n":1} are 17
    const exact = { text: `${'ä'.repeat((MEBIBYTE - 18) / 2)}a`, n: 1 }
    expect(Buffer.byteLength(JSON.stringify(exact))).toBe(MEBIBYTE)
    expect(await dispatch(event, exact)).toHaveLength(1)
    await expect(dispatch(event, { ...exact, n: 10 })).rejects.toThrow(inCode('E_INVALID_REQUEST'))
    await expect(dispatch(event, of(MEBIBYTE * 4))).rejects.toThrow(inCode('E_INVALID_REQUEST'))
    expect(await rowsOf(event)).toEqual({ messages: 1, deliveries: 1 })
    await send()
    expect(received()[0]?.body).toBe(JSON.stringify(exact))
    const large = await call('POST', `/tenants/${id}/dispatch`, { body: { event, payload: exact } })
    expect(large).toMatchObject({ status: 413, json: { code: 'E_PAYLOAD_TOO_LARGE' } })
  })

  const cyclic: Record<string, unknown> = {}
  cyclic.self = cyclic
  test.each<[words: string, payload: unknown]>([
    ['nothing', undefined],
    ['null', null],
    ['a text', 'text'],
    ['a number', 7],
    ['a list', [{}]],
    ['a function', () => ({})],
    ['a date', new Date(0)],
    ['what contains itself', cyclic],
    ['what contains itself further down', { a: [{ cyclic }] }],
    ['a bigint', { amount: 12n }],
    [
      'what cannot be read',
      {
        get amount() {
          throw new Error('no')
        },
      },
    ],
    ['what becomes a text', { toJSON: () => 'text' }],
    ['what becomes a list', { toJSON: () => [] }],
    ['what becomes nothing', { toJSON: () => undefined }],
    [
      'what cannot be written',
      {
        toJSON: () => {
          throw new Error('no')
        },
      },
    ],
  ])('may not be %s', async (_words, payload) => {
    const event = anyEvent()
    await subscribe(id, [event])
    await expect(tenancy.webhooks.dispatch(id, event, payload as never)).rejects.toMatchObject({
      code: 'E_INVALID_REQUEST',
      extras: { errors: [{ path: 'payload', message: expect.any(String) }] },
    })
    expect(await rowsOf(event)).toEqual(NOTHING)
  })

  test('may be what toJSON makes an object of', async () => {
    await subscribe(id, ['order.paid'])
    await dispatch('order.paid', { toJSON: () => ({ amount: 1 }) })
    await send()
    expect(received().map(({ body }) => body)).toEqual(['{"amount":1}'])
  })
})

describe('over HTTP', () => {
  const dispatched = (body: unknown, sent: object = {}) => call('POST', `/tenants/${id}/dispatch`, { body, ...sent })

  test('it is for a server, whose token may do nothing else here', async () => {
    const webhookId = await subscribe(id, ['order.*'])
    const body = { event: 'order.paid', payload: { amount: 1 } }
    const answer = await dispatched(body, { who: 'runtime' })
    expect(answer).toMatchObject({ status: 202, json: { deliveries: [expect.any(String)] } })
    expect((await dispatched(body)).status).toBe(202)
    const forbidden = { status: 403, json: { code: 'E_FORBIDDEN' } }
    expect(await dispatched(body, { who: 'read' })).toMatchObject(forbidden)
    for (const at of [
      `/tenants/${id}/webhooks`,
      `/tenants/${id}/webhooks/${webhookId}`,
      '/webhooks',
      '/webhook-events',
    ])
      expect(await call('GET', at, { who: 'runtime' }), at).toMatchObject(forbidden)
    const replay = `/tenants/${id}/webhooks/${webhookId}/deliveries/${answer.json.deliveries[0]}/replay`
    expect(await call('POST', replay, { who: 'runtime' })).toMatchObject(forbidden)
    expect(await deliveriesOf(tenancy, id, webhookId)).toHaveLength(2)
    await send()
  })

  test('it is done once for one Idempotency-Key', async () => {
    await subscribe(id, ['order.*'])
    const headers = { 'idempotency-key': randomUUID() }
    const body = { event: 'order.paid', payload: { amount: 1 } }
    const answers = [await dispatched(body, { headers }), await dispatched(body, { headers, who: 'admin' })]
    expect(answers[1]?.json).toEqual(answers[0]?.json)
    expect(answers[1]?.headers.get('idempotency-replayed')).toBe('true')
    expect(await dispatched({ ...body, payload: {} }, { headers })).toMatchObject({
      json: { code: 'E_IDEMPOTENCY_MISMATCH' },
    })
    await send()
    expect(received()).toHaveLength(1)
  })

  test.each<[fault: string, body: unknown]>([
    ['', null],
    ['', []],
    ['event', { payload: {} }],
    ['event', { event: 'Order', payload: {} }],
    ['event', { event: 'order.*', payload: {} }],
    ['event', { event: '*', payload: {} }],
    ['event', { event: 'order.paid\r\nx-evil: 1', payload: {} }],
    ['event', { event: 'a'.repeat(129), payload: {} }],
    ['event', { event: ['order.paid'], payload: {} }],
    ['payload', { event: 'order.paid' }],
    ['payload', { event: 'order.paid', payload: [] }],
    ['payload', { event: 'order.paid', payload: 'text' }],
    ['payload', { event: 'order.paid', payload: null }],
    ['', { event: 'order.paid', payload: {}, tenantId: 'another' }],
    ['', { event: 'order.paid', payload: {}, webhookId: randomUUID() }],
  ])('a fault at "%s" is told: %j', async (fault, body) => {
    await subscribe(id, ['*'])
    const answer = await dispatched(body)
    expect(answer).toMatchObject({ status: 400, json: { code: 'E_INVALID_REQUEST' } })
    expect(answer.json.errors.map((one: { path: string }) => one.path)).toContain(fault)
    expect(await send()).toBe(0)
  })
})

describe('of a tenant', () => {
  const everything = () => `${path}/host`
  let hosts: string
  beforeEach(async () => {
    id = await activeTenant(tenancy)
    hosts = await subscribe(null, ['*'], everything())
  })

  test('that nobody knows nothing is sent, not to the host either', async () => {
    const event = anyEvent()
    await expect(dispatch(event, {}, 'nobody')).rejects.toThrow(inCode('E_TENANT_NOT_FOUND'))
    const answer = await call('POST', '/tenants/nobody/dispatch', { body: { event, payload: {} } })
    expect(answer).toMatchObject({ status: 404, json: { code: 'E_TENANT_NOT_FOUND' } })
    expect(await rowsOf(event)).toEqual(NOTHING)
  })

  test('that is suspended, or in maintenance, everything is sent', async () => {
    const webhookId = await subscribe(id, ['*'])
    await dispatch('order.paid')
    await tenancy.tenants.suspend(id)
    await dispatch('order.shipped')
    await send()
    await tenancy.tenants.enterMaintenance(id, {})
    await dispatch('order.returned')
    await send()
    const expected = ['order.paid', 'tenant.suspended', 'order.shipped', 'tenant.entered_maintenance', 'order.returned']
    expect(eventsAt().sort()).toEqual(expected.toSorted())
    expect(eventsAt(everything()).sort()).toEqual(expected.toSorted())
    const deliveries = await deliveriesOf(tenancy, id, webhookId)
    expect(deliveries.map(({ event, state }) => `${event} ${state}`).sort()).toEqual(
      expected.map((event) => `${event} delivered`).toSorted(),
    )
  })

  test('that is deleted: what was dispatched before it, and that it is; nothing new', async () => {
    const webhookId = await subscribe(id, ['*'])
    receiver.answers(() => ({ status: 503 }))
    await dispatch('order.paid')
    await send()
    await dispatch('order.shipped')
    await tenancy.tenants.delete(id)
    receiver.answers(() => ({ status: 200 }))
    clock.advance(HOUR_MS)
    await send()
    const expected = ['order.paid', 'order.paid', 'order.shipped', 'tenant.deleted']
    expect(eventsAt().sort()).toEqual(expected)
    expect(eventsAt(everything()).sort()).toEqual(expected)
    const states = (await deliveriesOf(tenancy, id, webhookId)).map(({ state }) => state)
    expect(states).toEqual(['delivered', 'delivered', 'delivered'])

    const event = anyEvent()
    await expect(dispatch(event)).rejects.toMatchObject({ code: 'E_TENANT_STATE', extras: { from: 'deleted' } })
    const answer = await call('POST', `/tenants/${id}/dispatch`, { body: { event, payload: {} } })
    expect(answer).toMatchObject({ status: 409, json: { code: 'E_TENANT_STATE', from: 'deleted' } })
    await expect(tenancy.webhooks.test(id, webhookId)).rejects.toThrow(inCode('E_TENANT_STATE'))
    expect(await rowsOf(event)).toEqual(NOTHING)
    expect(await send()).toBe(0)

    await tenancy.tenants.restore(id)
    await dispatch(event)
    await send()
    expect(eventsAt().sort()).toEqual([event, ...expected, 'tenant.restored'].sort())
  })

  test('that is purged nothing is left but what the host has heard', async () => {
    const webhookId = await subscribe(id, ['*'])
    await subscribe(id, ['order.*'], `${path}/other`)
    const other = await activeTenant(tenancy)
    const others = await subscribe(other, ['*'], `${path}/others`)
    receiver.answers(({ headers }) => ({ status: headers['x-webhook-event'] === 'order.failing' ? 500 : 200 }))
    for (const tenant of [id, other])
      for (const event of ['order.paid', 'order.failing']) await dispatch(event, {}, tenant)
    await send()
    await dispatch('order.pending')
    await tenancy.webhooks.rotateSecret(id, webhookId)
    const heard = (await deliveriesOf(tenancy, null, hosts)).map(({ id }) => id)
    clock.advance(1)
    await tenancy.tenants.delete(id)
    clock.advance(31 * DAY_MS)
    const failing = tenancy.transaction(async () => {
      await tenancy.tenants.installation.purge(id)
      throw new Error('the server went away')
    })
    await expect(failing).rejects.toThrow('the server went away')
    expect(await deliveriesOf(tenancy, id, webhookId)).toHaveLength(4)
    await tenancy.tenants.installation.purge(id)

    const { database } = tenancy.kernel
    for (const table of TABLES) {
      const rows = await database.sql(
        `select to_jsonb(t) as row from multitenancy.webhook_${table} t where tenant_id = $1`,
        [id],
      )
      const left = rows.rows.filter(({ row }) => row.webhook_id !== hosts)
      if (table === 'attempts') expect(left.filter(({ row }) => !heard.includes(row.delivery_id))).toEqual([])
      else if (table === 'messages') expect(left.map(({ row }) => row.event)).toContain('order.pending')
      else expect(left, table).toEqual([])
    }
    const { rows: orphans } = await database.sql(
      `select a.delivery_id::text as id from multitenancy.webhook_attempts a
       where not exists (select from multitenancy.webhook_deliveries d where d.id = a.delivery_id)
       union all select m.id::text from multitenancy.webhook_messages m
       where not exists (select from multitenancy.webhook_deliveries d where d.message_id = m.id)`,
    )
    expect(orphans).toEqual([])
    expect(await deliveriesOf(tenancy, other, others)).toHaveLength(2)

    await send()
    const ofHost = await deliveriesOf(tenancy, null, hosts)
    expect(ofHost.filter(({ tenantId }) => tenantId === id).map(({ event, state }) => `${event} ${state}`)).toEqual([
      'order.paid delivered',
      'order.failing retry_scheduled',
      'order.pending delivered',
      'tenant.deleted delivered',
      'tenant.purged delivered',
    ])
    for (const { id: deliveryId } of ofHost)
      expect((await tenancy.webhooks.delivery(null, hosts, deliveryId)).payload).not.toBeNull()
    expect(received().map(({ headers }) => headers['x-webhook-event'])).not.toContain('tenant.purged')
    const gone = await call('GET', `/tenants/${id}/webhooks/${webhookId}`)
    expect(gone).toMatchObject({ status: 404, json: { code: 'E_TENANT_NOT_FOUND' } })
    await expect(dispatch('order.paid')).rejects.toThrow(inCode('E_TENANT_NOT_FOUND'))
  })
})

describe('a subscription that changes while a delivery is on its way', () => {
  const slow = (meanwhile: () => Promise<unknown>, status: number) => {
    receiver.answers((_, response) => {
      void meanwhile().then(() => response.writeHead(status).end())
      return undefined
    })
  }

  test('is deleted: what is delivered is delivered; what would be tried again, and what waits, ends', async () => {
    const { database } = tenancy.kernel
    for (const [status, state] of [
      [200, 'delivered'],
      [500, 'retry_scheduled'],
    ] as const) {
      const webhookId = await subscribe(id, ['order.*'])
      const [deliveryId = ''] = await dispatch('order.paid')
      slow(() => tenancy.webhooks.delete(id, webhookId), status)
      await send()
      receiver.answers(() => ({}))
      const stateNow = async () =>
        (
          await database.sql('select state, last_error as error from multitenancy.webhook_deliveries where id = $1', [
            deliveryId,
          ])
        ).rows[0]
      expect(await stateNow()).toMatchObject({ state })
      clock.advance(HOUR_MS)
      expect(await send()).toBe(0)
      const ended = { state: 'failed', error: 'the subscription is deleted' }
      expect(await stateNow()).toMatchObject(status === 200 ? { state } : ended)
    }
    expect(received()).toHaveLength(2)
  })

  test('is disabled: what waits ends as failed, says so, and can be replayed when it is enabled again', async () => {
    const webhookId = await subscribe(id, ['order.*'])
    receiver.answers(() => ({ status: 500 }))
    const [tried = ''] = await dispatch('order.paid')
    await send()
    const [pending = ''] = await dispatch('order.shipped')
    await tenancy.webhooks.update(id, webhookId, { enabled: false })
    const explained = async (deliveryId: string) => {
      const { state, explanation } = await tenancy.webhooks.delivery(id, webhookId, deliveryId)
      return [state, explanation]
    }
    expect(await explained(pending)).toEqual([
      'pending',
      'Not sent: the subscription is disabled. It will end as failed.',
    ])
    clock.advance(HOUR_MS)
    expect(await send()).toBe(0)
    expect(await explained(tried)).toEqual([
      'failed',
      'Given up after one attempt: the subscription is disabled. Enable the subscription and replay it to try again.',
    ])
    expect((await explained(pending))[0]).toBe('failed')
    receiver.answers(() => ({ status: 200 }))
    await tenancy.webhooks.update(id, webhookId, { enabled: true })
    expect(await tenancy.webhooks.replayFailed(id, webhookId)).toEqual({ count: 2 })
    expect(await send()).toBe(2)
    expect((await deliveriesOf(tenancy, id, webhookId)).map(({ state }) => state)).toEqual(['delivered', 'delivered'])
  })

  test('gets another URL: what waits goes there', async () => {
    const webhookId = await subscribe(id, ['order.*'])
    receiver.answers(() => ({ status: 500 }))
    await dispatch('order.paid')
    await send()
    await tenancy.webhooks.update(id, webhookId, { url: `${receiver.url}${path}/new` })
    clock.advance(HOUR_MS)
    await send()
    expect([received().length, received(`${path}/new`).length]).toEqual([1, 1])
  })

  test('has a receiver that answers 410: it is disabled once, recorded and told, and nothing more is sent', async () => {
    const changes = changesOf(tenancy)
    const told: unknown[] = []
    const end = tenancy.on(WebhookSubscriptionDisabled, (event) => void told.push(event))
    const webhookId = await subscribe(id, ['order.*'])
    receiver.answers(() => ({ status: 410 }))
    const ids = (await Promise.all(Array.from({ length: 10 }, () => dispatch('order.paid')))).flat()
    await send()
    await eventually(async () =>
      expect(await tenancy.webhooks.get(id, webhookId)).toMatchObject({ enabled: false, disabledReason: 'gone' }),
    )
    clock.advance(HOUR_MS)
    const sent = received().length
    expect(await send()).toBe(0)
    expect(received()).toHaveLength(sent)
    for (const deliveryId of ids)
      expect(await tenancy.webhooks.delivery(id, webhookId, deliveryId)).toMatchObject({ state: 'failed' })
    await eventually(() => expect(told).toMatchObject([{ tenantId: id, webhookId, reason: 'gone' }]))
    const recorded = changes.filter(({ action }) => action === 'webhooks.disable')
    expect(recorded).toMatchObject([
      {
        tenantId: id,
        target: `webhook:${webhookId}`,
        before: { enabled: true },
        after: { enabled: false, disabledReason: 'gone' },
      },
    ])
    expect(await tenancy.webhooks.update(id, webhookId, { enabled: true })).toMatchObject({
      enabled: true,
      disabledReason: null,
    })
    end()
  })
})

describe("Tenantry's own events", () => {
  beforeEach(async () => {
    id = await activeTenant(tenancy)
  })
  const ajv = formats.default(new Ajv2020({ strict: true, allErrors: true, keywords: ['example'] }))

  test('are dispatched as the catalogue says, in the transaction of what they tell of', async () => {
    const hosts = await subscribe(null, ['tenant.*', 'webhook.*'], `${path}/host`)
    const webhookId = await subscribe(id, ['tenant.suspended', 'tenant.activated'])
    const { tenants } = tenancy
    const failing = tenancy.transaction(async () => {
      await tenants.suspend(id)
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    await tenants.suspend(id)
    await tenants.suspend(id)
    await tenants.activate(id)
    await tenants.update(id, { name: 'Acme & Co.' })
    await tenants.enterMaintenance(id, { message: 'Back at noon' })
    await tenants.exitMaintenance(id)
    await tenants.delete(id)
    const made = await activeTenant(tenancy)
    await send()
    expect(eventsAt().sort()).toEqual(['tenant.activated', 'tenant.suspended'])
    expect(await deliveriesOf(tenancy, id, webhookId)).toHaveLength(2)
    const ofHost = await deliveriesOf(tenancy, null, hosts)
    expect(new Map(ofHost.map(({ event, tenantId }) => [event, tenantId]))).toEqual(
      new Map([
        ['tenant.suspended', id],
        ['tenant.activated', id],
        ['tenant.updated', id],
        ['tenant.entered_maintenance', id],
        ['tenant.exited_maintenance', id],
        ['tenant.deleted', id],
        ['tenant.created', made],
        ['tenant.provisioned', made],
      ]),
    )
    expect(ofHost).toHaveLength(8)
    const catalogue = new Map(tenancy.webhooks.catalogue.list().map(({ name, schema }) => [name, schema]))
    expect(received(`${path}/host`)).toHaveLength(8)
    for (const { headers, body } of received(`${path}/host`)) {
      const validate = ajv.compile(catalogue.get(String(headers['x-webhook-event'])) ?? false)
      expect(validate(JSON.parse(body)), ajv.errorsText(validate.errors)).toBe(true)
      expect(validate({ ...JSON.parse(body), tenantId: 7 })).toBe(false)
    }
  })

  test('that are internal never leave, nor what is recorded for the audit log', async () => {
    const hosts = await subscribe(null, ['*'], `${path}/host`)
    const webhookId = await subscribe(id, ['*'])
    const { events } = tenancy.kernel
    const heard: string[] = []
    for (const type of [DependencyDegraded, WebhookDeliveryFailed, ChangeRecorded])
      tenancy.on(type as EventType, () => void heard.push(type.name))
    const of = { dependency: 'store', operation: 'quotas.consume', policy: 'fail-open', errorCode: 'E' } as const
    await events.publish(DependencyDegraded, { ...of, tenantId: id })
    await events.publish(ChangeRecorded, { action: 'a', tenantId: id, target: 'b' })
    receiver.answers((one) => ({ status: one.path === path ? 410 : 200 }))
    await dispatch('order.paid')
    await send()
    await eventually(() => expect(new Set(heard).size).toBe(3))
    const heardBy = async (owner: string | null, of: string) =>
      new Set((await deliveriesOf(tenancy, owner, of)).map(({ event }) => event))
    // It has a reason to be disabled; and when that is said, everything before it would have been.
    await eventually(async () =>
      expect(await heardBy(null, hosts)).toEqual(new Set(['order.paid', 'webhook.subscription_disabled'])),
    )
    expect(await heardBy(id, webhookId)).toEqual(new Set(['order.paid']))
  })

  test('stay when the bridge is off; what the host dispatches goes', async () => {
    const without = await opened.open({ satellites: [webhooks({ bridge: false })] })
    const webhookId = await subscribe(id, ['*'])
    await without.tenants.suspend(id)
    await without.webhooks.dispatch(id, 'order.paid', {})
    await send()
    expect(eventsAt()).toEqual(['order.paid'])
    expect(await deliveriesOf(tenancy, id, webhookId)).toHaveLength(1)
    await without.stop()
  })
})
