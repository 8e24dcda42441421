/** A tenancy that sends webhooks from this process, and what they are compared with: one shared undici pool, and an HMAC. */
import { createHmac } from 'node:crypto'
import { type WebhooksOptions, webhooks } from 'tenantry/satellites/webhooks'
import { Agent } from 'undici'
import type { Tenancy } from '../src/index.ts'
import { fillRegistry, withTenancy } from './tenancy.ts'

export type Sending = Tenancy<[ReturnType<typeof webhooks>]>

export const PAYLOAD = { id: 'in_0001', amount: 4_200, currency: 'eur', lines: [{ sku: 'seat', quantity: 3 }] } as const
export const IN_FLIGHT = 64

const SECRET = 'a-secret-of-the-benchmark'

/** @param tenants in the registry, `tenant-1` and so on */
export const withWebhooks = <T>(
  postgresUrl: string,
  tenants: number,
  options: WebhooksOptions,
  work: (tenancy: Sending, url: string) => Promise<T>,
): Promise<T> =>
  withTenancy(
    postgresUrl,
    async (opened, url) => {
      await fillRegistry(opened, tenants)
      return work(opened as unknown as Sending, url)
    },
    {
      satellites: [webhooks({ bridge: false, ...options })],
      egress: { allowPrivateNetworks: true, allowHttp: true },
    },
  )

/** How many attempts of this process have been settled as delivered. */
export async function delivered({ webhooks: service }: Sending): Promise<number> {
  const [attempts] = service.series.series()
  for (const { labels, value } of (await attempts?.collect()) ?? []) if (labels?.outcome === 'delivered') return value
  throw new Error('attempts are not counted')
}

/** Calls `work` so many times, with `IN_FLIGHT` of them at once. */
export async function inFlight(count: number, work: (n: number) => Promise<unknown>): Promise<void> {
  let next = 0
  const lane = async () => {
    while (next < count) await work(next++)
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane))
}

/** Requests a second of a bare loop over one shared pool, each signed. */
export async function bareLoop(url: string, count: number): Promise<number> {
  const agent = new Agent()
  const { origin, pathname } = new URL(url)
  const started = performance.now()
  await inFlight(count, async (n) => {
    const body = JSON.stringify(PAYLOAD)
    const { body: answer } = await agent.request({
      origin,
      path: pathname,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-delivery-id': String(n),
        'x-webhook-signature': createHmac('sha256', SECRET).update(body).digest('hex'),
      },
      body,
    })
    await answer.dump()
  })
  const perSecond = count / ((performance.now() - started) / 1_000)
  await agent.close()
  return perSecond
}
