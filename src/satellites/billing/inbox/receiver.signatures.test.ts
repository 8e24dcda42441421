/**
 * Tests the signature of received events (secret, body, age) and the rejection of signed bodies that are not events.
 */
import Stripe from 'stripe'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type OpenBilling, openBilling, SECRET } from '../billing.fixture.ts'

const BEFORE = 'whsec_before_the_roll_over'
const RECEIVED = { status: 200, json: { received: true } }
const NOT_SIGNED = { status: 401, json: { status: 401, code: 'E_SIGNATURE_INVALID' } }
const NOT_AN_EVENT = { status: 400, json: { status: 400, code: 'E_INVALID_REQUEST' } }

let open: OpenBilling
let made = 0

beforeAll(async () => {
  open = await openBilling(inject('postgresUrl'), {
    options: { stripe: { apiKey: 'sk_test_provider', webhookSecret: [SECRET, BEFORE] } },
  })
})
afterAll(() => open.end())

/** An event about an object that billing does not process. */
const emitEvent = (): Stripe.Event => open.provider.emit('product.updated', { id: `prod_${++made}`, object: 'product' })

/** Signs a text as the provider does. @param secondsAgo negative for a time in the future */
const signatureOf = (payload: string, secret = SECRET, secondsAgo = 0): string => {
  const timestamp = Math.floor(Date.now() / 1000) - secondsAgo
  return Stripe.webhooks.generateTestHeaderString({ payload, secret, timestamp })
}
const post = (body: string | Uint8Array, signature?: string) =>
  open.post(body, signature === undefined ? {} : { 'stripe-signature': signature })

const isKept = async (eventId: string) => (await open.inbox()).some((event) => event.eventId === eventId)

describe('a signature', () => {
  test('of any configured secret is valid during a rotation', async () => {
    for (const secret of [SECRET, BEFORE]) {
      const body = JSON.stringify(emitEvent())
      expect(await post(body, signatureOf(body, secret))).toMatchObject(RECEIVED)
    }
    const body = JSON.stringify(emitEvent())
    const [time, before] = signatureOf(body, BEFORE).split(',')
    expect(await post(body, `${time},v1=${'0'.repeat(64)},${before}`)).toMatchObject(RECEIVED)
  })

  test('that is missing or malformed is rejected', async () => {
    const body = JSON.stringify(emitEvent())
    const good = signatureOf(body)
    const [time = '', hash = ''] = good.split(',')
    const garbage = [
      '',
      'garbage',
      't=,v1=',
      time,
      hash,
      `${time},v0=${hash.slice(3)}`,
      `t=now,${hash}`,
      `${time};${hash}`,
    ]
    for (const signature of [undefined, ...garbage, `${time},v1=`, `${time},${hash.slice(0, -2)}`]) {
      expect(await post(body, signature)).toMatchObject(NOT_SIGNED)
    }
    expect(await post(body, good)).toMatchObject(RECEIVED)
  })

  test('of another secret or another body is rejected', async () => {
    const [event, other] = [emitEvent(), emitEvent()]
    const body = JSON.stringify(event)
    for (const secret of ['whsec_of_another_endpoint', SECRET.slice(0, -1), `${SECRET} `, SECRET.toUpperCase()]) {
      expect(await post(body, signatureOf(body, secret))).toMatchObject(NOT_SIGNED)
    }
    expect(await post(body, signatureOf(JSON.stringify(other)))).toMatchObject(NOT_SIGNED)
    expect(await post('', signatureOf(body))).toMatchObject(NOT_SIGNED)
    expect(await isKept(event.id)).toBe(false)
  })

  test('covers every byte of the body', async () => {
    const body = Buffer.from(JSON.stringify({ ...emitEvent(), note: 'naïve \uFFFD' }))
    const signature = signatureOf(body.toString())
    const positions = [0, 1, body.length >> 1, body.length - 4, body.length - 1]
    for (const position of positions) {
      const altered = Buffer.from(body)
      altered[position] = (altered[position] as number) ^ 1
      expect(await post(altered, signature)).toMatchObject(NOT_SIGNED)
    }
    const [start, end] = [body.indexOf('\uFFFD'), body.indexOf('\uFFFD') + 3]
    const asManyReadIt = Buffer.concat([body.subarray(0, start), Buffer.from([0xff]), body.subarray(end)])
    for (const other of [
      asManyReadIt,
      Buffer.concat([Buffer.from('\uFEFF'), body]),
      Buffer.concat([body, Buffer.from(' ')]),
    ]) {
      expect(await post(other, signature)).toMatchObject(NOT_SIGNED)
    }
    expect(await post(body, signature)).toMatchObject(RECEIVED)
  })

  test('is valid for 5 minutes', async () => {
    const body = JSON.stringify(emitEvent())
    expect(await post(body, signatureOf(body, SECRET, 302))).toMatchObject(NOT_SIGNED)
    expect(await post(body, signatureOf(body, SECRET, 86_400))).toMatchObject(NOT_SIGNED)
    expect(await post(body, signatureOf(body, SECRET, 290))).toMatchObject(RECEIVED)
  })

  test('is valid up to 5 minutes in the future', async () => {
    const body = JSON.stringify(emitEvent())
    for (const secondsAgo of [-310, -86_400, -1e12]) {
      expect(await post(body, signatureOf(body, SECRET, secondsAgo))).toMatchObject(NOT_SIGNED)
    }
    expect(await post(body, signatureOf(body, SECRET, -290))).toMatchObject(RECEIVED)
  })

  test('that is rejected is explained without a secret or an expected signature', async () => {
    const body = JSON.stringify(emitEvent())
    const { json, headers } = await post(body, signatureOf(body, 'whsec_other'))
    expect(headers.get('content-type')).toBe('application/problem+json')
    expect(json.detail).toMatch(
      /No secret of billing.stripe.webhookSecret has signed this body within the last 5 minutes/,
    )
    expect(JSON.stringify(json)).not.toMatch(new RegExp(`whsec_|${signatureOf(body).slice(-64)}`))
  })
})

test.each([
  'v1.billing.meter.error_report_triggered',
  'v2.core.account[configuration.recipient].capability_status_updated',
])('a thin event without its object and with its time as text is stored and completed: %s', async (type) => {
  const id = `evt_test_${type.length}`
  const body = JSON.stringify({
    id,
    object: 'v2.core.event',
    type,
    created: '2026-09-17T06:20:52.246Z',
    livemode: false,
    related_object: { id: 'mtr_1', type: 'billing.meter', url: '/v1/billing/meters/mtr_1' },
    reason: { type: 'request', request: { id: 'req_1' } },
  })
  expect(await post(body, signatureOf(body))).toMatchObject(RECEIVED)
  await open.process()
  const [row] = (await open.inbox()).filter(({ eventId }) => eventId === id)
  expect(row).toMatchObject({ type, status: 'completed', errorCode: null })
  const { rows } = await open.tenancy.kernel.database.sql(
    'select created_at from multitenancy.billing_inbox where event_id = $1',
    [id],
  )
  expect(rows).toEqual([{ created_at: new Date('2026-09-17T06:20:52.246Z') }])
})

describe('a signed body', () => {
  const event = {
    id: 'evt_1',
    object: 'event',
    type: 'product.updated',
    created: 1,
    livemode: false,
    data: { object: {} },
  }

  test.each<[string, string]>([
    ['no JSON', 'event=1'],
    ['truncated JSON', '{"id":"evt_1"'],
    ['null', 'null'],
    ['a list', '[]'],
    ['a number', '1'],
    ['another object', '{}'],
    ['an event without an id', JSON.stringify({ ...event, id: undefined })],
    ['an event with an invalid id', JSON.stringify({ ...event, id: 'evt 1' })],
    ['an event with an id that is too long', JSON.stringify({ ...event, id: 'e'.repeat(256) })],
    ['an event without a type', JSON.stringify({ ...event, type: null })],
    ['an event with blanks in its type', JSON.stringify({ ...event, type: 'Product updated' })],
    ['an event without a time', JSON.stringify({ ...event, created: '2026-01-01' })],
    ['an event with an invalid time', JSON.stringify({ ...event, created: '2026-13-01T00:00:00Z' })],
    ['an event with a time that is too early', JSON.stringify({ ...event, created: -1 })],
    ['an event with a time that is too late', JSON.stringify({ ...event, created: 1e15 })],
  ])('is rejected with 400 if it contains %s', async (_, body) => {
    const response = await post(body, signatureOf(body))
    expect(response).toMatchObject(NOT_AN_EVENT)
    expect(response.json.detail).toBe('must be an event of the payment provider')
    expect(await isKept('evt_1')).toBe(false)
  })

  test('with data that contains no object is stored without the data', async () => {
    for (const [n, data] of [undefined, null, {}, { object: null }, { object: 'hush' }, 'hush', []].entries()) {
      const body = JSON.stringify({ ...event, id: `evt_of_nothing_${n}`, data })
      expect(await post(body, signatureOf(body))).toMatchObject(RECEIVED)
    }
    expect(JSON.stringify(await open.inbox())).not.toContain('hush')
  })
})
