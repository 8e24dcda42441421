/** Bodies of subscriptions with the envelope of Standard Webhooks. */
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type Receiver, startReceiver } from '../../../../test/support/receiver.ts'
import { eventually, type TestTenancy } from '../../../testing/base/tenancy.ts'
import { verifyWebhook } from '../verify.ts'
import { anyTenant, openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from '../webhooks.fixture.ts'

const PAYLOAD = { amount: 12.5, text: 'Grüße "x"' }

let opened: TestTenancy<WebhooksSatellites>
let tenancy: WebhooksTenancy
/** Dispatches only, so another process loads the bodies. */
let idle: WebhooksTenancy
let receiver: Receiver
beforeAll(async () => {
  opened = await openWebhooks(inject('postgresUrl'), { maxAttempts: 1 })
  tenancy = opened.tenancy
  idle = await opened.open({ role: 'api' })
  receiver = await startReceiver()
})
afterAll(async () => {
  await receiver?.close()
  await opened?.end()
})

const receivedAt = (path: string) => receiver.received.filter((one) => one.path === path)
const create = async (id: string, envelope?: boolean) =>
  tenancy.webhooks.create(id, { url: `${receiver.url}/${id}`, events: ['order.*'], envelope })

test('a subscription has no envelope by default: the body is the payload', async () => {
  const id = await anyTenant(tenancy)
  expect(await create(id)).toMatchObject({ envelope: false })
  await tenancy.webhooks.dispatch(id, 'order.paid', PAYLOAD)
  await eventually(() => expect(receivedAt(`/${id}`)).toHaveLength(1))
  expect(receivedAt(`/${id}`)[0]?.body).toBe(JSON.stringify(PAYLOAD))
})

test.each(['dispatching', 'another'])(
  'the %s process sends type, id, time and payload in one signed body, the same in each attempt',
  async (process) => {
    const id = await anyTenant(tenancy)
    const { secret, webhookId } = await create(id, true)
    let isDown = true
    receiver.respondWith(() => ({ status: isDown ? 500 : 200 }))
    const from = process === 'another' ? idle : tenancy
    const [deliveryId = ''] = await from.webhooks.dispatch(id, 'order.paid', PAYLOAD)
    await eventually(() => expect(receivedAt(`/${id}`)).toHaveLength(1))
    isDown = false
    await eventually(async () => {
      const { state } = await tenancy.webhooks.delivery(id, webhookId, deliveryId)
      expect(state).toBe('failed')
    })
    await tenancy.webhooks.replay(id, webhookId, deliveryId)
    await eventually(() => expect(receivedAt(`/${id}`)).toHaveLength(2))

    const [first, second] = receivedAt(`/${id}`)
    expect(second?.body).toBe(first?.body)
    const { createdAt } = await tenancy.webhooks.delivery(id, webhookId, deliveryId)
    const envelope = { type: 'order.paid', id: deliveryId, timestamp: createdAt, data: PAYLOAD }
    expect(JSON.parse(first?.body ?? '')).toEqual(envelope)
    expect(first?.body).toContain(`"data":${JSON.stringify(PAYLOAD)}}`)
    const headers = first?.headers as Record<string, string>
    expect(headers['webhook-id']).toBe(deliveryId)
    expect(new Webhook(secret).verify(first?.body ?? '', headers)).toEqual(envelope)
    const altered = { ...headers, 'x-webhook-event': 'order.refunded' } // not signed
    expect(verifyWebhook(first?.body ?? '', altered, secret)).toMatchObject({ event: 'order.paid', payload: envelope })
    receiver.respondWith(() => ({}))
  },
)

test('a change of the envelope is recorded, and applies to later bodies', async () => {
  const id = await anyTenant(tenancy)
  const { webhookId } = await create(id, true)
  expect(await tenancy.webhooks.update(id, webhookId, { description: 'shop' })).toMatchObject({ envelope: true })
  expect(await tenancy.webhooks.update(id, webhookId, { envelope: false })).toMatchObject({ envelope: false })
  await tenancy.webhooks.dispatch(id, 'order.paid', PAYLOAD)
  await eventually(() => expect(receivedAt(`/${id}`).map(({ body }) => JSON.parse(body))).toEqual([PAYLOAD]))
})
