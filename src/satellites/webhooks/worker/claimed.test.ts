/** In-flight deliveries of a worker: changed secrets, purged tenants, limits and slow receivers. */
import type { ServerResponse } from 'node:http'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { latch } from '../../../../test/support/latch.ts'
import { type Receiver, startReceiver } from '../../../../test/support/receiver.ts'
import { WAITING_LOCKS } from '../../../testing/base/database.ts'
import { eventually, notificationsReceived, type TestTenancy } from '../../../testing/base/tenancy.ts'
import { type WebhooksOptions, webhooks } from '../index.ts'
import { verifyWebhook } from '../verify.ts'
import { openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from '../webhooks.fixture.ts'
import type { WorkerTiming } from './worker.ts'

/** Every response counts as slow. */
const ALL_SLOW = { slowMs: -1 }

let opened: TestTenancy<WebhooksSatellites>
let api: WebhooksTenancy
let receiver: Receiver
/** Open responses of requests to `/waits`, which the test ends. */
let waiting: ServerResponse[]
const ends: (() => Promise<void>)[] = []

beforeAll(async () => {
  opened = await openWebhooks(inject('postgresUrl'), { bridge: false }, { role: 'api' })
  api = opened.tenancy
})
afterAll(() => opened.end())
beforeEach(async () => {
  waiting = []
  receiver = await startReceiver(({ path }, response) => {
    if (!path.startsWith('/waits')) return {}
    waiting.push(response)
    return undefined
  })
})
afterEach(async () => {
  receiver.respondWith(() => ({}))
  for (const response of waiting) response.end()
  for (const end of ends.splice(0)) await end()
  await receiver.close()
  await sql('truncate multitenancy.webhook_deliveries, multitenancy.webhook_attempts')
})

async function startWorker(options: WebhooksOptions = {}, timing: Partial<WorkerTiming> = {}) {
  const tenancy = await opened.open({ satellites: [webhooks({ bridge: false, ...options })] })
  const worker = tenancy.webhooks.deliveryWorker(tenancy.kernel.egress, undefined, timing)
  ends.push(
    () => worker.stop(),
    () => tenancy.stop(),
  )
  await worker.start()
  return tenancy
}
const at = (path: string) => receiver.received.filter((received) => received.path === path)
const subscribed = async (path: string) => {
  const { id } = await api.tenants.create({ name: 'Acme' })
  const { webhookId, secret } = await api.webhooks.create(id, { url: `${receiver.url}${path}`, events: ['order.*'] })
  return { id, webhookId, secret, dispatch: (n = 0) => api.webhooks.dispatch(id, 'order.paid', { n }) }
}
const sql = async (text: string, values: unknown[] = []) => (await api.kernel.database.sql(text, values)).rows
const verifies = ({ body, headers }: Receiver['received'][number], secret: string) => {
  try {
    return verifyWebhook(body, headers as Record<string, string>, secret) !== undefined
  } catch {
    return false
  }
}

describe('a secret that is rotated without a grace period', () => {
  test('does not sign deliveries that were claimed before and whose bodies are being loaded', async () => {
    const { id, webhookId, secret, dispatch } = await subscribed('/reads')
    await dispatch()
    const release = await latch(opened.url, 'lock table multitenancy.webhook_messages in access exclusive mode')
    const worker = await startWorker()
    const reading = `select from ${WAITING_LOCKS} where relation = 'multitenancy.webhook_messages'::regclass`
    await eventually(async () => expect(await sql(reading)).toHaveLength(1))
    const rotated = await api.webhooks.rotateSecret(id, webhookId, { graceSeconds: 0 })
    await notificationsReceived(worker)
    await release()
    await eventually(() => expect(at('/reads')).toHaveLength(1))
    expect([secret, rotated.secret].map((one) => verifies(at('/reads')[0] as never, one))).toEqual([false, true])
  })

  test('does not sign waiting deliveries of a worker that has lost notifications', async () => {
    const { id, webhookId, secret, dispatch } = await subscribed('/waits/gap')
    for (let n = 0; n < 3; n++) await dispatch(n)
    const worker = await startWorker({ concurrency: 1, perSubscription: 8, perTenant: 8 })
    await eventually(() => expect(waiting).toHaveLength(1))
    const claimed = `select from multitenancy.webhook_deliveries where claim is not null`
    await eventually(async () => expect(await sql(claimed)).toHaveLength(3))
    const claims = (await sql(claimed.replace('select', 'select claim'))).map(({ claim }) => claim)
    await sql(`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name = 'tenantry listener'`)
    const rotated = await api.webhooks.rotateSecret(id, webhookId, { graceSeconds: 0 })
    await eventually(() => expect([worker, api].every(({ kernel }) => kernel.database.isListening)).toBe(true))
    const still = `select from multitenancy.webhook_deliveries where claim = any($1)`
    await eventually(async () => expect(await sql(still, [claims])).toHaveLength(1)) // the others wait, or are claimed again
    receiver.respondWith(() => ({}))
    waiting[0]?.end()
    await eventually(() => expect(at('/waits/gap')).toHaveLength(3))
    const [, ...later] = at('/waits/gap')
    expect(later.map((one) => [verifies(one, secret), verifies(one, rotated.secret)])).toEqual([
      [false, true],
      [false, true],
    ])
  })
})

test('the explanation of a waiting delivery names the reached limit', async () => {
  const { id, webhookId, dispatch } = await subscribed('/waits/bound')
  const other = await api.webhooks.create(id, { url: `${receiver.url}/waits/other`, events: ['order.*'] })
  const third = await api.webhooks.create(id, { url: `${receiver.url}/waits/third`, events: ['order.*'] })
  const worker = await startWorker({ perSubscription: 1, perTenant: 2 })
  await dispatch()
  await eventually(() => expect(waiting).toHaveLength(2))
  await dispatch()
  const explanations = new Set<string>()
  for (const one of [webhookId, other.webhookId, third.webhookId]) {
    for (const { id: deliveryId, state } of (await worker.webhooks.deliveries(id, one, {})).data) {
      const { explanation } = await worker.webhooks.delivery(id, one, deliveryId)
      if (state === 'pending') explanations.add(explanation)
    }
  }
  expect(explanations).toEqual(
    new Set(
      [
        'Its subscription has 1 deliveries in flight. The limit is 1.',
        'The subscriptions of its tenant have 2 deliveries in flight. The limit is 2.',
      ].map((limit) => `Waiting for a worker. No attempt was made yet. ${limit}`),
    ),
  )
})

test('a worker sends no further deliveries of a purged tenant', async () => {
  const { id, dispatch } = await subscribed('/waits/purged')
  for (let n = 0; n < 3; n++) await dispatch(n)
  const worker = await startWorker({ concurrency: 1, perSubscription: 8, perTenant: 8 })
  await eventually(() => expect(waiting).toHaveLength(1))
  await api.webhooks.forget(id)
  await notificationsReceived(worker)
  waiting[0]?.end()
  const other = await subscribed('/good')
  await other.dispatch()
  await eventually(() => expect(at('/good')).toHaveLength(1))
  expect(at('/waits/purged')).toHaveLength(1)
})

test('a receiver that responds slowly, even with success, leaves room for other receivers', async () => {
  const slow = await subscribed('/waits/slow')
  const good = await subscribed('/good')
  for (let n = 0; n < 20; n++) await slow.dispatch(n)
  await startWorker({ concurrency: 4, perSubscription: 32, perTenant: 32 }, ALL_SLOW)
  await eventually(() => expect(waiting).toHaveLength(4))
  for (const response of waiting.splice(0)) response.end()
  await eventually(() => expect(waiting).toHaveLength(1))
  await good.dispatch()
  await eventually(() => expect(at('/good')).toHaveLength(1))
  expect(waiting).toHaveLength(1)
})

test('many slow receivers do not fill the places of a worker', async () => {
  const [count, rounds] = [24, 10]
  const all = await Promise.all(Array.from({ length: count }, (_, n) => subscribed(`/waits/${n}`)))
  const good = await subscribed('/good')
  for (let round = 0; round < rounds; round++) await Promise.all(all.map((one) => one.dispatch(round)))
  const { kernel } = await startWorker({ concurrency: 4, claim: 16, perSubscription: 4, perTenant: 4 }, ALL_SLOW)
  const release = (from: number) => {
    for (const response of waiting.splice(from)) response.end()
  }
  const settled = `select distinct webhook_id from multitenancy.webhook_deliveries where state = 'delivered'`
  await eventually(async () => {
    release(0)
    expect(await sql(settled)).toHaveLength(count) // the worker knows that each of them is slow
  })
  await eventually(() => {
    release(1) // requests that were begun before
    expect(kernel.egress.underWay).toBe(1)
  })
  await good.dispatch()
  await eventually(() => expect(at('/good')).toHaveLength(1))
  expect(receiver.received.length - 1).toBeLessThan(count * rounds)
})

test('concurrent replays of all failed deliveries replay each delivery once', async () => {
  const { id, webhookId, dispatch } = await subscribed('/replayed')
  const count = 400
  await Promise.all(Array.from({ length: count }, (_, n) => dispatch(n)))
  await sql(`update multitenancy.webhook_deliveries set state = 'failed', is_ready = false, due_at = null`)
  await startWorker()
  const replays = await Promise.all(Array.from({ length: 4 }, () => api.webhooks.replayFailed(id, webhookId)))
  expect(replays.reduce((sum, replay) => sum + replay.count, 0)).toBe(count)
  await eventually(async () => {
    const left = `select from multitenancy.webhook_deliveries where state <> 'delivered'`
    expect(await sql(left)).toEqual([])
  })
  expect(at('/replayed')).toHaveLength(count)
})
