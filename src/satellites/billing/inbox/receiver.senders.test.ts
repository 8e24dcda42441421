/** Tests the allowed senders of events: `billing.webhook.allowedIps` and `trustProxy`. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { createReceivers } from '../../../http/receivers.ts'
import { type OpenBilling, openBilling, SECRET } from '../billing.fixture.ts'
import { type BillingOptions, billing } from '../index.ts'

let open: OpenBilling
let made = 0

beforeAll(async () => {
  open = await openBilling(inject('postgresUrl'))
})
afterAll(() => open.end())

type Send = (ip: string | undefined, forwarded?: string | readonly string[]) => Promise<number>

/** Sends an event from an address to a receiver with the settings, and returns the status of the response. */
async function senderFor(webhook: BillingOptions['webhook']): Promise<Send> {
  const receivers = createReceivers(await open.open({ satellites: [billing({ ...open.options, webhook })] }))
  return async (ip, forwarded = []) => {
    const event = open.provider.emit('product.updated', { id: `prod_${++made}`, object: 'product' })
    const { body, headers } = open.provider.signed(event, { secret: SECRET, at: new Date() })
    const request = new Request('http://localhost/webhooks/stripe', { method: 'POST', body, headers })
    for (const hops of [forwarded].flat()) request.headers.append('x-forwarded-for', hops)
    const response = await receivers.fetch(request, { ip })
    if (response.status !== 200) {
      expect(await response.json()).toMatchObject({ status: 403, code: 'E_ADDRESS_NOT_ALLOWED' })
      expect(JSON.stringify(await open.inbox())).not.toContain(event.id)
    }
    return response.status
  }
}

test('without allowedIps an event may come from any address', async () => {
  const send = await senderFor({})
  expect(await send('203.0.113.7')).toBe(200)
  expect(await send(undefined)).toBe(200)
})

test('with an empty list it may come from nowhere', async () => {
  const send = await senderFor({ allowedIps: [] })
  expect(await send('203.0.113.7')).toBe(403)
  expect(await send(undefined)).toBe(403)
})

describe('with a list', () => {
  let send: Send

  beforeAll(async () => {
    send = await senderFor({ allowedIps: ['203.0.113.7', '198.51.100.0/24', '2001:db8:1::7', '2001:db8:2::/48'] })
  })

  test.each([
    '203.0.113.7',
    '::ffff:203.0.113.7',
    '::FFFF:cb00:7107',
    '198.51.100.0',
    '198.51.100.255',
    '::ffff:198.51.100.9',
    '2001:db8:1::7',
    '2001:0db8:0001:0000:0000:0000:0000:0007',
    '2001:db8:2:ffff::1',
  ])('accepts an event from %s', async (ip) => expect(await send(ip)).toBe(200))

  test.each([
    '203.0.113.8',
    '::ffff:203.0.113.8',
    '64:ff9b::203.0.113.7',
    '198.51.101.0',
    '198.51.99.255',
    '2001:db8:1::8',
    '2001:db8:3::1',
    '127.0.0.1',
    '::1',
    '',
    'localhost',
    '203.0.113.7:443',
  ])('rejects an event from %j', async (ip) => expect(await send(ip)).toBe(403))

  test('rejects an event from an unknown address', async () => expect(await send(undefined)).toBe(403))

  test('ignores x-forwarded-for without a trusted proxy', async () => {
    expect(await send('192.0.2.1', '203.0.113.7')).toBe(403)
    expect(await send(undefined, '203.0.113.7')).toBe(403)
    expect(await send('203.0.113.7', '192.0.2.1')).toBe(200)
  })
})

describe('receiver behind one trusted proxy', () => {
  let send: Send

  beforeAll(async () => {
    send = await senderFor({ allowedIps: ['203.0.113.0/24', '2001:db8::/32'], trustProxy: 1 })
  })

  test('uses the address that the proxy has added', async () => {
    expect(await send('10.0.0.1', '203.0.113.7')).toBe(200)
    expect(await send('10.0.0.1', '2001:db8::7')).toBe(200)
    expect(await send('10.0.0.1', '192.0.2.1')).toBe(403)
    expect(await send(undefined, '203.0.113.7')).toBe(200)
  })

  test('ignores entries that the sender has added', async () => {
    for (const forged of ['203.0.113.7, 192.0.2.1', '203.0.113.7,203.0.113.8,192.0.2.1', '203.0.113.7 ,  192.0.2.1 ']) {
      expect(await send('10.0.0.1', forged)).toBe(403)
    }
    expect(await send('10.0.0.1', ['203.0.113.7', '192.0.2.1'])).toBe(403)
    expect(await send('10.0.0.1', '192.0.2.1, 203.0.113.7')).toBe(200)
    expect(await send('10.0.0.1', ['192.0.2.1', '203.0.113.7'])).toBe(200)
  })

  test('rejects an event without a forwarded address, although the address of the proxy is allowed', async () => {
    expect(await send('203.0.113.7')).toBe(403)
    for (const nothing of ['', ',', 'unknown', '203.0.113.7,', '_hidden']) {
      expect(await send('203.0.113.7', nothing)).toBe(403)
    }
  })
})

test('ignores the port in a forwarded address', async () => {
  const send = await senderFor({ allowedIps: ['10.0.0.1', '2001:db8::1', '::1'], trustProxy: 1 })
  for (const hop of ['10.0.0.1:4444', '[2001:db8::1]:80', '[2001:db8::1]', '[::1]', '::1', '::ffff:10.0.0.1']) {
    expect([hop, await send('192.0.2.1', hop)]).toEqual([hop, 200])
  }
  for (const hop of ['10.0.0.2:4444', '[2001:db8::2]:80', '[::2]', '10.0.0.1:', '10.0.0.1:http', '[10.0.0.1', '']) {
    expect([hop, await send('192.0.2.1', hop)]).toEqual([hop, 403])
  }
})

test('with two trusted proxies the receiver uses the address that the first proxy has added', async () => {
  const send = await senderFor({ allowedIps: ['203.0.113.0/24'], trustProxy: 2 })
  expect(await send('10.0.0.1', '203.0.113.7, 10.0.0.2')).toBe(200)
  expect(await send('10.0.0.1', '192.0.2.1, 203.0.113.7, 10.0.0.2')).toBe(200)
  expect(await send('10.0.0.1', '203.0.113.7, 192.0.2.1, 10.0.0.2')).toBe(403)
  // The request has passed only one of the two proxies.
  expect(await send('10.0.0.1', '203.0.113.7')).toBe(403)
})
