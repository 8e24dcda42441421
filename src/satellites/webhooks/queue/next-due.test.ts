/** Wake-ups without notifications: due retries, and expired leases of crashed processes. */

import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { type Receiver, startReceiver } from '../../../../test/support/receiver.ts'
import type { Clock } from '../../../kernel/base/clock.ts'
import { eventually, type TestTenancy } from '../../../testing/base/tenancy.ts'
import { openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from '../webhooks.fixture.ts'
import type { DeliveryWorker, WorkerTiming } from '../worker/worker.ts'
import { type ClaimOptions, DeliveryQueue } from './queue.ts'
import { ReleasedClaims } from './released-claims.ts'

const LEASE_MS = 60_000
/** The database keeps milliseconds. */
const ROUNDED_MS = 1
/** A worker that polls continuously. */
const OFTEN = { pollMs: 20 }
/** A worker that wakes only at due times and for notifications. */
const NEVER = { pollMs: 3_600_000 }
const APART_MS = 60_000

/** A running clock that a test can advance. */
let leaptMs = 0
const leaping: Clock = { now: () => new Date(Date.now() + leaptMs) }

let opened: TestTenancy<WebhooksSatellites>
let api: WebhooksTenancy
let queue: DeliveryQueue
let receiver: Receiver
let worker: DeliveryWorker | undefined
let id: string
let webhookId: string

beforeAll(async () => {
  opened = await openWebhooks(inject('postgresUrl'), { bridge: false }, { role: 'api', clock: leaping })
  api = opened.tenancy
  queue = new DeliveryQueue(api.kernel.database, leaping)
  receiver = await startReceiver()
  id = (await api.tenants.create({ id: 'acme', name: 'Acme' })).id
  webhookId = (await api.webhooks.create(id, { url: receiver.url, events: ['order.*'] })).webhookId
})
afterEach(async () => {
  vi.useRealTimers()
  await worker?.stop()
  worker = undefined
  receiver.respondWith(() => ({}))
  await sql('truncate multitenancy.webhook_deliveries, multitenancy.webhook_attempts')
})
afterAll(async () => {
  await receiver.close()
  await opened.end()
})

const sql = async (text: string, values: unknown[] = []) => (await api.kernel.database.sql(text, values)).rows
async function startWorker(timing: Partial<WorkerTiming> = OFTEN): Promise<DeliveryWorker> {
  worker = api.webhooks.deliveryWorker(api.kernel.egress, undefined, timing)
  await worker.start()
  return worker
}
async function dispatch(): Promise<string> {
  const [deliveryId = ''] = await api.webhooks.dispatch(id, 'order.paid', {})
  return deliveryId
}
const read = (deliveryId: string) => api.webhooks.delivery(id, webhookId, deliveryId)
const timesReceived = (deliveryId: string) =>
  receiver.received.filter(({ headers }) => headers['x-delivery-id'] === deliveryId).length
const claim = (more: Partial<ClaimOptions> = {}) =>
  queue.claim({
    claim: randomUUID(),
    wanted: 64,
    leaseMs: LEASE_MS,
    perSubscription: 16,
    perTenant: 64,
    cursor: {},
    slowWebhooks: [],
    wantedFailing: 64,
    onlyWebhook: null,
    ...more,
  })
/** Due times of waiting deliveries, in milliseconds of the database clock. */
const dueInMs = async () => {
  const [row] = await sql(
    `select extract(epoch from min(due_at) - clock_timestamp()) * 1000 - $1::float8 as ms
     from multitenancy.webhook_deliveries where due_at is not null and not is_ready`,
    [leaptMs],
  )
  return Number(row.ms)
}

describe('nextDueMs of a claim', () => {
  test('is null without waiting deliveries', async () => {
    expect((await claim()).nextDueMs).toBeNull()
  })

  test('is the time until the next retry or end of a lease', async () => {
    const deliveryId = await dispatch()
    expect((await claim()).nextDueMs).toBeLessThanOrEqual(LEASE_MS + ROUNDED_MS)
    leaptMs += LEASE_MS + ROUNDED_MS
    const [lapsed] = (await claim()).deliveries
    expect(lapsed).toMatchObject({ id: deliveryId, attemptCount: 0 })
    receiver.respondWith(() => ({ status: 500 }))
    const retried = await dispatch()
    await api.webhooks.retry()
    expect((await read(retried)).state).toBe('retry_scheduled')
    const { nextDueMs } = await claim()
    expect(nextDueMs).toBeGreaterThan(0)
    expect(nextDueMs).toBeLessThanOrEqual(12_000 + ROUNDED_MS)
    leaptMs += 12_000 + ROUNDED_MS
    expect((await claim()).deliveries).toMatchObject([{ id: retried, attemptCount: 1 }])
    expect((await claim()).nextDueMs).toBeLessThanOrEqual(LEASE_MS - 12_000)
  })
})

describe('a worker without notifications', () => {
  test('sends a retry when it is due, and not before', async () => {
    const running = await startWorker()
    receiver.respondWith(() => ({ status: 503 }))
    const deliveryId = await dispatch()
    await eventually(async () => expect((await read(deliveryId)).state).toBe('retry_scheduled'))
    receiver.respondWith(() => ({}))
    leaptMs += (await dueInMs()) - 60_000
    await running.pass()
    expect(timesReceived(deliveryId)).toBe(1)
    leaptMs += 60_000
    const delivery = await eventually(async () => {
      const detail = await read(deliveryId)
      expect(detail.state).toBe('delivered')
      return detail
    })
    expect(timesReceived(deliveryId)).toBe(2)
    const [first, second] = delivery.attempts.map(({ startedAt }) => Date.parse(startedAt))
    expect((second ?? 0) - (first ?? 0)).toBeGreaterThanOrEqual(8_000)
  })

  test('wakes for each due time', async () => {
    const count = 4
    await sql(
      `with message as (
         insert into multitenancy.webhook_messages (id, tenant_id, event, body, created_at)
         values (gen_random_uuid(), $1, 'order.paid', '{}', now()) returning id)
       insert into multitenancy.webhook_deliveries
         (id, message_id, webhook_id, tenant_id, partition_key, event, state, is_ready, due_at, attempt_count, created_at)
       select gen_random_uuid(), message.id, $2, $1, $1, 'order.paid', 'retry_scheduled', false,
         clock_timestamp() + ($3::float8 + n * $4::float8) * interval '1 millisecond', 1, now()
       from message, generate_series(1, $5::int) n`,
      [id, webhookId, leaptMs, APART_MS, count],
    )
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'], shouldClearNativeTimers: true })
    await (await startWorker(NEVER)).pass() // it knows the first due time
    for (let delivered = 0; delivered <= count; delivered++) {
      await eventually(async () => {
        const rows = await sql(`select 1 from multitenancy.webhook_deliveries where state = 'delivered'`)
        expect(rows).toHaveLength(delivered)
      })
      leaptMs += APART_MS
      vi.advanceTimersByTime(APART_MS)
    }
  })

  test('sends all attempts of the schedule', async () => {
    await startWorker()
    receiver.respondWith(() => ({ status: 503 }))
    const deliveryId = await dispatch()
    for (let attempts = 1; attempts < 5; attempts++) {
      await eventually(async () => {
        const { state, attemptCount } = await read(deliveryId)
        expect({ state, attemptCount }).toEqual({ state: 'retry_scheduled', attemptCount: attempts })
      })
      leaptMs += await dueInMs()
    }
    await eventually(async () => expect((await read(deliveryId)).state).toBe('failed'))
    expect(timesReceived(deliveryId)).toBe(5)
  })

  test('sends deliveries of an abandoned claim when its lease has expired', async () => {
    const ids = [await dispatch(), await dispatch()]
    const { deliveries } = await claim()
    expect(deliveries.map((one) => one.id).toSorted()).toEqual(ids.toSorted())
    const running = await startWorker()
    await running.pass()
    expect(ids.map(timesReceived)).toEqual([0, 0])
    leaptMs += LEASE_MS + ROUNDED_MS
    await eventually(async () => {
      const states = await Promise.all(ids.map(read))
      expect(states).toMatchObject([
        { state: 'delivered', attemptCount: 1 },
        { state: 'delivered', attemptCount: 1 },
      ])
    })
    // A late settlement of the expired lease changes nothing.
    const late = deliveries.map((delivery) => ({
      delivery,
      verdict: { state: 'failed', delayMs: null, disables: null } as const,
      status: 500,
      error: null,
      isBlamed: true,
      startedMs: leaping.now().getTime(),
      durationMs: 1,
      address: null,
      requestHeaders: '{}',
      responseHeaders: null,
      responseBody: null,
    }))
    expect(await queue.settle(late)).toEqual([
      { isOurs: false, failingSince: null },
      { isOurs: false, failingSince: null },
    ])
    await new ReleasedClaims(api.kernel.database, { clock: leaping, log: api.kernel.log }).release(deliveries)
    expect(await Promise.all(ids.map(read))).toMatchObject([
      { attempts: [{ status: 200 }] },
      { attempts: [{ status: 200 }] },
    ])
    expect(ids.map(timesReceived)).toEqual([1, 1])
  })

  test('sends deliveries that were dispatched while it was not listening', async () => {
    await startWorker()
    await sql(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where application_name = 'tenantry listener' and datname = current_database()`,
    )
    // Without a notification.
    const [row] = await sql(
      `insert into multitenancy.webhook_messages (id, tenant_id, event, body, created_at)
       values ($1, $2, 'order.paid', '{}', now()) returning id`,
      [randomUUID(), id],
    )
    const deliveryId = randomUUID()
    await sql(
      `insert into multitenancy.webhook_deliveries
         (id, message_id, webhook_id, tenant_id, partition_key, event, state, is_ready, due_at, created_at)
       values ($1, $2, $3, $4, $4, 'order.paid', 'pending', true, now(), now())`,
      [deliveryId, row.id, webhookId, id],
    )
    await eventually(async () => expect((await read(deliveryId)).state).toBe('delivered'))
    expect(timesReceived(deliveryId)).toBe(1)
  })
})
