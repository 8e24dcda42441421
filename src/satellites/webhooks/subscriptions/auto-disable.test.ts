import { afterAll, beforeAll, expect, inject, onTestFinished, test } from 'vitest'
import { type Receiver, startReceiver } from '../../../../test/support/receiver.ts'
import { eventually, type TestTenancy } from '../../../testing/base/tenancy.ts'
import { WebhookDeliveryFailed, WebhookSubscriptionDisabled } from '../model/events.ts'
import { anyTenant, openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from '../webhooks.fixture.ts'

let opened: TestTenancy<WebhooksSatellites>
let tenancy: WebhooksTenancy
let receiver: Receiver
let release = () => {}

beforeAll(async () => {
  opened = await openWebhooks(inject('postgresUrl'))
  tenancy = opened.tenancy
  receiver = await startReceiver()
})
afterAll(async () => {
  await receiver.close()
  await opened.end()
})

/** A delivery whose receiver responds with 410 when the test releases it. */
async function onItsWay(by = tenancy) {
  const id = await anyTenant(by)
  receiver.respondWith((_, response) => {
    release = () => response.writeHead(410).end()
    return undefined
  })
  const { webhookId } = await by.webhooks.create(id, { url: `${receiver.url}/${id}`, events: ['*'] })
  const [deliveryId = ''] = await by.webhooks.dispatch(id, 'order.paid', {})
  await eventually(() => expect(receiver.received.at(-1)?.path).toBe(`/${id}`))
  const isFailed = () =>
    eventually(async () => {
      expect((await by.webhooks.delivery(id, webhookId, deliveryId)).state).toBe('failed')
    })
  return { id, webhookId, isFailed }
}

test('a 410 disables the subscription', async () => {
  const { id, webhookId, isFailed } = await onItsWay()
  release()
  await isFailed()
  await eventually(async () => {
    expect(await tenancy.webhooks.get(id, webhookId)).toMatchObject({ enabled: false, disabledReason: 'gone' })
  })
})

test('a 410 of the previous URL does not disable the subscription', async () => {
  const { id, webhookId, isFailed } = await onItsWay()
  await tenancy.webhooks.update(id, webhookId, { url: `${receiver.url}/new` })
  release()
  await isFailed()
  receiver.respondWith(() => ({}))
  const [next = ''] = await tenancy.webhooks.dispatch(id, 'order.paid', {})
  await eventually(async () => {
    expect((await tenancy.webhooks.delivery(id, webhookId, next)).state).toBe('delivered')
  })
  expect(await tenancy.webhooks.get(id, webhookId)).toMatchObject({ enabled: true, disabledReason: null })
})

test('the subscription is disabled in the transaction of the delivery with 410', async () => {
  const { events, database } = tenancy.kernel
  const { id, webhookId, isFailed } = await onItsWay()
  const seen = async () => {
    const { rows } = await database.sql(
      `select d.state, s.enabled from multitenancy.webhook_deliveries d
         join multitenancy.webhook_subscriptions s on s.id = d.webhook_id where s.id = $1`,
      [webhookId],
    )
    return rows[0]
  }
  let published: unknown
  const end = events.subscribe(WebhookSubscriptionDisabled, 'within', async () => {
    published = { here: await seen(), elsewhere: await database.outside(seen) }
  })
  release()
  await isFailed()
  end()
  expect(published).toEqual({
    here: { state: 'failed', enabled: false },
    elsewhere: { state: 'delivering', enabled: true },
  })
  expect(await tenancy.webhooks.get(id, webhookId)).toMatchObject({ enabled: false, disabledReason: 'gone' })
})

test('a listener that throws prevents neither the settlement nor the disabling', async () => {
  const { events } = tenancy.kernel
  const { id, webhookId, isFailed } = await onItsWay()
  let calls = 0
  const end = events.subscribe(WebhookDeliveryFailed, 'within', () => {
    calls += 1
    throw new Error('not today')
  })
  release()
  await isFailed()
  await eventually(async () => {
    expect(await tenancy.webhooks.get(id, webhookId)).toMatchObject({ enabled: false, disabledReason: 'gone' })
  })
  await eventually(() => expect(calls).toBe(2)) // once with it, once after it
  end()
})

test('a locked subscription is disabled later; its delivery is settled without waiting', async () => {
  const { id, webhookId, isFailed } = await onItsWay()
  const { database } = tenancy.kernel
  await database.transaction(async () => {
    await database.sql('select from multitenancy.webhook_subscriptions where id = $1 for update', [webhookId])
    release()
    await database.outside(isFailed)
  })
  await eventually(async () => {
    expect(await tenancy.webhooks.get(id, webhookId)).toMatchObject({ enabled: false, disabledReason: 'gone' })
  })
})

test('a 410 disables a changed subscription with the same URL, regardless of clocks', async () => {
  const { id, webhookId, isFailed } = await onItsWay()
  await tenancy.webhooks.update(id, webhookId, { description: 'of the shop', events: ['order.*'] })
  await tenancy.webhooks.rotateSecret(id, webhookId)
  const shift = `update multitenancy.webhook_subscriptions set updated_at = updated_at + interval '1 hour' where id = $1`
  await tenancy.kernel.database.sql(shift, [webhookId])
  release()
  await isFailed()
  await eventually(async () => {
    expect(await tenancy.webhooks.get(id, webhookId)).toMatchObject({ enabled: false, disabledReason: 'gone' })
  })
})

test('an earlier 410 does not disable a subscription that was enabled again', async () => {
  const { tenancy: own, end } = await openWebhooks(inject('postgresUrl'))
  onTestFinished(end)
  const { id, webhookId, isFailed } = await onItsWay(own)
  await own.webhooks.update(id, webhookId, { enabled: false })
  await own.webhooks.update(id, webhookId, { enabled: true })
  release()
  await isFailed()
  await own.webhooks.stop() // what follows has been done by then
  expect(await own.webhooks.get(id, webhookId)).toMatchObject({ enabled: true })
})
