import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Receiver, type ReceiverResponse, startReceiver } from '../../../test/support/receiver.ts'
import type { FakeClock } from '../../testing/base/clock.ts'
import { seededRandom } from '../../testing/base/seeded-random.ts'
import { eventually, type TestTenancy } from '../../testing/base/tenancy.ts'
import type { WebhooksOptions } from './index.ts'
import { BASE_DELAYS_MS, JITTER } from './model/delivery.ts'
import { clockOfToday, openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from './webhooks.fixture.ts'

const SEED = 20_261_122
const TENANTS = 4
const EVENTS = 250
const MAX_ATTEMPTS = 5
const OPTIONS: WebhooksOptions = { timeoutMs: 2_000, concurrency: 32, claim: 64, bridge: false }
/** The clock advances this far beyond the next due time, so that a step sends several deliveries. */
const STEP_MS = 5_000
const SETTLED_WITHIN_MS = 60_000

/** Behaviour of a receiver; `status` null: no response. */
interface Deed {
  readonly weight: number
  readonly status: number | null
  act(response: ServerResponse): ReceiverResponse | undefined
}

const responding = (status: number, weight: number, headers: Record<string, string> = {}): Deed => ({
  weight,
  status,
  act: () => ({ status, headers, body: status === 204 ? '' : 'as it is' }),
})
const GOOD = [responding(200, 5), responding(204, 1), responding(299, 1)]
const BAD: Deed[] = [
  responding(500, 4),
  responding(404, 2),
  responding(301, 2, { location: 'http://127.0.0.1:9/elsewhere' }),
  responding(503, 2, { 'retry-after': '90' }),
  responding(429, 2, { 'retry-after': 'Fri, 31 Dec 2100 23:59:59 GMT' }),
  { weight: 2, status: null, act: (response) => void response.destroy() },
  {
    weight: 1,
    status: null,
    act(response) {
      response.writeHead(200, { 'content-length': '100' }).write('a part')
      setImmediate(() => response.destroy())
      return undefined
    },
  },
]

const HANGS: Deed = { weight: 1, status: null, act: () => undefined }

let opened: TestTenancy<WebhooksSatellites>
let tenancy: WebhooksTenancy
let clock: FakeClock
let receiver: Receiver
/** Two tenancies with workers and three that only run retries. */
let runners: WebhooksTenancy[]

const sql = async (text: string, values: unknown[] = []) => (await tenancy.kernel.database.sql(text, values)).rows
const IS_WAITING = `from multitenancy.webhook_deliveries where due_at is not null`

/** Runs all tenancies until no delivery is due or in flight. */
async function runRetries(): Promise<void> {
  await eventually(async () => {
    await Promise.all(runners.map(({ webhooks }) => webhooks.retry()))
    const [row] = await sql(`select count(*) as count ${IS_WAITING} and (is_ready or state = 'delivering')`)
    expect(row.count).toBe(0)
  }, SETTLED_WITHIN_MS)
}

/** Stored statuses of the attempts of each delivery, in order; null for incomplete responses. */
async function keptStatuses(): Promise<Map<string, (number | null)[]>> {
  const rows = await sql(
    `select delivery_id, array_agg(number order by number) as numbers, array_agg(case when error is null then status end order by number) as statuses
     from multitenancy.webhook_attempts group by 1`,
  )
  for (const { numbers } of rows) expect(numbers).toEqual(numbers.map((_: number, index: number) => index + 1))
  return new Map(rows.map(({ delivery_id: id, statuses }) => [id, statuses]))
}

beforeAll(async () => {
  clock = clockOfToday()
  opened = await openWebhooks(inject('postgresUrl'), OPTIONS, { role: 'api', clock })
  tenancy = opened.tenancy
  const others = await Promise.all((['worker', 'worker', 'api', 'api'] as const).map((role) => opened.open({ role })))
  runners = [tenancy, ...others]
  receiver = await startReceiver()
  for (let n = 0; n < TENANTS; n++) await tenancy.tenants.create({ id: `acme-${n}`, name: 'Acme' })
})
afterAll(async () => {
  await receiver.close()
  await opened.end()
})

describe('receivers that fail at random', () => {
  test('each delivery is delivered or fails on schedule, and all counts agree', async () => {
    const random = seededRandom(SEED)
    const done = new Map<string, (number | null)[]>()
    receiver.respondWith(({ path, headers }, response) => {
      const failsIn100 = path.startsWith('/rough') ? 30 : 85
      const id = String(headers['x-delivery-id'])
      const before = done.get(id) ?? []
      const bad = before.length === 0 ? [...BAD, HANGS] : BAD // many hang concurrently, so the test waits for few timeouts
      const deed = random.weighted<Deed>(random.below(100) < failsIn100 ? bad : GOOD)
      done.set(id, [...before, deed.status])
      return deed.act(response)
    })
    for (let n = 0; n < TENANTS; n++) {
      for (const path of ['rough', 'bad']) {
        await tenancy.webhooks.create(`acme-${n}`, { url: `${receiver.url}/${path}/${n}`, events: ['order.*'] })
      }
    }
    const dispatched = await Promise.all(
      Array.from({ length: EVENTS }, (_, n) => tenancy.webhooks.dispatch(`acme-${n % TENANTS}`, 'order.paid', { n })),
    )
    const ids = dispatched.flat().toSorted()
    expect(ids).toHaveLength(2 * EVENTS)

    for (;;) {
      await runRetries()
      const [next] = await sql(`select min(due_at) as due ${IS_WAITING}`)
      if (next.due === null) break
      expect(next.due.getTime()).toBeGreaterThan(clock.now().getTime())
      clock.set(new Date(next.due.getTime() + STEP_MS))
    }

    const kept = await keptStatuses()
    expect([...done.keys()].toSorted()).toEqual(ids)
    expect(kept).toEqual(done)
    const deliveries = await sql(
      'select id, state, attempt_count, case when last_error is null then last_status end as last_status from multitenancy.webhook_deliveries',
    )
    const isSuccess = (status: number | null | undefined) => typeof status === 'number' && status >= 200 && status < 300
    const counted = { delivered: 0, failed: 0 }
    for (const { id, state, attempt_count: attempts, last_status: last } of deliveries) {
      const statuses = kept.get(id) ?? []
      expect(attempts).toBe(statuses.length)
      expect(last).toBe(statuses.at(-1))
      expect(statuses.slice(0, -1).filter(isSuccess)).toEqual([])
      expect(state).toBe(isSuccess(statuses.at(-1)) ? 'delivered' : 'failed')
      if (state === 'failed') expect(attempts).toBe(MAX_ATTEMPTS)
      counted[state as keyof typeof counted] += 1
    }
    expect(counted.delivered + counted.failed).toBe(ids.length)
    expect(Math.min(counted.delivered, counted.failed)).toBeGreaterThan(0)
    const [tallied] = await sql(
      'select sum(delivered)::int as delivered, sum(failed)::int as failed from multitenancy.webhook_counters',
    )
    expect(tallied).toEqual(counted)
    // None was tried before its time.
    const gaps = await sql(
      `select number, extract(epoch from started_at - lag(started_at) over (partition by delivery_id order by number)) * 1000
         as ms from multitenancy.webhook_attempts`,
    )
    const early = gaps.filter(({ number, ms }) => {
      return ms !== null && Number(ms) < (BASE_DELAYS_MS[number - 2] as number) * (1 - JITTER)
    })
    expect(early).toEqual([])
  }, 240_000)
})

describe('concurrent workers and retry runs', () => {
  test('send each delivery once', async () => {
    const count = 1_500
    const times = new Map<string, number>()
    receiver.respondWith(({ headers }) => {
      const id = String(headers['x-delivery-id'])
      times.set(id, (times.get(id) ?? 0) + 1)
      return {}
    })
    const before = await sql('select count(*) as count from multitenancy.webhook_attempts')
    const ids: string[] = []
    const dispatching = Array.from({ length: 16 }, async (_, worker) => {
      for (let n = worker; n < count; n += 16) {
        const from = runners[n % runners.length] as WebhooksTenancy
        ids.push(...(await from.webhooks.dispatch(`acme-${n % TENANTS}`, 'order.paid', { n })))
      }
    })
    let isFinished = false
    const retrying = runners.map(async ({ webhooks }) => {
      while (!isFinished) await webhooks.retry()
    })
    await Promise.all(dispatching)
    isFinished = true
    await Promise.all(retrying)
    await runRetries()
    expect([...times.keys()].toSorted()).toEqual(ids.toSorted())
    expect([...times.values()].filter((each) => each !== 1)).toEqual([])
    const after = await sql('select count(*) as count from multitenancy.webhook_attempts')
    expect(after[0].count - before[0].count).toBe(ids.length)
    await keptStatuses()
  })

  test('a process that only runs retries sends nothing after its concurrent runs', async () => {
    const alone = await openWebhooks(inject('postgresUrl'), OPTIONS, { role: 'api' })
    try {
      const { tenants, webhooks, kernel } = alone.tenancy
      await tenants.create({ id: 'acme', name: 'Acme' })
      await webhooks.create('acme', { url: `${receiver.url}/alone`, events: ['order.*'] })
      await Promise.all(Array.from({ length: 5 }, () => webhooks.retry()))
      const before = receiver.received.length
      const ids = await webhooks.dispatch('acme', 'order.paid', {})
      const { rows } = await kernel.database.sql(
        'select count(*) as count from multitenancy.webhook_deliveries where id = any($1) and is_ready',
        [ids],
      )
      expect(rows[0].count).toBe(1)
      expect(receiver.received).toHaveLength(before)
      expect(await webhooks.retry()).toBe(1)
    } finally {
      await alone.end()
    }
  })
})
