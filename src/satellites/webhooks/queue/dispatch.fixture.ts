/** A tenancy without workers, a receiver, and for each test a tenant and a path. */
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, inject } from 'vitest'
import { type Received, type Receiver, startReceiver } from '../../../../test/support/receiver.ts'
import type { TestTenancy } from '../../../testing/base/tenancy.ts'
import { clockOfToday, openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from '../webhooks.fixture.ts'
import { apiOf, type Call, createdTenant } from '../webhooks-api.fixture.ts'

export const HOUR_MS = 3_600_000
export const NOTHING = { messages: 0, deliveries: 0 }
export const anyEvent = () => `of_a_test.n${randomUUID().replaceAll('-', '')}`

/** For the tests of one file. */
export function openDispatch() {
  const clock = clockOfToday()
  let opened: TestTenancy<WebhooksSatellites>
  let api: Call
  const fixture = { id: '', path: '' } as {
    opened: typeof opened
    tenancy: WebhooksTenancy
    receiver: Receiver
    id: string
    path: string
  }
  const send = () => opened.tenancy.webhooks.retry()
  const received = (at = fixture.path): readonly Received[] =>
    fixture.receiver.received.filter((one) => one.path === at)

  beforeAll(async () => {
    opened = await openWebhooks(inject('postgresUrl'), {}, { role: 'api', clock })
    api = apiOf(opened.tenancy)
    Object.assign(fixture, { opened, tenancy: opened.tenancy, receiver: await startReceiver() })
  })
  afterAll(async () => {
    await fixture.receiver?.close()
    await opened?.end()
  })
  beforeEach(async () => {
    fixture.id = await createdTenant(opened.tenancy)
    fixture.path = `/${randomUUID()}`
    fixture.receiver.respondWith(() => ({}))
  })
  /** Removes the subscriptions of the host after a test. */
  afterEach(async () => {
    fixture.receiver.respondWith(() => ({}))
    await opened.tenancy.kernel.database.sql('update multitenancy.webhook_subscriptions set deleted_at = now()')
    await send()
  })

  return Object.assign(fixture, {
    clock,
    call: ((...request) => api(...request)) as Call,
    subscribe: async (owner: string | null, events: string[], at = fixture.path): Promise<string> =>
      (await opened.tenancy.webhooks.create(owner, { url: fixture.receiver.url + at, events })).webhookId,
    /** Dispatches at different times, so that lists have a defined order. */
    dispatch(event: string, payload: Record<string, unknown> = {}, tenantId = fixture.id) {
      clock.advance(1)
      return opened.tenancy.webhooks.dispatch(tenantId, event, payload)
    },
    /** Runs `tenant:webhooks:retry` once. */
    send,
    received,
    eventsAt: (at = fixture.path) => received(at).map(({ headers }) => headers['x-webhook-event']),
    async rowsOf(event: string) {
      const { rows } = await opened.tenancy.kernel.database.sql(
        `select (select count(*) from multitenancy.webhook_messages where event = $1) as messages,
           (select count(*) from multitenancy.webhook_deliveries where event = $1) as deliveries`,
        [event],
      )
      return rows[0]
    },
  })
}
