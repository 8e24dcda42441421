/** The health of subscriptions, and subscriptions for attention. */
import { describe, expect, test } from 'vitest'
import { DAY_MS, HOUR_MS, openReceiver, SECOND_MS } from '../receivers.fixture.ts'
import { createdTenant } from '../webhooks-api.fixture.ts'
import { NO_DELIVERIES } from './subscriptions.fixture.ts'

const fixture = openReceiver()
const { clock, sql, subscribe, dispatch, send } = fixture

const get = (webhookId: string) => fixture.tenancy.webhooks.get(fixture.id, webhookId)
const healthOf = async (webhookId: string) => (await get(webhookId)).health
const responds = (status: number) => fixture.receiver.respondWith(() => ({ status }))
const later = (date: string | null, ms: number) => new Date(Date.parse(date ?? '') + ms).toISOString()
/** Ends the retries of all deliveries. */
async function failAll(): Promise<void> {
  for (let attempt = 0; attempt < 5; attempt++) {
    await send()
    clock.advance(HOUR_MS)
  }
}

describe('the health of a subscription', () => {
  test('has the last success, the start of failures, waiting deliveries, and the time of its end', async () => {
    const { webhookId } = await subscribe()
    expect(await healthOf(webhookId)).toEqual(NO_DELIVERIES)
    await dispatch()
    expect(await healthOf(webhookId)).toEqual({ ...NO_DELIVERIES, waiting: 1 })
    await send()
    const healthy = await healthOf(webhookId)
    expect(healthy).toEqual({ ...NO_DELIVERIES, lastDeliveredAt: expect.any(String) })
    clock.advance(HOUR_MS)
    responds(500)
    await dispatch()
    await send()
    await dispatch()
    const failing = await healthOf(webhookId)
    expect(failing).toEqual({
      failingSince: expect.any(String),
      lastDeliveredAt: healthy.lastDeliveredAt,
      waiting: 2,
      disabledAt: later(failing.failingSince, 5 * DAY_MS),
    })
    const { data } = await fixture.tenancy.webhooks.list(fixture.id)
    expect(data.map(({ health }) => health)).toEqual([failing])
    await fixture.tenancy.webhooks.update(fixture.id, webhookId, { enabled: false })
    expect(await healthOf(webhookId)).toMatchObject({ failingSince: failing.failingSince, disabledAt: null })
  })

  test('of a subscription of the host counts its retries for all tenants', async () => {
    const { webhookId } = await fixture.tenancy.webhooks.create(null, {
      url: fixture.receiver.url,
      events: ['host.event'],
    })
    responds(500)
    await dispatch('host.event')
    await fixture.tenancy.webhooks.dispatch(await createdTenant(fixture.tenancy), 'host.event', {})
    await send()
    const { data } = await fixture.tenancy.webhooks.list(null)
    expect(data.find((one) => one.webhookId === webhookId)?.health).toMatchObject({ waiting: 2, lastDeliveredAt: null })
    await fixture.tenancy.webhooks.delete(null, webhookId)
  })

  test('does not change the state that If-Match compares', async () => {
    const { webhookId } = await subscribe()
    const path = `/tenants/${fixture.id}/webhooks/${webhookId}`
    const before = await fixture.call('GET', path)
    await dispatch()
    const after = await fixture.call('GET', path)
    expect(after.json).not.toEqual(before.json)
    expect(after.headers.get('etag')).toBe(before.headers.get('etag'))
    const headers = { 'if-match': before.headers.get('etag') ?? '' }
    const changed = await fixture.call('PUT', path, { headers, body: { description: 'new' } })
    expect(changed.status).toBe(200)
    expect(changed.headers.get('etag')).toBe((await fixture.call('GET', path)).headers.get('etag'))
    expect(await fixture.call('PUT', path, { headers, body: {} })).toMatchObject({ status: 412 })
  })
})

describe('subscriptions for attention', () => {
  const attention = () => fixture.tenancy.webhooks.attention

  test('are failing, with the time at which they are disabled', async () => {
    const { webhookId } = await subscribe()
    await subscribe()
    const { tenantId } = await get(webhookId)
    expect(await attention().failingSubscriptions({ tenantId: fixture.id })).toEqual({ total: 0, rows: [] })
    await sql('update multitenancy.webhook_subscriptions set failing_since = $2 where id = $1', [
      webhookId,
      clock.now(),
    ])
    const since = clock.now()
    const failing = { tenantId, webhookId, receiver: fixture.receiver.url, since }
    const rows = [{ ...failing, disabledAt: new Date(since.getTime() + 5 * DAY_MS) }]
    expect(await attention().failingSubscriptions({ tenantId: fixture.id })).toEqual({ total: 1, rows })
    expect((await attention().failingSubscriptions()).rows).toEqual(expect.arrayContaining(rows))
    expect((await attention().failingSubscriptions({ tenantId: 'unknown' })).total).toBe(0)
    await fixture.tenancy.webhooks.update(fixture.id, webhookId, { enabled: false })
    expect((await attention().failingSubscriptions({ tenantId: fixture.id })).total).toBe(0)
  })

  test('have failed deliveries of the last 24 hours', async () => {
    responds(500)
    const one = await subscribe()
    const two = await subscribe(`${fixture.receiver.url}/two`, 'order.sent')
    const since = clock.now()
    await dispatch()
    await dispatch()
    await dispatch('order.sent')
    expect((await attention().failedDeliveries({ tenantId: fixture.id })).total).toBe(0)
    await failAll()
    const rowOf = ({ webhookId }: { webhookId: string }, count: number) => {
      return { tenantId: fixture.id, webhookId, receiver: fixture.receiver.url, since, count }
    }
    const rows = [rowOf(one, 2), rowOf(two, 1)]
    expect(await attention().failedDeliveries({ tenantId: fixture.id })).toEqual({ total: 2, rows })
    expect(await attention().failedDeliveries()).toEqual({ total: 2, rows })
    expect(await attention().failedDeliveries({ limit: 1 })).toEqual({ total: 2, rows: rows.slice(0, 1) })
    clock.advance(DAY_MS)
    expect((await attention().failedDeliveries()).total).toBe(0)
  })

  test('have deliveries that were due for five minutes', async () => {
    const { webhookId } = await subscribe()
    const [before] = [clock.now()]
    await dispatch()
    await dispatch()
    clock.advance(299 * SECOND_MS)
    expect((await attention().overdueDeliveries()).total).toBe(0)
    clock.advance(10 * SECOND_MS)
    const { total, rows } = await attention().overdueDeliveries({ tenantId: fixture.id })
    expect(total).toBe(1)
    expect(rows).toMatchObject([{ tenantId: fixture.id, webhookId, receiver: fixture.receiver.url, count: 2 }])
    expect(rows[0]?.since.getTime()).toBeGreaterThanOrEqual(before?.getTime() ?? 0)
    expect((await attention().overdueDeliveries({ tenantId: 'unknown' })).rows).toEqual([])
  })
})
