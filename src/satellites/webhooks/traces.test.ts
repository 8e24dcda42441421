/** The trace of a dispatch in the requests of its deliveries, without an SDK of OpenTelemetry. */
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { type Receiver, startReceiver } from '../../../test/support/receiver.ts'
import { createHttp, type Http } from '../../http/app.ts'
import { eventually, type TestTenancy } from '../../testing/base/tenancy.ts'
import { anyTenant, openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from './webhooks.fixture.ts'

const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const TOKEN = 'a-token-of-sixteen'

let opened: TestTenancy<WebhooksSatellites>
let tenancy: WebhooksTenancy
let worker: Http
let api: Http
let receiver: Receiver
let id: string

beforeAll(async () => {
  opened = await openWebhooks(inject('postgresUrl'), { bridge: false })
  tenancy = opened.tenancy
  const adminTokens = [{ name: 'ops', token: TOKEN }]
  worker = createHttp(tenancy, { adminTokens })
  api = createHttp(await opened.open({ role: 'api' }), { adminTokens })
  receiver = await startReceiver()
  id = await anyTenant(tenancy)
  await tenancy.webhooks.create(id, { url: `${receiver.url}/hooks`, events: ['order.*'] })
})
beforeEach(() => receiver.forget())
afterAll(async () => {
  await opened?.end()
  await receiver?.close()
})

const dispatch = (from: Http, headers: Record<string, string>) =>
  from.fetch(
    new Request(`http://tenantry.test/admin/multitenancy/tenants/${id}/dispatch`, {
      method: 'POST',
      headers: { ...headers, 'x-admin-token': TOKEN, 'content-type': 'application/json' },
      body: JSON.stringify({ event: 'order.paid', payload: {} }),
    }),
  )
const sent = () => receiver.received.map(({ headers }) => headers.traceparent)

test.each([
  ['the process of the dispatch', () => worker],
  ['another process', () => api],
])('a delivery from %s has the traceparent of the request', async (_, from) => {
  expect((await dispatch(from(), { traceparent: TRACEPARENT })).status).toBeLessThan(300)
  await eventually(() => expect(sent()).toEqual([TRACEPARENT]))
})

test('a second attempt has the same traceparent', async () => {
  receiver.respondWith(() => ({ status: receiver.received.length === 1 ? 503 : 200, headers: { 'retry-after': '0' } }))
  await dispatch(worker, { traceparent: TRACEPARENT })
  await eventually(() => expect(sent()).toHaveLength(1))
  await eventually(async () => {
    const retry = `update multitenancy.webhook_deliveries set due_at = now() where state = 'retry_scheduled'`
    await tenancy.kernel.database.sql(retry)
    await tenancy.kernel.database.notify('multitenancy_webhooks', '')
    expect(sent()).toEqual([TRACEPARENT, TRACEPARENT])
  })
})

test('a delivery of a request without a trace has no traceparent', async () => {
  await dispatch(worker, {})
  await eventually(() => expect(sent()).toEqual([undefined]))
})
