/** The service starts while Redis is unavailable, and uses it once it is available. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { createProgramDatabase } from '../cli/in-process.fixture.ts'
import { programWith } from '../cli/program.fixture.ts'
import type { TestDatabase } from '../testing/database.ts'
import { startProxy } from '../testing/proxy.ts'
import { dropWithRoles } from '../testing/roles.ts'
import { eventually, TEST_APP_KEY } from '../testing/tenancy.ts'
import { loadConfig } from './config.ts'
import { type Service, startService } from './main.ts'

const TOKEN = 'a-token-for-the-service'

let directory: string
let database: TestDatabase

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-redis-service-'))
  database = await createProgramDatabase(inject('postgresUrl'))
})
afterAll(async () => {
  await dropWithRoles(inject('postgresUrl'), database)
  await rm(directory, { recursive: true, force: true })
})

async function serviceWith(redisUrl: string): Promise<Service> {
  const env = {
    DATABASE_URL: database.url,
    REDIS_URL: redisUrl,
    TENANTRY_ADMIN_TOKEN: TOKEN,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    PORT: '0',
    LOG_LEVEL: 'silent',
  }
  return startService(await loadConfig({ env, directory }))
}

async function call(service: Service, method: string, path: string, body?: unknown): Promise<any> {
  const response = await fetch(`${service.url}${path}`, {
    method,
    headers: { 'x-admin-token': TOKEN, 'content-type': 'application/json' },
    body: body === undefined ? null : JSON.stringify(body),
  })
  return response.json()
}

const API = '/admin/multitenancy/tenants'

test('it starts while Redis is away, says so, and uses it when it is there', async () => {
  const way = await startProxy(inject('redisUrl'))
  await way.close()
  const service = await serviceWith(way.url)
  const { id } = await call(service, 'POST', API, { name: 'Acme' })
  const consume = () => call(service, 'POST', `${API}/${id}/quotas/exports/consume`, {})
  expect(await consume()).toMatchObject({ allowed: true, usage: 0, degraded: true })
  expect(await call(service, 'GET', '/readyz')).toMatchObject({
    status: 'degraded',
    checks: { store: { status: 'fail' }, backoffice: { status: 'pass' } },
  })
  await way.open()
  await eventually(async () => expect(await consume()).toMatchObject({ usage: 1, degraded: false }))
  await service.stop()
  await way.close()
})

test('started at a terminal while Redis is away, it says that the sign-in page asks for the token', async () => {
  const way = await startProxy(inject('redisUrl'))
  await way.close()
  const tenantry = programWith({
    DATABASE_URL: database.url,
    REDIS_URL: way.url,
    TENANTRY_ADMIN_TOKEN: TOKEN,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_DATA_DIR: join(directory, 'data'),
    PORT: '0',
    LOG_LEVEL: 'error',
  })
  const child = tenantry.start(['serve'], { cwd: directory, env: {}, stdin: '' })
  const [block] = await child.says(/Tenantry[\s\S]*Stop with Ctrl-C\./)
  expect(block).toMatch(/API page +http:\S+\/sign-in {3}\(asks for the token\)\n/)
  await tenantry.killAll()
}, 60_000)
