/** Partition maintenance in several processes and during a long transaction: each step runs once, and workers start anyway. */
import { afterEach, describe, expect, test } from 'vitest'
import { eventually } from '../../../testing/base/tenancy.ts'
import { activeTenant } from '../webhooks-api.fixture.ts'
import {
  bounds,
  countsOf,
  DAY_MS,
  endAll,
  inStep,
  reading,
  receiver,
  sharedOpened,
  waiting,
} from './partitions.fixture.ts'

const opened = sharedOpened()
afterEach(endAll)

describe('concurrent partition maintenance', () => {
  test('runs each step in one process only', async () => {
    const { tenancy, clock, first, another } = await opened()
    const all = [tenancy, await another(), await another(), await another()]
    const id = await activeTenant(tenancy)
    await tenancy.webhooks.create(id, { url: 'https://example.com', events: ['*'] })
    clock.set(new Date(first + 45.5 * DAY_MS))
    for (let n = 0; n < 5; n++) await tenancy.webhooks.dispatch(id, 'order.paid', {})
    const kept = await Promise.all(
      all.flatMap(({ webhooks }) => [webhooks.partitions.keep(), webhooks.partitions.keep()]),
    )
    const sum = (member: 'made' | 'dropped') => kept.reduce((sum, one) => sum + one[member], 0)
    expect({ made: sum('made'), dropped: sum('dropped') }).toEqual({ made: 4, dropped: 1 })
    expect(await bounds(tenancy, first)).toEqual(inStep([10, 20], [20, 30], [30, 40], [40, 50], [50, 60], [60, 70]))
    expect(await countsOf(tenancy)).toEqual([5, 5, 0])
  })

  test('succeeds on a later attempt when the lock is free', async () => {
    const { tenancy, clock, first, another } = await opened()
    const other = await another()
    clock.set(new Date(first + 10.5 * DAY_MS))
    const end = await reading(tenancy)
    const kept = tenancy.webhooks.partitions.keep({ maxAttempts: 100, retryDelayMs: 10 })
    await eventually(async () => expect(await waiting(other)).toBe(1))
    await eventually(async () => expect(await waiting(other)).toBe(0))
    await end()
    expect(await kept).toEqual({ made: 1, dropped: 0, isComplete: true })
  })

  test('does not prevent a worker from starting and sending', async () => {
    const { tenancy, clock, first, another } = await opened()
    const { url, received } = await receiver()
    const id = await activeTenant(tenancy)
    await tenancy.webhooks.create(id, { url, events: ['*'] })
    clock.set(new Date(first + 10.5 * DAY_MS))
    await reading(tenancy)
    await another({}, { role: 'all' })
    await tenancy.webhooks.dispatch(id, 'order.paid', {})
    await eventually(() => expect(received).toHaveLength(1))
  })
})
