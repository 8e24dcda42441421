import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Receiver, startReceiver } from '../../../test/support/receiver.ts'
import { eventually, type TestTenancy } from '../../testing/base/tenancy.ts'
import { verifyWebhook } from './verify.ts'
import { anyTenant, openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from './webhooks.fixture.ts'

let opened: TestTenancy<WebhooksSatellites>
let tenancy: WebhooksTenancy
let receiver: Receiver

beforeAll(async () => {
  opened = await openWebhooks(inject('postgresUrl'))
  tenancy = opened.tenancy
  receiver = await startReceiver()
})
afterAll(async () => {
  await receiver.close()
  await opened.end()
})

describe('a dispatched event', () => {
  test('is sent signed and unchanged, and its attempt is stored', async () => {
    const id = await anyTenant(tenancy)
    const { webhookId, secret } = await tenancy.webhooks.create(id, { url: `${receiver.url}/a`, events: ['order.*'] })
    const [deliveryId = ''] = await tenancy.webhooks.dispatch(id, 'order.paid', { amount: 12.5, name: 'Ünï' })
    const detail = await eventually(async () => {
      const delivery = await tenancy.webhooks.delivery(id, webhookId, deliveryId)
      expect(delivery).toMatchObject({ state: 'delivered', attemptCount: 1, lastStatus: 200, nextRetryAt: null })
      return delivery
    })
    const [received] = receiver.received.filter(({ path }) => path === '/a')
    expect(received?.body).toBe('{"amount":12.5,"name":"Ünï"}')
    expect(received?.headers).toMatchObject({
      'content-type': 'application/json',
      'x-webhook-event': 'order.paid',
      'x-delivery-id': deliveryId,
      'webhook-id': deliveryId,
    })
    expect(verifyWebhook(received?.body ?? '', received?.headers ?? {}, secret)).toMatchObject({
      id: deliveryId,
      event: 'order.paid',
      payload: { amount: 12.5, name: 'Ünï' },
    })
    expect(detail.payload).toEqual({ amount: 12.5, name: 'Ünï' })
    expect(detail.explanation).toMatch(/^Delivered at .* after one attempt with status 200\.$/)
    expect(detail.attempts).toMatchObject([{ number: 1, status: 200, error: null, address: '127.0.0.1' }])
    expect(detail.attempts[0]?.requestHeaders['x-webhook-signature']).toBe(received?.headers['x-webhook-signature'])
    expect(JSON.stringify(detail)).not.toContain(secret)
  })
})

describe('concurrent dispatches', () => {
  test('succeed if one of them has an invalid tenant id', async () => {
    const id = await anyTenant(tenancy)
    await tenancy.webhooks.create(id, { url: `${receiver.url}/together`, events: ['*'] })
    const wrong = ['no\0body', 'No Id', undefined as unknown as string, null as unknown as string]
    const outcomes = await Promise.allSettled(
      [id, ...wrong, id].map((tenantId) => tenancy.webhooks.dispatch(tenantId, 'order.paid', {})),
    )
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', ...wrong.map(() => 'rejected'), 'fulfilled'])
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
    }
  })
})
