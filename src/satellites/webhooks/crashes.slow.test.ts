import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Child, startChild } from '../../../test/support/child.ts'
import { type Receiver, startReceiver } from '../../../test/support/receiver.ts'
import { eventually, type TestTenancy } from '../../testing/base/tenancy.ts'
import type { WebhooksOptions } from './index.ts'
import { openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from './webhooks.fixture.ts'
import type { WorkerOptions } from './worker/worker-process.fixture.ts'

const DELIVERIES = 5_000
const TENANTS = 4
const KILLS = 3
const CLAIM = 64
/** The timeout is short, so that leases expire soon. The receiver responds immediately. */
const OPTIONS: WebhooksOptions = { timeoutMs: 1_500, concurrency: 32, claim: CLAIM, perTenant: 32, bridge: false }
const SETTLED_WITHIN_MS = 120_000

let opened: TestTenancy<WebhooksSatellites>
let tenancy: WebhooksTenancy
let receiver: Receiver
let worker: Child | undefined

const startWorker = () => {
  const options: WorkerOptions = { url: opened.url, role: 'worker', webhooks: OPTIONS }
  return startChild(new URL('./worker/worker-process.fixture.ts', import.meta.url), options)
}
const counts = async () => {
  const { rows } = await tenancy.kernel.database.sql(
    'select state, count(*) as count from multitenancy.webhook_deliveries group by state order by state',
  )
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]))
}
/** Number of requests by delivery id. */
const arrivals = (path: string) => {
  const times = new Map<string, number>()
  for (const { headers } of receiver.received.filter((received) => received.path.startsWith(path))) {
    const id = String(headers['x-delivery-id'])
    times.set(id, (times.get(id) ?? 0) + 1)
  }
  return times
}

beforeAll(async () => {
  opened = await openWebhooks(inject('postgresUrl'), OPTIONS, { role: 'api' })
  tenancy = opened.tenancy
  receiver = await startReceiver()
})
afterEach(() => worker?.kill('SIGKILL'))
afterEach(() => receiver.forget())
afterEach(() => tenancy.kernel.database.sql('truncate multitenancy.webhook_deliveries, multitenancy.webhook_attempts'))
afterAll(async () => {
  await receiver.close()
  await opened.end()
})

describe('a killed worker', () => {
  test('loses none of 5,000 deliveries in three kills, and only its claimed deliveries are sent twice', async () => {
    for (let n = 0; n < TENANTS; n++) {
      await tenancy.tenants.create({ id: `acme-${n}`, name: 'Acme' })
      await tenancy.webhooks.create(`acme-${n}`, { url: `${receiver.url}/waiting/${n}`, events: ['order.*'] })
    }
    const dispatched = await Promise.all(
      Array.from({ length: DELIVERIES }, (_, n) =>
        tenancy.webhooks.dispatch(`acme-${n % TENANTS}`, 'order.paid', { number: n }),
      ),
    )
    const ids = dispatched.flat()
    expect(new Set(ids).size).toBe(DELIVERIES)

    const ofTheKilled = new Set<string>()
    for (let kill = 1; kill <= KILLS; kill++) {
      const process = await startWorker()
      worker = process
      let ended: Promise<unknown> | undefined
      // The request that gets no answer is sent and not recorded: at least its delivery arrives again.
      receiver.respondWith(() => {
        if (receiver.received.length <= kill * 1_000) return {}
        ended ??= process.kill('SIGKILL')
        return undefined
      })
      await eventually(() => expect(ended).toBeDefined(), SETTLED_WITHIN_MS)
      await ended
      // No other worker runs: deliveries in flight are claims of the killed worker.
      const { rows } = await tenancy.kernel.database.sql(
        `select id from multitenancy.webhook_deliveries where state = 'delivering' and not is_ready`,
      )
      expect(rows.length).toBeGreaterThan(0)
      for (const { id } of rows) ofTheKilled.add(id)
    }
    receiver.respondWith(() => ({}))
    worker = await startWorker()
    await eventually(async () => expect(await counts()).toEqual({ delivered: DELIVERIES }), SETTLED_WITHIN_MS)

    const times = arrivals('/waiting/')
    expect([...times.keys()].toSorted()).toEqual(ids.toSorted())
    const repeated = [...times].filter(([, count]) => count > 1)
    expect(repeated.length).toBeGreaterThan(0)
    expect(repeated.filter(([id]) => !ofTheKilled.has(id))).toEqual([])
    expect(receiver.received.length - DELIVERIES).toBeLessThanOrEqual(KILLS * CLAIM)
    // Requests of a killed worker used nothing of the budget and were not counted.
    const { rows } = await tenancy.kernel.database.sql(
      `select count(*) as attempts, count(*) filter (where number > 1) as later, min(d.attempt_count) as fewest,
         max(d.attempt_count) as most
       from multitenancy.webhook_attempts a join multitenancy.webhook_deliveries d on d.id = a.delivery_id`,
    )
    expect(rows[0]).toEqual({ attempts: DELIVERIES, later: 0, fewest: 1, most: 1 })
  }, 240_000)

  test('has its own dispatched and claimed deliveries sent by another worker', async () => {
    await tenancy.tenants.create({ id: 'globex', name: 'Globex' })
    await tenancy.webhooks.create('globex', { url: `${receiver.url}/direct`, events: ['order.*'] })
    const acknowledged: string[] = []
    for (let kill = 1; kill <= KILLS; kill++) {
      const process = await startWorker()
      worker = process
      const enough = acknowledged.length + 300
      let isAlive = true
      const dispatching = Array.from({ length: 32 }, async () => {
        for (let number = 0; isAlive; number++) {
          const ids = await process.request({ dispatch: 'globex', number }).catch(() => [])
          acknowledged.push(...ids)
        }
      })
      await eventually(() => expect(acknowledged.length).toBeGreaterThan(enough), SETTLED_WITHIN_MS)
      const killed = process.kill('SIGKILL')
      isAlive = false
      await Promise.all([killed, ...dispatching])
    }
    worker = await startWorker()
    await eventually(async () => expect(Object.keys(await counts())).toEqual(['delivered']), SETTLED_WITHIN_MS)
    const times = arrivals('/direct')
    expect(acknowledged.filter((id) => !times.has(id))).toEqual([])
    const { rows } = await tenancy.kernel.database.sql('select id from multitenancy.webhook_deliveries')
    expect([...times.keys()].toSorted()).toEqual(rows.map(({ id }) => id).toSorted())
    const repeats = [...times.values()].reduce((sum, count) => sum + count - 1, 0)
    expect(repeats).toBeLessThanOrEqual(KILLS * CLAIM)
  }, 240_000)
})
