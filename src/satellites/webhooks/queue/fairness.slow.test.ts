import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { type Child, startChild } from '../../../../test/support/child.ts'
import { type Receiver, startReceiver } from '../../../../test/support/receiver.ts'
import { eventually, type TestTenancy } from '../../../testing/base/tenancy.ts'
import { NO_TENANT_KEY } from '../model/tables.ts'
import { openWebhooks, subscriptionRows, type WebhooksSatellites, type WebhooksTenancy } from '../webhooks.fixture.ts'
import { settlementOf } from '../worker/settlement.fixture.ts'
import type { WorkerOptions } from '../worker/worker-process.fixture.ts'
import {
  type Claim,
  type ClaimOptions,
  DeliveryQueue,
  type RoundRobinCursor,
  type Sent,
  type Settlement,
} from './queue.ts'

const NOISY = 100_000
const PER_SUBSCRIPTION = 16
const PER_TENANT = 64
const LEASE_MS = 60_000

let opened: TestTenancy<WebhooksSatellites>
let tenancy: WebhooksTenancy
let queue: DeliveryQueue
/** Cursor of one worker. */
let cursor: RoundRobinCursor

const sql = async (text: string, values: unknown[] = []) => (await tenancy.kernel.database.sql(text, values)).rows

const subscriptions = (owner: string | null, count: number) => subscriptionRows(tenancy, owner, count)

const tenant = (id: string) => subscriptions(id, 0)

interface Waiting {
  readonly of: string
  /** Spread over them. */
  readonly webhooks: readonly string[]
  readonly count: number
  /** `retry`: a due retry that no claim has made ready. */
  readonly as: 'ready' | 'retry'
  readonly dueSecondsAgo?: number
}

/** In the current partition and later ones. */
async function wait({ of, webhooks, count, as, dueSecondsAgo = 60 }: Waiting): Promise<string[]> {
  const rows = await sql(
    `with one as (
       select n, overlay(gen_random_uuid()::text
         placing left(multitenancy.webhook_id_floor(now() + n % 3 * interval '10 days')::text, 15) from 1 for 15)::uuid as id
       from generate_series(1, $3::int) n)
     insert into multitenancy.webhook_deliveries
       (id, message_id, webhook_id, tenant_id, partition_key, event, state, is_ready, due_at, attempt_count, created_at)
     select one.id, gen_random_uuid(), s.id, $1, coalesce(s.tenant_id, '${NO_TENANT_KEY}'), 'order.paid',
       case when $4 then 'pending' else 'retry_scheduled' end, $4,
       now() - $5 * interval '1 second' + n * interval '1 microsecond', case when $4 then 0 else 1 end, now()
     from one join multitenancy.webhook_subscriptions s on s.id = ($2::uuid[])[1 + n % cardinality($2::uuid[])]
     returning id`,
    [of, webhooks, count, as === 'ready', dueSecondsAgo],
  )
  return count > 1_000 ? [] : rows.map(({ id }) => id)
}

const claimOptions = (more: Partial<ClaimOptions> = {}): ClaimOptions => ({
  claim: randomUUID(),
  wanted: 64,
  leaseMs: LEASE_MS,
  perSubscription: PER_SUBSCRIPTION,
  perTenant: PER_TENANT,
  wantedFailing: 64,
  cursor,
  onlyWebhook: null,
  slowWebhooks: [],
  ...more,
})

async function claim(more: Partial<ClaimOptions> = {}): Promise<Claim> {
  const claimed = await queue.claim(claimOptions(more))
  cursor = claimed.cursor
  return claimed
}

const failedOne = (delivery: Sent): Settlement =>
  settlementOf(delivery, {
    verdict: { state: 'retry_scheduled', delayMs: 10_000, disables: null },
    status: null,
    error: 'timeout',
  })
const settle = (deliveries: readonly Sent[]) => queue.settle(deliveries.map((delivery) => settlementOf(delivery)))
const idsOf = ({ deliveries }: Claim) => deliveries.map(({ id }) => id)
const countByKey = (keys: readonly string[]) => {
  const counts: Record<string, number> = {}
  for (const key of keys) counts[key] = (counts[key] ?? 0) + 1
  return counts
}
const inFlight = () =>
  sql(`select partition_key as "partitionKey", webhook_id as webhook, count(*) as count from multitenancy.webhook_deliveries
       where state = 'delivering' group by 1, 2`)

beforeAll(async () => {
  opened = await openWebhooks(inject('postgresUrl'), { bridge: false }, { role: 'api' })
  tenancy = opened.tenancy
  queue = new DeliveryQueue(tenancy.kernel.database, tenancy.kernel.clock)
})
beforeEach(() => {
  cursor = {}
})
afterEach(() =>
  sql('truncate multitenancy.webhook_deliveries, multitenancy.webhook_attempts, multitenancy.webhook_counters'),
)
afterAll(() => opened.end())

test.each(['ready', 'retry'] as const)(
  'the delivery of an idle tenant is claimed within two claims, with 100,000 due deliveries of a noisy tenant (%s)',
  async (as) => {
    const noisy = await subscriptions('m-noisy', 3)
    await wait({ of: 'm-noisy', webhooks: noisy, count: NOISY, as })
    await wait({ of: 'm-noisy', webhooks: noisy, count: 1, as, dueSecondsAgo: -3_600 })
    for (const idle of ['a-quiet', 'z-quiet']) {
      const [webhookId = ''] = await subscriptions(idle, 1)
      for (let round = 0; round < 5; round++) {
        // It has fallen due after all of the other's.
        const ids = await wait({ of: idle, webhooks: [webhookId], count: 1, as, dueSecondsAgo: 0 })
        const claims = [await claim(), await claim()]
        expect(claims.flatMap(idsOf)).toEqual(expect.arrayContaining(ids))
        await settle(claims.flatMap(({ deliveries }) => deliveries))
      }
    }
  },
  180_000,
)

describe('more tenants with due deliveries than a claim has room for', () => {
  test('are served in turns', async () => {
    const names = Array.from({ length: 60 }, (_, n) => `many-${String(n).padStart(2, '0')}`)
    for (const name of names) await wait({ of: name, webhooks: await subscriptions(name, 1), count: 200, as: 'ready' })
    const served: string[] = []
    // 64 are four tenants with the maximum in flight to one subscription.
    for (let n = 0; n < names.length / 4; n++) {
      const claimed = await claim()
      expect(Object.values(countByKey(claimed.deliveries.map(({ partitionKey }) => partitionKey)))).toEqual([
        16, 16, 16, 16,
      ])
      served.push(...new Set(claimed.deliveries.map(({ partitionKey }) => partitionKey)))
      await settle(claimed.deliveries)
    }
    expect(served.toSorted()).toEqual(names)
  }, 180_000)

  test('are served in turns by several workers without settlements', async () => {
    const names = Array.from({ length: 40 }, (_, n) => `each-${String(n).padStart(2, '0')}`)
    for (const name of names) await wait({ of: name, webhooks: await subscriptions(name, 1), count: 200, as: 'ready' })
    const claims = await Promise.all(Array.from({ length: 10 }, () => queue.claim(claimOptions())))
    const counts = countByKey(claims.flatMap(({ deliveries }) => deliveries.map(({ partitionKey }) => partitionKey)))
    expect(counts).toEqual(Object.fromEntries(names.map((name) => [name, PER_SUBSCRIPTION])))
  }, 180_000)
})

describe('a tenant with many subscriptions', () => {
  test('serves a subscription with few deliveries between others with many', async () => {
    const busy = await subscriptions('many-hooks', 8)
    const [idle = ''] = await subscriptions('many-hooks', 1)
    await wait({ of: 'many-hooks', webhooks: busy, count: 8_000, as: 'ready' })
    const [id] = await wait({ of: 'many-hooks', webhooks: [idle], count: 1, as: 'ready', dueSecondsAgo: 0 })
    const claimed = await claim()
    expect(idsOf(claimed)).toContain(id)
    // An equal share for each: a ninth of 64 at least.
    const shares = countByKey(claimed.deliveries.map(({ webhookId }) => webhookId))
    expect(busy.map((webhookId) => shares[webhookId] ?? 0).filter((count) => count < 7)).toEqual([])
  })

  test('serves a healthy subscription first, with others that never respond', async () => {
    const hanging = await subscriptions('hanging-hooks', 8)
    const [good = ''] = await subscriptions('hanging-hooks', 1)
    await wait({ of: 'hanging-hooks', webhooks: hanging, count: 8_000, as: 'ready' })
    const { deliveries } = await claim()
    expect(deliveries).toHaveLength(PER_TENANT)
    expect((await claim()).deliveries).toEqual([])
    for (const ended of deliveries.slice(0, 10)) {
      const [id = ''] = await wait({ of: 'hanging-hooks', webhooks: [good], count: 1, as: 'ready', dueSecondsAgo: 0 })
      await settle([ended])
      const next = await claim()
      expect(idsOf(next)).toEqual([id])
      await settle(next.deliveries)
      expect((await claim()).deliveries).toHaveLength(1)
    }
  })

  test('serves each of 500 subscriptions', async () => {
    const webhooks = await subscriptions('500-hooks', 500)
    await wait({ of: '500-hooks', webhooks, count: 20_000, as: 'ready' })
    const served = new Set<string>()
    // A round is eight claims if each takes others; they are drawn, so that it takes a few more.
    for (let n = 0; n < 160 && served.size < webhooks.length; n++) {
      const { deliveries } = await claim()
      expect(deliveries).toHaveLength(64)
      for (const { webhookId } of deliveries) served.add(webhookId)
      await settle(deliveries)
    }
    expect(served.size).toBe(webhooks.length)
  }, 180_000)
})

describe('receivers that never respond', () => {
  test('have two deliveries in flight each, until the first success', async () => {
    const names = Array.from({ length: 8 }, (_, n) => `dead-${n}`)
    const hooks = await Promise.all(names.map((name) => subscriptions(name, 1)))
    for (const [n, name] of names.entries()) await wait({ of: name, webhooks: hooks[n] ?? [], count: 500, as: 'ready' })
    const first = await claim({ wanted: 128 })
    expect(first.deliveries).toHaveLength(128) // all places that a worker has
    await queue.settle(first.deliveries.map(failedOne))
    const second = await claim({ wanted: 128 })
    expect(countByKey(second.deliveries.map(({ partitionKey }) => partitionKey))).toEqual(
      Object.fromEntries(names.map((name) => [name, 2])),
    )
    const [good = ''] = await subscriptions('good', 1)
    await wait({ of: 'good', webhooks: [good], count: 100, as: 'ready' })
    const third = await claim({ wanted: 112 })
    expect(countByKey(third.deliveries.map(({ partitionKey }) => partitionKey))).toEqual({ good: PER_SUBSCRIPTION })
    await settle(second.deliveries.filter(({ partitionKey }) => partitionKey === 'dead-3').slice(0, 1))
    const fourth = await claim({ wanted: 112 })
    expect(countByKey(fourth.deliveries.map(({ partitionKey }) => partitionKey))).toEqual({
      'dead-3': PER_SUBSCRIPTION - 1,
    })
  })

  test('and slow receivers get the places that the worker has for them', async () => {
    const names = Array.from({ length: 4 }, (_, n) => `slow-${n}`)
    const slowWebhooks = (await Promise.all(names.map((name) => subscriptions(name, 1)))).flat()
    for (const [n, name] of names.entries()) {
      await wait({ of: name, webhooks: slowWebhooks.slice(n, n + 1), count: 20, as: 'ready' })
    }
    await wait({ of: 'quick', webhooks: await subscriptions('quick', 1), count: 20, as: 'ready' })
    const { deliveries, full } = await claim({ wanted: 64, wantedFailing: 3, slowWebhooks })
    const taken = countByKey(deliveries.map(({ partitionKey: key }) => (names.includes(key) ? 'slow' : key)))
    expect(taken).toEqual({ slow: 3, quick: PER_SUBSCRIPTION })
    expect(full).toContain('failing')
    expect((await claim({ wanted: 64, wantedFailing: 0, slowWebhooks })).deliveries).toEqual([])
    expect((await claim({ wanted: 64, wantedFailing: 0 })).deliveries.length).toBeGreaterThan(3) // of another, who knows nothing
  })

  test('get no more places by dispatches that claim', async () => {
    const name = 'dead-at-once'
    await tenant(name)
    const receiver = await startReceiver(() => undefined)
    const { webhookId } = await tenancy.webhooks.create(name, { url: receiver.url, events: ['order.*'] })
    await sql('update multitenancy.webhook_subscriptions set failing_since = now() where id = $1', [webhookId])
    const worker = await opened.open({ role: 'worker' })
    await Promise.all(Array.from({ length: 40 }, (_, n) => worker.webhooks.dispatch(name, 'order.paid', { n })))
    await eventually(() => expect(receiver.received).toHaveLength(2))
    expect(await inFlight()).toEqual([{ partitionKey: name, webhook: webhookId, count: 2 }])
    await receiver.close()
    await worker.stop()
  })
})

describe("the host's subscription", () => {
  test('receives events of other tenants next to a noisy one', async () => {
    const [webhook = ''] = await subscriptions(null, 1)
    for (const name of ['a-other', 'm-noisy', 'z-other']) await tenant(name)
    await wait({ of: 'm-noisy', webhooks: [webhook], count: NOISY, as: 'ready' })
    let before = await claim()
    expect(before.deliveries).toHaveLength(PER_SUBSCRIPTION)
    for (const name of ['a-other', 'z-other', 'a-other', 'z-other']) {
      const [id = ''] = await wait({ of: name, webhooks: [webhook], count: 1, as: 'ready', dueSecondsAgo: 0 })
      expect((await claim()).deliveries).toEqual([])
      // As soon as one is free: then it is the other's turn.
      await settle(before.deliveries.slice(0, 1))
      const next = await claim()
      const after =
        next.deliveries[0]?.tenantId === 'm-noisy' ? await settle(next.deliveries).then(() => claim()) : next
      expect(idsOf(after)).toEqual([id])
      before = { ...before, deliveries: [...before.deliveries.slice(1), ...after.deliveries] }
    }
  }, 180_000)

  test('serves all of very many tenants', async () => {
    const [webhook = ''] = await subscriptions(null, 1)
    const names = Array.from({ length: 100 }, (_, n) => `other-${String(n).padStart(3, '0')}`)
    for (const name of names) {
      await tenant(name)
      await wait({ of: name, webhooks: [webhook], count: 20, as: 'ready' })
    }
    const served: (string | null)[] = []
    for (let n = 0; n < 25; n++) {
      const { deliveries } = await claim()
      served.push(...deliveries.map(({ tenantId }) => tenantId))
      await settle(deliveries)
    }
    expect(countByKey(served.map(String))).toEqual(Object.fromEntries(names.map((name) => [name, 4])))
  })

  test('with an unresponsive receiver does not delay the subscriptions of tenants', async () => {
    const host = await subscriptions(null, 6)
    const [own = ''] = await subscriptions('m-noisy', 1)
    await wait({ of: 'm-noisy', webhooks: host, count: 6_000, as: 'ready' })
    expect((await claim()).deliveries).toHaveLength(PER_TENANT)
    const [id] = await wait({ of: 'm-noisy', webhooks: [own], count: 1, as: 'ready' })
    expect(idsOf(await claim())).toEqual([id])
  })

  test('at its limit costs a claim the same with one waiting tenant and with two thousand', async () => {
    const [webhook = ''] = await subscriptions(null, 1)
    const pagesOfAClaim = async () => {
      const { rows } = await tenancy.kernel.database.sql(
        `explain (analyze, buffers, format json)
         select * from multitenancy.claim_webhook_deliveries(0, $1, 64, 60000, ${PER_SUBSCRIPTION}, ${PER_TENANT}, 64, '{}', null)`,
        [randomUUID()],
      )
      return rows[0]['QUERY PLAN'][0].Plan['Shared Hit Blocks']
    }
    await tenant('m-noisy')
    await wait({ of: 'm-noisy', webhooks: [webhook], count: 2_000, as: 'ready' })
    await claim()
    await pagesOfAClaim() // the first finds its way
    const withOne = await pagesOfAClaim()
    await sql(
      `insert into multitenancy.webhook_deliveries
         (id, message_id, webhook_id, tenant_id, partition_key, event, state, is_ready, due_at, attempt_count, created_at)
       select gen_random_uuid(), gen_random_uuid(), webhook_id, 'waits-' || row_number() over (), partition_key, event, 'pending', true,
         now(), 0, now()
       from multitenancy.webhook_deliveries where is_ready`,
    )
    await pagesOfAClaim()
    expect(await pagesOfAClaim()).toBeLessThan(withOne + 100)
  })
})

describe('limits of deliveries in flight', () => {
  const processes: Child[] = []
  const program = new URL('../worker/worker-process.fixture.ts', import.meta.url)
  const start = (options: Omit<WorkerOptions, 'url'>) => startChild(program, { url: opened.url, ...options })
  let receiver: Receiver

  beforeAll(async () => {
    receiver = await startReceiver()
  })
  afterEach(() => Promise.all(processes.splice(0).map((child) => child.kill('SIGKILL'))))
  afterAll(() => receiver.close())

  test('are exact by subscription and by tenant with concurrent claims of several processes', async () => {
    processes.push(...(await Promise.all([1, 2].map(() => start({ role: 'api', webhooks: {} })))))
    const few = await subscriptions('few-hooks', 2)
    const more = await subscriptions('more-hooks', 7)
    const host = await subscriptions(null, 1)
    await wait({ of: 'few-hooks', webhooks: few, count: 500, as: 'ready' })
    await wait({ of: 'more-hooks', webhooks: more, count: 2_000, as: 'retry' })
    await wait({ of: 'few-hooks', webhooks: host, count: 500, as: 'ready' })
    const wanting = (wanted: number) => claimOptions({ wanted })
    const claims = await Promise.all(
      Array.from({ length: 12 }, (_, n) => [
        queue.claim(wanting(5)),
        ...processes.map((child): Promise<Claim> => child.request({ claim: wanting(n % 2 ? 200 : 9) })),
      ]).flat(),
    )
    const ids = claims.flatMap(idsOf)
    expect(new Set(ids).size).toBe(ids.length)
    const rows = await inFlight()
    const of = (key: string) => rows.filter((row) => row.partitionKey === key)
    expect(of('few-hooks').map(({ count }) => count)).toEqual([PER_SUBSCRIPTION, PER_SUBSCRIPTION])
    expect(of('more-hooks').reduce((sum, { count }) => sum + count, 0)).toBe(PER_TENANT)
    expect(Math.max(...of('more-hooks').map(({ count }) => count))).toBeLessThanOrEqual(PER_SUBSCRIPTION)
    expect(of(NO_TENANT_KEY).map(({ count }) => count)).toEqual([PER_SUBSCRIPTION])
    expect(ids).toHaveLength(2 * PER_SUBSCRIPTION + PER_TENANT + PER_SUBSCRIPTION)
  }, 180_000)

  test('apply to dispatches that claim, and waiting deliveries are sent when others end', async () => {
    const held: ServerResponse[] = []
    let isOpen = false
    let most = 0
    const now = new Map<string, number>()
    receiver.respondWith(({ path }, response) => {
      now.set(path, (now.get(path) ?? 0) + 1)
      most = Math.max(most, ...now.values())
      response.on('close', () => now.set(path, (now.get(path) ?? 0) - 1))
      if (isOpen) return {}
      held.push(response)
      return undefined
    })
    const options = { timeoutMs: 20_000, perSubscription: 5, perTenant: 12, bridge: false }
    processes.push(...(await Promise.all([1, 2, 3].map(() => start({ role: 'worker', webhooks: options })))))
    await tenant('direct')
    for (const path of ['a', 'b', 'c', 'd']) {
      await tenancy.webhooks.create('direct', { url: `${receiver.url}/${path}`, events: ['order.*'] })
    }
    const dispatched: string[][] = await Promise.all(
      Array.from({ length: 60 }, (_, number) => processes[number % 3]?.request({ dispatch: 'direct', number })),
    )
    await eventually(async () => {
      const rows = await inFlight()
      expect(rows.reduce((sum, { count }) => sum + count, 0)).toBe(12)
      expect(held).toHaveLength(12)
    })
    isOpen = true
    for (const response of held) response.end()
    await eventually(async () => {
      const rows = await sql('select state, count(*) as count from multitenancy.webhook_deliveries group by 1')
      expect(rows).toEqual([{ state: 'delivered', count: dispatched.flat().length }])
    }, 20_000)
    expect(dispatched.flat()).toHaveLength(240)
    expect(receiver.received).toHaveLength(240)
    expect(most).toBeLessThanOrEqual(5)
  }, 180_000)
})
