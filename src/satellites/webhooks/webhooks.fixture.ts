/** A tenancy with webhooks that may send to this machine. */
import type { Tenancy, TenancyConfig } from '../../tenancy/tenancy.ts'
import { type FakeClock, fakeClock } from '../../testing/base/clock.ts'
import { installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { type WebhooksOptions, webhooks } from './index.ts'

export type WebhooksSatellites = [ReturnType<typeof webhooks>]
export type WebhooksTenancy = Tenancy<WebhooksSatellites>

export const DEVELOPMENT = { allowPrivateNetworks: true, allowHttp: true } as const

export const openWebhooks = (
  postgresUrl: string,
  options: WebhooksOptions = {},
  config: Partial<TenancyConfig<WebhooksSatellites>> = {},
): Promise<TestTenancy<WebhooksSatellites>> =>
  testTenancy<WebhooksSatellites>(postgresUrl, {
    satellites: [webhooks(options)],
    egress: DEVELOPMENT,
    ...config,
  })

/** A stopped clock at the current time, for which partitions exist. */
export const clockOfToday = (): FakeClock => fakeClock(new Date())

let count = 0

/** A new tenant. */
export async function anyTenant(tenancy: WebhooksTenancy): Promise<string> {
  count += 1
  const { id } = await installed(tenancy, { id: `tenant-${count}`, name: `Tenant ${count}` })
  return id
}

/** Inserts rows of subscriptions of a tenant, or with null of the host. Creates the row of the tenant if it is absent. */
export async function subscriptionRows(
  tenancy: WebhooksTenancy,
  owner: string | null,
  many: number,
  event: '*' | 'none' = 'none',
): Promise<string[]> {
  const { database } = tenancy.kernel
  await database.sql(
    `insert into multitenancy.tenants (id, name, status, metadata, domains, locator, isolation, placement, created_at, updated_at)
     select $1::text, 'Loud or not', 'active', '{}', '{}', 'of_' || $1, 'schema-pg', 'main', now(), now()
     where $1 is not null on conflict do nothing`,
    [owner],
  )
  const { rows } = await database.sql(
    `insert into multitenancy.webhook_subscriptions (id, tenant_id, url, events, enabled, secret, created_at, updated_at)
     select gen_random_uuid(), $1, 'https://example.com/', array[$3], true, '', now(), now() from generate_series(1, $2)
     returning id`,
    [owner, many, event],
  )
  return rows.map(({ id }) => id)
}
