/**
 * No request without a token blocks the event loop: the most expensive bodies, headers and targets, for every public
 * route of a service with billing and single sign-on. The CPU time of the request, including its client, bounds the
 * delay.
 */
import { createServer } from 'node:http'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { createHttp } from '../../src/http/app.ts'
import { EXPENSIVE_BODIES, expectCheap } from '../../src/http/cost.fixture.ts'
import { nodeHandler, problemHandler } from '../../src/http/hosts/node.ts'
import { createReceivers } from '../../src/http/receivers.ts'
import { billing } from '../../src/satellites/billing/index.ts'
import { sso } from '../../src/satellites/sso/index.ts'
import { type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import { type Host, listening } from './hosts.ts'
import { PREFIX, type Sent, send, TOKEN } from './served.ts'

const RECEIVER = '/webhooks/stripe'
const CALLBACK = '/sso/callback'
const SESSION = `${PREFIX}/session`
const ROUTES = [
  `POST ${SESSION}`,
  `POST ${RECEIVER}`,
  `GET ${CALLBACK}?state=acme.${'x'.repeat(43)}`,
  `GET ${PREFIX}/sign-in`,
  `GET ${PREFIX}/tenants`,
  'GET /livez',
  'GET /readyz',
  'GET /healthz',
  'GET /metrics',
]
/** Size of a header, below node's limit of 16 KiB for all headers. */
const BYTES = 15_000
const filled = (unit: string) => unit.repeat(Math.floor(BYTES / unit.length))

/** The 20 most expensive headers, by name. */
const HEADERS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'many cookies': { cookie: filled('a=b; ') },
  'cookies of spaces': { cookie: `a=b;${filled(' ')}x` },
  'cookies of semicolons': { cookie: filled(';') },
  'a long session': { cookie: `tenantry_session=${filled('A')}` },
  'many sessions': { cookie: filled('tenantry_session=v1.aaaa.bbbb; ') },
  'many cookies of sign-on': { cookie: filled('tenantry-sso-abcdefgh=x; ') },
  'a long token': { 'x-admin-token': filled('x') },
  'many forwarded schemes': { 'x-forwarded-proto': filled('https,') },
  'many forwarded addresses': { 'x-forwarded-for': filled('1.2.3.4,') },
  'a long request id': { 'x-request-id': filled('a.') },
  'many media types': { accept: filled('text/htm,') },
  'many parameters': { 'content-type': `application/json${filled('; charset = ')}` },
  'spaces in a parameter': { 'content-type': `application/json; charset${filled(' ')}=x` },
  'many signatures': { 'stripe-signature': `t=${Math.floor(Date.now() / 1000)},${filled('v1=abcd,')}` },
  'many timestamps': { 'stripe-signature': filled('t=1,') },
  'a long encoding': { 'content-encoding': filled('gzip, ') },
  'a long origin': { origin: `http://${filled('a.')}` },
  'many preferences': { prefer: filled('wait ; ') },
  'many tags': { 'if-none-match': filled('"a", ') },
  'many keys of requests': { 'idempotency-key': filled('~') },
}

const TARGETS: Readonly<Record<string, string>> = {
  slashes: `${filled('/')}x`,
  'slashes below the prefix': `${PREFIX}${filled('/')}x`,
  'dot segments': `/livez${filled('/..')}`,
  escapes: `${PREFIX}/${filled('%41')}`,
  'broken escapes': `${PREFIX}/${filled('%')}`,
  'many parameters of a query': `${PREFIX}/sign-in?${filled('a&')}`,
  'many states of a callback': `${CALLBACK}?${filled('state=a&')}`,
  'a long state': `${CALLBACK}?state=${filled('a')}.${'x'.repeat(43)}`,
}

let open: TestTenancy<any>
let host: Host
beforeAll(async () => {
  const settings = {
    stripe: { apiKey: 'sk_test_1', webhookSecret: ['whsec_1', 'whsec_2'] },
    products: { price_1: 'pro' },
  }
  const plans = { defaultPlan: 'free', definitions: { free: { limits: {} }, pro: { limits: {} } } }
  open = await testTenancy(inject('postgresUrl'), { satellites: [billing(settings), sso()], plans, role: 'api' })
  const { tenancy } = open
  const receive = nodeHandler(createReceivers(tenancy))
  const handle = nodeHandler(createHttp(tenancy, { adminTokens: [{ name: 'admin', token: TOKEN }] }))
  const failed = problemHandler(tenancy.kernel.log)
  host = await listening(
    createServer((incoming, outgoing) => {
      const signOn = () =>
        tenancy.sso
          .finish({ url: incoming.url ?? '', cookie: incoming.headers.cookie })
          .catch((error: unknown) => failed(error, incoming, outgoing) || outgoing.writeHead(500).end())
      receive(incoming, outgoing, () => handle(incoming, outgoing, signOn))
    }),
  )
})
afterAll(async () => {
  await host?.close()
  await open?.end()
})

async function expectCheapRequest(name: string, line: string, sent: Sent): Promise<void> {
  await expectCheap(name, async () => {
    const { status } = await send(host.origin, line, sent)
    expect(status, name).toBeLessThan(500)
  })
}

describe.each(ROUTES)('%s', (line) => {
  test.each(Object.entries(HEADERS))('%s do not block the event loop', async (name, headers) => {
    const body = line.startsWith('POST') ? '{"token":"wrong-token-0123456789"}' : undefined
    await expectCheapRequest(name, line, { headers, body })
  })
})

describe.each([`POST ${SESSION}`, `POST ${RECEIVER}`, `POST ${CALLBACK}`, `GET ${PREFIX}/tenants`, 'POST /metrics'])(
  '%s with an expensive body',
  (line) => {
    test.each(Object.entries(EXPENSIVE_BODIES))('%s do not block the event loop', async (name, text) => {
      const body = Buffer.from(text)
      const signature = `t=${Math.floor(Date.now() / 1000)},v1=${'a'.repeat(64)}`
      await expectCheapRequest(name, line, {
        body,
        headers: { 'content-length': body.length, 'stripe-signature': signature },
      })
    })

    test.each(Object.entries(EXPENSIVE_BODIES))('4 KiB of %s do not block the event loop', async (name, text) => {
      const body = text.slice(0, 4095) + text.at(-1)
      await expectCheapRequest(name, line, { body, headers: { 'content-length': body.length } })
    })
  },
)

test.each(Object.entries(TARGETS))('%s in the target do not block the event loop', async (name, target) => {
  await expectCheapRequest(name, `GET ${target}`, {})
})
