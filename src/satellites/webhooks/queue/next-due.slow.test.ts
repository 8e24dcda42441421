/** A delivery that a killed process was sending. */
import { expect, inject, onTestFinished, test } from 'vitest'
import { startChild } from '../../../../test/support/child.ts'
import { startReceiver } from '../../../../test/support/receiver.ts'
import type { Clock } from '../../../kernel/base/clock.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { openWebhooks } from '../webhooks.fixture.ts'
import { activeTenant } from '../webhooks-api.fixture.ts'
import type { WorkerOptions } from '../worker/worker-process.fixture.ts'

/** Longer than the poll interval of a worker. */
const NOTICED_WITHIN_MS = 30_000

test('a worker sends a delivery of a killed process when its lease has expired', async () => {
  let leaptMs = 0
  const clock: Clock = { now: () => new Date(Date.now() + leaptMs) }
  const opened = await openWebhooks(inject('postgresUrl'), { bridge: false }, { role: 'api', clock })
  const receiver = await startReceiver(() => undefined) // it never responds
  onTestFinished(async () => {
    await receiver.close()
    await opened.end()
  })
  const { webhooks, kernel } = opened.tenancy
  const id = await activeTenant(opened.tenancy)
  const { webhookId } = await webhooks.create(id, { url: receiver.url, events: ['order.*'] })
  const options: WorkerOptions = { url: opened.url, role: 'worker', webhooks: { timeoutMs: 30_000, bridge: false } }
  const child = await startChild(new URL('../worker/worker-process.fixture.ts', import.meta.url), options)
  const [deliveryId = '']: string[] = await child.request({ dispatch: id, number: 1 })
  const delivery = () => webhooks.delivery(id, webhookId, deliveryId)
  await eventually(() => expect(receiver.received).toHaveLength(1))
  await child.kill('SIGKILL')

  receiver.respondWith(() => ({}))
  const worker = await opened.open({ role: 'worker' })
  await worker.webhooks.retry()
  expect(await delivery()).toMatchObject({ state: 'delivering', attemptCount: 0, attempts: [] })
  const { rows } = await kernel.database.sql(
    `select extract(epoch from due_at - clock_timestamp()) * 1000 as ms from multitenancy.webhook_deliveries`,
  )
  leaptMs += Number(rows[0]?.ms)
  await eventually(async () => {
    expect(await delivery()).toMatchObject({ state: 'delivered', attemptCount: 1, attempts: [{ number: 1 }] })
  }, NOTICED_WITHIN_MS)
  expect(receiver.received.map(({ headers }) => headers['x-delivery-id'])).toEqual([deliveryId, deliveryId])
})
