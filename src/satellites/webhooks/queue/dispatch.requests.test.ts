/** Requests to dispatch, in code and over HTTP: the sent bytes, and the rejected payloads. */
import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { deliveriesOf } from '../webhooks-api.fixture.ts'
import { anyEvent, HOUR_MS, NOTHING, openDispatch } from './dispatch.fixture.ts'

const fixture = openDispatch()
const { clock, call, subscribe, dispatch, send, received, rowsOf } = fixture

const MEBIBYTE = 1024 * 1024
const inCode = (code: string) => expect.objectContaining({ code })

describe('the body of a dispatched event', () => {
  const STRANGE = {
    z: 1,
    a: { b: [null, true, 1e21, 1e-7, -0, 2 ** 64] },
    text: 'ä 🦋 \u2028 \u0000 \ud83d "\\ </script>',
    10: 'numbers come first',
    nothing: undefined,
    at: new Date(0),
    ...JSON.parse('{"constructor":{"prototype":1},"toString":2}'),
  }

  test('is the same bytes in each attempt and after a replay', async () => {
    const webhookId = await subscribe(fixture.id, ['order.paid'])
    fixture.receiver.respondWith(() => ({ status: 500 }))
    const payload = structuredClone(STRANGE)
    const dispatching = dispatch('order.paid', payload)
    payload.z = 2 // what the caller does with it afterwards is its own affair
    const [deliveryId = ''] = await dispatching
    for (let attempt = 0; attempt < 5; attempt++) {
      expect(await send()).toBe(1)
      clock.advance(HOUR_MS)
    }
    expect(await fixture.tenancy.webhooks.delivery(fixture.id, webhookId, deliveryId)).toMatchObject({
      state: 'failed',
      attemptCount: 5,
    })
    fixture.receiver.respondWith(() => ({ status: 200 }))
    await fixture.tenancy.webhooks.replay(fixture.id, webhookId, deliveryId)
    expect(await send()).toBe(1)

    const bodies = received().map(({ body }) => body)
    expect(bodies).toEqual(Array(6).fill(JSON.stringify(STRANGE)))
    const unchanged = ['x-webhook-signature', 'webhook-id', 'x-delivery-id', 'x-webhook-event', 'content-length']
    for (const name of unchanged) expect(new Set(received().map(({ headers }) => headers[name])).size).toBe(1)
    for (const name of ['webhook-timestamp', 'webhook-signature'])
      expect(new Set(received().map(({ headers }) => headers[name])).size).toBe(6)
    expect(received()[0]?.headers['content-length']).toBe(String(Buffer.byteLength(JSON.stringify(STRANGE))))
    const { payload: kept } = await fixture.tenancy.webhooks.delivery(fixture.id, webhookId, deliveryId)
    expect(JSON.stringify(kept)).toBe(JSON.stringify(STRANGE))
  })

  test('may have members of any name without prototype pollution', async () => {
    const webhookId = await subscribe(fixture.id, ['order.paid'])
    const text = '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}},"a":1}'
    const [inCode = ''] = await dispatch('order.paid', JSON.parse(text))
    const body = `{"event":"order.paid","payload":${text}}`
    const overHttp = await call('POST', `/tenants/${fixture.id}/dispatch`, { body })
    expect(overHttp.status).toBe(202)
    await send()
    expect(received().map(({ body }) => body)).toEqual([text, text])
    for (const deliveryId of [inCode, overHttp.json.deliveries[0]]) {
      const shown = await call('GET', `/tenants/${fixture.id}/webhooks/${webhookId}/deliveries/${deliveryId}`)
      expect(shown.text).toContain(`"payload":${text}`)
    }
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
  })

  test('may have 1 MiB and no more', async () => {
    const event = anyEvent()
    await subscribe(fixture.id, [event])
    const of = (bytes: number) => ({ text: 'ä'.repeat((bytes - 12) / 2), n: 1 }) // {"text":"","n":1} are 17
    const exact = { text: `${'ä'.repeat((MEBIBYTE - 18) / 2)}a`, n: 1 }
    expect(Buffer.byteLength(JSON.stringify(exact))).toBe(MEBIBYTE)
    expect(await dispatch(event, exact)).toHaveLength(1)
    await expect(dispatch(event, { ...exact, n: 10 })).rejects.toThrow(inCode('E_INVALID_REQUEST'))
    await expect(dispatch(event, of(MEBIBYTE * 4))).rejects.toThrow(inCode('E_INVALID_REQUEST'))
    expect(await rowsOf(event)).toEqual({ messages: 1, deliveries: 1 })
    await send()
    expect(received()[0]?.body).toBe(JSON.stringify(exact))
    const large = await call('POST', `/tenants/${fixture.id}/dispatch`, { body: { event, payload: exact } })
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
      'an object with a throwing getter',
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
      'an object with a throwing toJSON',
      {
        toJSON: () => {
          throw new Error('no')
        },
      },
    ],
  ])('must not be %s', async (_words, payload) => {
    const event = anyEvent()
    await subscribe(fixture.id, [event])
    await expect(fixture.tenancy.webhooks.dispatch(fixture.id, event, payload as never)).rejects.toMatchObject({
      code: 'E_INVALID_REQUEST',
      extras: { errors: [{ path: 'payload', message: expect.any(String) }] },
    })
    expect(await rowsOf(event)).toEqual(NOTHING)
  })

  test('may be a value whose toJSON returns an object', async () => {
    await subscribe(fixture.id, ['order.paid'])
    await dispatch('order.paid', { toJSON: () => ({ amount: 1 }) })
    await send()
    expect(received().map(({ body }) => body)).toEqual(['{"amount":1}'])
  })
})

describe('a dispatch over HTTP', () => {
  const dispatched = (body: unknown, sent: object = {}) =>
    call('POST', `/tenants/${fixture.id}/dispatch`, { body, ...sent })

  test('accepts the token of a server, which has no other rights on webhooks', async () => {
    const webhookId = await subscribe(fixture.id, ['order.*'])
    const body = { event: 'order.paid', payload: { amount: 1 } }
    const response = await dispatched(body, { who: 'runtime' })
    expect(response).toMatchObject({ status: 202, json: { deliveries: [expect.any(String)] } })
    expect((await dispatched(body)).status).toBe(202)
    const forbidden = { status: 403, json: { code: 'E_FORBIDDEN' } }
    expect(await dispatched(body, { who: 'read' })).toMatchObject(forbidden)
    for (const at of [
      `/tenants/${fixture.id}/webhooks`,
      `/tenants/${fixture.id}/webhooks/${webhookId}`,
      '/webhooks',
      '/webhook-events',
    ])
      expect(await call('GET', at, { who: 'runtime' }), at).toMatchObject(forbidden)
    const replay = `/tenants/${fixture.id}/webhooks/${webhookId}/deliveries/${response.json.deliveries[0]}/replay`
    expect(await call('POST', replay, { who: 'runtime' })).toMatchObject(forbidden)
    expect(await deliveriesOf(fixture.tenancy, fixture.id, webhookId)).toHaveLength(2)
    await send()
  })

  test('dispatches once for one Idempotency-Key', async () => {
    await subscribe(fixture.id, ['order.*'])
    const headers = { 'idempotency-key': randomUUID() }
    const body = { event: 'order.paid', payload: { amount: 1 } }
    const responses = [await dispatched(body, { headers }), await dispatched(body, { headers, who: 'admin' })]
    expect(responses[1]?.json).toEqual(responses[0]?.json)
    expect(responses[1]?.headers.get('idempotency-replayed')).toBe('true')
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
  ])('reports an error at "%s": %j', async (fault, body) => {
    await subscribe(fixture.id, ['*'])
    const response = await dispatched(body)
    expect(response).toMatchObject({ status: 400, json: { code: 'E_INVALID_REQUEST' } })
    expect(response.json.errors.map((one: { path: string }) => one.path)).toContain(fault)
    expect(await send()).toBe(0)
  })
})
