/**
 * Redis is unavailable and PostgreSQL is available: behaviour that docs/resilience.md promises for the store. Quotas
 * and flags have separate tests (satellites/quotas/outages.slow.test.ts, http/quotas.slow.test.ts).
 */
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest'
import { redisStore } from '../src/drivers/store/redis.ts'
import { createHttp, type Http } from '../src/http/app.ts'
import { uuidv7 } from '../src/kernel/base/ids.ts'
import { ChangeRecorded } from '../src/kernel/events/changes.ts'
import { quotas } from '../src/satellites/quotas/index.ts'
import type { Tenancy } from '../src/tenancy/tenancy.ts'
import { fromHeader } from '../src/tenants/guard/strategies.ts'
import { fakeClock } from '../src/testing/base/clock.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../src/testing/base/tenancy.ts'
import { call, callAdmin, type Line, startLine, TOKEN } from './outage.fixture.ts'

const DAY_MS = 86_400_000
const NOTES = { name: '0001_notes', checksum: '', up: 'create table notes (body text)' }
const PLANS = { defaultPlan: 'free', definitions: { free: { limits: { seats: 3 } } } }

const clock = fakeClock()
let line: Line
let made: TestTenancy<[ReturnType<typeof quotas>]>
let tenancy: Tenancy<[ReturnType<typeof quotas>]>
let http: Http

beforeAll(async () => {
  line = await startLine(inject('redisUrl'), () => tenancy.kernel.store.ping())
  made = await testTenancy(inject('postgresUrl'), {
    clock,
    store: redisStore({ url: line.url, keyPrefix: `${uuidv7()}:`, timeoutMs: 2_000 }),
    migrations: [NOTES],
    plans: PLANS,
    satellites: [quotas()],
    resilience: { retryAfterSeconds: 7 },
  })
  tenancy = made.tenancy
  http = createHttp(tenancy, { adminTokens: [{ name: 'ops', token: TOKEN }] })
  await installed(tenancy, { id: 'acme', name: 'Acme' })
})
afterAll(async () => {
  await made?.end()
  await line?.close()
})

afterEach(() => line.bringBack())

const api = (at: string, body?: unknown) => callAdmin(http, at, { body })
const UNAVAILABLE = [503, 'E_DEPENDENCY_UNAVAILABLE']
const refused = ({ status, json }: Awaited<ReturnType<typeof call>>) => [status, json?.code]

test('requests, lookups and queries of tenants are unaffected by a store outage', async () => {
  await line.disconnect()
  const request = { raw: undefined, method: 'GET', path: '/', host: undefined, header: () => 'acme' }
  expect(await tenancy.guard({ resolve: fromHeader(), authorize: 'anyone' }).admit(request)).toMatchObject({
    scope: 'tenant',
  })
  const { pool } = await tenancy.tenant('acme')
  await pool.query(`insert into notes values ('while the store is unavailable')`)
  expect((await pool.query('select * from notes')).rows).toEqual([{ body: 'while the store is unavailable' }])
})

test('an admin token reads and writes, and jobs run, during a store outage', async () => {
  await line.disconnect()
  expect((await api('PATCH /tenants/acme', { name: 'Acme Corp' })).json).toMatchObject({ name: 'Acme Corp' })
  expect((await installed(tenancy, { name: 'Created during the outage' })).status).toBe('active')
  expect((await api('PUT /tenants/acme/suspend')).status).toBe(200)
  expect((await api('PUT /tenants/acme/activate')).status).toBe(200)
})

test('sessions and sign-ins by token work during a store outage, sign-in links do not', async () => {
  const origin = { origin: 'http://tenantry.test' }
  const signIn = async () => {
    const opened = await callAdmin(http, 'POST /session', { body: { token: TOKEN }, headers: origin })
    return { cookie: String(opened.headers.get('set-cookie')).split(';')[0] ?? '' }
  }
  const statusOf = async (cookie: { cookie: string }) =>
    (await callAdmin(http, 'GET /tenants/acme', { headers: cookie })).status
  const before = await signIn()
  await line.disconnect()
  expect([await statusOf(before), await statusOf(await signIn())]).toEqual([200, 200])
  const code = { body: { code: 'x'.repeat(43) }, headers: origin }
  expect(refused(await callAdmin(http, 'POST /session', code))).toEqual(UNAVAILABLE)
  await expect(http.signInLink()).rejects.toMatchObject({ code: 'E_DEPENDENCY_UNAVAILABLE' })
  await line.bringBack()
  expect(await statusOf(before)).toBe(200)
})

test('administrative changes of usage return 503 during a store outage under any policy, and the audit log records the failures', async () => {
  await api('PUT /tenants/acme/quotas/usage', { quota: 'seats', value: 2 })
  const recorded: string[] = []
  const end = tenancy.on(ChangeRecorded, ({ action, outcome }) => void recorded.push(`${action} ${outcome}`))
  await line.disconnect()
  for (const attempt of [
    () => api('PUT /tenants/acme/quotas/usage', { quota: 'seats', value: 3 }),
    () => api('POST /tenants/acme/quotas/reset'),
    () => api('GET /tenants/acme/quotas'),
  ]) {
    const response = await attempt()
    expect(refused(response)).toEqual(UNAVAILABLE)
    expect(response.headers.get('retry-after')).toBe('7')
  }
  await line.bringBack()
  expect(recorded).toEqual(['quotas.reset success', 'quotas.reset failure'])
  recorded.length = 0
  await api('PUT /tenants/acme/quotas/usage', { quota: 'seats', value: 1 })
  expect(recorded).toEqual(['quotas.setUsage success'])
  end()
  expect((await api('GET /tenants/acme/quotas')).json.usage).toMatchObject({ seats: 1 })
})

test('a purge waits during a store outage, and completes afterwards', async () => {
  await installed(tenancy, { id: 'leaving', name: 'Leaving' })
  await tenancy.quotas.setUsage('leaving', 'seats', 2)
  await tenancy.tenants.delete('leaving')
  clock.advance(31 * DAY_MS)
  await line.disconnect()
  await expect(tenancy.tenants.installation.purge('leaving')).rejects.toMatchObject({ code: UNAVAILABLE[1] })
  expect((await tenancy.tenants.get('leaving')).name).toBe('Leaving')
  await line.bringBack()
  expect(await tenancy.tenants.installation.purge('leaving')).toBe(true)
  const { gauges } = await tenancy.kernel.store.counters.readAll('leaving')
  expect(gauges.size).toBe(0)
})

test('the readiness check of the store fails, and the process stays ready', async () => {
  await line.disconnect()
  const { status, json } = await call(http, 'GET /readyz')
  expect([status, json.checks.store.status, json.checks.backoffice.status]).toEqual([200, 'fail', 'pass'])
})

test('the doctor reports a store outage, and no finding afterwards', async () => {
  const found = async () =>
    (await tenancy.doctor.examine()).checks.filter(({ name }) => name === 'store').map(({ code }) => code)
  await line.disconnect()
  expect(await found()).toEqual(['store.away'])
  await line.bringBack()
  expect(await found()).toEqual([])
})

test('a process starts during a store outage, and uses the store afterwards', async () => {
  await line.disconnect()
  const late = await made.open()
  expect(await late.quotas.consume('acme', 'pages')).toBe(0)
  await line.bringBack()
  await eventually(async () => expect(await late.quotas.consume('acme', 'pages')).toBeGreaterThan(0))
})
