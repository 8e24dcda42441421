import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { type Receiver, startReceiver } from '../../../../test/support/receiver.ts'
import { eventually, type TestTenancy } from '../../../testing/base/tenancy.ts'
import { DeliveryQueue, type Settlement } from '../queue/queue.ts'
import { anyTenant, openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from '../webhooks.fixture.ts'
import { activeTenant } from '../webhooks-api.fixture.ts'
import { settlementOf } from './settlement.fixture.ts'

let opened: TestTenancy<WebhooksSatellites>
let tenancy: WebhooksTenancy
let idle: WebhooksTenancy
let receiver: Receiver

beforeAll(async () => {
  opened = await openWebhooks(inject('postgresUrl'))
  tenancy = opened.tenancy
  idle = await opened.open({ role: 'api' })
  receiver = await startReceiver()
})
afterAll(async () => {
  await receiver.close()
  await opened.end()
})

const stateOf = async (id: string, webhookId: string, deliveryId = '') =>
  (await idle.webhooks.delivery(id, webhookId, deliveryId)).state

describe('while a transaction has locked a subscription', () => {
  test('deliveries of this and of other subscriptions are settled', async () => {
    const [one, other] = [await anyTenant(tenancy), await anyTenant(tenancy)]
    receiver.respondWith(({ path }) => ({ status: path === '/fails' ? 500 : 200 }))
    const failing = await tenancy.webhooks.create(one, { url: `${receiver.url}/fails`, events: ['*'] })
    const good = await tenancy.webhooks.create(other, { url: `${receiver.url}/good`, events: ['*'] })
    await idle.transaction(async () => {
      await idle.webhooks.update(one, failing.webhookId, { description: 'locked until the end' })
      const [[first], [second]] = await Promise.all([
        tenancy.webhooks.dispatch(one, 'order.paid', {}),
        tenancy.webhooks.dispatch(other, 'order.paid', {}),
      ])
      await eventually(async () => {
        expect(await stateOf(other, good.webhookId, second)).toBe('delivered')
        expect(await stateOf(one, failing.webhookId, first)).toBe('retry_scheduled')
      })
    })
    const [again] = await tenancy.webhooks.dispatch(one, 'order.paid', {})
    await eventually(async () => expect(await stateOf(one, failing.webhookId, again)).toBe('retry_scheduled'))
    const { rows } = await tenancy.kernel.database.sql(
      'select failing_since from multitenancy.webhook_subscriptions where id = $1',
      [failing.webhookId],
    )
    expect(rows[0].failing_since).toBeInstanceOf(Date)
  })
})

describe('a settlement whose response was lost', () => {
  test('returns the same result when it is repeated, and stores one attempt', async () => {
    const { tenancy: worker, end } = await openWebhooks(inject('postgresUrl'), {}, { role: 'api' })
    onTestFinished(end)
    const id = await activeTenant(worker)
    const { webhookId } = await worker.webhooks.create(id, { url: `${receiver.url}/lost`, events: ['*'] })
    const [deliveryId = ''] = await worker.webhooks.dispatch(id, 'order.paid', {})
    const queue = new DeliveryQueue(worker.kernel.database, worker.kernel.clock)
    const { deliveries } = await queue.claim({
      claim: randomUUID(),
      wanted: 10,
      wantedFailing: 10,
      leaseMs: 60_000,
      perSubscription: 10,
      perTenant: 10,
      cursor: {},
      onlyWebhook: null,
      slowWebhooks: [],
    })
    const settlements: Settlement[] = deliveries
      .filter((delivery) => delivery.id === deliveryId)
      .map((delivery) =>
        settlementOf(delivery, { verdict: { state: 'failed', delayMs: null, disables: 'gone' }, status: 410 }),
      )
    expect(settlements).toHaveLength(1)
    expect(await queue.settle(settlements)).toMatchObject([{ isOurs: true }])
    expect(await queue.settle(settlements)).toMatchObject([{ isOurs: true }])
    const delivery = await worker.webhooks.delivery(id, webhookId, deliveryId)
    expect(delivery).toMatchObject({ state: 'failed', attemptCount: 1 })
    expect(delivery.attempts).toHaveLength(1)
  })
})
