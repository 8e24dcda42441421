/** Deliveries of processes that reach receivers only through a proxy. */
import { expect, inject, onTestFinished, test } from 'vitest'
import { startReceiver } from '../../../../test/support/receiver.ts'
import { type Conduct, startProxy } from '../../../kernel/egress/proxies.fixture.ts'
import { DEVELOPMENT, openWebhooks } from '../webhooks.fixture.ts'
import { activeTenant } from '../webhooks-api.fixture.ts'

async function delivered(conduct?: Conduct) {
  const proxy = await startProxy(conduct)
  const receiver = await startReceiver()
  const egress = { ...DEVELOPMENT, proxy: proxy.address.replace('://', '://us:secret@') }
  const { tenancy, end } = await openWebhooks(inject('postgresUrl'), {}, { role: 'api', egress })
  onTestFinished(async () => {
    await end()
    await receiver.close()
  })
  const id = await activeTenant(tenancy)
  const { webhookId } = await tenancy.webhooks.create(id, { url: receiver.url, events: ['order.paid'] })
  const [deliveryId = ''] = await tenancy.webhooks.dispatch(id, 'order.paid', {})
  await tenancy.webhooks.retry()
  const { rows } = await tenancy.kernel.database.sql(
    'select failing_since from multitenancy.webhook_subscriptions where id = $1',
    [webhookId],
  )
  const delivery = await tenancy.webhooks.delivery(id, webhookId, deliveryId)
  return { delivery, failingSince: rows[0]?.failing_since, proxy, received: receiver.received, url: receiver.url }
}

test('a delivery is sent through the proxy', async () => {
  const { delivery, proxy, received, url } = await delivered()
  expect(delivery).toMatchObject({ state: 'delivered', attempts: [{ status: 200, error: null }] })
  expect(proxy.asked.map(({ authority }) => `http://${authority}`)).toEqual([url])
  expect(received.map(({ headers }) => headers['proxy-authorization'])).toEqual([undefined])
})

test('a delivery that the proxy rejects is retried without blaming the receiver', async () => {
  const { delivery, failingSince, received } = await delivered((socket) => void socket.end('HTTP/1.1 407 No\r\n\r\n'))
  expect(delivery).toMatchObject({ state: 'retry_scheduled', attempts: [{ status: null, error: 'proxy refused' }] })
  expect(failingSince).toBeNull()
  expect(JSON.stringify(delivery)).not.toContain('secret')
  expect(received).toEqual([])
})
