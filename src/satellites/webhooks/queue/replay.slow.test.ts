/** Replays concurrent with retries and workers: one request for each claim. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type Receiver, startReceiver } from '../../../../test/support/receiver.ts'
import type { TestTenancy } from '../../../testing/base/tenancy.ts'
import { clockOfToday, openWebhooks, type WebhooksSatellites } from '../webhooks.fixture.ts'
import { activeTenant } from '../webhooks-api.fixture.ts'

const HOUR_MS = 3_600_000

const clock = clockOfToday()
let opened: TestTenancy<WebhooksSatellites>
let receiver: Receiver
beforeAll(async () => {
  opened = await openWebhooks(inject('postgresUrl'), {}, { role: 'api', clock })
  receiver = await startReceiver()
})
afterAll(async () => {
  await receiver?.close()
  await opened?.end()
})

const PROCESSES = 3
const DELIVERIES = 12
const ROUNDS = 25

test('concurrent replays, retries and workers send one request for each claim, lose no delivery, and number each attempt once', async () => {
  const { tenancy } = opened
  const id = await activeTenant(tenancy)
  const { webhookId } = await tenancy.webhooks.create(id, { url: receiver.url, events: ['*'] })
  const replay = (deliveryId: string) => tenancy.webhooks.replay(id, webhookId, deliveryId)
  const others = await Promise.all(Array.from({ length: PROCESSES }, () => opened.open()))
  const worker = await opened.open({ role: 'all' })
  const inFlight = new Map<string, number>()
  const overlaps: string[] = []
  receiver.respondWith(({ headers }, response) => {
    const deliveryId = String(headers['x-delivery-id'])
    const before = inFlight.get(deliveryId) ?? 0
    inFlight.set(deliveryId, before + 1)
    if (before > 0) overlaps.push(deliveryId)
    void sleep(Math.random() * 5).then(() => {
      inFlight.set(deliveryId, (inFlight.get(deliveryId) ?? 0) - 1)
      response.writeHead(Math.random() < 0.5 ? 200 : 500).end()
    })
    return undefined
  })
  const ids = (
    await Promise.all(Array.from({ length: DELIVERIES }, () => tenancy.webhooks.dispatch(id, 'order.paid', {})))
  ).flat()
  for (let round = 0; round < ROUNDS; round++) {
    // The clock does not advance over a lease, which would let another worker claim its delivery.
    await Promise.all([
      ...others.map(({ webhooks }) => webhooks.retry()),
      ...ids.map((deliveryId) => others[round % PROCESSES]?.webhooks.replay(id, webhookId, deliveryId)),
      ...ids.map(replay),
      others[0]?.webhooks.replayFailed(id, webhookId),
    ])
  }
  await worker.stop()
  receiver.respondWith(() => ({}))
  for (let attempt = 0; attempt < 5; attempt++) {
    await tenancy.webhooks.retry()
    clock.advance(HOUR_MS * 3)
  }
  expect(overlaps).toEqual([])
  const requests = Map.groupBy(receiver.received, ({ headers }) => headers['x-delivery-id'])
  for (const deliveryId of ids) {
    const { attemptCount, attempts, state } = await tenancy.webhooks.delivery(id, webhookId, deliveryId)
    expect(['delivered', 'failed']).toContain(state)
    expect(attempts.map(({ number }) => number)).toEqual(Array.from({ length: attemptCount }, (_, n) => n + 1))
    expect(requests.get(deliveryId)).toHaveLength(attemptCount)
    expect(attemptCount).toBeGreaterThan(1)
  }
})
