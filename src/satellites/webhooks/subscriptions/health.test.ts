/** The health of subscriptions. */
import { describe, expect, test } from 'vitest'
import { DAY_MS, HOUR_MS, openReceiver } from '../receivers.fixture.ts'
import { createdTenant } from '../webhooks-api.fixture.ts'
import { NO_DELIVERIES } from './subscriptions.fixture.ts'

const fixture = openReceiver()
const { clock, subscribe, dispatch, send } = fixture

const get = (webhookId: string) => fixture.tenancy.webhooks.get(fixture.id, webhookId)
const healthOf = async (webhookId: string) => (await get(webhookId)).health
const responds = (status: number) => fixture.receiver.respondWith(() => ({ status }))
const later = (date: string | null, ms: number) => new Date(Date.parse(date ?? '') + ms).toISOString()

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
