/** Deliveries that a worker has claimed and releases: it stops, or the lease would not outlive the request. */
import type { ServerResponse } from 'node:http'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { eventually } from '../../../testing/base/tenancy.ts'
import { type WebhooksOptions, webhooks } from '../index.ts'
import { openReceiver } from '../receivers.fixture.ts'

const fixture = openReceiver()
const { sql, send, subscribe, dispatch, received, states, holding } = fixture

describe('a waiting delivery', () => {
  afterEach(() => vi.useRealTimers())

  test('is released if its lease would not outlive the request, and is sent under a new lease', async () => {
    const [count, timeoutMs] = [3, 10_000]
    const options = { timeoutMs, concurrency: 1, claim: count, perSubscription: count, perTenant: count }
    const single = await fixture.opened.open({ satellites: [webhooks(options)] })
    const claims: unknown[] = []
    let first: ServerResponse | undefined
    fixture.receiver.respondWith(({ headers }, response) => {
      if (first) {
        void claimsOf(String(headers['x-delivery-id'])).then((claim) => {
          claims.push(...claim)
          response.end()
        })
      } else {
        first = response
      }
      return undefined
    })
    await subscribe()
    for (let n = 0; n < count; n++) await dispatch()
    vi.useFakeTimers({ toFake: ['performance'] })
    const sending = single.webhooks.retry()
    await eventually(() => expect(first).toBeDefined())
    await eventually(async () => expect(await states()).toEqual({ delivering: count }))
    const before = await claimsOf()
    expect(before).toHaveLength(count)
    vi.advanceTimersByTime(2 * timeoutMs + 1) // the lease lasts for three, and a margin
    first?.end()
    await sending
    expect(await states()).toEqual({ delivered: count })
    expect(new Set(received().map(({ headers }) => headers['x-delivery-id'])).size).toBe(count)
    expect(claims).toHaveLength(count - 1)
    for (const claim of claims) expect(before).not.toContain(claim)
  })
  const claimsOf = async (deliveryId: string | null = null) => {
    const rows = await sql(
      'select claim from multitenancy.webhook_deliveries where claim is not null and id = coalesce($1, id)',
      [deliveryId],
    )
    return rows.map(({ claim }) => claim)
  }
})

describe('stopping workers', () => {
  const withWorker = (options: WebhooksOptions) =>
    fixture.opened.open({ role: 'worker', satellites: [webhooks({ bridge: false, ...options })] })

  test('release waiting deliveries and abort requests; other workers send them', async () => {
    const count = 20
    await subscribe()
    const held = holding()
    const ids: string[] = []
    for (let n = 0; n < count; n++) ids.push(await dispatch())
    const bounds = { concurrency: 2, claim: count, perSubscription: count, perTenant: count }
    const { webhooks: sender, kernel } = await fixture.opened.open({
      satellites: [webhooks({ timeoutMs: 60_000, bridge: false, ...bounds })],
    })
    const stopping = sender.deliveryWorker(kernel.egress, undefined, { stopMs: 0 })
    await stopping.start()
    await held.count(2)
    await eventually(async () => expect(await states()).toEqual({ delivering: count }))
    const started = received().map(({ headers }) => String(headers['x-delivery-id']))
    await stopping.stop() // they are never answered
    const rows = await sql(
      `select id, state, is_ready, claim, attempt_count, budget_start, last_error from multitenancy.webhook_deliveries order by id`,
    )
    const back = { state: 'pending', is_ready: true, claim: null }
    const unbegun = { ...back, attempt_count: 0, budget_start: 0, last_error: null }
    const brokenOff = { ...back, attempt_count: 1, budget_start: 1, last_error: 'aborted' }
    expect(rows).toEqual(
      ids.toSorted().map((each) => ({ id: each, ...(started.includes(each) ? brokenOff : unbegun) })),
    )
    held.release()
    await send()
    expect(await states()).toEqual({ delivered: count })
    const times = new Map(ids.map((each) => [each, 0]))
    for (const { headers } of received()) {
      const deliveryId = String(headers['x-delivery-id'])
      times.set(deliveryId, (times.get(deliveryId) ?? 0) + 1)
    }
    expect([...times]).toEqual(ids.map((each) => [each, started.includes(each) ? 2 : 1]))
    const attempts = await sql(
      `select number, status, error, request_headers ->> 'x-delivery-id' = delivery_id::text as "isIts", count(*)
       from multitenancy.webhook_attempts group by 1, 2, 3, 4 order by 1, 2`,
    )
    expect(attempts).toEqual([
      { number: 1, status: 200, error: null, isIts: true, count: count - 2 },
      { number: 1, status: null, error: 'aborted', isIts: true, count: 2 },
      { number: 2, status: 200, error: null, isIts: true, count: 2 },
    ])
  })

  test('settle requests that end within the deadline', async () => {
    await subscribe()
    const held = holding()
    await dispatch()
    const stopping = await withWorker({ timeoutMs: 60_000 })
    await held.count(1)
    const stopped = stopping.stop()
    held.release()
    await stopped
    expect(await states()).toEqual({ delivered: 1 })
    expect(received()).toHaveLength(1)
  })
})
