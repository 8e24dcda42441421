/** Services on one database, each with its store in a Redis, and calls of their API. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, inject } from 'vitest'
import { createProgramDatabase } from '../cli/in-process.fixture.ts'
import type { TestDatabase } from '../testing/base/database.ts'
import { dropWithRoles } from '../testing/base/roles.ts'
import { TEST_APP_KEY } from '../testing/base/tenancy.ts'
import { loadConfig } from './config.ts'
import { type Service, startService } from './main.ts'

export const TOKEN = 'a-token-for-the-service'
export const API = '/admin/multitenancy/tenants'

/** For one file. */
export function useRedisServices() {
  const fixture = {} as { directory: string; database: TestDatabase }
  beforeAll(async () => {
    fixture.directory = await mkdtemp(join(tmpdir(), 'tenantry-redis-service-'))
    fixture.database = await createProgramDatabase(inject('postgresUrl'))
  })
  afterAll(async () => {
    await dropWithRoles(inject('postgresUrl'), fixture.database)
    await rm(fixture.directory, { recursive: true, force: true })
  })
  return Object.assign(fixture, {
    async serviceWith(redisUrl: string): Promise<Service> {
      const env = {
        DATABASE_URL: fixture.database.url,
        REDIS_URL: redisUrl,
        TENANTRY_ADMIN_TOKEN: TOKEN,
        TENANTRY_APP_KEY: TEST_APP_KEY,
        PORT: '0',
        LOG_LEVEL: 'silent',
      }
      return startService(await loadConfig({ env, directory: fixture.directory }))
    },
  })
}

export async function call(service: Service, method: string, path: string, body?: unknown): Promise<any> {
  const response = await fetch(`${service.url}${path}`, {
    method,
    headers: { 'x-admin-token': TOKEN, 'content-type': 'application/json' },
    body: body === undefined ? null : JSON.stringify(body),
  })
  return response.json()
}
