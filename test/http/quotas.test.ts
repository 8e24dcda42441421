/** Quotas on a host's own routes, on each framework and each store, over real sockets. */
import { createServer, type Server } from 'node:http'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createAdaptorServer } from '@hono/node-server'
import express from 'express'
import { fastify } from 'fastify'
import { Hono } from 'hono'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { memoryStore } from '../../src/drivers/store/memory.ts'
import { postgresStore } from '../../src/drivers/store/postgres.ts'
import { redisStore } from '../../src/drivers/store/redis.ts'
import { createHttp, type Http } from '../../src/http/app.ts'
import * as onExpress from '../../src/http/hosts/express.ts'
import * as onFastify from '../../src/http/hosts/fastify.ts'
import * as onHono from '../../src/http/hosts/hono.ts'
import * as onNode from '../../src/http/hosts/node.ts'
import { DAY_MS, dayOf } from '../../src/kernel/counters.ts'
import { uuidv7 } from '../../src/kernel/ids.ts'
import { DependencyDegraded } from '../../src/kernel/resilience.ts'
import type { StoreDriver } from '../../src/kernel/store.ts'
import { quotas } from '../../src/satellites/quotas/index.ts'
import type { Tenancy } from '../../src/tenancy.ts'
import { createGuard } from '../../src/tenants/guard.ts'
import { fromHeader } from '../../src/tenants/resolution.ts'
import { type FakeClock, fakeClock } from '../../src/testing/clock.ts'
import { type Proxy as Line, startProxy } from '../../src/testing/proxy.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../src/testing/tenancy.ts'
import { type Host, listening } from './hosts.ts'
import { type CountedRoute, type HeaderOf, quotaHosts } from './quota-hosts.ts'
import { ADMIN, type Answer, PREFIX, send, TOKEN } from './served.ts'

const PLANS = {
  defaultPlan: 'free',
  definitions: {
    free: { limits: { exports: 3, bytes: 1_000, none: 0 } },
    pro: { limits: { exports: 25, bytes: 1_000, none: 0 } },
  },
}
const HALF_A_DAY_SECONDS = 43_200

type WithQuotas = Tenancy<[ReturnType<typeof quotas>]>

/** A store whose clock stands at noon, so that no midnight passes while a test runs, and can be moved on. */
interface Timed {
  readonly store: StoreDriver
  readonly clock?: FakeClock
  advance(ms: number): void
}

const stores: Readonly<Record<string, () => Timed>> = {
  memory() {
    const clock = fakeClock(new Date('2026-03-01T12:00:00Z'))
    return { store: memoryStore(), clock, advance: clock.advance }
  },
  postgres() {
    let offsetMs = toNoonMs()
    const advance = (ms: number) => {
      offsetMs += ms
    }
    return { store: postgresStore({ clockOffsetMs: () => offsetMs }), advance }
  },
  redis() {
    let offsetMs = toNoonMs()
    const advance = (ms: number) => {
      offsetMs += ms
    }
    const keyPrefix = `${uuidv7()}:`
    return { store: redisStore({ url: inject('redisUrl'), keyPrefix, clockOffsetMs: () => offsetMs }), advance }
  },
}

function toNoonMs(): number {
  const now = Date.now()
  return dayOf(now) * DAY_MS + DAY_MS / 2 - now
}

const reached: string[] = []
const answer = (body: string) => {
  reached.push(body)
  return { body }
}
const route = (quota: string, options: CountedRoute['options'] = {}): CountedRoute => ({ quota, options, answer })
const amount = (header: HeaderOf) => Number(header('x-amount'))

const routes: Readonly<Record<string, CountedRoute>> = {
  '/exports': route('exports'),
  '/tracked': route('exports', { enforce: false }),
  '/three': route('bytes', { amount: 300 }),
  '/bytes': route('bytes', { amount }),
  '/bytes/later': route('bytes', {
    amount: async (header) => {
      await nextTurn()
      return amount(header)
    },
  }),
  '/none': route('none'),
  '/unlimited': route('unlimited'),
  '/mine': route('exports', {
    amount: () => {
      throw new Error('mine')
    },
  }),
  '/mine/later': route('exports', {
    amount: async () => {
      await nextTurn()
      throw new Error('mine')
    },
  }),
  '/two': { ...route('bytes', { amount: 10 }), also: 'exports' },
  '/central/exports': route('exports'),
  '/health': route('exports'),
}

let host: Host
let names = 0
beforeEach(() => void reached.splice(0))
afterEach(() => host?.close())

const guardOf = ({ tenants }: WithQuotas) =>
  createGuard(tenants, { resolve: fromHeader(), central: ['/central/*'], ignore: ['/health'] })
const post = (path: string, tenant?: string, headers: Record<string, string> = {}) =>
  send(host.origin, `POST ${path}`, {
    headers: { ...(tenant === undefined ? {} : { 'x-tenant-id': tenant }), 'content-type': 'text/plain', ...headers },
    body: 'the body',
  })

async function customer(tenancy: WithQuotas, plan = 'free'): Promise<string> {
  names += 1
  const { id } = await installed(tenancy, { id: `customer-${names}`, name: 'Customer', metadata: { plan } })
  return id
}

const codeOf = ({ status, json }: Answer) => [status, json?.code]
const hasRateLimit = ({ headers }: Answer) => 'ratelimit' in headers || 'ratelimit-policy' in headers

const hosts = Object.entries(quotaHosts)

describe.each(Object.entries(stores))('on the store %s', (_, timed) => {
  let time: Timed
  let made: TestTenancy<[ReturnType<typeof quotas>]>
  let tenancy: WithQuotas
  let http: Http

  beforeAll(async () => {
    time = timed()
    const clock = time.clock === undefined ? {} : { clock: time.clock }
    made = await testTenancy(inject('postgresUrl'), {
      ...clock,
      store: time.store,
      plans: PLANS,
      satellites: [quotas()],
    })
    tenancy = made.tenancy
    http = createHttp(tenancy, { adminTokens: [{ name: 'admin', token: TOKEN }] })
  })
  afterAll(() => made?.end())

  const used = (id: string, quota = 'exports') => tenancy.quotas.getUsage(id, quota)

  describe.each(hosts)('%s', (_, open) => {
    const serve = async () => {
      host = await open({ quotas: tenancy.quotas, guard: guardOf(tenancy), routes })
    }

    test('what fits is counted and let through, and says what is left', async () => {
      await serve()
      const id = await customer(tenancy)
      for (const left of [2, 1, 0]) {
        const { status, json, headers } = await post('/exports', id)
        expect([status, json]).toEqual([200, { body: 'the body' }])
        expect(headers['ratelimit-policy']).toBe('"exports";q=3;w=86400')
        const [, remaining, seconds] = /^"exports";r=(\d+);t=(\d+)$/.exec(String(headers.ratelimit)) ?? []
        expect(Number(remaining)).toBe(left)
        expect(HALF_A_DAY_SECONDS - Number(seconds)).toBeLessThan(600)
        expect(headers['x-request-id']).toBeDefined()
      }
      expect(await used(id)).toBe(3)
    })

    test('what does not fit is 429, says when there is more, and is not counted', async () => {
      await serve()
      const id = await customer(tenancy)
      await tenancy.quotas.consume(id, 'exports', 3)
      const refused = await post('/exports', id, { 'x-request-id': 'r-1' })
      expect(refused.status).toBe(429)
      expect(refused.headers['content-type']).toMatch('application/problem+json')
      expect(refused.headers['cache-control']).toBe('no-store')
      expect(refused.headers['x-request-id']).toBe('r-1')
      expect(refused.json).toEqual({
        type: 'urn:tenantry:problem:E_TENANT_QUOTA_EXCEEDED',
        title: expect.any(String),
        status: 429,
        detail: expect.any(String),
        code: 'E_TENANT_QUOTA_EXCEEDED',
        requestId: 'r-1',
        quota: 'exports',
        limit: 3,
        usage: 3,
        requested: 1,
        resetAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT00:00:00\.000Z$/),
        plan: 'free',
      })
      const seconds = Number(refused.headers['retry-after'])
      expect(HALF_A_DAY_SECONDS - seconds).toBeLessThan(600)
      expect(refused.headers['ratelimit-policy']).toBe('"exports";q=3;w=86400')
      expect(refused.headers.ratelimit).toMatch(/^"exports";r=0;t=\d+$/)
      expect(reached).toEqual([])
      expect(await used(id)).toBe(3)
    })

    test('a limit of 0 allows none, and a quota that the plan does not name is unlimited', async () => {
      await serve()
      const id = await customer(tenancy)
      expect(codeOf(await post('/none', id))).toEqual([429, 'E_TENANT_QUOTA_EXCEEDED'])
      const free = await post('/unlimited', id)
      expect([free.status, hasRateLimit(free)]).toEqual([200, false])
      expect(await used(id, 'unlimited')).toBe(1)
    })

    test('what is only tracked is counted, and never refused', async () => {
      await serve()
      const id = await customer(tenancy)
      const answers = []
      for (let n = 0; n < 5; n++) answers.push(await post('/tracked', id))
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
      expect(reached).toHaveLength(5)
      expect(await used(id)).toBe(5)
      expect(codeOf(await post('/exports', id))).toEqual([429, 'E_TENANT_QUOTA_EXCEEDED'])
    })

    test('a request uses as much as it is said to', async () => {
      await serve()
      const id = await customer(tenancy)
      expect((await post('/three', id)).headers.ratelimit).toMatch(/^"bytes";r=700;/)
      expect((await post('/bytes', id, { 'x-amount': '200' })).headers.ratelimit).toMatch(/^"bytes";r=500;/)
      expect((await post('/bytes/later', id, { 'x-amount': '0' })).headers.ratelimit).toMatch(/^"bytes";r=500;/)
      expect((await post('/bytes/later', id, { 'x-amount': '501' })).json).toMatchObject({ usage: 500, requested: 501 })
      expect((await post('/bytes/later', id, { 'x-amount': '500' })).status).toBe(200)
      expect(await used(id, 'bytes')).toBe(1_000)
    })

    test.each(['many', '-1', '1.5', 'Infinity', '9007199254740993'])(
      'an amount of %s is no amount, and nothing is counted',
      async (said) => {
        await serve()
        const id = await customer(tenancy)
        for (const path of ['/bytes', '/bytes/later']) {
          const refused = await post(path, id, { 'x-amount': said })
          expect(codeOf(refused)).toEqual([400, 'E_INVALID_REQUEST'])
          expect(refused.headers['content-type']).toMatch('application/problem+json')
        }
        expect(reached).toEqual([])
        expect(await used(id, 'bytes')).toBe(0)
      },
    )

    test('what says the amount and fails is the host’s to answer, and nothing is counted', async () => {
      await serve()
      const id = await customer(tenancy)
      for (const path of ['/mine', '/mine/later']) {
        const failed = await post(path, id)
        expect([failed.status, failed.body]).toEqual([500, 'host: mine'])
      }
      expect(reached).toEqual([])
      expect(await used(id)).toBe(0)
    })

    test('without a tenant there is nobody whose quota it could be', async () => {
      await serve()
      const id = await customer(tenancy)
      for (const path of ['/central/exports', '/health']) {
        expect(codeOf(await post(path, id))).toEqual([400, 'E_TENANT_NOT_IDENTIFIED'])
      }
      await host.close()
      host = await open({ quotas: tenancy.quotas, guard: undefined, routes })
      expect(codeOf(await post('/exports', id))).toEqual([400, 'E_TENANT_NOT_IDENTIFIED'])
      expect(reached).toEqual([])
      expect(await used(id)).toBe(0)
    })

    test('whom the guard refuses uses nothing', async () => {
      await serve()
      const id = await customer(tenancy)
      await tenancy.tenants.suspend(id)
      expect(codeOf(await post('/exports', id))).toEqual([403, 'E_TENANT_SUSPENDED'])
      expect(codeOf(await post('/exports', 'nobody'))).toEqual([404, 'E_TENANT_NOT_FOUND'])
      await tenancy.tenants.activate(id)
      expect(reached).toEqual([])
      expect(await used(id)).toBe(0)
    })

    test('of many at once exactly as many get through as are allowed', async () => {
      await serve()
      const id = await customer(tenancy, 'pro')
      const answers = await Promise.all(Array.from({ length: 70 }, () => post('/exports', id)))
      const passed = answers.filter(({ status }) => status === 200)
      expect(passed).toHaveLength(25)
      expect(answers.filter(({ status }) => status === 429)).toHaveLength(45)
      expect(reached).toHaveLength(25)
      expect(await used(id)).toBe(25)
      const left = passed.map(({ headers }) => Number(/r=(\d+)/.exec(String(headers.ratelimit))?.[1]))
      expect(left.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 25 }, (_, n) => n))
    })

    test('two quotas on one route are counted one after the other, and both say what is left', async () => {
      await serve()
      const id = await customer(tenancy)
      const { status, headers } = await post('/two', id)
      expect(status).toBe(200)
      expect(headers['ratelimit-policy']).toBe('"bytes";q=1000;w=86400, "exports";q=3;w=86400')
      expect(headers.ratelimit).toMatch(/^"bytes";r=990;t=\d+, "exports";r=2;t=\d+$/)
      await tenancy.quotas.consume(id, 'exports', 2)
      const refused = await post('/two', id)
      expect([...codeOf(refused), refused.json.quota]).toEqual([429, 'E_TENANT_QUOTA_EXCEEDED', 'exports'])
      expect(refused.headers.ratelimit).toContain('"exports";r=0;')
      expect([await used(id), await used(id, 'bytes')]).toEqual([3, 20])
    })

    test('each tenant has its own', async () => {
      await serve()
      const [first, second] = [await customer(tenancy), await customer(tenancy, 'pro')]
      const ids = Array.from({ length: 20 }, (_, n) => (n % 2 ? first : second))
      const answers = await Promise.all(ids.map((id) => post('/exports', id)))
      expect(answers.filter(({ status }, n) => ids[n] === first && status === 200)).toHaveLength(3)
      expect(answers.filter(({ status }, n) => ids[n] === second && status === 200)).toHaveLength(10)
      expect([await used(first), await used(second)]).toEqual([3, 10])
    })

    test('another plan counts from the next request on, with what has been used', async () => {
      await serve()
      const id = await customer(tenancy)
      const change = async (plan: string) => {
        const url = `http://admin.test${PREFIX}/tenants/${id}/plans/${plan}`
        expect((await http.fetch(new Request(url, { method: 'PUT', headers: ADMIN }))).status).toBe(200)
      }
      for (let n = 0; n < 3; n++) await post('/exports', id)
      expect((await post('/exports', id)).json).toMatchObject({ code: 'E_TENANT_QUOTA_EXCEEDED', plan: 'free' })
      await change('pro')
      const more = await post('/exports', id)
      expect(more.headers).toMatchObject({ 'ratelimit-policy': '"exports";q=25;w=86400' })
      expect(more.headers.ratelimit).toMatch(/^"exports";r=21;/)
      await change('free')
      expect((await post('/exports', id)).json).toMatchObject({ plan: 'free', limit: 3, usage: 4 })
      expect(await used(id)).toBe(4)
    })

    test('with the next day of the store there is as much again', async () => {
      await serve()
      const id = await customer(tenancy)
      await tenancy.quotas.consume(id, 'exports', 3)
      const refused = await post('/exports', id)
      time.advance(DAY_MS)
      const next = await post('/exports', id)
      expect([refused.status, next.status]).toEqual([429, 200])
      expect(await used(id)).toBe(1)
    })
  })

  describe('without headers', () => {
    let plain: WithQuotas

    beforeAll(async () => {
      plain = await made.open({ satellites: [quotas({ headers: false })], role: 'api' })
    })

    test.each(hosts)('%s', async (_, open) => {
      host = await open({ quotas: plain.quotas, guard: guardOf(plain), routes })
      const id = await customer(tenancy)
      const answers = []
      for (let n = 0; n < 4; n++) answers.push(await post('/exports', id))
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429])
      expect(answers.map(hasRateLimit)).toEqual([false, false, false, false])
      expect(answers[3]?.headers['retry-after']).toMatch(/^\d+$/)
    })
  })
})

/** Stores that several processes share. */
const { memory: _, ...shared } = stores

describe.each(Object.entries(shared))('two processes on the store %s', (_, timed) => {
  test('let through together exactly what is allowed', async () => {
    const { store } = timed()
    const made = await testTenancy(inject('postgresUrl'), { store, plans: PLANS, satellites: [quotas()] })
    const id = await customer(made.tenancy, 'pro')
    const both = [made.tenancy, await made.open({ role: 'api' })]
    const opened = await Promise.all(
      both.map((tenancy) => quotaHosts.express?.({ quotas: tenancy.quotas, guard: guardOf(tenancy), routes })),
    )
    const [first, second] = opened as [Host, Host]
    const headers = { 'x-tenant-id': id }
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, n) => send((n % 2 ? first : second).origin, 'POST /exports', { headers })),
    )
    host = first
    await second.close()
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(25)
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(35)
    expect(await made.tenancy.quotas.getUsage(id, 'exports')).toBe(25)
    await made.end()
  })
})

/** A store behind a line of its own: which server it is at, and how it is opened there. */
const distant = {
  postgres: {
    server: (databaseUrl: string) => databaseUrl,
    at: (url: string) => ({ database: { url }, store: postgresStore({ clockOffsetMs: toNoonMs, timeoutMs: 300 }) }),
  },
  redis: {
    server: () => inject('redisUrl'),
    at: (url: string) => ({ store: redisStore({ url, clockOffsetMs: toNoonMs, timeoutMs: 300 }) }),
  },
} as const

const absences = [
  ['postgres', 'gone'],
  ['redis', 'gone'],
  ['redis', 'silent'],
] as const

describe.each(hosts)('while the store is away, %s', (_, open) => {
  describe.each(absences)('%s, %s', (store, how) => {
    let made: TestTenancy<[ReturnType<typeof quotas>]>
    let direct: WithQuotas
    let proxy: Line
    let id: string

    beforeAll(async () => {
      const { server, at } = distant[store]
      made = await testTenancy(inject('postgresUrl'), { plans: PLANS, satellites: [quotas()] })
      proxy = await startProxy(server(made.url))
      direct = await made.open({ ...at(server(made.url)), role: 'api' })
      id = `of-${store}-${uuidv7()}`
      await installed(made.tenancy, { id, name: 'Customer' })
      await direct.quotas.consume(id, 'exports', 3)
    })
    afterAll(async () => {
      await made?.end()
      await proxy?.close()
    })

    const serve = async (quota: 'fail-open' | 'fail-closed') => {
      const tenancy = await made.open({
        ...distant[store].at(proxy.url),
        resilience: { redis: { quota }, retryAfterSeconds: 7 },
        role: 'api',
      })
      host = await open({ quotas: tenancy.quotas, guard: guardOf(tenancy), routes })
      expect(codeOf(await post('/exports', id))).toEqual([429, 'E_TENANT_QUOTA_EXCEEDED'])
      return tenancy
    }
    const goAway = () => (how === 'gone' ? proxy.close() : proxy.silence())
    const comeBack = async () => {
      if (how === 'silent') await proxy.close()
      await proxy.open()
      await eventually(async () => expect(codeOf(await post('/exports', id))).toEqual([429, 'E_TENANT_QUOTA_EXCEEDED']))
      expect(await direct.quotas.getUsage(id, 'exports')).toBe(3)
    }
    /** Samples of a series of one tenancy, by its labels. */
    const samples = async ({ series }: WithQuotas, name: string) =>
      Object.fromEntries(
        [...(await series.expose()).matchAll(new RegExp(`^${name}(\\{.*\\}) (\\d+)$`, 'gm'))].map(
          ([, labels = '', value]) => [labels, Number(value)],
        ),
      )

    test('open: it serves, tells, and counts on afterwards', async () => {
      const tenancy = await serve('fail-open')
      const told: unknown[] = []
      tenancy.on(DependencyDegraded, (event) => void told.push(event))
      await goAway()
      for (const path of ['/exports', '/tracked']) {
        const served = await post(path, id)
        expect([served.status, served.json, hasRateLimit(served)]).toEqual([200, { body: 'the body' }, false])
      }
      const about = { dependency: 'redis', tenantId: id, policy: 'fail-open', errorCode: 'E_DEPENDENCY_UNAVAILABLE' }
      await eventually(() =>
        expect(told.filter((event) => (event as { tenantId: unknown }).tenantId === id)).toEqual([
          expect.objectContaining({ ...about, operation: 'quotas.consume' }),
          expect.objectContaining({ ...about, operation: 'quotas.track' }),
        ]),
      )
      expect(await samples(tenancy, 'multitenancy_quota_decisions_total')).toEqual({
        '{decision="allowed"}': 0,
        '{decision="refused"}': 1,
        '{decision="tracked"}': 0,
        '{decision="degraded"}': 2,
        '{decision="unavailable"}': 0,
      })
      const degraded = await samples(tenancy, 'multitenancy_dependency_degraded_total')
      expect(degraded['{dependency="redis",policy="fail-open"}']).toBeGreaterThanOrEqual(2)
      await comeBack()
    })

    test('closed: 503, and never 429', async () => {
      const tenancy = await serve('fail-closed')
      await goAway()
      for (const path of ['/exports', '/tracked', '/none']) {
        const refused = await post(path, id)
        expect(codeOf(refused)).toEqual([503, 'E_DEPENDENCY_UNAVAILABLE'])
        expect(refused.headers['content-type']).toMatch('application/problem+json')
        expect(refused.headers['retry-after']).toBe('7')
        expect(hasRateLimit(refused)).toBe(false)
      }
      expect(reached).toEqual([])
      expect(await samples(tenancy, 'multitenancy_quota_decisions_total')).toMatchObject({
        '{decision="refused"}': 1,
        '{decision="unavailable"}': 3,
      })
      expect(await samples(tenancy, 'multitenancy_dependency_degraded_total')).toMatchObject({
        '{dependency="redis",policy="fail-closed"}': 3,
      })
      await comeBack()
    })
  })
})

describe('in a framework’s own way', () => {
  let made: TestTenancy<[ReturnType<typeof quotas>]>
  let tenancy: WithQuotas
  let id: string

  beforeAll(async () => {
    made = await testTenancy(inject('postgresUrl'), { store: memoryStore(), plans: PLANS, satellites: [quotas()] })
    tenancy = made.tenancy
  })
  beforeEach(async () => {
    id = await customer(tenancy)
  })
  afterAll(() => made?.end())

  const postJson = (path: string, body: unknown) =>
    send(host.origin, `POST ${path}`, { headers: { 'x-tenant-id': id }, body })

  test('Express: an amount looks at a body that was parsed before', async () => {
    const app = express()
    app.use(onExpress.guard(guardOf(tenancy)), express.json())
    const byRows = onExpress.enforceQuota(tenancy.quotas, 'bytes', { amount: ({ body }) => body.rows.length })
    app.post('/rows', byRows, ({ body }, response) => void response.json(body))
    host = await listening(createServer(app))
    const { json, headers } = await postJson('/rows', { rows: [1, 2, 3] })
    expect(json).toEqual({ rows: [1, 2, 3] })
    expect(headers.ratelimit).toMatch(/^"bytes";r=997;/)
  })

  test('Fastify: an amount looks at the body before the handler', async () => {
    const app = fastify()
    await app.register(onFastify.guard(guardOf(tenancy)))
    const byRows = onFastify.enforceQuota(tenancy.quotas, 'bytes', {
      amount: ({ body }) => (body as { rows: unknown[] }).rows.length,
    })
    app.post('/rows', { preHandler: byRows }, async ({ body }) => body)
    host = { origin: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
    const { json, headers } = await postJson('/rows', { rows: [1, 2, 3] })
    expect(json).toEqual({ rows: [1, 2, 3] })
    expect(headers.ratelimit).toMatch(/^"bytes";r=997;/)
    expect(codeOf(await postJson('/rows', { rows: Array(998).fill(0) }))).toEqual([429, 'E_TENANT_QUOTA_EXCEEDED'])
  })

  test('Hono: an amount looks at the body, and the handler reads it again', async () => {
    const app = new Hono<onHono.GuardedEnv>()
    app.use(onHono.guard(guardOf(tenancy)))
    const byRows = onHono.enforceQuota(tenancy.quotas, 'bytes', {
      amount: async ({ req }) => (await req.json()).rows.length,
    })
    app.post('/rows', byRows, async (context) => context.json(await context.req.json()))
    host = await listening(createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as Server)
    const { json, headers } = await postJson('/rows', { rows: [1, 2, 3] })
    expect(json).toEqual({ rows: [1, 2, 3] })
    expect(headers.ratelimit).toMatch(/^"bytes";r=997;/)
  })

  test('Hono: a Response of the handler’s own has the headers too', async () => {
    const app = new Hono<onHono.GuardedEnv>()
    app.use(onHono.guard(guardOf(tenancy)))
    app.post('/own', onHono.enforceQuota(tenancy.quotas, 'exports'), () => new Response('own', { status: 202 }))
    host = await listening(createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as Server)
    const { status, body, headers } = await postJson('/own', {})
    expect([status, body]).toEqual([202, 'own'])
    expect(headers).toMatchObject({ 'ratelimit-policy': '"exports";q=3;w=86400', 'x-request-id': expect.any(String) })
    expect(headers.ratelimit).toMatch(/^"exports";r=2;/)
  })

  test.each(['fits', 'is refused'])(
    'Express: a request that %s after a time-out of yours has answered',
    async (how) => {
      const app = express()
      app.use(onExpress.guard(guardOf(tenancy)))
      let wasRun = false
      app.post(
        '/slow',
        (_, response, next) => {
          next()
          response.status(504).send('too late')
        },
        onExpress.enforceQuota(tenancy.quotas, 'exports', { amount: how === 'fits' ? 1 : 1_000_000 }),
        () => {
          wasRun = true
        },
      )
      host = await listening(createServer(app))
      expect(await postJson('/slow', {})).toMatchObject({ status: 504, body: 'too late' })
      await tenancy.quotas.alerts.settled()
      expect(wasRun).toBe(false)
    },
  )

  test('Node: a listener is not called after a time-out of yours has answered', async () => {
    let wasRun = false
    const guarded = onNode.guard(
      guardOf(tenancy),
      onNode.enforceQuota(tenancy.quotas, 'exports', () => {
        wasRun = true
      }),
    )
    const ended = Promise.withResolvers<unknown>()
    host = await listening(
      createServer((incoming, outgoing) => {
        guarded(incoming, outgoing).then(ended.resolve, ended.reject)
        outgoing.writeHead(504).end('too late')
      }),
    )
    expect((await postJson('/slow', {})).status).toBe(504)
    expect(await ended.promise).toBeUndefined()
    expect(wasRun).toBe(false)
  })

  test.each([
    ['a name that is none', 'no such name!', 1],
    ['a negative amount', 'exports', -1],
    ['an amount that is no number', 'exports', Number.NaN],
  ])('%s is refused when the route is made', (_, quota, amount) => {
    for (const { enforceQuota } of [onExpress, onFastify, onHono]) {
      expect(() => enforceQuota(tenancy.quotas, quota, { amount })).toThrow(
        expect.objectContaining({ code: 'E_INVALID_REQUEST' }),
      )
    }
    expect(() => onNode.enforceQuota(tenancy.quotas, quota, () => undefined, { amount })).toThrow(
      expect.objectContaining({ code: 'E_INVALID_REQUEST' }),
    )
  })
})
