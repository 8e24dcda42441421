import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { systemClock } from '../../kernel/base/clock.ts'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database, isDatabaseUnavailable } from '../../kernel/database/database.ts'
import type { Store } from '../../kernel/store/store.ts'
import { moveToNoon } from '../../testing/store/opened-store.ts'
import { type OpenedInPostgres, openInPostgres } from './postgres.fixture.ts'
import { postgresStore } from './postgres.ts'

const log = createLogger({ level: 'silent' })
const EVENTUALLY = { timeout: 15_000, interval: 20 }
const one = (name: string) => [{ name, amount: 1, limit: null }]
const ignored = () => undefined

describe('the store postgres', () => {
  let opened: OpenedInPostgres
  let database: Database
  let store: Store

  beforeAll(async () => {
    opened = await openInPostgres({ max: 2 })
    await moveToNoon(opened)
    database = opened.database
    store = opened.store
  })
  afterAll(async () => {
    await store.close()
    await opened.cleanUp()
  })

  const rowsOf = async (owner: string): Promise<number> =>
    (await database.sql('select count(*) as count from multitenancy.store where owner = $1', [owner])).rows[0].count

  test('writes outside of the caller’s transaction', async () => {
    const rejected = database.transaction(async () => {
      await store.set('acme', 'code', 'abc')
      throw new Error('the change is rejected')
    })
    await expect(rejected).rejects.toThrow('the change is rejected')
    expect(await store.get('acme', 'code')).toBe('abc')
  })

  test('does not wait for connections of transactions, with many concurrent callers', async () => {
    const callers = Array.from({ length: 20 }, (_, n) =>
      database.transaction(() => store.increment('acme', 'asked', n)),
    )
    await Promise.all(callers)
    expect(await store.get('acme', 'asked')).toBe('190')
  })

  test('removes expired entries within a hundred writes', async () => {
    for (let n = 0; n < 30; n++) await store.set('globex', `session ${n}`, 'x', 60)
    await opened.advance(61_000)
    for (let n = 0; n < 100; n++) await store.set('initech', 'key', String(n))
    expect(await rowsOf('globex')).toBe(0)
    expect(await store.get('initech', 'key')).toBe('99')
  })

  test('uses a logged table, which survives a restart', async () => {
    const { rows } = await database.sql(
      `select relpersistence from pg_class where oid = 'multitenancy.store'::regclass`,
    )
    expect(rows).toEqual([{ relpersistence: 'p' }])
  })

  test('reports E_DEPENDENCY_UNAVAILABLE for an unreachable server', async () => {
    const nowhere = new Database({ url: 'postgres://tenantry@127.0.0.1:1/tenantry' }, log)
    const unreachable = postgresStore().open({ database: nowhere, clock: systemClock, log })
    const failure = await unreachable.ping().catch((error: unknown) => error)
    expect(DependencyUnavailable.matches(failure)).toBe(true)
    expect(isDatabaseUnavailable((failure as Error).cause)).toBe(true)
    await expect(unreachable.get('acme', 'key')).rejects.toSatisfy(DependencyUnavailable.matches)
    const { counters } = unreachable
    for (const request of [
      counters.take('acme', one('calls')),
      counters.read('acme', 'calls'),
      counters.put('acme', 'calls', 1),
      unreachable.publish('news', 'x'),
      unreachable.subscribe('news', ignored, ignored),
      unreachable.setIfAbsent('acme', 'key', 'x'),
    ]) {
      await expect(request).rejects.toSatisfy(DependencyUnavailable.matches)
    }
    await unreachable.close()
    await nowhere.close()
  })

  test('removes expired sums and their sources within a hundred batches', async () => {
    const { sums } = store
    const batch = { source: randomUUID(), number: 1, additions: [{ tenantId: 'acme', name: 'requests', amount: 1 }] }
    const count = async (table: string) =>
      (await database.sql(`select count(*) as count from multitenancy.${table}`)).rows[0].count
    const { rows } = await database.sql(`select (now() at time zone 'UTC')::date::text as today`)
    await sums.add({ ...batch, day: rows[0].today })
    await sums.add({ ...batch, day: '2020-01-01', source: randomUUID() })
    expect([await count('store_sums'), await count('store_sum_sources')]).toEqual([2, 2])
    const other = randomUUID()
    for (let number = 1; number <= 100; number++)
      await sums.add({ ...batch, day: rows[0].today, source: other, number })
    expect([await count('store_sums'), await count('store_sum_sources')]).toEqual([1, 3])
    await opened.advance(5 * 86_400_000)
    for (let number = 101; number <= 200; number++)
      await sums.add({ ...batch, day: rows[0].today, source: other, number })
    expect(await count('store_sum_sources')).toBe(1)
    // The 198th batch removed it, and later batches have inserted it again.
    expect(await sums.read('acme', [rows[0].today])).toMatchObject([{ sum: 2 }])
  })

  test('counts outside of the caller’s transaction, and waits for no transaction', async () => {
    await database.transaction(async () => {
      await database.sql('lock table multitenancy.store in access exclusive mode')
      await store.counters.take('acme', one('in-a-transaction'))
    })
    expect((await store.counters.read('acme', 'in-a-transaction')).today).toBe(1)
  })

  test('replaces terminated sessions of the counters', async () => {
    await vi.waitFor(() => store.counters.take('acme', one('ended')), EVENTUALLY)
    await database.sql(
      'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()',
    )
    await vi.waitFor(() => store.counters.take('acme', one('ended')), EVENTUALLY)
  })

  test('reports E_DEPENDENCY_UNAVAILABLE for a read-only server', async () => {
    const name = new URL(database.url).pathname.slice(1)
    const readOnly = async (isOn: boolean) => {
      await database.sql(`begin read write; alter database ${name} set default_transaction_read_only = ${isOn}; commit`)
      await database.sql(
        'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
      )
    }
    const unavailable = expect.objectContaining({ code: DependencyUnavailable.code })
    try {
      await readOnly(true)
      await vi.waitFor(() => expect(store.set('acme', 'key', 'x')).rejects.toEqual(unavailable), EVENTUALLY)
      await vi.waitFor(() => expect(store.counters.take('acme', one('full'))).rejects.toEqual(unavailable), EVENTUALLY)
      // After a failure, calls fail until the next attempt shortly afterwards.
      await vi.waitFor(async () => expect((await store.counters.read('acme', 'full')).today).toBeNull(), EVENTUALLY)
    } finally {
      await readOnly(false)
    }
    await vi.waitFor(() => store.set('acme', 'key', 'x'), EVENTUALLY)
    await vi.waitFor(() => store.counters.take('acme', one('full')), EVENTUALLY)
  })

  test('removes counters of expired days in a later statement', async () => {
    const days = async () =>
      (await database.sql('select count(distinct day) as count from multitenancy.store_counters')).rows[0].count
    for (let day = 0; day < 6; day++) {
      await store.counters.take('acme', one('calls'))
      await opened.advance(86_400_000)
    }
    expect(await days()).toBeGreaterThanOrEqual(6)
    for (let n = 0; n < 100; n++) await store.counters.take('acme', one('calls'))
    expect(await days()).toBe(3)
  })
})
