/** Guarded routes of a host while the backoffice database is unavailable, on each framework. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { createLogger } from '../../src/kernel/base/logger.ts'
import type { Tenancy } from '../../src/tenancy/tenancy.ts'
import { createGuard } from '../../src/tenants/guard/guard.ts'
import { fromHeader } from '../../src/tenants/guard/strategies.ts'
import { type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import { startProxy } from '../support/proxy.ts'
import { guardedHosts } from './guarded-hosts.ts'
import { send } from './served.ts'

let made: TestTenancy<[]>
let proxy: Awaited<ReturnType<typeof startProxy>>
let tenants: Tenancy['tenants']

beforeAll(async () => {
  made = await testTenancy(inject('postgresUrl'))
  proxy = await startProxy(made.url)
  tenants = (await made.open({ database: { url: proxy.url }, role: 'api' })).tenants
  await proxy.close()
})
afterAll(async () => {
  await proxy.open()
  await made.end()
  await proxy.close()
})

test.each(Object.entries(guardedHosts))(
  '%s: a request to a guarded route returns 503 during a backoffice outage',
  async (_, open) => {
    const reached: unknown[] = []
    const host = await open({
      guard: createGuard(tenants, { resolve: fromHeader(), authorize: 'anyone' }),
      routes: { 'GET /seen': (called) => reached.push(called) },
      log: createLogger({ level: 'silent' }),
    })
    const response = await send(host.origin, 'GET /seen', { headers: { 'x-tenant-id': 'acme' } })
    await host.close()
    expect(response).toMatchObject({
      status: 503,
      headers: { 'content-type': expect.stringContaining('application/problem+json'), 'cache-control': 'no-store' },
      json: { status: 503, code: 'E_DEPENDENCY_UNAVAILABLE', requestId: response.headers['x-request-id'] },
    })
    expect(response.json.requestId).toMatch(/^[\w.-]{1,128}$/)
    expect(reached).toEqual([])
  },
)
