/** Slow listeners of `WebhookDeliveryFailed`: they delay no settlement, keep no connection, and do not prevent a stop. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { type Receiver, startReceiver } from '../../../test/support/receiver.ts'
import { eventually, type TestTenancy } from '../../testing/base/tenancy.ts'
import { WebhookDeliveryFailed } from './model/events.ts'
import { PermanentFailureHandler } from './queue/permanent-failure.ts'
import type { Settlement } from './queue/queue.ts'
import { anyTenant, openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from './webhooks.fixture.ts'

/** Shorter than the lock timeout, and than a lease, after which the delivery would be sent again. */
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
  test(`deliveries are settled despite a listener that ${what}, which is called again afterwards`, async () => {
    const { events } = tenancy.kernel
    const first = await anyTenant(tenancy)
    const sent: { id: string; webhookId: string; deliveryId: string }[] = []
    const calls: string[] = []
    const end = events.subscribe(WebhookDeliveryFailed, 'within', async ({ deliveryId }) => {
      calls.push(deliveryId)
      if (calls.length === 1) await listen()
    })
    for (const id of [first, await anyTenant(tenancy)]) {
      const { webhookId } = await tenancy.webhooks.create(id, { url: `${receiver.url}/${id}`, events: ['order.paid'] })
      const before = calls.length
      const [deliveryId = ''] = await tenancy.webhooks.dispatch(id, 'order.paid', {})
      sent.push({ id, webhookId, deliveryId })
      if (id === first) await eventually(() => expect(calls).toHaveLength(before + 1))
    }
    await eventually(async () => {
      for (const { id, webhookId, deliveryId } of sent) {
        const { state, attempts } = await tenancy.webhooks.delivery(id, webhookId, deliveryId)
        expect({ state, attempts: attempts.length }).toEqual({ state: 'failed', attempts: 1 })
      }
    }, SOON_MS)
    await eventually(() => {
      for (const { deliveryId } of sent) expect(calls.slice(1)).toContain(deliveryId)
    })
    end()
    for (const { id } of sent) expect(receiver.received.filter(({ path }) => path === `/${id}`)).toHaveLength(1)
    await eventually(async () => expect(await inTransactions()).toBe(0))
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
    envelope: false,
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
  let calls: number
  let unsubscribe: () => void
  const follow = async (handler: PermanentFailureHandler) => {
    handler.followUp(failed, { isOurs: true, failingSince: null })
    await eventually(() => expect(calls).toBe(1))
    await eventually(async () => expect(await inTransactions()).toBe(1))
  }
  beforeEach(() => {
    calls = 0
    unsubscribe = tenancy.kernel.events.subscribe(WebhookDeliveryFailed, 'within', () => {
      calls += 1
      return never()
    })
  })
  afterEach(() => unsubscribe())

  test('is rolled back at the timeout', async () => {
    const handler = new PermanentFailureHandler(tenancy.kernel, 1_000)
    await follow(handler)
    await eventually(async () => expect(await inTransactions()).toBe(0))
    await handler.stop()
  })

  test('does not prevent a stop', async () => {
    const handler = new PermanentFailureHandler(tenancy.kernel)
    await follow(handler)
    await handler.stop()
    await eventually(async () => expect(await inTransactions()).toBe(0))
  })
})
