/** Notifications of workers about dispatched deliveries that the dispatch did not claim. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { uuidAt } from '../../../kernel/base/ids.ts'
import type { Listening } from '../../../kernel/database/notifications.ts'
import { eventually, type TestTenancy } from '../../../testing/base/tenancy.ts'
import { CHANNEL, CLAIM_LOCK } from '../sql/settings.ts'
import { openWebhooks, subscriptionRows, type WebhooksSatellites, type WebhooksTenancy } from '../webhooks.fixture.ts'

let opened: TestTenancy<WebhooksSatellites>
let tenancy: WebhooksTenancy
let ear: Listening
let received: string[]
let tenantId: string
let webhookId: string

const sql = async (text: string, values: unknown[] = []) => (await tenancy.kernel.database.sql(text, values)).rows

/** Dispatches with room for the given number of deliveries. Returns whether the delivery was claimed. */
async function dispatch(
  wanted: number,
  slowWebhooks: readonly string[] = [],
): Promise<{ isClaimed: boolean; needsWakeup: boolean }> {
  const [row] = await sql(
    `select is_claimed as "isClaimed", needs_wakeup as "needsWakeup" from multitenancy.dispatch_webhooks(
       0, array[$1]::uuid[], array[$2], array['order.paid'], array['*'], array['{}'], array[$3]::float8[], array['request'],
       array[null]::uuid[], $4, $5, 30000, 1, 100, $6)`,
    [uuidAt(Date.now()), tenantId, Date.now(), randomUUID(), wanted, slowWebhooks],
  )
  return row
}

/** Number of notifications of all processes since the last call. */
async function notificationCount(): Promise<number> {
  const mark = randomUUID()
  await tenancy.kernel.database.notify(CHANNEL, mark)
  await eventually(async () => expect(received).toContain(mark))
  return received.splice(0).indexOf(mark)
}

beforeAll(async () => {
  opened = await openWebhooks(inject('postgresUrl'), { bridge: false }, { role: 'api' })
  tenancy = opened.tenancy
  received = []
  ear = await tenancy.kernel.database.listen(
    CHANNEL,
    (text) => received.push(text),
    () => undefined,
  )
})
beforeEach(async () => {
  tenantId = `tenant-${randomUUID()}`
  ;[webhookId] = (await subscriptionRows(tenancy, tenantId, 1, '*')) as [string]
})
afterAll(async () => {
  await ear.close()
  await opened.end()
})

test('a dispatch notifies workers of the first delivery beyond the limit of its subscription, and not of later ones', async () => {
  expect(await dispatch(10)).toMatchObject({ isClaimed: true })
  expect(await notificationCount()).toBe(0)
  expect(await dispatch(10)).toEqual({ isClaimed: false, needsWakeup: true })
  expect(await notificationCount()).toBe(1)
  expect(await dispatch(10)).toEqual({ isClaimed: false, needsWakeup: false })
  expect(await notificationCount()).toBe(0)
})

test('a dispatch notifies workers of the first delivery of a failing subscription, and not of later ones', async () => {
  await sql('update multitenancy.webhook_subscriptions set failing_since = now() where id = $1', [webhookId])
  expect(await dispatch(10)).toEqual({ isClaimed: false, needsWakeup: true })
  expect(await dispatch(10)).toEqual({ isClaimed: false, needsWakeup: false })
  expect(await notificationCount()).toBe(1)
})

test('a dispatch notifies workers of the first delivery to a slow receiver, and not of later ones', async () => {
  expect(await dispatch(10, [randomUUID(), webhookId])).toEqual({ isClaimed: false, needsWakeup: true })
  expect(await dispatch(10, [webhookId])).toEqual({ isClaimed: false, needsWakeup: false })
  expect(await notificationCount()).toBe(1)
})

test('a dispatch during a claim wakes the dispatching worker', async () => {
  await dispatch(10)
  await dispatch(10)
  await notificationCount()
  await tenancy.kernel.database.session(async (client) => {
    await client.query('select pg_advisory_lock($1)', [CLAIM_LOCK])
    expect(await dispatch(10)).toEqual({ isClaimed: false, needsWakeup: true })
    expect(await notificationCount()).toBe(0)
    // A subscription without waiting deliveries.
    tenantId = 'another'
    await subscriptionRows(tenancy, tenantId, 1, '*')
    expect(await dispatch(10)).toEqual({ isClaimed: false, needsWakeup: true })
    expect(await notificationCount()).toBe(1)
  })
})

test('a dispatch without room for deliveries notifies workers each time', async () => {
  await dispatch(10)
  await dispatch(10)
  await notificationCount()
  expect(await dispatch(0)).toMatchObject({ isClaimed: false })
  expect(await dispatch(0)).toMatchObject({ isClaimed: false })
  expect(await notificationCount()).toBe(2)
})
