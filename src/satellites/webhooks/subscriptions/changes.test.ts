/** Deliveries in flight: what happens to them when their subscription or tenant changes. */
import { createHmac } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { describe, expect, test } from 'vitest'
import { startReceiver } from '../../../../test/support/receiver.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { WebhookDeliveryFailed, WebhookSubscriptionDisabled } from '../index.ts'
import { HOUR_MS, openReceiver, SECOND_MS } from '../receivers.fixture.ts'
import { clockOfToday } from '../webhooks.fixture.ts'

const fixture = openReceiver()
const { clock, sql, send, subscribe, dispatch, received, holding } = fixture

describe('a request in progress', () => {
  const inFlight = async (status?: number) => {
    const { webhookId } = await subscribe()
    const held = holding(status)
    const deliveryId = await dispatch()
    const sending = send()
    await held.count(1)
    const waiting = await dispatch()
    return { webhookId, deliveryId, waiting, held, sending }
  }
  const rowOf = async (deliveryId: string) => {
    const [row] = await sql(
      'select state, attempt_count as attempts, last_error as error from multitenancy.webhook_deliveries where id = $1',
      [deliveryId],
    )
    return row
  }

  test('is settled when its subscription is deleted, without further requests', async () => {
    const { webhookId, deliveryId, waiting, held, sending } = await inFlight()
    await fixture.tenancy.webhooks.delete(fixture.id, webhookId)
    held.release()
    await sending
    await send()
    expect(await rowOf(deliveryId)).toEqual({ state: 'delivered', attempts: 1, error: null })
    expect(await rowOf(waiting)).toEqual({ state: 'failed', attempts: 0, error: 'the subscription is deleted' })
    expect(received()).toHaveLength(1)
  })

  test('is not retried when its subscription is disabled', async () => {
    const { webhookId, deliveryId, waiting, held, sending } = await inFlight(500)
    await fixture.tenancy.webhooks.update(fixture.id, webhookId, { enabled: false })
    held.release()
    await sending
    clock.advance(HOUR_MS)
    await send()
    expect(await rowOf(deliveryId)).toEqual({ state: 'failed', attempts: 1, error: 'the subscription is disabled' })
    expect(await rowOf(waiting)).toEqual({ state: 'failed', attempts: 0, error: 'the subscription is disabled' })
    expect(received()).toHaveLength(1)
  })

  test('is retried while its tenant is suspended', async () => {
    await fixture.tenancy.tenants.installation.install(fixture.id, { isLast: true })
    const { deliveryId, waiting, held, sending } = await inFlight()
    await fixture.tenancy.tenants.suspend(fixture.id)
    held.release()
    await sending
    await send()
    expect([await rowOf(deliveryId), await rowOf(waiting)]).toMatchObject([
      { state: 'delivered' },
      { state: 'delivered' },
    ])
  })

  test('is delivered when its tenant is deleted', async () => {
    const { deliveryId, waiting, held, sending } = await inFlight()
    await fixture.tenancy.tenants.delete(fixture.id)
    await expect(dispatch()).rejects.toMatchObject({ code: 'E_TENANT_STATE' })
    held.release()
    await sending
    await send()
    expect([await rowOf(deliveryId), await rowOf(waiting)]).toMatchObject([
      { state: 'delivered' },
      { state: 'delivered' },
    ])
  })

  test('leaves nothing when its tenant is purged, and does not affect other deliveries', async () => {
    const other = await fixture.tenancy.tenants.create({ id: `other-${fixture.id}`, name: 'Other' })
    await fixture.tenancy.webhooks.create(other.id, { url: fixture.receiver.url + fixture.path, events: ['order.*'] })
    const { deliveryId, waiting, held, sending } = await inFlight()
    const [others = ''] = await fixture.tenancy.webhooks.dispatch(other.id, 'order.paid', {})
    await held.count(1)
    await fixture.tenancy.webhooks.forget(fixture.id)
    held.release()
    await sending
    await send()
    expect([await rowOf(deliveryId), await rowOf(waiting)]).toEqual([undefined, undefined])
    expect(await rowOf(others)).toMatchObject({ state: 'delivered', attempts: 1 })
    expect(await sql('select * from multitenancy.webhook_attempts where delivery_id = $1', [deliveryId])).toEqual([])
  })

  test('disables the subscription once, with one event, for concurrent 410 responses', async () => {
    const other = await fixture.opened.open()
    const disabled: unknown[] = []
    const failed: string[] = []
    for (const each of [fixture.tenancy, other]) {
      each.on(WebhookSubscriptionDisabled, (event) => void disabled.push(event))
      each.on(WebhookDeliveryFailed, ({ deliveryId }) => void failed.push(deliveryId))
    }
    const hears = await startReceiver()
    const host = await fixture.tenancy.webhooks.create(null, {
      url: hears.url,
      events: ['webhook.*', 'webhook_subscription.*'],
    })
    const { webhookId } = await subscribe()
    const held = holding(410)
    const ids: string[] = []
    for (let n = 0; n < 40; n++) ids.push(await dispatch())
    const sending = [send(), other.webhooks.retry()]
    await held.count(16) // the maximum in flight to one subscription, of both together
    held.release()
    await Promise.all(sending)
    await eventually(async () => {
      await send()
      const rows = await sql(
        `select 1 from multitenancy.webhook_deliveries where state <> 'failed' and webhook_id = $1`,
        [webhookId],
      )
      expect(rows).toEqual([])
    })
    await eventually(() => expect(disabled).toHaveLength(1))
    expect(disabled).toMatchObject([{ webhookId, tenantId: fixture.id, reason: 'gone' }])
    expect(await fixture.tenancy.webhooks.get(fixture.id, webhookId)).toMatchObject({
      enabled: false,
      disabledReason: 'gone',
    })
    const arrived = received().map(({ headers }) => String(headers['x-delivery-id']))
    expect(new Set(arrived).size).toBe(arrived.length)
    await eventually(() => expect(failed.toSorted()).toEqual(arrived.toSorted()))
    for (const deliveryId of ids) {
      const { attempts, error } = await rowOf(deliveryId)
      expect([attempts, error]).toEqual(arrived.includes(deliveryId) ? [1, null] : [0, 'the subscription is disabled'])
    }
    await send()
    expect(hears.received.map(({ body }) => JSON.parse(body).webhookId)).toEqual([webhookId])
    await fixture.tenancy.webhooks.delete(null, host.webhookId)
    await hears.close()
  })

  test('is retried with the signatures of both secrets during the grace period', async () => {
    // Libraries compare with the time of the machine.
    const now = clockOfToday()
    const sender = await fixture.opened.open({ clock: now })
    const { webhookId, secret: former } = await subscribe()
    const held = holding(500)
    await sender.webhooks.dispatch(fixture.id, 'order.paid', { amount: 12.5 })
    const sending = sender.webhooks.retry()
    await held.count(1)
    const { secret: current } = await sender.webhooks.rotateSecret(fixture.id, webhookId, { graceSeconds: 120 })
    held.release()
    await sending
    now.advance(13 * SECOND_MS)
    await sender.webhooks.retry()
    now.advance(120 * SECOND_MS)
    await sender.webhooks.retry()
    const sent = received()
    expect(sent).toHaveLength(3)
    const knows = (secret: string) =>
      sent.map(({ body, headers }) => {
        try {
          return new Webhook(secret).verify(body, headers as Record<string, string>) !== undefined
        } catch {
          return false
        }
      })
    expect(knows(former)).toEqual([true, true, false])
    expect(knows(current)).toEqual([false, true, true])
    const hmac = (secret: string) => createHmac('sha256', secret).update('{"amount":12.5}').digest('hex')
    expect(sent.map(({ headers }) => headers['x-webhook-signature'])).toEqual([former, current, current].map(hmac))
  })
})
