/**
 * Benchmark of an idle system's webhook, from `dispatch` to the receiver, and of the delay of due retries. References:
 * a LISTEN/NOTIFY round trip and a POST; and an INSERT of one row and a POST, which is the minimum for durable
 * delivery.
 */
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { Agent } from 'undici'
import type { Bench, Result } from '../measure.ts'
import { PAYLOAD, type Sending, withWebhooks } from '../webhooks.ts'

const TENANT = 'tenant-1'
const PAUSE_MS = 15
const RETRIED = 50

export const webhookLatency = {
  name: 'webhook latency',
  run: ({ postgresUrl, quick }: Bench): Promise<Result[]> =>
    withWebhooks(postgresUrl, 1, {}, async (tenancy, url) => {
      const receiver = await startReceiver()
      try {
        const { webhookId } = await tenancy.webhooks.create(TENANT, { url: receiver.url, events: ['*'] })
        const count = quick ? 50 : 500
        const ours: number[] = []
        const baseline: number[] = []
        const durable: number[] = []
        const notified = await listening(url)
        const agent = new Agent()
        const post = async () => {
          const { body } = await agent.request({ origin: receiver.url, path: '/', method: 'POST', body: '{}' })
          await body.dump()
        }
        for (let n = 0; n < count + 20; n++) {
          const one = await receiver.timed(() => tenancy.webhooks.dispatch(TENANT, 'invoice.paid', PAYLOAD))
          await sleep(PAUSE_MS)
          const other = await receiver.timed(async () => {
            await notified.roundTrip()
            await post()
          })
          await sleep(PAUSE_MS)
          const least = await receiver.timed(async () => {
            await notified.insert()
            await post()
          })
          await sleep(PAUSE_MS)
          if (n < 20) continue
          ours.push(one)
          baseline.push(other)
          durable.push(least)
        }
        await agent.close()
        await notified.close()
        const at = (share: number, reference: readonly number[], against: string) => {
          const [mine, theirs] = [percentile(ours, share), percentile(reference, share)]
          const name = `webhook, dispatch to receipt, idle, ${share === 0.5 ? 'median' : 'p99'}`
          return { name, against, unit: 'ms', ours: mine, reference: theirs, ratio: theirs / mine }
        }
        const toBare = (share: number): Result => ({
          ...at(share, baseline, 'a bare LISTEN/NOTIFY round trip and a bare POST'),
          goal: 0.5,
        })
        const toDurable = (share: number): Result => at(share, durable, 'a bare INSERT and a bare POST')
        return [
          toBare(0.5),
          toBare(0.99),
          toDurable(0.5),
          toDurable(0.99),
          await lateRetries(tenancy, webhookId, receiver),
        ]
      } finally {
        await receiver.close()
      }
    }),
}

/** Milliseconds from the due time of each retry to its arrival. */
async function lateRetries(tenancy: Sending, webhookId: string, receiver: Receiver): Promise<Result> {
  receiver.status = 503
  const ids: string[] = []
  for (let n = 0; n < RETRIED; n++) ids.push(...(await tenancy.webhooks.dispatch(TENANT, 'invoice.paid', PAYLOAD)))
  const due = new Map<string, number>()
  while (due.size < RETRIED) {
    await sleep(50)
    for (const id of ids) {
      const { nextRetryAt } = await tenancy.webhooks.delivery(TENANT, webhookId, id)
      if (nextRetryAt) due.set(id, Date.parse(nextRetryAt))
    }
  }
  receiver.status = 200
  receiver.arrivals.clear()
  while (receiver.arrivals.size < RETRIED) await sleep(50)
  const late = ids.map((id) => (receiver.arrivals.get(id) ?? 0) - (due.get(id) ?? 0))
  const isInTime = Math.max(...late) <= 1_000
  return {
    name: 'delay of a due retry',
    value: `median ${Math.round(percentile(late, 0.5))} ms, at most ${Math.round(Math.max(...late))} ms${isInTime ? '' : ', MISSED'}`,
    goal: 'within 1 s',
  }
}

interface Receiver {
  readonly url: string
  /** Arrival of each delivery, as `Date.now()`. */
  readonly arrivals: Map<string, number>
  status: number
  /** Milliseconds from the call to the next request. */
  timed(call: () => Promise<unknown>): Promise<number>
  close(): Promise<void>
}

async function startReceiver(): Promise<Receiver> {
  let arrived = (_at: number) => {}
  const arrivals = new Map<string, number>()
  const server = createServer((request, response) => {
    arrived(performance.now())
    const id = request.headers['x-delivery-id']
    if (typeof id === 'string') arrivals.set(id, Date.now())
    request.resume()
    request.once('end', () => response.writeHead(receiver.status).end())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const receiver: Receiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    arrivals,
    status: 204,
    async timed(call) {
      const arrival = new Promise<number>((resolve) => {
        arrived = resolve
      })
      const started = performance.now()
      const [at] = await Promise.all([arrival, call()])
      return at - started
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return receiver
}

/** One connection notifies, the other listens. */
async function listening(
  url: string,
): Promise<{ roundTrip(): Promise<void>; insert(): Promise<void>; close(): Promise<void> }> {
  const [speaker, listener] = [new pg.Client({ connectionString: url }), new pg.Client({ connectionString: url })]
  await Promise.all([speaker.connect(), listener.connect()])
  await listener.query('listen bench')
  await speaker.query('create table if not exists outbox (id uuid primary key, body text not null, status int)')
  return {
    async roundTrip() {
      const notified = new Promise<void>((resolve) => listener.once('notification', () => resolve()))
      await speaker.query('notify bench')
      await notified
    },
    async insert() {
      const values = [randomUUID(), JSON.stringify(PAYLOAD)]
      await speaker.query({ name: 'keep', text: 'insert into outbox (id, body) values ($1, $2)', values })
    },
    close: async () => void (await Promise.all([speaker.end(), listener.end()])),
  }
}

function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
