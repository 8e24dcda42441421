/** Listeners: their lease, and their isolation from workers and other subscriptions. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { type Receiver, startReceiver } from '../../../test/support/receiver.ts'
import { type FakeClock, fakeClock } from '../../testing/base/clock.ts'
import { eventually, type TestTenancy } from '../../testing/base/tenancy.ts'
import type { Listener } from './listener.ts'
import { WebhookDeliveryFailed, WebhookSubscriptionDisabled } from './model/events.ts'
import type { Settlement } from './queue/queue.ts'
import { openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from './webhooks.fixture.ts'
import { activeTenant, apiOf, changesOf, deliveriesOf } from './webhooks-api.fixture.ts'

const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS

let clock: FakeClock
let opened: TestTenancy<WebhooksSatellites>
/** The process of the listener. */
let developer: WebhooksTenancy
/** Another process, which sends on request. */
let service: WebhooksTenancy
let receiver: Receiver
let id: string
let settlements: Settlement[]
let listeners: Listener[]

beforeAll(async () => {
  // Differs from the system clock by a minute: the database clock decides.
  clock = fakeClock(new Date(Date.now() - MINUTE_MS))
  opened = await openWebhooks(inject('postgresUrl'), {}, { clock, role: 'api' })
  developer = opened.tenancy
  service = await opened.open()
})
afterAll(() => opened.end())
beforeEach(async () => {
  receiver = await startReceiver()
  id = await activeTenant(service)
  settlements = []
  listeners = []
})
afterEach(async () => {
  vi.useRealTimers()
  for (const listener of listeners) await listener.close()
  await receiver.close()
})

async function listen(events?: string[]): Promise<Listener> {
  const options = { tenantId: id, url: receiver.url, onSettled: (one: Settlement) => void settlements.push(one) }
  const listener = await developer.webhooks.listen({ ...options, ...(events ? { events } : {}) })
  listeners.push(listener)
  return listener
}

const dispatch = (event = 'order.paid') => service.webhooks.dispatch(id, event, { n: 1 })

const subscriptions = async () => {
  const { rows } = await service.kernel.database.sql(
    `select enabled, deleted_at is null as "isThere" from multitenancy.webhook_subscriptions where tenant_id = $1`,
    [id],
  )
  return rows
}

describe('the subscription of a listener', () => {
  test('is not listed, and other workers do not send for it', async () => {
    const changes = changesOf(developer)
    const listener = await listen()
    const [deliveryId = ''] = await dispatch()
    expect(await service.webhooks.retry()).toBe(0)
    await eventually(() => expect(settlements).toHaveLength(1))
    expect(receiver.received.map(({ headers }) => headers['x-delivery-id'])).toEqual([deliveryId])
    const [delivery] = await deliveriesOf(service, id, listener.webhookId)
    expect(delivery).toMatchObject({ id: deliveryId, state: 'delivered', attemptCount: 1 })

    const { json } = await apiOf(service)('GET', `/tenants/${id}/webhooks`)
    expect(json).toEqual({ data: [], nextCursor: null })
    expect(changes.map(({ action }) => action)).toEqual(['webhooks.listen'])
  })

  test('exists for a minute after the last renewal', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    await listen()
    for (let n = 0; n < 10; n++) {
      clock.advance(MINUTE_MS - SECOND_MS)
      expect(await dispatch()).toHaveLength(1)
      const renewed = await lease()
      vi.advanceTimersByTime(15_000)
      await eventually(async () => expect(await lease()).not.toEqual(renewed))
    }
    clock.advance(MINUTE_MS + SECOND_MS)
    expect(await dispatch()).toEqual([])
  })

  const lease = async (): Promise<Date> => {
    const { rows } = await service.kernel.database.sql(
      'select listening_until from multitenancy.webhook_subscriptions where tenant_id = $1',
      [id],
    )
    return rows[0].listening_until
  }

  test('retries failures and is not disabled by them', async () => {
    const published: unknown[] = []
    for (const type of [WebhookSubscriptionDisabled, WebhookDeliveryFailed]) {
      onTestFinished(developer.on(type as typeof WebhookDeliveryFailed, (event) => void published.push(event)))
    }
    await listen()
    receiver.respondWith(() => ({ status: 500 }))
    await dispatch()
    await eventually(() => expect(settlements).toMatchObject([{ status: 500, verdict: { state: 'retry_scheduled' } }]))
    receiver.respondWith(() => ({ status: 410 }))
    await dispatch()
    await eventually(() => expect(settlements.at(-1)).toMatchObject({ status: 410, verdict: { state: 'failed' } }))
    receiver.respondWith(() => ({}))
    await dispatch()
    await eventually(() => expect(settlements.at(-1)).toMatchObject({ status: 200 }))

    clock.advance(13 * SECOND_MS)
    await dispatch() // it looks, and finds what is due
    const again = expect.objectContaining({ status: 200, delivery: expect.objectContaining({ attemptCount: 1 }) })
    await eventually(() => expect(settlements).toContainEqual(again))
    expect(await subscriptions()).toMatchObject([{ enabled: true, isThere: true }])
    expect(published).toEqual([])
  })
})

describe('closing a listener', () => {
  test('deletes the subscription without waiting for a receiver that does not respond', async () => {
    receiver.respondWith(() => undefined)
    const listener = await listen()
    const [deliveryId = ''] = await dispatch()
    await eventually(() => expect(receiver.received).toHaveLength(1))
    await listener.close()
    listeners.pop()
    expect(await dispatch()).toEqual([])
    expect(await subscriptions()).toMatchObject([{ isThere: false }])
    expect(settlements).toEqual([])
    await service.webhooks.retry()
    const { rows } = await service.kernel.database.sql(
      'select state, attempt_count from multitenancy.webhook_deliveries where id = $1',
      [deliveryId],
    )
    expect(rows).toEqual([{ state: 'failed', attempt_count: 1 }])
  })

  test('succeeds if the tenant was deleted', async () => {
    const listener = await listen(['tenant.*'])
    await service.tenants.delete(id)
    await eventually(() => expect(settlements.map(({ delivery }) => delivery.event)).toEqual(['tenant.deleted']))
    await listener.close()
    listeners.pop()
    expect(await subscriptions()).toMatchObject([{ isThere: false }])
  })

  test('rejects until() when the subscription was deleted', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    const listener = await listen()
    const until = listener.until(new AbortController().signal)
    await service.webhooks.delete(id, listener.webhookId)
    vi.advanceTimersByTime(15_000)
    await expect(until).rejects.toMatchObject({ code: 'E_WEBHOOK_NOT_FOUND' })
  })
})

test('a crashed listener ends after a minute, and its deliveries fail', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  receiver.respondWith(() => undefined)
  const listener = await listen()
  const [deliveryId = ''] = await dispatch()
  clock.advance(MINUTE_MS + SECOND_MS)
  expect(await dispatch()).toEqual([])
  await service.webhooks.retry()
  expect(await deliveriesOf(service, id, listener.webhookId)).toMatchObject([{ id: deliveryId, state: 'failed' }])
})
