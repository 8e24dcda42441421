/** PostgreSQL is unavailable and Redis is available: behaviour that docs/resilience.md promises for the backoffice. */
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest'
import { redisStore } from '../src/drivers/store/redis.ts'
import { createHttp, type Http } from '../src/http/app.ts'
import { uuidv7 } from '../src/kernel/base/ids.ts'
import { QuotaThresholdReached, quotas } from '../src/satellites/quotas/index.ts'
import type { Tenancy } from '../src/tenancy/tenancy.ts'
import { fromHeader } from '../src/tenants/guard/strategies.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../src/testing/base/tenancy.ts'
import { callAdmin, type Line, startLine, TOKEN } from './outage.fixture.ts'

const PLANS = { defaultPlan: 'free', definitions: { free: { limits: { exports: 10, seats: 3 } } } }
const CHANNEL = 'backoffice_outage_test'
const UNAVAILABLE = { code: 'E_DEPENDENCY_UNAVAILABLE', status: 503 }

let line: Line
let made: TestTenancy<[ReturnType<typeof quotas>]>
let tenancy: Tenancy<[ReturnType<typeof quotas>]>
let http: Http
let ids = 0

beforeAll(async () => {
  const keyPrefix = `${uuidv7()}:`
  made = await testTenancy(inject('postgresUrl'), {
    store: redisStore({ url: inject('redisUrl'), keyPrefix }),
    plans: PLANS,
    satellites: [quotas()],
  })
  line = await startLine(made.url, () => expect(tenancy.kernel.database.isListening).toBe(true))
  tenancy = await made.open({ database: { url: line.url }, role: 'api' })
  http = createHttp(tenancy, { adminTokens: [{ name: 'ops', token: TOKEN }] })
})
afterAll(async () => {
  await made?.end()
  await line?.close()
})

afterEach(() => line.bringBack())

/** Creates a tenant that this process has cached, with all notifications received. */
async function known(): Promise<string> {
  const { id } = await installed(made.tenancy, { id: `tenant-${++ids}`, name: 'Acme' })
  const last = Promise.withResolvers<void>()
  const listening = await tenancy.kernel.database.listen(
    CHANNEL,
    () => last.resolve(),
    () => undefined,
  )
  await made.tenancy.kernel.database.notify(CHANNEL, id)
  await last.promise
  await listening.close()
  await tenancy.tenant(id)
  return id
}
const admitted = (id: string) =>
  tenancy
    .guard({ resolve: fromHeader(), authorize: 'anyone' })
    .admit({ raw: undefined, method: 'GET', path: '/', host: undefined, header: () => id })

const api = (at: string, body?: unknown, headers?: Record<string, string>) => callAdmin(http, at, { body, headers })

test('the guard admits cached tenants and returns 503 for others during a backoffice outage', async () => {
  const id = await known()
  const { id: unknown } = await installed(made.tenancy, { id: 'never-asked-for', name: 'Unknown' })
  await line.disconnect()
  expect(await admitted(id)).toMatchObject({ scope: 'tenant' })
  await expect(admitted(unknown)).rejects.toMatchObject({ ...UNAVAILABLE, retryAfterSeconds: 5 })
  await line.bringBack()
  await eventually(async () => expect(await admitted(unknown)).toMatchObject({ scope: 'tenant' }))
})

test('quotas of cached tenants are counted, enforced, read and set during a backoffice outage; recorded changes return 503', async () => {
  const id = await known()
  const { quotas: service } = tenancy
  await line.disconnect()
  expect(await service.consume(id, 'exports', 4)).toBe(4)
  expect(await service.decide(id, 'exports', 7)).toMatchObject({ allowed: false, usage: 4, degraded: false })
  await service.setUsage(id, 'seats', 2)
  expect((await service.snapshot(id)).usage).toEqual({ exports: 4, seats: 2 })
  await expect(service.reset(id)).rejects.toMatchObject({ ...UNAVAILABLE, retryAfterSeconds: 5 })
  await expect(service.correct(id, 'seats', 3)).rejects.toMatchObject({ ...UNAVAILABLE, retryAfterSeconds: 5 })
  const refused = await api(`PUT /tenants/${id}/quotas/usage`, { quota: 'seats', value: 3 })
  expect([refused.status, refused.json.code]).toEqual([503, UNAVAILABLE.code])
  await line.bringBack()
  expect((await made.tenancy.quotas.snapshot(id)).usage).toEqual({ exports: 4, seats: 2 })
})

test('a threshold that is reached during a backoffice outage is published by a later call', async () => {
  const id = await known()
  const published: string[] = []
  const end = tenancy.on(
    QuotaThresholdReached,
    (event) => void (event.tenantId === id && published.push(`${event.threshold} %`)),
  )
  await line.disconnect()
  await tenancy.quotas.consume(id, 'exports', 8)
  await tenancy.quotas.alerts.stop()
  expect(published).toEqual([])
  await line.bringBack()
  await eventually(async () => {
    await tenancy.quotas.track(id, 'exports')
    await tenancy.quotas.alerts.stop()
    expect(published).toContain('80 %')
  })
  end()
})

test('the admin API returns 503 for every caller during a backoffice outage, and sessions are still recognised', async () => {
  const id = await known()
  const opened = await api('POST /session', { token: TOKEN }, { origin: 'http://tenantry.test' })
  const cookie = { cookie: String(opened.headers.get('set-cookie')).split(';')[0] ?? '' }
  expect((await api('GET /openapi.json', undefined, cookie)).status).toBe(200)
  await line.disconnect()
  for (const headers of [cookie, { 'x-admin-token': TOKEN }]) {
    const refused = await api(`GET /tenants/${id}`, undefined, headers)
    expect([refused.status, refused.json.code]).toEqual([503, UNAVAILABLE.code])
    expect(refused.headers.get('retry-after')).toMatch(/^\d+$/)
  }
  expect((await api('GET /openapi.json', undefined, cookie)).status).toBe(200)
  await line.bringBack()
  expect((await api(`GET /tenants/${id}`, undefined, cookie)).status).toBe(200)
})
