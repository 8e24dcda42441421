/** A tenancy with metrics on one of the stores, with a day that tests move. */
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, inject } from 'vitest'
import { memoryStore } from '../../drivers/store/memory.ts'
import { postgresStore } from '../../drivers/store/postgres.ts'
import { redisStore } from '../../drivers/store/redis.ts'
import { createHttp, DEFAULT_PREFIX } from '../../http/app.ts'
import { uuidv7 } from '../../kernel/base/ids.ts'
import { dateOf, dayOf } from '../../kernel/store/counters.ts'
import type { StoreDriver } from '../../kernel/store/store.ts'
import type { TenancyConfig } from '../../tenancy/tenancy.ts'
import { type FakeClock, fakeClock } from '../../testing/base/clock.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { metrics, type TenantMetrics } from './index.ts'

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
  /** Empties the store, as a replaced server or a flush of its data does. */
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

/** A tenancy for the tests of one store, and a tenant for each test. */
export function metricsOn(store: StoreName) {
  const fixture = {} as MetricsOpened & { metrics: TenantMetrics; acme: string }
  beforeAll(async () => {
    const all = await openMetrics(store)
    Object.assign(fixture, { ...all, metrics: all.opened.tenancy.metrics })
  })
  beforeEach(async () => {
    fixture.acme = await fixture.tenant()
  })
  afterAll(() => fixture.opened?.end())
  return Object.assign(fixture, {
    date: (back = 0) => dateOf(dayOf(fixture.clock.now().getTime()) - back),
    read: async (tenant = fixture.acme, filter = {}) => asRecord((await fixture.metrics.list(tenant, filter)).data),
    async rows(tenant = fixture.acme): Promise<string[]> {
      const { rows } = await fixture.opened.tenancy.kernel.database.sql(
        'select day::text, key, value from multitenancy.metric_sums where tenant_id = $1 order by day, key, value',
        [tenant],
      )
      return rows.map(({ day, key, value }) => `${day} ${key} ${value}`)
    },
  })
}

/** `{ '2026-01-01 requests': 3 }` */
export const asRecord = (all: readonly { readonly period: string; readonly key: string; readonly value: number }[]) =>
  Object.fromEntries(all.map(({ period, key, value }) => [`${period} ${key}`, value]))
