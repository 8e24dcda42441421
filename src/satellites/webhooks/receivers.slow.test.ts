/** Leases of deliveries that wait behind slow ones, and settlements while the database is unavailable. */
import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { startProxy } from '../../../test/support/proxy.ts'
import { type Receiver, startReceiver } from '../../../test/support/receiver.ts'
import { eventually, type TestTenancy } from '../../testing/base/tenancy.ts'
import { type WebhooksOptions, webhooks } from './index.ts'
import { openWebhooks, type WebhooksSatellites } from './webhooks.fixture.ts'
import { activeTenant } from './webhooks-api.fixture.ts'

let opened: TestTenancy<WebhooksSatellites>
let receiver: Receiver
let id: string
let webhookId: string
beforeEach(async () => {
  opened = await openWebhooks(inject('postgresUrl'), { bridge: false }, { role: 'api' })
  receiver = await startReceiver()
  id = await activeTenant(opened.tenancy)
  ;({ webhookId } = await opened.tenancy.webhooks.create(id, { url: receiver.url, events: ['order.*'] }))
})
afterEach(async () => {
  await receiver.close()
  await opened.end()
})

const sql = async (text: string, values: unknown[] = []) =>
  (await opened.tenancy.kernel.database.sql(text, values)).rows
const states = async () => {
  const rows = await sql('select state, count(*) as count from multitenancy.webhook_deliveries group by 1')
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]))
}

test('each delivery is sent only while its lease outlives the request; late ones are released', async () => {
  const count = 26
  const options = {
    timeoutMs: 1_000,
    concurrency: 1,
    claim: count,
    perSubscription: 100,
    perTenant: 100,
    bridge: false,
  }
  const answersAfterMs = 250 // 24 of these are as long as a lease
  const slow = await opened.open({ satellites: [webhooks(options)] })
  const leases: Promise<number>[] = []
  const leaseOf = async (deliveryId: string) => {
    const [row] = await sql(
      'select extract(epoch from due_at - clock_timestamp()) * 1000 as ms from multitenancy.webhook_deliveries where id = $1',
      [deliveryId],
    )
    return Number(row.ms)
  }
  receiver.respondWith(({ headers }, response) => {
    leases.push(leaseOf(String(headers['x-delivery-id'])))
    void sleep(answersAfterMs).then(() => response.end())
    return undefined
  })
  for (let n = 0; n < count; n++) await slow.webhooks.dispatch(id, 'order.paid', { n })
  const sending = slow.webhooks.retry()
  await eventually(async () => expect(await states()).toEqual({ delivering: count }))
  await sending
  expect(await states()).toEqual({ delivered: count })
  const ids = receiver.received.map(({ headers }) => headers['x-delivery-id'])
  expect(ids).toHaveLength(count)
  expect(new Set(ids).size).toBe(count)
  expect((await Promise.all(leases)).filter((leftMs) => leftMs < options.timeoutMs)).toEqual([])
})

test('a worker without its database settles later; no other worker sends the delivery within its lease', async () => {
  const withWorker = (options: WebhooksOptions, url = opened.url) =>
    opened.open({ role: 'worker', database: { url }, satellites: [webhooks({ bridge: false, ...options })] })
  const proxy = await startProxy(opened.url)
  const held: ServerResponse[] = []
  receiver.respondWith((_, response) => {
    held.push(response)
    return undefined
  })
  const cut = await withWorker({ timeoutMs: 5_000 }, proxy.url)
  const [deliveryId = ''] = await opened.tenancy.webhooks.dispatch(id, 'order.paid', {})
  await eventually(() => expect(held).toHaveLength(1))
  await proxy.close()
  held[0]?.end()
  const other = await withWorker({ timeoutMs: 5_000 })
  for (let n = 0; n < 5; n++) await other.webhooks.retry()
  expect(await states()).toEqual({ delivering: 1 })
  await proxy.open()
  await eventually(async () => expect(await states()).toEqual({ delivered: 1 }))
  const { attempts } = await opened.tenancy.webhooks.delivery(id, webhookId, deliveryId)
  expect(attempts).toMatchObject([{ number: 1, status: 200 }])
  expect(receiver.received).toHaveLength(1)
  await Promise.all([cut.stop(), other.stop()])
  await proxy.close()
})
