/** A tenancy with webhooks that may call this machine, for the tests of this folder. */
import type { Tenancy, TenancyConfig } from '../../tenancy.ts'
import { type FakeClock, fakeClock } from '../../testing/clock.ts'
import { installed, type TestTenancy, testTenancy } from '../../testing/tenancy.ts'
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

/** Now, standing still. Partitions are made for the time of the machine. */
export const clockOfToday = (): FakeClock => fakeClock(new Date())

let count = 0

/** A tenant of its own. */
export async function anyTenant(tenancy: WebhooksTenancy): Promise<string> {
  count += 1
  const { id } = await installed(tenancy, { id: `tenant-${count}`, name: `Tenant ${count}` })
  return id
}
