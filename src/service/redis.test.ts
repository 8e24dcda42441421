/** The service keeps its store in the Redis that `REDIS_URL` names. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { createProgramDatabase } from '../cli/in-process.fixture.ts'
import type { TestDatabase } from '../testing/database.ts'
import { dropWithRoles } from '../testing/roles.ts'
import { eventually, TEST_APP_KEY } from '../testing/tenancy.ts'
import { loadConfig } from './config.ts'
import { type Service, startService } from './main.ts'

const TOKEN = 'a-token-for-the-service'

let directory: string
let database: TestDatabase
let redis: Redis

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-redis-service-'))
  database = await createProgramDatabase(inject('postgresUrl'))
  redis = new Redis(inject('redisUrl'))
})
afterAll(async () => {
  await redis.quit()
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

test('quotas are counted and flags cached in Redis, under the keys that are documented', async () => {
  const service = await serviceWith(inject('redisUrl'))
  const { id } = await call(service, 'POST', API, { name: 'Acme' })
  expect(await call(service, 'POST', `${API}/${id}/quotas/exports/consume`, { amount: 3 })).toMatchObject({ usage: 3 })
  await call(service, 'PUT', `${API}/${id}/quotas/usage`, { quota: 'seats', value: 2 })
  await call(service, 'POST', `${API}/${id}/feature-flags/new-ui/evaluate`, {})
  const [counter] = await redis.keys(`quota:{${id}}:????-??-??:exports`)
  expect(await redis.get(counter ?? '')).toBe('3')
  expect(await redis.ttl(counter ?? '')).toBeGreaterThan(48 * 3_600 - 60)
  expect(await redis.get(`quota:{${id}}:snap:seats`)).toBe('2')
  expect(await redis.ttl(`quota:{${id}}:snap:seats`)).toBe(-1)
  await eventually(async () => expect(await redis.exists(`tenants/${id}/feature-flags/new-ui`)).toBe(1))
  expect(await call(service, 'GET', '/readyz')).toMatchObject({ status: 'ok', checks: { store: { status: 'pass' } } })

  const { tenants } = service.tenancy
  await tenants.delete(id)
  await service.tenancy.kernel.database.sql(`update multitenancy.tenants set purge_at = now() - interval '1 day'`)
  await tenants.installation.purge(id)
  expect(await redis.keys(`*${id}*`)).toEqual([])
  await service.stop()
})
