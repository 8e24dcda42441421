/** Subscriptions whose deliveries all fail: when they are disabled, and when they stay enabled. */

import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Egress } from '../../../kernel/egress/egress.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { WebhookSubscriptionDisabled, webhooks } from '../index.ts'
import { DAY_MS, HOUR_MS, openReceiver, SOON_MS } from '../receivers.fixture.ts'
import { DEVELOPMENT, type WebhooksTenancy } from '../webhooks.fixture.ts'

const fixture = openReceiver()
const { clock, sql, subscribe, dispatch, received, states } = fixture

describe('a subscription with failures only', () => {
  const disabled: { webhookId: string; reason: string }[] = []
  let failing: Awaited<ReturnType<typeof subscribe>>
  /** Allows one attempt for each delivery. */
  let hasty: WebhooksTenancy
  beforeAll(async () => {
    hasty = await fixture.opened.open({ satellites: [webhooks({ maxAttempts: 1 })] })
    hasty.on(WebhookSubscriptionDisabled, (event) => void disabled.push(event))
  })
  beforeEach(async () => {
    failing = await subscribe()
    disabled.length = 0
  })
  const tryOne = async (run: () => Promise<unknown> = () => hasty.webhooks.retry()) => {
    await dispatch()
    await run()
  }
  const isEnabled = async () => (await fixture.tenancy.webhooks.get(fixture.id, failing.webhookId)).enabled

  test('is disabled once after five days, with the reason failing', async () => {
    fixture.receiver.respondWith(() => ({ status: 500 }))
    for (let hours = 0; hours < 5 * 24; hours += 12) {
      await tryOne()
      expect(await isEnabled()).toBe(true)
      clock.advance(12 * HOUR_MS)
    }
    clock.advance(SOON_MS)
    for (let n = 0; n < 8; n++) await dispatch()
    await hasty.webhooks.retry()
    await eventually(async () => expect(await isEnabled()).toBe(false))
    expect(await fixture.tenancy.webhooks.get(fixture.id, failing.webhookId)).toMatchObject({
      disabledReason: 'failing',
    })
    await eventually(() => expect(disabled).toMatchObject([{ webhookId: failing.webhookId, reason: 'failing' }]))
    expect(disabled).toHaveLength(1)
  })

  test('stays enabled after one success, which restarts the five days', async () => {
    fixture.receiver.respondWith(() => ({ status: 500 }))
    await tryOne()
    clock.advance(5 * DAY_MS - HOUR_MS)
    fixture.receiver.respondWith(() => ({ status: 204 }))
    await tryOne()
    fixture.receiver.respondWith(() => ({ status: 500 }))
    await tryOne()
    clock.advance(5 * DAY_MS - HOUR_MS)
    await tryOne()
    expect(await isEnabled()).toBe(true)
    clock.advance(HOUR_MS + SOON_MS)
    await tryOne()
    await eventually(async () => expect(await isEnabled()).toBe(false))
  })

  test('restarts the five days when it is enabled again', async () => {
    fixture.receiver.respondWith(() => ({ status: 500 }))
    await tryOne()
    clock.advance(5 * DAY_MS + SOON_MS)
    await tryOne()
    await eventually(async () => expect(await isEnabled()).toBe(false))
    await fixture.tenancy.webhooks.update(fixture.id, failing.webhookId, { enabled: true })
    await tryOne()
    clock.advance(DAY_MS)
    await tryOne()
    expect(await isEnabled()).toBe(true)
  })

  test('stays enabled if the DNS of this process fails', async () => {
    await fixture.tenancy.webhooks.update(fixture.id, failing.webhookId, { url: 'http://hooks.example.test/' })
    const egress = new Egress(DEVELOPMENT, {
      lookup: (_, __, found) => found(Object.assign(new Error('no name server answers'), { code: 'EAI_AGAIN' }), []),
    })
    const worker = hasty.webhooks.deliveryWorker(egress)
    for (let days = 0; days < 12; days++) {
      await tryOne(() => worker.pass())
      clock.advance(DAY_MS)
    }
    expect(await isEnabled()).toBe(true)
    const [row] = await sql('select failing_since from multitenancy.webhook_subscriptions where id = $1', [
      failing.webhookId,
    ])
    expect(row.failing_since).toBeNull()
    const attempts = await sql('select distinct status, error from multitenancy.webhook_attempts')
    expect(attempts).toEqual([{ status: null, error: 'name look-up failed' }])
    await worker.stop()
    await egress.close()
  })

  test('stays enabled and sends nothing while its secret cannot be decrypted', async () => {
    const of = [failing.webhookId]
    const [before] = await sql('select secret from multitenancy.webhook_subscriptions where id = $1', of)
    await sql(`update multitenancy.webhook_subscriptions set secret = 'no secret of ours' where id = $1`, of)
    await tryOne()
    clock.advance(6 * DAY_MS)
    await tryOne()
    expect(await isEnabled()).toBe(true)
    expect(received()).toEqual([])
    await sql('update multitenancy.webhook_subscriptions set secret = $2 where id = $1', [...of, before.secret])
    clock.advance(DAY_MS)
    await hasty.webhooks.retry()
    expect(await states()).toEqual({ delivered: 2 })
    expect(await isEnabled()).toBe(true)
  })
})
