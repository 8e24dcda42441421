/**
 * Sends webhooks from a tenancy in this process, and from its references: one shared undici pool with an HMAC, without
 * and with a minimal durable outbox.
 */
import { createHmac, randomUUID } from 'node:crypto'
import pg from 'pg'
import { type WebhooksOptions, webhooks } from 'tenantry/satellites/webhooks'
import { Agent } from 'undici'
import type { Tenancy } from '../src/index.ts'
import { Batcher } from '../src/kernel/base/batcher.ts'
import { fillRegistry, withTenancy } from './tenancy.ts'

export type Sending = Tenancy<[ReturnType<typeof webhooks>]>

export const PAYLOAD = { id: 'in_0001', amount: 4_200, currency: 'eur', lines: [{ sku: 'seat', quantity: 3 }] } as const
export const IN_FLIGHT = 64

const SECRET = 'a-secret-of-the-benchmark'

/** @param tenants number of tenants in the registry: `tenant-1` and so on */
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

/** Number of attempts of this process that were settled as delivered. */
export async function delivered({ webhooks: service }: Sending): Promise<number> {
  const [attempts] = service.series.series()
  for (const { labels, value } of (await attempts?.collect()) ?? []) if (labels?.outcome === 'delivered') return value
  throw new Error('attempts are not counted')
}

/** Calls `work` `count` times, with `IN_FLIGHT` concurrent calls. */
export async function inFlight(count: number, work: (n: number) => Promise<unknown>): Promise<void> {
  let next = 0
  const worker = async () => {
    while (next < count) await work(next++)
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker))
}

/** Sends one signed request. */
type Post = (id: string, body: string) => Promise<void>

/** Requests per second of a loop over one shared pool, each signed. */
export const baselineLoop = (url: string, count: number): Promise<number> =>
  loop(url, count, (post, n) => post(String(n), JSON.stringify(PAYLOAD)))

/**
 * The same with an outbox table: a row is inserted before its request, and marked after the response. Concurrent rows
 * are batched.
 */
export async function outboxLoop(url: string, count: number, postgresUrl: string): Promise<number> {
  const client = new pg.Client({ connectionString: postgresUrl })
  const other = new pg.Client({ connectionString: postgresUrl })
  await Promise.all([client.connect(), other.connect()])
  await client.query('create table if not exists outbox (id uuid primary key, body text not null, status int)')
  const kept = new Batcher<readonly [string, string], void>(
    async (rows) => {
      const text = 'insert into outbox (id, body) select * from unnest($1::uuid[], $2::text[])'
      await client.query({ name: 'keep', text, values: [rows.map(([id]) => id), rows.map(([, body]) => body)] })
      return rows.map(() => undefined)
    },
    { maxItems: IN_FLIGHT },
  )
  const settled = new Batcher<string, void>(
    async (ids) => {
      await other.query({
        name: 'settle',
        text: 'update outbox set status = 204 where id = any($1::uuid[])',
        values: [ids],
      })
      return ids.map(() => undefined)
    },
    { maxItems: IN_FLIGHT },
  )
  const perSecond = await loop(url, count, async (post) => {
    const id = randomUUID()
    const body = JSON.stringify(PAYLOAD)
    await kept.add([id, body])
    await post(id, body)
    await settled.add(id)
  })
  await Promise.all([client.end(), other.end()])
  return perSecond
}

async function loop(url: string, count: number, work: (post: Post, n: number) => Promise<void>): Promise<number> {
  const agent = new Agent()
  const { origin, pathname } = new URL(url)
  const post: Post = async (id, body) => {
    const { body: answer } = await agent.request({
      origin,
      path: pathname,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-delivery-id': id,
        'x-webhook-signature': createHmac('sha256', SECRET).update(body).digest('hex'),
      },
      body,
    })
    await answer.dump()
  }
  const started = performance.now()
  await inFlight(count, (n) => work(post, n))
  const perSecond = count / ((performance.now() - started) / 1_000)
  await agent.close()
  return perSecond
}
