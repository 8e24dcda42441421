/** A tenancy with metrics on one of the stores, whose day the test moves. */
import { Redis } from 'ioredis'
import { inject } from 'vitest'
import { memoryStore } from '../../drivers/store/memory.ts'
import { postgresStore } from '../../drivers/store/postgres.ts'
import { redisStore } from '../../drivers/store/redis.ts'
import { createHttp, DEFAULT_PREFIX } from '../../http/app.ts'
import { uuidv7 } from '../../kernel/ids.ts'
import type { StoreDriver } from '../../kernel/store.ts'
import type { TenancyConfig } from '../../tenancy.ts'
import { type FakeClock, fakeClock } from '../../testing/clock.ts'
import { type TestTenancy, testTenancy } from '../../testing/tenancy.ts'
import { metrics } from './index.ts'

export const STORES = ['memory', 'postgres', 'redis'] as const
export type StoreName = (typeof STORES)[number]
export type Satellites = [ReturnType<typeof metrics>]

const TOKEN = 'a-token-for-the-tests'

export interface MetricsOpened {
  readonly clock: FakeClock
  readonly opened: TestTenancy<Satellites>
  /** Of Redis. */
  readonly keyPrefix: string
  tenant(): Promise<string>
  /** As when the server was replaced, or what it keeps was flushed. */
  emptyStore(): Promise<void>
  get(path: string, accept?: string): Promise<Response>
}

export async function openMetrics(
  name: StoreName,
  options: Partial<TenancyConfig<Satellites>> = {},
): Promise<MetricsOpened> {
  const clock = fakeClock(new Date(`${new Date().toISOString().slice(0, 10)}T12:00:00Z`))
  const keyPrefix = `${uuidv7()}:`
  const drivers: Record<StoreName, () => StoreDriver> = {
    memory: memoryStore,
    postgres: postgresStore,
    redis: () => redisStore({ url: inject('redisUrl'), keyPrefix }),
  }
  const opened = await testTenancy<Satellites>(inject('postgresUrl'), {
    satellites: [metrics()],
    role: 'api',
    store: drivers[name](),
    clock,
    ...options,
  })
  const { tenancy } = opened
  const http = createHttp(tenancy, { adminTokens: [{ name: 'alice', token: TOKEN }] })
  return {
    clock,
    opened,
    keyPrefix,
    tenant: async () => (await tenancy.tenants.create({ name: 'Acme' })).id,
    async emptyStore() {
      if (name === 'postgres') {
        await tenancy.kernel.database.sql('truncate multitenancy.store_sums, multitenancy.store_sum_sources')
      } else if (name === 'redis') {
        const admin = new Redis(inject('redisUrl'))
        for (const key of await admin.keys(`${keyPrefix}*`)) await admin.unlink(key)
        admin.disconnect()
      } else {
        throw new Error('the store memory ends with its process')
      }
    },
    get: (path, accept = 'application/json') =>
      http.fetch(
        new Request(`http://localhost${DEFAULT_PREFIX}${path}`, { headers: { 'x-admin-token': TOKEN, accept } }),
      ),
  }
}

/** `{ '2026-01-01 requests': 3 }` */
export const asRecord = (all: readonly { readonly period: string; readonly key: string; readonly value: number }[]) =>
  Object.fromEntries(all.map(({ period, key, value }) => [`${period} ${key}`, value]))
