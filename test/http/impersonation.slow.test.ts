/** Impersonated requests while the database is unavailable, on each framework. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { auditLogs } from '../../src/satellites/audit-logs/index.ts'
import { impersonation } from '../../src/satellites/impersonation/index.ts'
import type { Tenancy } from '../../src/tenancy/tenancy.ts'
import { createGuard } from '../../src/tenants/guard/guard.ts'
import { fromHeader } from '../../src/tenants/guard/strategies.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import { startProxy } from '../support/proxy.ts'
import type { Host } from './hosts.ts'
import { type Called, impersonationHosts } from './impersonation-hosts.ts'
import { send } from './served.ts'

type Satellites = [ReturnType<typeof auditLogs>, ReturnType<typeof impersonation>]

const HEADER = 'x-impersonation-token'
const SESSION = { userId: 'user-42', reason: 'Ticket 4711: exports fail' }
const hosts = Object.entries(impersonationHosts)

let made: TestTenancy<Satellites>
let tenancy: Tenancy<Satellites>
let host: Host
let id: string
let count = 0
const reached: Called[] = []

beforeAll(async () => {
  made = await testTenancy(inject('postgresUrl'), { satellites: [auditLogs(), impersonation()] })
  tenancy = made.tenancy
})
afterAll(() => made?.end())
beforeEach(async () => {
  count += 1
  id = (await installed(tenancy, { id: `customer-${count}`, name: 'Customer' })).id
  reached.splice(0)
})
afterEach(() => host?.close())

const guardOf = ({ tenants }: Pick<Tenancy, 'tenants'>) =>
  createGuard(tenants, { resolve: fromHeader(), authorize: 'anyone' })
const route = async (called: Called) => {
  reached.push(called)
  return {}
}
const call = (line: string, headers: Record<string, string> = {}) =>
  send(host.origin, line, { headers: { 'x-tenant-id': id, ...headers } })

test.each(hosts)(
  '%s: a token is rejected while the database is unavailable, and other requests succeed',
  async (_, open) => {
    const proxy = await startProxy(made.url)
    const distant = await made.open({ database: { url: proxy.url }, role: 'api' })
    try {
      host = await open({ guard: guardOf(distant), impersonation: distant.impersonation, route })
      const { token } = await tenancy.impersonation.start(id, SESSION)
      expect((await call('GET /orders', { [HEADER]: token })).status).toBe(200)
      reached.splice(0)
      await proxy.close()
      const refused = await call('GET /orders', { [HEADER]: token })
      expect([refused.status, refused.json.code]).toEqual([503, 'E_DEPENDENCY_UNAVAILABLE'])
      expect(refused.headers).toMatchObject({
        'content-type': expect.stringContaining('application/problem+json'),
        'cache-control': 'no-store',
        'x-request-id': refused.json.requestId,
      })
      expect(reached).toEqual([])
      expect((await call('GET /orders')).status).toBe(200)
      await proxy.open()
      const back = () => call('GET /orders', { [HEADER]: token })
      await eventually(async () => expect((await back()).status).toBe(200))
    } finally {
      await distant.stop()
      await proxy.close()
    }
  },
)

test('Express: a request with a token returns 503 while the database is unresponsive', async () => {
  const proxy = await startProxy(made.url)
  const distant = await made.open({ database: { url: proxy.url }, role: 'api' })
  const by = { guard: guardOf(distant), impersonation: distant.impersonation, route }
  host = (await impersonationHosts.express?.(by)) ?? expect.fail()
  const { token } = await tenancy.impersonation.start(id, SESSION)
  await call('GET /orders')
  reached.splice(0)
  proxy.blackhole()
  const refused = await call('GET /orders', { [HEADER]: token })
  expect([refused.status, refused.json.code]).toEqual([503, 'E_DEPENDENCY_UNAVAILABLE'])
  expect(reached).toEqual([])
  await proxy.close()
  await distant.stop()
})
