/**
 * Receivers of external systems' requests in each framework: unchanged bytes, past guards, before parsers, and without
 * a host.
 */
import { once } from 'node:events'
import { createServer, request, type Server } from 'node:http'
import { json } from 'node:stream/consumers'
import { createAdaptorServer } from '@hono/node-server'
import express from 'express'
import { Hono } from 'hono'
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { expressHandler } from '../../src/http/hosts/express.ts'
import { honoHandler } from '../../src/http/hosts/hono.ts'
import { nodeHandler, serveNode } from '../../src/http/hosts/node.ts'
import { createReceivers } from '../../src/http/receivers.ts'
import {
  type BillingTenancy,
  type OpenBilling,
  openBilling,
  SECRET,
} from '../../src/satellites/billing/billing.fixture.ts'
import { billing } from '../../src/satellites/billing/index.ts'
import { fromHeader } from '../../src/tenants/guard/strategies.ts'
import { type Host, listening } from './hosts.ts'
import { receiverHosts } from './receiver-hosts.ts'
import { send } from './served.ts'

const PATH = '/webhooks/stripe'
const OTHER_PATH = '/hooks/payments'
const MIB = 1024 * 1024

let open: OpenBilling
/** Receives at another path, from loopback only. */
let elsewhere: BillingTenancy
let tenantId: string
let host: Host
let made = 0

beforeAll(async () => {
  open = await openBilling(inject('postgresUrl'))
  const webhook = { path: OTHER_PATH, allowedIps: ['127.0.0.1'] }
  elsewhere = await open.open({ satellites: [billing({ ...open.options, webhook })] })
  tenantId = await open.tenant()
})
afterAll(() => open.end())
afterEach(() => host?.close())

/** Signed body in a form that no parser would reproduce, with multi-byte characters. */
function signed() {
  const event = open.provider.emit('product.updated', { id: `prod_${++made}`, object: 'product', name: 'Tür №1' })
  const { body, headers } = open.provider.signed(event, { secret: SECRET, at: new Date() })
  expect(body).toContain('\n  ')
  return { id: event.id, body: Buffer.from(body), headers }
}

const isKept = async (id: string) => (await open.inbox()).some(({ eventId }) => eventId === id)

const start = (name: string, tenancy = open.tenancy, isGuardFirst = false): Promise<Host> =>
  (receiverHosts[name] as (typeof receiverHosts)[string])({
    receivers: createReceivers(tenancy),
    guard: tenancy.guard({ resolve: fromHeader(), authorize: 'anyone' }),
    isGuardFirst,
  })

/** Sends a body in pieces, without a length; the response may come before the end. */
async function sendPieces(path: string, headers: Record<string, string>, pieces: readonly Buffer[]) {
  const { hostname, port } = new URL(host.origin)
  const outgoing = request({ hostname, port, path, method: 'POST', agent: false, headers })
  outgoing.on('error', () => undefined) // the connection may be closed after the response
  const answered = once(outgoing, 'response')
  for (const piece of pieces) outgoing.write(piece)
  outgoing.end()
  const [incoming] = await answered
  return { status: incoming.statusCode as number, json: (await json(incoming)) as Record<string, unknown> }
}

describe.each(Object.keys(receiverHosts))('%s', (name) => {
  test('a receiver gets the sent bytes before the host’s parser, and other routes use the parser', async () => {
    host = await start(name)
    const { id, body, headers } = signed()
    expect(await send(host.origin, `POST ${PATH}`, { headers, body })).toMatchObject({
      status: 200,
      json: { received: true },
    })
    expect(await isKept(id)).toBe(true)
    const again = await send(host.origin, `POST ${PATH}?a=b`, { headers, body })
    expect(again).toMatchObject({ status: 200, json: { received: true, duplicate: true } })
    expect(again.headers).toMatchObject({ 'content-type': 'application/json', 'cache-control': 'no-store' })
    const echo = { headers: { 'x-tenant-id': tenantId }, body: { n: 1 } }
    expect((await send(host.origin, 'POST /echo', echo)).json).toEqual({ tenantId, body: { n: 1 } })
  })

  test('a receiver accepts a body in pieces, without a length', async () => {
    host = await start(name)
    const { id, body, headers } = signed()
    const pieces = [body.subarray(0, 10), body.subarray(10, 11), body.subarray(11)]
    expect(await sendPieces(PATH, headers, pieces)).toEqual({ status: 200, json: { received: true } })
    expect(await isKept(id)).toBe(true)
  })

  test('a receiver rejects a body that differs from the signed one', async () => {
    host = await start(name)
    const { body, headers } = signed()
    const written = JSON.stringify(JSON.parse(body.toString()))
    for (const other of [written, `${body} `, '', Buffer.from(body.toString(), 'latin1')]) {
      const { status, json } = await send(host.origin, `POST ${PATH}`, { headers, body: other })
      expect([status, json.code]).toEqual([401, 'E_SIGNATURE_INVALID'])
    }
  })

  test('a receiver rejects more than 1 MiB, with and without a length', async () => {
    host = await start(name)
    const large = Buffer.alloc(MIB + 1, ' ')
    const tooLarge = { status: 413, json: expect.objectContaining({ code: 'E_PAYLOAD_TOO_LARGE' }) }
    expect(await sendPieces(PATH, { 'content-length': String(large.length) }, [large])).toEqual(tooLarge)
    expect(await sendPieces(PATH, {}, [large.subarray(1), large.subarray(0, 1)])).toEqual(tooLarge)
  })

  test('a receiver ignores a request that breaks off, and continues', async () => {
    host = await start(name)
    const { id, body, headers } = signed()
    const { hostname, port } = new URL(host.origin)
    for (const length of [{ 'content-length': String(body.length) }, {}]) {
      const outgoing = request({ hostname, port, path: PATH, method: 'POST', headers: { ...headers, ...length } })
      outgoing.on('error', () => undefined)
      await new Promise((sent) => outgoing.write(body.subarray(0, -1), sent))
      await new Promise((closed) => outgoing.on('close', closed).destroy())
    }
    expect(await send(host.origin, `POST ${PATH}`, { headers, body })).toMatchObject({
      status: 200,
      json: { received: true },
    })
    expect(await isKept(id)).toBe(true)
  })

  test('a receiver accepts only POST, and only at its path', async () => {
    host = await start(name)
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const response = await send(host.origin, `${method} ${PATH}`)
      expect([response.status, response.headers.allow, response.json.code]).toEqual([
        405,
        'POST',
        'E_METHOD_NOT_ALLOWED',
      ])
    }
    const yours = { headers: { 'x-tenant-id': tenantId }, body: {} }
    for (const path of [`${PATH}/`, `${PATH}/more`, '/webhooks', '/webhooks/Stripe']) {
      expect(await send(host.origin, `POST ${path}`, yours)).toMatchObject({ status: 404, json: { mine: true } })
    }
  })

  test('a guard for all paths admits requests to receivers, and no others', async () => {
    host = await start(name, open.tenancy, true)
    const { id, body, headers } = signed()
    expect(await send(host.origin, `POST ${PATH}`, { headers, body })).toMatchObject({
      status: 200,
      json: { received: true },
    })
    expect(await isKept(id)).toBe(true)
    for (const path of ['/echo', `${PATH}/more`, OTHER_PATH]) {
      const { status, json } = await send(host.origin, `POST ${path}`, { headers, body })
      expect([status, json.code]).toEqual([400, 'E_TENANT_NOT_IDENTIFIED'])
    }
  })

  test('a receiver uses the configured path, and the address of the connection', async () => {
    host = await start(name, elsewhere, true)
    const { id, body, headers } = signed()
    const forged = { ...headers, 'x-forwarded-for': '203.0.113.7' }
    expect(await send(host.origin, `POST ${OTHER_PATH}`, { headers: forged, body })).toMatchObject({ status: 200 })
    expect(await isKept(id)).toBe(true)
    expect((await send(host.origin, `POST ${PATH}`, { headers, body })).status).toBe(400)
    await host.close()
    const webhook = { allowedIps: ['203.0.113.7'] }
    host = await start(name, await open.open({ satellites: [billing({ ...open.options, webhook })] }))
    const refused = await send(host.origin, `POST ${PATH}`, { headers: forged, body })
    expect([refused.status, refused.json.code]).toEqual([403, 'E_ADDRESS_NOT_ALLOWED'])
  })
})

describe('receivers without other routes', () => {
  const nothing = { type: 'urn:tenantry:problem:E_NOT_FOUND', status: 404, code: 'E_NOT_FOUND' }
  const PATHS = [
    '/',
    `${PATH}/`,
    `${PATH}/more`,
    '/webhooks',
    '/webhooks/Stripe',
    '/admin/multitenancy/tenants',
    '/%zz',
  ]

  test('receivers return 404 for other paths, as the admin API does', async () => {
    const { fetch, handles } = createReceivers(open.tenancy)
    for (const path of PATHS) {
      for (const method of ['GET', 'POST']) {
        const headers = { 'x-request-id': 'asked-by-a-test' }
        const response = await fetch(new Request(`http://localhost${path}`, { method, headers }))
        expect([response.status, response.headers.get('content-type')]).toEqual([404, 'application/problem+json'])
        expect(await response.json()).toMatchObject({ ...nothing, requestId: 'asked-by-a-test' })
      }
      expect(handles(path)).toBe(false)
    }
  })

  test.each<[string, () => Promise<Host>]>([
    ['by a handler', () => listening(createServer(nodeHandler(createReceivers(open.tenancy))))],
    [
      'by a server',
      async () => {
        const { url, close } = await serveNode(createReceivers(open.tenancy), { port: 0, host: '127.0.0.1' })
        return { origin: url, close: () => close(0) }
      },
    ],
  ])('receivers respond over the network, served %s', async (_, serve) => {
    host = await serve()
    for (const path of PATHS) {
      const { status, headers, json } = await send(host.origin, `POST ${path}`, { body: '{}' })
      expect([status, headers['content-type']]).toEqual([404, 'application/problem+json'])
      expect(json).toMatchObject(nothing)
    }
    const { id, body, headers } = signed()
    expect((await send(host.origin, `POST ${PATH}`, { headers, body })).status).toBe(200)
    expect(await isKept(id)).toBe(true)
  })
})

describe('behind a parser', () => {
  const post = ({ body, headers }: ReturnType<typeof signed>) => send(host.origin, `POST ${PATH}`, { headers, body })

  test('a receiver behind a parser of Express rejects every body, unless the parser keeps the bytes', async () => {
    const app = express()
    app.use(express.json(), expressHandler(createReceivers(open.tenancy)))
    host = await listening(createServer(app))
    expect((await post(signed())).status).toBe(401)
    await host.close()
    const keeping = express()
    keeping.use(express.json({ verify: (incoming, _, rawBody) => void Object.assign(incoming, { rawBody }) }))
    keeping.use(expressHandler(createReceivers(open.tenancy)))
    host = await listening(createServer(keeping))
    const event = signed()
    expect((await post(event)).status).toBe(200)
    expect(await isKept(event.id)).toBe(true)
  })

  test('a receiver of Hono accepts a body that was read as text', async () => {
    const app = new Hono()
    app.use(async (context, next) => {
      await context.req.text()
      await next()
    })
    app.use(honoHandler(createReceivers(open.tenancy)))
    host = await listening(createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as Server)
    const event = signed()
    expect((await post(event)).status).toBe(200)
    expect(await isKept(event.id)).toBe(true)
  })
})
