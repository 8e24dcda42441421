/** Tests the checks of the receiver, their order, and its responses. */
import Stripe from 'stripe'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { Mountable } from '../../../http/app.ts'
import { createReceivers } from '../../../http/receivers.ts'
import { type OpenBilling, openBilling, SECRET } from '../billing.fixture.ts'
import { type BillingOptions, billing } from '../index.ts'

const MIB = 1024 * 1024
const PATH = '/webhooks/stripe'

let open: OpenBilling
let made = 0

beforeAll(async () => {
  open = await openBilling(inject('postgresUrl'))
})
afterAll(() => open.end())

interface ReceiverResponse {
  readonly status: number
  readonly json: any
  readonly headers: Headers
}

const RECEIVED = { status: 200, json: { received: true } }
const DUPLICATE = { status: 200, json: { received: true, duplicate: true } }
const problem = (status: number, code: string) => ({ status, json: { status, code } })

/** An event about an object that billing does not process. */
const emitEvent = (): Stripe.Event => open.provider.emit('product.updated', { id: `prod_${++made}`, object: 'product' })
const signed = (event: Stripe.Event) => open.provider.signed(event, { secret: SECRET, at: new Date() })
const signatureOf = (payload: string) => Stripe.webhooks.generateTestHeaderString({ payload, secret: SECRET })

/** Number of stored events and of jobs with this id. */
async function kept(eventId: string): Promise<[events: number, jobs: number]> {
  const { rows } = await open.tenancy.kernel.database.sql(
    `select (select count(*)::int from multitenancy.billing_inbox where event_id = $1) as events,
       (select count(*)::int from multitenancy_jobs.job
        where name = 'tenantry.ProcessProviderEvent' and singleton_key = $1) as jobs`,
    [eventId],
  )
  return [rows[0].events, rows[0].jobs]
}

/** Receivers of the same tenancy with other settings. */
async function receiversWith(webhook: BillingOptions['webhook']): Promise<Mountable> {
  return createReceivers(await open.open({ satellites: [billing({ ...open.options, webhook })] }))
}

async function responseOf(receivers: Mountable, request: RequestInit, ip?: string): Promise<ReceiverResponse> {
  const response = await receivers.fetch(new Request(`http://localhost${PATH}`, request), { ip })
  const text = await response.text()
  return { status: response.status, json: text && JSON.parse(text), headers: response.headers }
}

describe('an event', () => {
  test('is stored once with one job, and reported as a duplicate afterwards', async () => {
    const event = emitEvent()
    const { body, headers } = signed(event)
    expect(await open.post(body, headers)).toMatchObject(RECEIVED)
    expect(await kept(event.id)).toEqual([1, 1])
    expect(await open.post(body, headers)).toEqual({ ...DUPLICATE, headers: expect.anything() })
    expect(await open.post(body, signed(event).headers)).toMatchObject(DUPLICATE)
    expect(await kept(event.id)).toEqual([1, 1])
  })

  test('gets a JSON response that must not be cached', async () => {
    const { body, headers } = signed(emitEvent())
    const response = await open.post(body, { ...headers, 'x-request-id': 'of-the-provider' })
    expect(response.json).toEqual({ received: true })
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'application/json',
      'cache-control': 'no-store',
      'x-request-id': 'of-the-provider',
    })
  })

  test('is stored in redacted form', async () => {
    const event = emitEvent()
    await open.deliver([event])
    expect((await open.inbox()).find(({ eventId }) => eventId === event.id)).toEqual({
      eventId: event.id,
      type: 'product.updated',
      status: 'waiting',
      errorCode: null,
      attempts: 0,
      payload: {
        id: event.id,
        object: 'event',
        type: 'product.updated',
        created: event.created,
        livemode: false,
        data: { object: { id: `prod_${made}`, object: 'product' } },
      },
    })
  })

  test('that was processed is not processed again after another receipt', async () => {
    const event = emitEvent()
    const { body, headers } = signed(event)
    await open.post(body, headers)
    await open.process()
    expect(await open.post(body, headers)).toMatchObject(DUPLICATE)
    expect((await open.inbox()).find(({ eventId }) => eventId === event.id)).toMatchObject({ status: 'completed' })
    expect(await kept(event.id)).toEqual([1, 1])
  })
})

describe('a body', () => {
  const padded = (length: number) => JSON.stringify(emitEvent()).padEnd(length, ' ')

  test('of up to 1 MiB is accepted, with and without a content-length', async () => {
    for (const hasLength of [true, false]) {
      const [fits, larger] = [padded(MIB), padded(MIB + 1)]
      const headersOf = (body: string) => ({
        'stripe-signature': signatureOf(body),
        ...(hasLength ? { 'content-length': String(body.length) } : {}),
      })
      expect(await open.post(fits, headersOf(fits))).toMatchObject(RECEIVED)
      expect(await open.post(larger, headersOf(larger))).toMatchObject(problem(413, 'E_PAYLOAD_TOO_LARGE'))
    }
  })

  test('without an end is read up to the limit only', async () => {
    let read = 0
    const body = new ReadableStream({
      pull(controller) {
        read += 64 * 1024
        controller.enqueue(new Uint8Array(64 * 1024))
      },
    })
    const request = { method: 'POST', body, duplex: 'half' } as RequestInit
    expect(await responseOf(createReceivers(open.tenancy), request)).toMatchObject(problem(413, 'E_PAYLOAD_TOO_LARGE'))
    expect(read).toBeLessThanOrEqual(MIB + 4 * 64 * 1024)
  })

  test('that is compressed is rejected with 415', async () => {
    const { body, headers } = signed(emitEvent())
    const response = await open.post(body, { ...headers, 'content-encoding': 'gzip' })
    expect(response).toMatchObject(problem(415, 'E_UNSUPPORTED_MEDIA_TYPE'))
  })
})

test('the receiver accepts only POST', async () => {
  for (const method of ['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
    const { status, json, headers } = await responseOf(createReceivers(open.tenancy), { method })
    expect([status, headers.get('allow')]).toEqual([405, 'POST'])
    if (method !== 'HEAD') expect(json.code).toBe('E_METHOD_NOT_ALLOWED')
  }
})

describe('order of the checks', () => {
  test('is sender, size, signature, form', async () => {
    const receivers = await receiversWith({ allowedIps: ['203.0.113.7'] })
    const body = JSON.stringify(emitEvent())
    const large = 'x'.repeat(MIB + 1)
    const [from, elsewhere] = ['203.0.113.7', '203.0.113.8']
    const statusOf = async (of: string, signature: string, ip: string) =>
      (await responseOf(receivers, { method: 'POST', body: of, headers: { 'stripe-signature': signature } }, ip)).status
    expect(await statusOf(large, 'garbage', elsewhere)).toBe(403)
    expect(await statusOf(body, signatureOf(body), elsewhere)).toBe(403)
    expect(await statusOf(large, 'garbage', from)).toBe(413)
    expect(await statusOf(large, signatureOf(large), from)).toBe(413)
    expect(await statusOf('no event', 'garbage', from)).toBe(401)
    expect(await statusOf('no event', signatureOf('no event'), from)).toBe(400)
    expect(await statusOf(body, signatureOf(body), from)).toBe(200)
  })

  test('rejects a sender that is not allowed before it reads the body', async () => {
    const receivers = await receiversWith({ allowedIps: ['203.0.113.7'] })
    let isRead = false
    const pull = () => {
      isRead = true
    }
    const body = new ReadableStream({ pull }, { highWaterMark: 0 })
    const request = { method: 'POST', body, duplex: 'half' } as RequestInit
    expect(await responseOf(receivers, request, '203.0.113.8')).toMatchObject(problem(403, 'E_ADDRESS_NOT_ALLOWED'))
    expect(isRead).toBe(false)
  })
})
