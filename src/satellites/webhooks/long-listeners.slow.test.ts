/**
 * A listener within `WebhookDeliveryFailed` that takes long keeps neither its delivery nor those of others from being settled, and
 * one that never ends keeps no connection, and no process from stopping.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { type Receiver, startReceiver } from '../../../test/support/receiver.ts'
import { eventually, type TestTenancy } from '../../testing/base/tenancy.ts'
import { WebhookDeliveryFailed } from './model/events.ts'
import { PermanentFailureHandler } from './queue/permanent-failure.ts'
import type { Settlement } from './queue/queue.ts'
import { anyTenant, openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from './webhooks.fixture.ts'

/** Less than it waits for a lock, and than a lease, after which it would be sent once more. */
const SOON_MS = 4_500
const LONG_MS = 30_000

let opened: TestTenancy<WebhooksSatellites>
let tenancy: WebhooksTenancy
let receiver: Receiver

beforeAll(async () => {
  opened = await openWebhooks(inject('postgresUrl'), { maxAttempts: 1, bridge: false })
  tenancy = opened.tenancy
  receiver = await startReceiver(() => ({ status: 500 }))
})
afterAll(async () => {
  await receiver.close()
  await opened.end()
})

const inTransactions = async () => {
  const { rows } = await tenancy.kernel.database.sql(
    `select from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'`,
  )
  return rows.length
}

const never = (): Promise<void> => new Promise(() => undefined)
const busy = async () => {
  const until = performance.now() + LONG_MS
  while (performance.now() < until) {
    await tenancy.kernel.database.sql('select pg_sleep(0.1)')
  }
}

const listeners: Record<string, () => Promise<void>> = {
  'takes 30 s': () => sleep(LONG_MS, undefined, { ref: false }),
  'never ends': never,
  'works for 30 s': busy,
  'waits for one statement of 30 s': async () => void (await tenancy.kernel.database.sql('select pg_sleep(30)')),
}

for (const [what, listen] of Object.entries(listeners)) {
  test(`a listener that ${what} is done without, and asked once more; what others have is settled as well`, async () => {
    const { events } = tenancy.kernel
    const first = await anyTenant(tenancy)
    const sent: { id: string; webhookId: string; deliveryId: string }[] = []
    const asked: string[] = []
    const end = events.subscribe(WebhookDeliveryFailed, 'within', async ({ deliveryId }) => {
      asked.push(deliveryId)
      if (asked.length === 1) await listen()
    })
    for (const id of [first, await anyTenant(tenancy)]) {
      const { webhookId } = await tenancy.webhooks.create(id, { url: `${receiver.url}/${id}`, events: ['order.paid'] })
      const before = asked.length
      const [deliveryId = ''] = await tenancy.webhooks.dispatch(id, 'order.paid', {})
      sent.push({ id, webhookId, deliveryId })
      if (id === first) await eventually(() => expect(asked).toHaveLength(before + 1))
    }
    await eventually(async () => {
      for (const { id, webhookId, deliveryId } of sent) {
        const { state, attempts } = await tenancy.webhooks.delivery(id, webhookId, deliveryId)
        expect({ state, attempts: attempts.length }).toEqual({ state: 'failed', attempts: 1 })
      }
    }, SOON_MS)
    await eventually(() => {
      for (const { deliveryId } of sent) expect(asked.slice(1)).toContain(deliveryId)
    })
    end()
    for (const { id } of sent) expect(receiver.received.filter(({ path }) => path === `/${id}`)).toHaveLength(1)
    expect(await inTransactions()).toBe(0)
  })
}

const failed: Settlement = {
  delivery: {
    id: randomUUID(),
    claim: randomUUID(),
    webhookId: randomUUID(),
    tenantId: 'acme',
    partitionKey: 'acme',
    event: 'order.paid',
    attemptCount: 0,
    budgetStart: 0,
    createdAt: new Date(),
    url: 'https://hooks.example.com',
    isFailing: false,
    secret: '',
    previousSecret: null,
    previousUntil: null,
    generation: 0,
  },
  verdict: { state: 'failed', delayMs: null, disables: null },
  status: 500,
  error: null,
  isBlamed: true,
  startedMs: Date.now(),
  durationMs: 1,
  address: null,
  requestHeaders: '{}',
  responseHeaders: null,
  responseBody: null,
}

describe('a listener that never ends', () => {
  let asked: number
  let unsubscribe: () => void
  const follow = async (ending: PermanentFailureHandler) => {
    ending.followUp(failed, { isOurs: true, failingSince: null })
    await eventually(() => expect(asked).toBe(1))
    await eventually(async () => expect(await inTransactions()).toBe(1))
  }
  beforeEach(() => {
    asked = 0
    unsubscribe = tenancy.kernel.events.subscribe(WebhookDeliveryFailed, 'within', () => {
      asked += 1
      return never()
    })
  })
  afterEach(() => unsubscribe())

  test('is given up after a while, with its transaction', async () => {
    const ending = new PermanentFailureHandler(tenancy.kernel, 1_000)
    await follow(ending)
    await eventually(async () => expect(await inTransactions()).toBe(0))
    await ending.stop()
  })

  test('keeps nothing from stopping', async () => {
    const ending = new PermanentFailureHandler(tenancy.kernel)
    await follow(ending)
    await ending.stop()
    expect(await inTransactions()).toBe(0)
  })
})
