/** Tests the store postgres with long locks, a failing connection, and conflicting lock orders. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Proxy as Route, startProxy } from '../../../test/support/proxy.ts'
import { systemClock } from '../../kernel/base/clock.ts'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import type { Database } from '../../kernel/database/database.ts'
import type { Store } from '../../kernel/store/store.ts'
import { moveToNoon } from '../../testing/store/opened-store.ts'
import { type OpenedInPostgres, openInPostgres } from './postgres.fixture.ts'
import { postgresStore } from './postgres.ts'

const EVENTUALLY = { timeout: 15_000, interval: 20 }
const one = (name: string) => [{ name, amount: 1, limit: null }]

describe('the store postgres with a time limit', () => {
  let proxy: Route
  let opened: OpenedInPostgres
  let database: Database
  let store: Store

  beforeAll(async () => {
    opened = await openInPostgres({ max: 2, timeoutMs: 500 }, async (url) => {
      proxy = await startProxy(url)
      return proxy.url
    })
    database = opened.database
    store = opened.store
    await vi.waitFor(() => moveToNoon(opened), EVENTUALLY)
  })
  afterAll(async () => {
    await store.close()
    await opened.cleanUp()
    await proxy.close()
  })

  const waiting = async (): Promise<number> =>
    (
      await database.sql(
        `select count(*) as count from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
    ).rows[0].count

  test('sums are added outside of the caller’s transaction, and a batch with a lost response is added once', async () => {
    const { sums } = store
    const batch = {
      day: '2030-01-01',
      source: randomUUID(),
      number: 1,
      additions: [{ tenantId: 'acme', name: 'requests', amount: 5 }],
    }
    const sum = async () => (await sums.read('acme', ['2030-01-01']))[0]?.sum
    await database.transaction(async () => {
      await database.sql('lock table multitenancy.store_sum_sources in share mode')
      await expect(sums.add(batch)).rejects.toSatisfy(DependencyUnavailable.matches) // it waits at the server and receives no response
    })
    await vi.waitFor(() => sums.add(batch), EVENTUALLY)
    await vi.waitFor(async () => expect(await waiting()).toBe(0), EVENTUALLY)
    await sums.add(batch)
    expect(await sum()).toBe(5)
  })

  test('a counter that waits too long fails together with its queued calls, and later calls succeed', async () => {
    await store.counters.take('acme', one('slow'))
    await database.transaction(async () => {
      await database.sql('lock table multitenancy.store_counters in access exclusive mode')
      const outcomes = await Promise.allSettled(
        Array.from({ length: 50 }, () => store.counters.take('acme', one('slow'))),
      )
      expect(outcomes.every((one) => one.status === 'rejected' && DependencyUnavailable.matches(one.reason))).toBe(true)
      await vi.waitFor(async () => expect(await waiting()).toBe(0), EVENTUALLY)
    })
    await vi.waitFor(() => store.counters.take('acme', one('slow')), EVENTUALLY)
  })

  test.each<[string, () => Promise<unknown>]>([
    ['put', () => store.counters.put('acme', 'held', 2)],
    ['clear', () => store.counters.clear('acme')],
    ['clear of one name', () => store.counters.clear('acme', 'held')],
    ['purge', () => store.purge('acme')],
  ])('%s that waits too long for a lock is cancelled at the server and has no later effect', async (_, call) => {
    await vi.waitFor(() => store.counters.put('acme', 'held', 1), EVENTUALLY)
    await store.counters.clear('acme')
    await store.counters.put('acme', 'held', 1)
    await store.counters.take('acme', one('held'))
    const held = (await store.counters.counted('acme', ['held'])).today.get('held')
    await database.transaction(async () => {
      await database.sql('select from multitenancy.store_counters for update')
      await database.sql('select from multitenancy.store_gauges for update')
      await expect(call()).rejects.toSatisfy(DependencyUnavailable.matches)
      await vi.waitFor(async () => expect(await waiting()).toBe(0), EVENTUALLY)
    })
    await vi.waitFor(async () => {
      expect(await store.counters.read('acme', 'held')).toMatchObject({ today: 1, gauge: 1 })
      expect((await store.counters.counted('acme', ['held'])).today.get('held')).toBe(held)
    }, EVENTUALLY)
  })

  test('an unresponsive connection stops the counters only as long as it is unresponsive', async () => {
    await store.counters.take('acme', one('silent'))
    proxy.blackhole()
    const outcomes = await Promise.allSettled([
      store.counters.take('acme', one('silent')),
      store.counters.read('acme', 'silent'),
      store.counters.clear('acme'),
      store.counters.counted('acme', ['silent']),
    ])
    expect(outcomes.every((one) => one.status === 'rejected' && DependencyUnavailable.matches(one.reason))).toBe(true)
    await proxy.close()
    await proxy.open()
    await vi.waitFor(() => store.counters.take('acme', one('silent')), EVENTUALLY)
  })
})

describe('the store postgres with several processes', () => {
  let opened: OpenedInPostgres

  beforeAll(async () => {
    opened = await openInPostgres()
  })
  afterAll(async () => {
    await opened.store.close()
    await opened.cleanUp()
  })

  test('operations on the same counters in different orders do not deadlock', async () => {
    const drivers = Array.from({ length: 4 }, () =>
      postgresStore({ timeoutMs: 20_000 }).open({
        database: opened.database,
        clock: systemClock,
        log: createLogger({ level: 'silent' }),
      }),
    )
    const names = ['a', 'b', 'c', 'd', 'e']
    const work = drivers.flatMap(({ counters, purge }, index) =>
      Array.from({ length: 4 }, async (_, worker) => {
        for (let n = 0; n < 100; n++) {
          const rotated = names.map((_, at) => names[(at + n + index + worker) % names.length] as string)
          const tenant = `tenant-${(n + worker) % 2}`
          const limit = n % 2 === 0 ? 20 : null
          await counters.take(
            tenant,
            rotated.map((name) => ({ name, amount: 1, limit })),
          )
          if (n % 20 === 19) await counters.clear(tenant)
          if (n % 50 === 49) await purge(tenant)
        }
      }),
    )
    expect((await Promise.allSettled(work)).filter(({ status }) => status === 'rejected')).toEqual([])
    await Promise.all(drivers.map((driver) => driver.close()))
  })
})
