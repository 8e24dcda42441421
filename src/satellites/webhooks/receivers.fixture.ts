/** A tenancy without workers, a receiver, and for each test a tenant and a path. */
import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject } from 'vitest'
import { type Receiver, startReceiver } from '../../../test/support/receiver.ts'
import { eventually, type TestTenancy } from '../../testing/base/tenancy.ts'
import type { DeliveryDetail } from './model/delivery.ts'
import { clockOfToday, openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from './webhooks.fixture.ts'
import { apiOf, type Call } from './webhooks-api.fixture.ts'

export const SECOND_MS = 1_000
export const HOUR_MS = 3_600_000
export const DAY_MS = 24 * HOUR_MS
/** The clock is stopped, but the database clock runs during statements. */
export const SOON_MS = 5 * SECOND_MS

/** For the tests of one file. */
export function openReceiver() {
  const clock = clockOfToday()
  let opened: TestTenancy<WebhooksSatellites>
  let api: Call | undefined
  /** Dispatches without sending. */
  let idle: WebhooksTenancy
  const fixture = { id: '', path: '' } as {
    opened: typeof opened
    tenancy: WebhooksTenancy
    receiver: Receiver
    id: string
    path: string
  }

  beforeAll(async () => {
    opened = await openWebhooks(inject('postgresUrl'), {}, { role: 'api', clock })
    idle = await opened.open()
    Object.assign(fixture, { opened, tenancy: opened.tenancy, receiver: await startReceiver() })
  })
  afterAll(async () => {
    await fixture.receiver?.close()
    await opened?.end()
  })
  beforeEach(async () => {
    fixture.id = (await opened.tenancy.tenants.create({ id: `acme-${randomUUID().slice(0, 8)}`, name: 'Acme' })).id
    fixture.path = `/${randomUUID()}`
    fixture.receiver.respondWith(() => ({}))
  })
  /** Removes the deliveries of the test. */
  afterEach(() => sql('truncate multitenancy.webhook_deliveries, multitenancy.webhook_attempts'))

  const sql = async (text: string, values: unknown[] = []) =>
    (await opened.tenancy.kernel.database.sql(text, values)).rows
  const subscribe = (url = fixture.receiver.url + fixture.path, event = 'order.paid') =>
    opened.tenancy.webhooks.create(fixture.id, { url, events: [event] })
  const dispatch = async (event = 'order.paid'): Promise<string> => {
    const [deliveryId = ''] = await idle.webhooks.dispatch(fixture.id, event, { amount: 12.5 })
    return deliveryId
  }
  const read = (webhookId: string, deliveryId: string): Promise<DeliveryDetail> =>
    opened.tenancy.webhooks.delivery(fixture.id, webhookId, deliveryId)

  return Object.assign(fixture, {
    clock,
    sql,
    call: ((...request) => {
      api ??= apiOf(opened.tenancy)
      return api(...request)
    }) as Call,
    /** Runs `tenant:webhooks:retry` once. */
    send: () => opened.tenancy.webhooks.retry(),
    subscribe,
    dispatch,
    read,
    received: (at = fixture.path) => fixture.receiver.received.filter((one) => one.path === at),
    async states(): Promise<Record<string, number>> {
      const rows = await sql('select state, count(*) as count from multitenancy.webhook_deliveries group by 1')
      return Object.fromEntries(rows.map(({ state, count }) => [state, count]))
    },
    /** Dispatches to a receiver, sends it, and returns the delivery. */
    async tried(url: string, by = opened.tenancy): Promise<DeliveryDetail> {
      const event = `order.of_${randomUUID().replaceAll('-', '')}`
      const { webhookId } = await subscribe(url, event)
      const deliveryId = await dispatch(event)
      await by.webhooks.retry()
      return read(webhookId, deliveryId)
    },
    /** Requests whose response a test delays. */
    holding(status = 200) {
      const held: ServerResponse[] = []
      let isOpen = false
      fixture.receiver.respondWith((_, response) => {
        if (isOpen) return { status }
        held.push(response)
        return undefined
      })
      return {
        count: (count: number) => eventually(() => expect(held).toHaveLength(count)),
        release() {
          isOpen = true
          for (const response of held.splice(0)) response.writeHead(status).end()
        },
      }
    },
  })
}
