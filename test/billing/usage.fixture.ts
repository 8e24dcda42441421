/**
 * Tenants with metered quotas: a tenancy with quotas and billing, and a provider with meters, whose clock drives
 * tenancy and store.
 */
import { Redis } from 'ioredis'
import { inject } from 'vitest'
import { memoryStore } from '../../src/drivers/store/memory.ts'
import { postgresStore } from '../../src/drivers/store/postgres.ts'
import { redisStore } from '../../src/drivers/store/redis.ts'
import { uuidv7 } from '../../src/kernel/base/ids.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import type { StoreDriver } from '../../src/kernel/store/store.ts'
import type { SomeOptions } from '../../src/satellites/billing/billing.fixture.ts'
import { type BillingOptions, billing } from '../../src/satellites/billing/index.ts'
import type { UsageRow } from '../../src/satellites/billing/model/tables.ts'
import { quotas } from '../../src/satellites/quotas/index.ts'
import type { Tenancy, TenancyConfig } from '../../src/tenancy/tenancy.ts'
import { type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import { type Provider, type ProviderOptions, startProvider } from '../support/provider/provider.ts'

export const STORES = ['memory', 'postgres', 'redis'] as const
export type StoreName = (typeof STORES)[number]

export const PLANS = { defaultPlan: 'free', definitions: { free: { limits: { exports: 5 } }, pro: { limits: {} } } }

export type MeteredSatellites = [ReturnType<typeof quotas>, ReturnType<typeof billing>]
export type MeteredTenancy = Tenancy<MeteredSatellites>

export interface Metered extends TestTenancy<MeteredSatellites> {
  readonly provider: Provider
  readonly options: BillingOptions
  /** Key prefix in Redis. */
  readonly keyPrefix: string
  readonly log: string[]
  tenant(): Promise<string>
  payer(): Promise<{ readonly tenantId: string; readonly customerId: string }>
  /** Advances to shortly after the next midnight. */
  toTomorrow(): void
  /** Sends all unsent batches, as their jobs do. */
  send(by?: MeteredTenancy): Promise<void>
  /** Closes the windows, then sends. */
  report(by?: MeteredTenancy): Promise<void>
  /** Oldest first. */
  batches(tenantId: string): Promise<UsageRow[]>
  /** Usage that the provider has counted on the meter `api_calls`. */
  counted(customerId: string): number
  /** Simulates the replacement of the store's server by an empty one. */
  emptyStore(): Promise<void>
}

export async function openMetered(
  name: StoreName,
  {
    options = {},
    config = {},
    provider: providerOptions = {},
  }: {
    options?: SomeOptions
    config?: Partial<TenancyConfig<MeteredSatellites>>
    provider?: ProviderOptions
  } = {},
): Promise<Metered> {
  const provider = await startProvider({ start: new Date('2026-03-10T12:00:00Z'), ...providerOptions })
  provider.meter({ eventName: 'api_calls' })
  provider.meter({ eventName: 'exports_made' })
  const price = provider.price({ product: provider.product({ name: 'Pro' }).id, amount: 2_900, interval: 'month' })
  const settings: BillingOptions = {
    products: { [price.id]: 'pro' },
    usage: { calls: { meter: 'api_calls' }, exports: { meter: 'exports_made' } },
    ...options,
    stripe: {
      apiKey: provider.apiKey,
      webhookSecret: 'whsec_of_the_endpoint',
      endpoint: provider.url,
      maxNetworkRetries: 0,
      ...options.stripe,
    },
  }
  const keyPrefix = `${uuidv7()}:`
  const clockOffsetMs = () => provider.now().getTime() - Date.now()
  const drivers: Record<StoreName, () => StoreDriver> = {
    memory: memoryStore,
    postgres: () => postgresStore({ clockOffsetMs }),
    redis: () => redisStore({ url: inject('redisUrl'), keyPrefix, clockOffsetMs }),
  }
  const log: string[] = []
  const opened = await testTenancy<MeteredSatellites>(inject('postgresUrl'), {
    satellites: [quotas(), billing(settings)],
    plans: PLANS,
    role: 'api',
    store: drivers[name](),
    clock: { now: () => provider.now() },
    resilience: { redis: { quota: 'fail-closed' } }, // a failed count is an error
    logger: createLogger({ level: 'info', write: (line) => log.push(line) }),
    ...config,
  })
  const { tenancy } = opened
  const sql = async (text: string, values: readonly unknown[] = []) =>
    (await tenancy.kernel.database.sql(text, values)).rows

  const metered: Metered = {
    ...opened,
    provider,
    options: settings,
    keyPrefix,
    log,
    tenant: async () => (await tenancy.tenants.create({ name: 'Payer' })).id,
    async payer() {
      const tenantId = await metered.tenant()
      return { tenantId, customerId: await tenancy.billing.ensureCustomer(tenantId) }
    },
    toTomorrow() {
      provider.advance({ seconds: 86_400 - ((provider.now().getTime() / 1_000) % 86_400) + 1 })
    },
    async send(by = tenancy) {
      const open = await sql('select id from multitenancy.billing_usage where sent_at is null order by used_at')
      for (const { id } of open) await by.billing.usage.send(id)
    },
    async report(by = tenancy) {
      await by.billing.windows.close()
      await metered.send(by)
    },
    batches: (tenantId) =>
      sql(
        `select id, tenant_id as "tenantId", meter, quantity, used_at as "usedAt", first_sent_at as "firstSentAt", unanswered,
           sent_at as "sentAt", error_code as "errorCode", attempts, next_attempt_at as "nextAttemptAt", held_at as "heldAt"
         from multitenancy.billing_usage where tenant_id = $1 order by used_at, id`,
        [tenantId],
      ),
    counted: (customerId) => provider.usage('api_calls', customerId),
    async emptyStore() {
      if (name === 'memory') throw new Error('the store memory ends with its process')
      if (name === 'postgres') await sql('truncate multitenancy.store_counters')
      if (name !== 'redis') return
      const admin = new Redis(inject('redisUrl'))
      for (const key of await admin.keys(`${keyPrefix}*`)) await admin.unlink(key)
      admin.disconnect()
    },
    async end() {
      await opened.end()
      await provider.close()
    },
  }
  return metered
}

/** Timestamps of the usage reports that the provider received for a meter. */
export const timesOf = (provider: Provider, meter = 'api_calls'): string[] =>
  provider.requests
    .filter(({ path, params }) => path === '/v1/billing/meter_events' && params.event_name === meter)
    .map(({ params }) => new Date(Number(params.timestamp) * 1_000).toISOString())
