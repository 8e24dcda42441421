/** A tenancy with quotas on one of the stores, with a clock of the store that tests move. */
import { inject } from 'vitest'
import { memoryStore } from '../../drivers/store/memory.ts'
import { postgresStore } from '../../drivers/store/postgres.ts'
import { redisStore } from '../../drivers/store/redis.ts'
import { createHttp, DEFAULT_PREFIX } from '../../http/app.ts'
import { uuidv7 } from '../../kernel/base/ids.ts'
import { DAY_MS, dayOf } from '../../kernel/store/counters.ts'
import type { StoreDriver } from '../../kernel/store/store.ts'
import type { TenancyConfig } from '../../tenancy/tenancy.ts'
import { type FakeClock, fakeClock } from '../../testing/base/clock.ts'
import { testTenancy } from '../../testing/base/tenancy.ts'
import { quotas } from './index.ts'

export const STORES = ['memory', 'postgres', 'redis'] as const
export type StoreName = (typeof STORES)[number]

export const TOKEN = 'a-token-for-the-tests'

export const PLANS = {
  defaultPlan: 'free',
  definitions: {
    free: { limits: { exports: 10, seats: 3, none: 0 } },
    pro: { limits: { exports: 100, seats: 30 } },
    open: { limits: {} },
  },
}

/** Clock offset of a server's store, relative to `start`. */
function storeOf(name: StoreName, offsetMs: () => number): StoreDriver {
  if (name === 'memory') return memoryStore()
  if (name === 'postgres') return postgresStore({ clockOffsetMs: offsetMs })
  return redisStore({ url: inject('redisUrl'), keyPrefix: `${uuidv7()}:`, clockOffsetMs: offsetMs })
}

/** Of today: no midnight passes during a test, unless the test moves the clock. */
const noon = () => dayOf(Date.now()) * DAY_MS + DAY_MS / 2

export interface QuotasOpened {
  readonly clock: FakeClock
  /** Now, by the clock of the store. */
  storeNow(): number
  /** Moves the clock of the store to the next day's noon. */
  toTomorrow(): void
  readonly opened: Awaited<ReturnType<typeof testTenancy<[ReturnType<typeof quotas>]>>>
  /** A new tenant, with the plan `free` by default. */
  tenant(plan?: string): Promise<string>
  call(method: string, path: string, body?: unknown, token?: string): Promise<HttpResponse>
}

export interface HttpResponse {
  readonly status: number
  readonly headers: Headers
  readonly body: any
}

export async function openQuotas(
  name: StoreName,
  options: Partial<TenancyConfig<[ReturnType<typeof quotas>]>> = {},
): Promise<QuotasOpened> {
  const clock = fakeClock(new Date(noon()))
  let offsetMs = noon() - Date.now()
  const opened = await testTenancy(inject('postgresUrl'), {
    satellites: [quotas()],
    plans: PLANS,
    role: 'api',
    store: storeOf(name, () => offsetMs),
    ...(name === 'memory' ? { clock } : {}),
    ...options,
  })
  const { tenancy } = opened
  const http = createHttp(tenancy, {
    adminTokens: [
      { name: 'alice', token: TOKEN },
      { name: 'server', token: `${TOKEN}-runtime`, scope: 'runtime' },
    ],
  })
  const storeNow = () => (name === 'memory' ? clock.now().getTime() : Date.now() + offsetMs)
  return {
    clock,
    opened,
    storeNow,
    toTomorrow() {
      const leap = DAY_MS - (storeNow() % DAY_MS) + DAY_MS / 2
      if (name === 'memory') clock.advance(leap)
      else offsetMs += leap
    },
    async tenant(plan) {
      const { id } = await tenancy.tenants.create({ name: 'Acme', metadata: plan ? { plan } : {} })
      return id
    },
    async call(method, path, body, token = TOKEN) {
      const request = new Request(`http://localhost${DEFAULT_PREFIX}${path}`, {
        method,
        headers: { 'x-admin-token': token, 'content-type': 'application/json' },
        body: body === undefined ? undefined : JSON.stringify(body),
      })
      const response = await http.fetch(request)
      const text = await response.text()
      return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) }
    },
  }
}
