/** The stream of attempts: each attempt once, in any order of commits. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { type Receiver, startReceiver } from '../../../test/support/receiver.ts'
import { uuidAt } from '../../kernel/base/ids.ts'
import { type FakeClock, fakeClock } from '../../testing/base/clock.ts'
import { eventually, type TestTenancy } from '../../testing/base/tenancy.ts'
import { type TailedAttempt, type TailOptions, tail } from './tail.ts'
import { openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from './webhooks.fixture.ts'
import { activeTenant } from './webhooks-api.fixture.ts'

const MINUTE_MS = 60_000
const TIMEOUT_MS = 10_000
const POLL_MS = 10
/** More than one page. */
const MANY = 2_500

let clock: FakeClock
let opened: TestTenancy<WebhooksSatellites>
let tenancy: WebhooksTenancy
/** Another process. */
let other: WebhooksTenancy
let receiver: Receiver
let id: string
const stops: AbortController[] = []

beforeAll(async () => {
  clock = fakeClock(new Date())
  opened = await openWebhooks(inject('postgresUrl'), { maxAttempts: 2 }, { clock, role: 'api' })
  tenancy = opened.tenancy
  other = await opened.open()
  receiver = await startReceiver()
})
beforeEach(async () => {
  id = await activeTenant(tenancy)
})
afterAll(async () => {
  for (const stop of stops) stop.abort()
  await receiver.close()
  await opened.end()
})

/** The streamed attempts so far. */
function tailing(options: Omit<TailOptions, 'signal'> = {}) {
  const stop = new AbortController()
  stops.push(stop)
  const shown: TailedAttempt[] = []
  const ended = (async () => {
    const following = tail(tenancy.kernel, TIMEOUT_MS, id, { ...options, signal: stop.signal }, POLL_MS)
    for await (const attempt of following) shown.push(attempt)
  })()
  return { shown, ended, stop: () => stop.abort() }
}

async function once(sinceMinutes: number): Promise<TailedAttempt[]> {
  const shown: TailedAttempt[] = []
  const { signal } = new AbortController()
  for await (const attempt of tenancy.webhooks.tail(id, { sinceMinutes, isOnce: true, signal })) shown.push(attempt)
  return shown
}

const names = (shown: readonly TailedAttempt[]): string[] =>
  shown.map(({ deliveryId, attempt }) => `${deliveryId} ${attempt}`)

interface Row {
  readonly deliveryId: string
  readonly startedAt: Date
}

/** Deliveries, and a function that writes their attempts in a separate transaction, which the test ends. */
async function delivering(count: number): Promise<Row[]> {
  const rows = Array.from({ length: count }, (_, n) => {
    const startedAt = new Date(clock.now().getTime() - (n % 7))
    return { deliveryId: uuidAt(startedAt.getTime()), startedAt }
  })
  await tenancy.kernel.database.sql(
    `insert into multitenancy.webhook_deliveries
       (id, message_id, webhook_id, tenant_id, partition_key, event, state, is_ready, attempt_count, created_at)
     select id, id, $3, $2, $2, 'order.paid', 'delivered', false, 1, now() from unnest($1::uuid[]) id`,
    [rows.map(({ deliveryId }) => deliveryId), id, randomUUID()],
  )
  return rows
}

async function write(rows: readonly Row[]): Promise<() => Promise<void>> {
  const [isWritten, isFinished] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const session = other.kernel.database.session(async (client) => {
    await client.query('begin')
    await client.query(
      `insert into multitenancy.webhook_attempts (delivery_id, number, tenant_id, started_at, duration_ms, status, request_headers)
       select *, 3, 200, '{}'::json from (
         select delivery_id, 1, $3::text, started_at from unnest($1::uuid[], $2::timestamptz[]) as a(delivery_id, started_at)) a`,
      [rows.map(({ deliveryId }) => deliveryId), rows.map(({ startedAt }) => startedAt), id],
    )
    isWritten.resolve()
    await isFinished.promise
    await client.query('commit')
  })
  await isWritten.promise
  return () => {
    isFinished.resolve()
    return session
  }
}

test('tail shows attempts of all processes with their results', async () => {
  const { webhookId } = await tenancy.webhooks.create(id, { url: `${receiver.url}/tail`, events: ['*'] })
  receiver.respondWith(() => ({ status: 503 }))
  const [before = ''] = await tenancy.webhooks.dispatch(id, 'order.placed', {})
  await other.webhooks.retry()

  const { shown, ended, stop } = tailing({ sinceMinutes: 1 })
  await eventually(() => expect(shown).toHaveLength(1))
  clock.advance(13_000)
  receiver.respondWith(() => ({ status: 200 }))
  const [after = ''] = await other.webhooks.dispatch(id, 'order.paid', {})
  await tenancy.webhooks.retry()
  await eventually(() => expect(shown).toHaveLength(3))
  stop()
  await ended
  expect(shown).toEqual(
    expect.arrayContaining([
      {
        startedAt: expect.stringMatching(/^\d{4}-.*Z$/),
        event: 'order.placed',
        webhookId,
        deliveryId: before,
        attempt: 1,
        status: 503,
        error: null,
        durationMs: expect.any(Number),
        state: 'retry_scheduled',
      },
      expect.objectContaining({ deliveryId: before, attempt: 2, status: 200, state: 'delivered' }),
      expect.objectContaining({ deliveryId: after, attempt: 1, status: 200, event: 'order.paid' }),
    ]),
  )
})

test('tail shows attempts that end from now on, also if they started before', async () => {
  const rows = await delivering(3)
  await (await write(rows.slice(0, 1)))()
  const isLate = rows.slice(1, 2).map((row) => ({ ...row, startedAt: new Date(clock.now().getTime() - MINUTE_MS) }))
  const end = await write(isLate)
  const { shown } = tailing()
  const [, late, last] = rows as [Row, Row, Row]
  // It has begun to look once it shows one.
  await eventually(async () => {
    if (shown.length === 0) await (await write(await delivering(1)))()
    expect(shown).not.toEqual([])
  })
  await end()
  await (await write([last]))()
  const names = () => shown.map(({ deliveryId }) => deliveryId)
  await eventually(() => expect(names()).toEqual(expect.arrayContaining([late.deliveryId, last.deliveryId])))
  expect(new Set(names()).size).toBe(shown.length)
  expect(names()).not.toContain(rows[0]?.deliveryId)
})

test('tail shows each attempt once, in any order of starts and commits', async () => {
  const { shown } = tailing({ sinceMinutes: 1 })
  const [first, second, third, fourth] = await Promise.all([0, 1, 2, 3].map(() => delivering(50)))
  const endFirst = await write(first as Row[])
  const endSecond = await write(second as Row[])
  await (await write(third as Row[]))()
  await eventually(() => expect(shown).toHaveLength(50))
  await endSecond()
  await eventually(() => expect(shown).toHaveLength(100))
  const endFourth = await write(fourth as Row[])
  await endFirst()
  await eventually(() => expect(shown).toHaveLength(150))
  await endFourth()
  await eventually(() => expect(shown).toHaveLength(200))
  expect(new Set(names(shown)).size).toBe(200)
})

test(`tail shows ${MANY} attempts once in the order of their start, and attempts of that time afterwards`, async () => {
  const rows = await delivering(MANY)
  await (await write(rows))()
  const { shown } = tailing({ sinceMinutes: 1 })
  await (await write(await delivering(MANY)))()
  await eventually(() => expect(shown).toHaveLength(2 * MANY))
  expect(new Set(names(shown)).size).toBe(2 * MANY)

  const all = await once(1)
  expect(new Set(names(all))).toEqual(new Set(names(shown)))
  const times = all.map(({ startedAt }) => startedAt)
  expect(times).toEqual(times.toSorted())
})

test('tail with isOnce shows attempts of this tenant since the given time, and ends', async () => {
  await (await write(await delivering(2)))()
  clock.advance(2 * MINUTE_MS)
  await (await write(await delivering(3)))()
  expect(await once(1)).toHaveLength(3)
  expect(await once(3)).toHaveLength(5)
  id = await activeTenant(tenancy)
  expect(await once(3)).toEqual([])
})

test('tail rejects an unknown tenant', async () => {
  id = 'unknown'
  await expect(once(1)).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
})
