/** Tests of quotas on routes of a host, for one framework on one store, and shared helpers. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { memoryStore } from '../../src/drivers/store/memory.ts'
import { postgresStore } from '../../src/drivers/store/postgres.ts'
import { redisStore } from '../../src/drivers/store/redis.ts'
import { createHttp, type Http } from '../../src/http/app.ts'
import { uuidv7 } from '../../src/kernel/base/ids.ts'
import { DAY_MS, dayOf } from '../../src/kernel/store/counters.ts'
import type { StoreDriver } from '../../src/kernel/store/store.ts'
import { quotas } from '../../src/satellites/quotas/index.ts'
import type { Tenancy } from '../../src/tenancy/tenancy.ts'
import { createGuard } from '../../src/tenants/guard/guard.ts'
import { fromHeader } from '../../src/tenants/guard/strategies.ts'
import { type FakeClock, fakeClock } from '../../src/testing/base/clock.ts'
import { type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import type { Host } from './hosts.ts'
import { type CountedRoute, type HeaderOf, quotaHosts } from './quota-hosts.ts'
import { ADMIN, type HttpResponse, PREFIX, send, TOKEN } from './served.ts'

const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

export const PLANS = {
  defaultPlan: 'free',
  definitions: {
    free: { limits: { exports: 3, bytes: 1_000, none: 0 } },
    pro: { limits: { exports: 25, bytes: 1_000, none: 0 } },
  },
}
/** Longer than a busy machine needs: quotas fail open after the timeout of the store. */
const TIMEOUT_MS = 60_000
const HALF_A_DAY_SECONDS = 43_200

export type WithQuotas = Tenancy<[ReturnType<typeof quotas>]>

/** A store whose clock starts at noon, so that no test crosses midnight, and that a test can advance. */
interface Timed {
  readonly store: StoreDriver
  readonly clock?: FakeClock
  advance(ms: number): void
}

export const stores: Readonly<Record<'memory' | 'postgres' | 'redis', () => Timed>> = {
  memory() {
    const clock = fakeClock(new Date('2026-03-01T12:00:00Z'))
    return { store: memoryStore(), clock, advance: clock.advance }
  },
  postgres() {
    let offsetMs = toNoonMs()
    const advance = (ms: number) => {
      offsetMs += ms
    }
    return { store: postgresStore({ clockOffsetMs: () => offsetMs, timeoutMs: TIMEOUT_MS }), advance }
  },
  redis() {
    let offsetMs = toNoonMs()
    const advance = (ms: number) => {
      offsetMs += ms
    }
    const keyPrefix = `${uuidv7()}:`
    return {
      store: redisStore({ url: inject('redisUrl'), keyPrefix, clockOffsetMs: () => offsetMs, timeoutMs: TIMEOUT_MS }),
      advance,
    }
  },
}

export function toNoonMs(): number {
  const now = Date.now()
  return dayOf(now) * DAY_MS + DAY_MS / 2 - now
}

/** Bodies of the calls that reached a route. */
export const reached: string[] = []
const response = (body: string) => {
  reached.push(body)
  return { body }
}
const route = (quota: string, options: CountedRoute['options'] = {}): CountedRoute => ({
  quota,
  options,
  answer: response,
})
const amount = (header: HeaderOf) => Number(header('x-amount'))

export const routes: Readonly<Record<string, CountedRoute>> = {
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

export const guardOf = ({ tenants }: WithQuotas) =>
  createGuard(tenants, { resolve: fromHeader(), authorize: 'anyone', central: ['/central/*'], ignore: ['/health'] })
let names = 0

/** An active tenant, installed by this process because the tenancies have no workers. */
export async function customer({ tenants }: WithQuotas, plan = 'free'): Promise<string> {
  names += 1
  const { id } = await tenants.create({ id: `customer-${names}`, name: 'Customer', metadata: { plan } })
  await tenants.installation.install(id, { isLast: true })
  return id
}

export const codeOf = ({ status, json }: HttpResponse) => [status, json?.code]
export const hasRateLimit = ({ headers }: HttpResponse) => 'ratelimit' in headers || 'ratelimit-policy' in headers

export const post = (host: Host, path: string, tenant?: string, headers: Record<string, string> = {}) =>
  send(host.origin, `POST ${path}`, {
    headers: { ...(tenant === undefined ? {} : { 'x-tenant-id': tenant }), 'content-type': 'text/plain', ...headers },
    body: 'the body',
  })

/** Registers the tests of these frameworks on one store, which share a tenancy. */
export function describeQuotas(store: keyof typeof stores, frameworks: readonly string[]): void {
  describe(`on the store ${store}`, () => {
    let time: Timed
    let made: TestTenancy<[ReturnType<typeof quotas>]>
    let tenancy: WithQuotas
    let http: Http

    beforeAll(async () => {
      time = stores[store]()
      const clock = time.clock === undefined ? {} : { clock: time.clock }
      made = await testTenancy(inject('postgresUrl'), {
        ...clock,
        store: time.store,
        plans: PLANS,
        satellites: [quotas()],
        role: 'api',
      })
      tenancy = made.tenancy
      http = createHttp(tenancy, { adminTokens: [{ name: 'admin', token: TOKEN }] })
    })
    afterAll(() => made?.end())

    const used = (id: string, quota = 'exports') => tenancy.quotas.getUsage(id, quota)

    describe.each(frameworks)('%s', (framework) => {
      const open = quotaHosts[framework] as (typeof quotaHosts)[string]
      let host: Host
      beforeEach(() => void reached.splice(0))
      afterEach(() => host?.close())
      const serve = async () => {
        host = await open({ quotas: tenancy.quotas, guard: guardOf(tenancy), routes })
      }

      test('a request within the quota is counted and admitted, with the remaining amount in its headers', async () => {
        await serve()
        const id = await customer(tenancy)
        for (const left of [2, 1, 0]) {
          const { status, json, headers } = await post(host, '/exports', id)
          expect([status, json]).toEqual([200, { body: 'the body' }])
          expect(headers['ratelimit-policy']).toBe('"exports";q=3;w=86400')
          const [, remaining, seconds] = /^"exports";r=(\d+);t=(\d+)$/.exec(String(headers.ratelimit)) ?? []
          expect(Number(remaining)).toBe(left)
          expect(HALF_A_DAY_SECONDS - Number(seconds)).toBeLessThan(600)
          expect(headers['x-request-id']).toBeDefined()
        }
        expect(await used(id)).toBe(3)
      })

      test('a request above the quota returns 429 with the reset time, and is not counted', async () => {
        await serve()
        const id = await customer(tenancy)
        await tenancy.quotas.consume(id, 'exports', 3)
        const refused = await post(host, '/exports', id, { 'x-request-id': 'r-1' })
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

      test('a limit of 0 admits no request, and a quota outside the plan is unlimited', async () => {
        await serve()
        const id = await customer(tenancy)
        expect(codeOf(await post(host, '/none', id))).toEqual([429, 'E_TENANT_QUOTA_EXCEEDED'])
        const free = await post(host, '/unlimited', id)
        expect([free.status, hasRateLimit(free)]).toEqual([200, false])
        expect(await used(id, 'unlimited')).toBe(1)
      })

      test('a tracked quota is counted and never enforced', async () => {
        await serve()
        const id = await customer(tenancy)
        const responses = []
        for (let n = 0; n < 5; n++) responses.push(await post(host, '/tracked', id))
        expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
        expect(reached).toHaveLength(5)
        expect(await used(id)).toBe(5)
        expect(codeOf(await post(host, '/exports', id))).toEqual([429, 'E_TENANT_QUOTA_EXCEEDED'])
      })

      test('a request uses the configured amount', async () => {
        await serve()
        const id = await customer(tenancy)
        expect((await post(host, '/three', id)).headers.ratelimit).toMatch(/^"bytes";r=700;/)
        expect((await post(host, '/bytes', id, { 'x-amount': '200' })).headers.ratelimit).toMatch(/^"bytes";r=500;/)
        expect((await post(host, '/bytes/later', id, { 'x-amount': '0' })).headers.ratelimit).toMatch(/^"bytes";r=500;/)
        expect((await post(host, '/bytes/later', id, { 'x-amount': '501' })).json).toMatchObject({
          usage: 500,
          requested: 501,
        })
        expect((await post(host, '/bytes/later', id, { 'x-amount': '500' })).status).toBe(200)
        expect(await used(id, 'bytes')).toBe(1_000)
      })

      test.each(['many', '-1', '1.5', 'Infinity', '9007199254740993'])(
        'the amount %s is rejected, and nothing is counted',
        async (invalid) => {
          await serve()
          const id = await customer(tenancy)
          for (const path of ['/bytes', '/bytes/later']) {
            const refused = await post(host, path, id, { 'x-amount': invalid })
            expect(codeOf(refused)).toEqual([400, 'E_INVALID_REQUEST'])
            expect(refused.headers['content-type']).toMatch('application/problem+json')
          }
          expect(reached).toEqual([])
          expect(await used(id, 'bytes')).toBe(0)
        },
      )

      test('an error of the amount function reaches the host, and nothing is counted', async () => {
        await serve()
        const id = await customer(tenancy)
        for (const path of ['/mine', '/mine/later']) {
          const failed = await post(host, path, id)
          expect([failed.status, failed.body]).toEqual([500, 'host: mine'])
        }
        expect(reached).toEqual([])
        expect(await used(id)).toBe(0)
      })

      test('a quota without a tenant is an error', async () => {
        await serve()
        const id = await customer(tenancy)
        for (const path of ['/central/exports', '/health']) {
          expect(codeOf(await post(host, path, id))).toEqual([400, 'E_TENANT_NOT_IDENTIFIED'])
        }
        await host.close()
        host = await open({ quotas: tenancy.quotas, guard: undefined, routes })
        expect(codeOf(await post(host, '/exports', id))).toEqual([400, 'E_TENANT_NOT_IDENTIFIED'])
        expect(reached).toEqual([])
        expect(await used(id)).toBe(0)
      })

      test('a request that the guard rejects uses nothing', async () => {
        await serve()
        const id = await customer(tenancy)
        await tenancy.tenants.suspend(id)
        expect(codeOf(await post(host, '/exports', id))).toEqual([403, 'E_TENANT_SUSPENDED'])
        expect(codeOf(await post(host, '/exports', 'unknown'))).toEqual([404, 'E_TENANT_NOT_FOUND'])
        await tenancy.tenants.activate(id)
        expect(reached).toEqual([])
        expect(await used(id)).toBe(0)
      })

      test('of concurrent requests, exactly the quota is admitted', async () => {
        await serve()
        const id = await customer(tenancy, 'pro')
        const responses = await Promise.all(Array.from({ length: 70 }, () => post(host, '/exports', id)))
        const passed = responses.filter(({ status }) => status === 200)
        expect(passed).toHaveLength(25)
        expect(responses.filter(({ status }) => status === 429)).toHaveLength(45)
        expect(reached).toHaveLength(25)
        expect(await used(id)).toBe(25)
        const left = passed.map(({ headers }) => Number(/r=(\d+)/.exec(String(headers.ratelimit))?.[1]))
        expect(left.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 25 }, (_, n) => n))
      })

      test('two quotas on one route are counted in order, and both have headers', async () => {
        await serve()
        const id = await customer(tenancy)
        const { status, headers } = await post(host, '/two', id)
        expect(status).toBe(200)
        expect(headers['ratelimit-policy']).toBe('"bytes";q=1000;w=86400, "exports";q=3;w=86400')
        expect(headers.ratelimit).toMatch(/^"bytes";r=990;t=\d+, "exports";r=2;t=\d+$/)
        await tenancy.quotas.consume(id, 'exports', 2)
        const refused = await post(host, '/two', id)
        expect([...codeOf(refused), refused.json.quota]).toEqual([429, 'E_TENANT_QUOTA_EXCEEDED', 'exports'])
        expect(refused.headers.ratelimit).toContain('"exports";r=0;')
        expect([await used(id), await used(id, 'bytes')]).toEqual([3, 20])
      })

      test('each tenant has its own quota', async () => {
        await serve()
        const [first, second] = [await customer(tenancy), await customer(tenancy, 'pro')]
        const ids = Array.from({ length: 20 }, (_, n) => (n % 2 ? first : second))
        const responses = await Promise.all(ids.map((id) => post(host, '/exports', id)))
        expect(responses.filter(({ status }, n) => ids[n] === first && status === 200)).toHaveLength(3)
        expect(responses.filter(({ status }, n) => ids[n] === second && status === 200)).toHaveLength(10)
        expect([await used(first), await used(second)]).toEqual([3, 10])
      })

      test('another plan applies to the next request, with the usage so far', async () => {
        await serve()
        const id = await customer(tenancy)
        const change = async (plan: string) => {
          const url = `http://admin.test${PREFIX}/tenants/${id}/plans/${plan}`
          expect((await http.fetch(new Request(url, { method: 'PUT', headers: ADMIN }))).status).toBe(200)
        }
        for (let n = 0; n < 3; n++) await post(host, '/exports', id)
        expect((await post(host, '/exports', id)).json).toMatchObject({ code: 'E_TENANT_QUOTA_EXCEEDED', plan: 'free' })
        await change('pro')
        const more = await post(host, '/exports', id)
        expect(more.headers).toMatchObject({ 'ratelimit-policy': '"exports";q=25;w=86400' })
        expect(more.headers.ratelimit).toMatch(/^"exports";r=21;/)
        await change('free')
        expect((await post(host, '/exports', id)).json).toMatchObject({ plan: 'free', limit: 3, usage: 4 })
        expect(await used(id)).toBe(4)
      })

      test('usage restarts with the next day of the store', async () => {
        await serve()
        const id = await customer(tenancy)
        await tenancy.quotas.consume(id, 'exports', 3)
        const refused = await post(host, '/exports', id)
        time.advance(DAY_MS)
        const next = await post(host, '/exports', id)
        expect([refused.status, next.status]).toEqual([429, 200])
        expect(await used(id)).toBe(1)
      })
    })

    describe('in a second process, without headers', () => {
      let plain: WithQuotas

      beforeAll(async () => {
        plain = await made.open({ satellites: [quotas({ headers: false })] })
      })

      test.each(frameworks)('%s', async (framework) => {
        const open = quotaHosts[framework] as (typeof quotaHosts)[string]
        const host = await open({ quotas: plain.quotas, guard: guardOf(plain), routes })
        const id = await customer(tenancy)
        const responses = []
        for (let n = 0; n < 4; n++) responses.push(await post(host, '/exports', id))
        await host.close()
        expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 429])
        expect(responses.map(hasRateLimit)).toEqual([false, false, false, false])
        expect(responses[3]?.headers['retry-after']).toMatch(/^\d+$/)
      })

      if (store !== 'memory') {
        test('two processes together admit exactly the quota', async () => {
          const open = quotaHosts[frameworks[0] ?? ''] as (typeof quotaHosts)[string]
          const hosts = await Promise.all(
            [tenancy, plain].map((one) => open({ quotas: one.quotas, guard: guardOf(one), routes })),
          )
          const id = await customer(tenancy, 'pro')
          const responses = await Promise.all(
            Array.from({ length: 60 }, (_, n) => post(hosts[n % 2] as Host, '/exports', id)),
          )
          await Promise.all(hosts.map((host) => host.close()))
          expect(responses.filter(({ status }) => status === 200)).toHaveLength(25)
          expect(responses.filter(({ status }) => status === 429)).toHaveLength(35)
          expect(await used(id)).toBe(25)
        })
      }
    })
  })
}
