/** Retention beside other processes and long transactions: each step is taken once, and gives up a lock that it does not get. */
import { afterEach, describe, expect, test } from 'vitest'
import { eventually } from '../../testing/tenancy.ts'
import { bounds, countsOf, DAY_MS, endAll, ends, inStep, KINDS, receiver, sharedOpened } from './partitions.fixture.ts'
import type { WebhooksTenancy } from './webhooks.fixture.ts'
import { activeTenant } from './webhooks-api.fixture.ts'

const opened = sharedOpened()
afterEach(endAll)

describe('at the same time', () => {
  test('any number of processes do it once', async () => {
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

  /** Somebody reads, as a dump does, and has not ended; answers how to end. */
  async function reading({ kernel }: WebhooksTenancy): Promise<() => Promise<void>> {
    const [isReading, isOver] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const session = kernel.database.session(async (client) => {
      await client.query('begin')
      for (const kind of KINDS) await client.query(`select count(*) from multitenancy.webhook_${kind}`)
      isReading.resolve()
      await isOver.promise
      await client.query('commit')
    })
    const end = () => {
      isOver.resolve()
      return session
    }
    ends.push(end)
    await isReading.promise
    return end
  }

  /** How many of this database wait for a lock. */
  const waiting = async ({ kernel }: WebhooksTenancy): Promise<number> => {
    const { rows } = await kernel.database.sql(
      `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    )
    return rows[0].count
  }

  test.each([
    ['make', 10.5, { made: 1, dropped: 0 }],
    ['drop', 40, { made: 0, dropped: 1 }],
  ])(
    'with a long transaction it gives up to %s, nobody waits behind it for long, and it is done later',
    async (_, day, done) => {
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
      const kept = tenancy.webhooks.partitions.keep({ tries: 1_000, signal: stop.signal })
      await eventually(async () => expect(await waiting(other)).toBe(1))
      // The transaction goes on; these wait until the step has given up, and no longer.
      await other.webhooks.dispatch(id, 'order.paid', {})
      expect(await other.webhooks.retry()).toBe(1)
      expect(received).toHaveLength(1)
      stop.abort()
      expect(await kept).toEqual({ made: 0, dropped: 0, isComplete: false })
      expect(await bounds(tenancy, first)).toEqual(before)
      expect(await waiting(other)).toBe(0)

      await end()
      expect(await tenancy.webhooks.partitions.keep()).toEqual({ ...done, isComplete: true })
    },
  )

  test('tried several times, it is done as soon as it can be', async () => {
    const { tenancy, clock, first, another } = await opened()
    const other = await another()
    clock.set(new Date(first + 10.5 * DAY_MS))
    const end = await reading(tenancy)
    const kept = tenancy.webhooks.partitions.keep({ tries: 100, betweenTriesMs: 100 })
    await eventually(async () => expect(await waiting(other)).toBe(1))
    await eventually(async () => expect(await waiting(other)).toBe(0))
    await end()
    expect(await kept).toEqual({ made: 1, dropped: 0, isComplete: true })
  })

  test('and is left when whoever asked for it goes', async () => {
    const { tenancy, clock, first } = await opened()
    clock.set(new Date(first + 10.5 * DAY_MS))
    await reading(tenancy)
    const stop = new AbortController()
    const kept = tenancy.webhooks.partitions.keep({ tries: 100, signal: stop.signal })
    stop.abort()
    expect(await kept).toEqual({ made: 0, dropped: 0, isComplete: false })
  })

  test('a worker starts all the same, and sends', async () => {
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
