/** Partition maintenance during a long transaction: it stops waiting for locks, and deliveries continue. */
import { afterEach, describe, expect, test } from 'vitest'
import { eventually } from '../../../testing/base/tenancy.ts'
import { activeTenant } from '../webhooks-api.fixture.ts'
import { bounds, DAY_MS, endAll, reading, receiver, sharedOpened, waiting } from './partitions.fixture.ts'

const opened = sharedOpened()
afterEach(endAll)

describe('partition maintenance during a long transaction', () => {
  test.each([
    ['make', 10.5, { made: 1, dropped: 0 }],
    ['drop', 40, { made: 0, dropped: 1 }],
  ])('stops waiting to %s without blocking others, and succeeds later', async (_, day, done) => {
    const { tenancy, clock, first, another } = await opened()
    const other = await another()
    const id = await activeTenant(tenancy)
    const { url, received } = await receiver()
    await tenancy.webhooks.create(id, { url, events: ['*'] })
    clock.set(new Date(first + 39 * DAY_MS))
    if (done.dropped > 0) await tenancy.webhooks.partitions.keep()
    clock.set(new Date(first + day * DAY_MS))
    const before = await bounds(tenancy, first)

    const end = await reading(tenancy)
    const stop = new AbortController()
    const kept = tenancy.webhooks.partitions.keep({ maxAttempts: 1_000, signal: stop.signal })
    await eventually(async () => expect(await waiting(other)).toBe(1))
    // The transaction continues. Other statements wait only until the step times out.
    await other.webhooks.dispatch(id, 'order.paid', {})
    expect(await other.webhooks.retry()).toBe(1)
    expect(received).toHaveLength(1)
    stop.abort()
    expect(await kept).toEqual({ made: 0, dropped: 0, isComplete: false })
    expect(await bounds(tenancy, first)).toEqual(before)
    expect(await waiting(other)).toBe(0)

    await end()
    expect(await tenancy.webhooks.partitions.keep()).toEqual({ ...done, isComplete: true })
  })

  test('stops when its caller aborts', async () => {
    const { tenancy, clock, first } = await opened()
    clock.set(new Date(first + 10.5 * DAY_MS))
    await reading(tenancy)
    const stop = new AbortController()
    const kept = tenancy.webhooks.partitions.keep({ maxAttempts: 100, signal: stop.signal })
    stop.abort()
    expect(await kept).toEqual({ made: 0, dropped: 0, isComplete: false })
  })
})
