/** What a worker has in hand while something happens to it: its subscription changes, its tenant goes, it is large, its receiver slow. */
import type { ServerResponse } from 'node:http'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { holding } from '../../testing/holding.ts'
import { type Receiver, startReceiver } from '../../testing/receiver.ts'
import { eventually, type TestTenancy } from '../../testing/tenancy.ts'
import type { WebhooksOptions } from './index.ts'
import { verifyWebhook } from './verify.ts'
import { openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from './webhooks.fixture.ts'

let opened: TestTenancy<WebhooksSatellites>
let api: WebhooksTenancy
let receiver: Receiver
/** Of requests to `/waits`, which are answered when the test says so. */
let waiting: ServerResponse[]

beforeEach(async () => {
  waiting = []
  receiver = await startReceiver(({ path }, response) => {
    if (!path.startsWith('/waits')) return {}
    waiting.push(response)
    return undefined
  })
})
afterEach(async () => {
  await receiver.close()
  await opened.end()
})

async function open(options: WebhooksOptions): Promise<void> {
  opened = await openWebhooks(inject('postgresUrl'), { bridge: false, ...options }, { role: 'api' })
  api = opened.tenancy
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

describe('a secret that ends at once', () => {
  test('signs nothing that was claimed before, and is being read', async () => {
    await open({})
    const { id, webhookId, secret, dispatch } = await subscribed('/reads')
    await dispatch()
    const release = await holding(opened.url, 'lock table multitenancy.webhook_messages in access exclusive mode')
    await opened.open({ role: 'worker' })
    const reading = `select from pg_locks where not granted and relation = 'multitenancy.webhook_messages'::regclass`
    await eventually(async () => expect(await sql(reading)).toHaveLength(1))
    const rotated = await api.webhooks.rotateSecret(id, webhookId, { graceSeconds: 0 })
    await heardByAll()
    await release()
    await eventually(() => expect(at('/reads')).toHaveLength(1))
    expect([secret, rotated.secret].map((one) => verifies(at('/reads')[0] as never, one))).toEqual([false, true])
  })

  test('signs nothing that waits where nobody was heard for a while', async () => {
    await open({ concurrency: 1, perSubscription: 8, perTenant: 8 })
    const { id, webhookId, secret, dispatch } = await subscribed('/waits/gap')
    for (let n = 0; n < 3; n++) await dispatch(n)
    const worker = await opened.open({ role: 'worker' })
    await eventually(() => expect(waiting).toHaveLength(1))
    const claimed = `select from multitenancy.webhook_deliveries where claim is not null`
    await eventually(async () => expect(await sql(claimed)).toHaveLength(3))
    const claims = (await sql(claimed.replace('select', 'select claim'))).map(({ claim }) => claim)
    await sql(`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and query ilike 'listen%'`)
    const rotated = await api.webhooks.rotateSecret(id, webhookId, { graceSeconds: 0 })
    await eventually(() => expect([worker, api].every(({ kernel }) => kernel.database.isListening)).toBe(true))
    const still = `select from multitenancy.webhook_deliveries where claim = any($1)`
    await eventually(async () => expect(await sql(still, [claims])).toHaveLength(1)) // the others wait, or are claimed anew
    receiver.answers(() => ({}))
    waiting[0]?.end()
    await eventually(() => expect(at('/waits/gap')).toHaveLength(3))
    const [, ...later] = at('/waits/gap')
    expect(later.map((one) => [verifies(one, secret), verifies(one, rotated.secret)])).toEqual([
      [false, true],
      [false, true],
    ])
  })
})

test('what waits for a bound names it', async () => {
  await open({ perSubscription: 1, perTenant: 2 })
  const { id, webhookId, dispatch } = await subscribed('/waits/bound')
  const other = await api.webhooks.create(id, { url: `${receiver.url}/waits/other`, events: ['order.*'] })
  const third = await api.webhooks.create(id, { url: `${receiver.url}/waits/third`, events: ['order.*'] })
  await opened.open({ role: 'worker' })
  await dispatch()
  await eventually(() => expect(waiting).toHaveLength(2))
  await dispatch()
  const bounds = new Set<string>()
  for (const one of [webhookId, other.webhookId, third.webhookId]) {
    for (const { id: deliveryId, state } of (await api.webhooks.deliveries(id, one, {})).data) {
      const { explanation } = await api.webhooks.delivery(id, one, deliveryId)
      if (state === 'pending') bounds.add(explanation)
    }
  }
  expect(bounds).toEqual(
    new Set(
      [
        'Its subscription has 1 on their way, and may have 1',
        'Subscriptions of its tenant have 2 on their way, and may have 2',
      ].map((bound) => `Waiting for a worker to send it for the first time. ${bound} at once.`),
    ),
  )
})

test('of a tenant that is purged nothing more is sent', async () => {
  await open({ concurrency: 1, perSubscription: 8, perTenant: 8 })
  const { id, dispatch } = await subscribed('/waits/purged')
  for (let n = 0; n < 3; n++) await dispatch(n)
  await opened.open({ role: 'worker' })
  await eventually(() => expect(waiting).toHaveLength(1))
  await api.webhooks.forget(id)
  await heardByAll()
  waiting[0]?.end()
  const other = await subscribed('/good')
  await other.dispatch()
  await eventually(() => expect(at('/good')).toHaveLength(1))
  expect(at('/waits/purged')).toHaveLength(1)
})

test('large bodies that wait for room keep nobody from being claimed', async () => {
  await open({ perSubscription: 128, perTenant: 128 })
  const large = await subscribed('/waits/large')
  const good = await subscribed('/good')
  const body = { text: 'x'.repeat(1_000_000) }
  for (let n = 0; n < 96; n++) await api.webhooks.dispatch(large.id, 'order.paid', body)
  await opened.open({ role: 'worker' })
  await eventually(() => expect(waiting.length).toBeGreaterThan(60), 30_000)
  await good.dispatch()
  await eventually(() => expect(at('/good')).toHaveLength(1))
  expect(at('/waits/large').length).toBeLessThan(96)
}, 90_000)

test('who answers slowly, though well, leaves room to the others', async () => {
  await open({ concurrency: 4, perSubscription: 32, perTenant: 32 })
  const slow = await subscribed('/waits/slow')
  const good = await subscribed('/good')
  for (let n = 0; n < 20; n++) await slow.dispatch(n)
  await opened.open({ role: 'worker' })
  await eventually(() => expect(waiting).toHaveLength(4))
  await new Promise((resolve) => setTimeout(resolve, 2_100)) // longer than what counts as slow
  for (const response of waiting.splice(0)) response.end()
  await eventually(() => expect(waiting).toHaveLength(1))
  await good.dispatch()
  await eventually(() => expect(at('/good')).toHaveLength(1))
  expect(waiting).toHaveLength(1)
})

test('however many answer slowly, none of them fills what a process holds', async () => {
  const slow = 24
  await open({ concurrency: 4, claim: 16, perSubscription: 4, perTenant: 4 })
  receiver.answers(({ path }, response) => {
    if (!path.startsWith('/slow')) return {}
    setTimeout(() => response.end(), 2_050) // longer than what counts as slow
    return undefined
  })
  const all = await Promise.all(Array.from({ length: slow }, (_, n) => subscribed(`/slow/${n}`)))
  const good = await subscribed('/good')
  await opened.open({ role: 'worker' })
  const rounds = 3
  for (let round = 0; round < rounds; round++) for (const one of all) await one.dispatch(round)
  const found = () => new Set(receiver.received.map(({ path }) => path)).size
  await eventually(() => expect(found()).toBe(slow), 60_000)
  await new Promise((resolve) => setTimeout(resolve, 2_200)) // until each of them has been seen to be slow
  await good.dispatch()
  await eventually(() => expect(at('/good')).toHaveLength(1), 2_000)
  expect(receiver.received.length - 1).toBeLessThan(slow * rounds)
}, 90_000)

test('two who replay all that has failed replay each once', async () => {
  await open({})
  const { id, webhookId, dispatch } = await subscribed('/replayed')
  const count = 400
  await Promise.all(Array.from({ length: count }, (_, n) => dispatch(n)))
  await sql(`update multitenancy.webhook_deliveries set state = 'failed', is_ready = false, due_at = null`)
  await opened.open({ role: 'worker' })
  const replays = await Promise.all(Array.from({ length: 4 }, () => api.webhooks.replayFailed(id, webhookId)))
  expect(replays.reduce((sum, replay) => sum + replay.count, 0)).toBe(count)
  await eventually(async () => {
    const left = `select from multitenancy.webhook_deliveries where state <> 'delivered'`
    expect(await sql(left)).toEqual([])
  })
  expect(at('/replayed')).toHaveLength(count)
})

/** A notification of before has been heard when a later one is. */
async function heardByAll(): Promise<void> {
  const { rows } = await api.kernel.database.sql('select 1')
  expect(rows).toHaveLength(1)
  const heard = Promise.withResolvers<void>()
  const ear = await api.kernel.database.listen(
    'heard_by_all',
    () => heard.resolve(),
    () => undefined,
  )
  await api.kernel.database.notify('heard_by_all', '')
  await heard.promise
  await ear.close()
  await new Promise((resolve) => setTimeout(resolve, 50))
}
