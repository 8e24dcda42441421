/** Failed sign-ins are limited for each client address, across all processes; a correct token or code passes. */
import { randomUUID } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import { createAdaptorServer } from '@hono/node-server'
import express from 'express'
import { fastify } from 'fastify'
import { Hono } from 'hono'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { memoryStore } from '../../src/drivers/store/memory.ts'
import { redisStore } from '../../src/drivers/store/redis.ts'
import { createHttp, type Http } from '../../src/http/app.ts'
import { MAX_FAILED_SIGN_INS } from '../../src/http/failed-sign-ins.ts'
import { expressHandler } from '../../src/http/hosts/express.ts'
import { fastifyHandler } from '../../src/http/hosts/fastify.ts'
import { honoHandler } from '../../src/http/hosts/hono.ts'
import { deadPort } from '../../src/kernel/egress/receivers.fixture.ts'
import type { Tenancy, TenancyConfig } from '../../src/tenancy/tenancy.ts'
import { fakeClock } from '../../src/testing/base/clock.ts'
import { type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import { type Host, hosts, listening } from './hosts.ts'
import { ADMIN, PREFIX, send, TOKEN } from './served.ts'

const WRONG = 'wrong-token-0123456789'
const PROCESSES = 3
const adminTokens = [{ name: 'admin', token: TOKEN }]

type Credential = { readonly token: string } | { readonly code: string }

/** A credential that is a text is sent in `x-admin-token`. */
function attempt(http: Http, credential: string | Credential, ip?: string): Promise<Response> {
  const isHeader = typeof credential === 'string'
  const headers = isHeader ? { 'x-admin-token': credential } : { 'content-type': 'application/json' }
  const init = isHeader ? { headers } : { headers, method: 'POST', body: JSON.stringify(credential) }
  return http.fetch(new Request(`http://localhost${PREFIX}${isHeader ? '/plans' : '/session'}`, init), { ip })
}
const statusOf = async (...call: Parameters<typeof attempt>) => (await attempt(...call)).status

async function fail(http: Http, ip?: string, times = MAX_FAILED_SIGN_INS): Promise<void> {
  for (let time = 0; time < times; time++) expect(await statusOf(http, WRONG, ip)).toBe(401)
}

type Options = Partial<TenancyConfig<readonly []>>
const opened: TestTenancy<readonly []>[] = []
afterAll(() => Promise.all(opened.map((one) => one.end())))

/** Processes on one database have one store. */
async function openInstallation(options: Options): Promise<TestTenancy<readonly []>> {
  const installation = await testTenancy<readonly []>(inject('postgresUrl'), { role: 'api', ...options })
  opened.push(installation)
  return installation
}
const httpOf = (tenancy: Tenancy) => createHttp(tenancy, { adminTokens })
const openWith = async (options: Options) => httpOf((await openInstallation(options)).tenancy)

describe.each<[string, () => Options]>([
  ['postgres', () => ({})],
  [
    'redis',
    () => ({ store: redisStore({ url: inject('redisUrl'), keyPrefix: `${randomUUID()}:`, timeoutMs: 10_000 }) }),
  ],
])('with the store %s', (name, options) => {
  let processes: readonly Http[]
  const ip = (host: number) => (name === 'redis' ? `198.51.100.${host}` : `203.0.113.${host}`)
  beforeAll(async () => {
    const installation = await openInstallation(options())
    processes = await Promise.all(Array.from({ length: PROCESSES }, async () => httpOf(await installation.open())))
  })
  const process = (index: number) => processes[index % PROCESSES] as Http

  test('of concurrent failures in several processes, 20 receive a 401 and the others a 429', async () => {
    const credentials = [WRONG, { token: WRONG }, { code: 'wrong' }]
    const failures = Array.from({ length: 3 * MAX_FAILED_SIGN_INS }, (_, index) =>
      statusOf(process(index), credentials[Math.floor(index / PROCESSES) % 3] ?? WRONG, ip(1)),
    )
    const statuses = await Promise.all(failures)
    expect(statuses.filter((status) => status === 401)).toHaveLength(MAX_FAILED_SIGN_INS)
    expect(statuses.filter((status) => status === 429)).toHaveLength(2 * MAX_FAILED_SIGN_INS)
  })

  test('a correct token or code passes in each process, and does not end the limit', async () => {
    await fail(process(0), ip(2))
    for (const http of processes) {
      const code = (await http.signInLink()).split('=')[1] ?? ''
      expect(await statusOf(http, TOKEN, ip(2))).toBe(200)
      expect(await statusOf(http, { token: TOKEN }, ip(2))).toBe(200)
      expect(await statusOf(http, { code }, ip(2))).toBe(200)
      expect(await statusOf(http, WRONG, ip(2))).toBe(429)
    }
  })

  test('other addresses are not limited', async () => {
    await fail(process(0), ip(3))
    expect(await statusOf(process(0), WRONG, ip(3))).toBe(429)
    expect(await statusOf(process(0), WRONG, ip(4))).toBe(401)
  })
})

describe('in one process', () => {
  const clock = fakeClock(new Date('2026-11-20T10:00:00Z'))
  let http: Http
  beforeAll(async () => {
    http = await openWith({ clock, store: memoryStore() })
  })

  test('the limit ends after a minute, as Retry-After states', async () => {
    await fail(http, '203.0.113.1')
    const refused = await attempt(http, WRONG, '203.0.113.1')
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '60'])
    expect(await refused.json()).toMatchObject({
      code: 'E_TOO_MANY_ATTEMPTS',
      title: 'Too many failed sign-ins',
      detail: 'Too many wrong tokens or codes came from this address. Wait, or send a correct admin token.',
    })
    clock.advance(59_000)
    expect((await attempt(http, WRONG, '203.0.113.1')).headers.get('retry-after')).toBe('1')
    clock.advance(1_000)
    await fail(http, '203.0.113.1')
    expect(await statusOf(http, WRONG, '203.0.113.1')).toBe(429)
  })

  test('a request without a credential, and an ended session, are not failures', async () => {
    const cookie = 'tenantry_session=ended'
    for (let time = 0; time <= MAX_FAILED_SIGN_INS; time++) {
      const request = new Request(`http://localhost${PREFIX}/plans`, { headers: time % 2 ? { cookie } : {} })
      expect((await http.fetch(request, { ip: '203.0.113.2' })).status).toBe(401)
    }
    expect(await statusOf(http, WRONG, '203.0.113.2')).toBe(401)
  })

  test('a /64 of IPv6 is one address', async () => {
    for (let host = 1; host <= MAX_FAILED_SIGN_INS; host++) await fail(http, `2001:db8::${host}`, 1)
    expect(await statusOf(http, WRONG, '2001:db8:0:0:ffff::1')).toBe(429)
    expect(await statusOf(http, WRONG, '2001:db8:0:1::1')).toBe(401)
  })
})

test('while the store is unavailable, each process limits its own failed sign-ins', async () => {
  const installation = await openInstallation({ store: redisStore({ url: `redis://127.0.0.1:${await deadPort()}` }) })
  const http = httpOf(installation.tenancy)
  await fail(http, '203.0.113.1')
  expect(await statusOf(http, WRONG, '203.0.113.1')).toBe(429)
  expect(await statusOf(http, TOKEN, '203.0.113.1')).toBe(200)
  expect(await statusOf(http, WRONG, '203.0.113.2')).toBe(401)
  expect(await statusOf(httpOf(await installation.open()), WRONG, '203.0.113.1')).toBe(401)
})

describe('the address of the client', () => {
  let http: Http
  let host: Host
  beforeAll(async () => {
    http = await openWith({ store: memoryStore() })
  })

  const forwardedBy: Readonly<Record<string, string>> = {
    express: '192.0.2.1',
    fastify: '192.0.2.2',
    hono: '192.0.2.3',
  }
  const failFrom = async (from: string, forwarded: string) => {
    const headers = { 'x-admin-token': WRONG, 'x-forwarded-for': forwarded }
    return (await send(host.origin, `GET ${PREFIX}/plans`, { headers, from })).status
  }

  test.each(Object.entries(hosts))('on %s is that of the connection', async (name, start) => {
    host = await start(http)
    const from = `127.0.2.${Object.keys(hosts).indexOf(name) + 1}`
    for (let time = 0; time < MAX_FAILED_SIGN_INS; time++) expect(await failFrom(from, `203.0.113.${time}`)).toBe(401)
    expect(await failFrom(from, '203.0.113.100')).toBe(429)
    expect(await send(host.origin, `GET ${PREFIX}/plans`, { headers: ADMIN, from })).toMatchObject({ status: 200 })
    await host.close()
  })

  test.each<[string, () => Promise<Host>]>([
    [
      'express',
      () => {
        const app = express()
        app.set('trust proxy', 1)
        app.use(expressHandler(http))
        return listening(createServer(app))
      },
    ],
    [
      'fastify',
      async () => {
        const app = fastify({ trustProxy: true })
        await app.register(fastifyHandler(http))
        return { origin: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
      },
    ],
    [
      'hono',
      async () => {
        const app = new Hono().use(honoHandler(http, { ip: ({ req }) => req.header('x-forwarded-for') }))
        return listening(createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as Server)
      },
    ],
  ])('on %s is that of a trusted proxy', async (name, start) => {
    host = await start()
    const forwarded = forwardedBy[name] ?? ''
    for (let time = 0; time < MAX_FAILED_SIGN_INS; time++) expect(await failFrom('127.0.3.1', forwarded)).toBe(401)
    expect(await failFrom('127.0.3.1', forwarded)).toBe(429)
    expect(await failFrom('127.0.3.1', `${forwarded}0`)).toBe(401)
    await host.close()
  })
})
