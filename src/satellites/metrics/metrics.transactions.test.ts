/** Counts in transactions of the backoffice: they commit or are rolled back with it. */
import { describe, expect, test } from 'vitest'
import { eventually } from '../../testing/base/tenancy.ts'
import { metricsOn } from './metrics.fixture.ts'

const STORES = ['memory', 'postgres'] as const

describe.each(STORES)('counts in a transaction with the store %s', (store) => {
  const fixture = metricsOn(store)
  const { date, read, rows } = fixture
  const transaction = <T>(work: () => Promise<T>) => fixture.opened.tenancy.transaction(work)
  const rolledBack = () => Promise.reject(new Error('rolled back'))

  test('a rolled back transaction counts nothing', async () => {
    const failing = transaction(async () => {
      await fixture.metrics.increment(fixture.acme, 'exports', 5)
      await rolledBack()
    })
    await expect(failing).rejects.toThrow('rolled back')
    await fixture.metrics.flush()
    expect(await read()).toEqual({})
  })

  test('a committed transaction counts in a row, beside counts of the store', async () => {
    await fixture.metrics.increment(fixture.acme, 'exports', 1)
    await transaction(async () => {
      await fixture.metrics.increment(fixture.acme, 'exports', 2)
      await transaction(() => fixture.metrics.increment(fixture.acme, 'exports', 3))
      const inner = transaction(async () => {
        await fixture.metrics.increment(fixture.acme, 'exports', 100)
        await rolledBack()
      })
      await expect(inner).rejects.toThrow('rolled back')
      await fixture.metrics.increment(fixture.acme, 'other')
    })
    expect(await rows()).toEqual([`${date()} exports 5`, `${date()} other 1`])
    expect(await read()).toEqual({ [`${date()} exports`]: 6, [`${date()} other`]: 1 })
    await fixture.metrics.flush()
    await fixture.metrics.flush()
    expect(await read()).toEqual({ [`${date()} exports`]: 6, [`${date()} other`]: 1 })
    const { data } = await fixture.metrics.listAll({ tenantId: fixture.acme, key: 'exports' })
    expect(data).toMatchObject([{ value: 6 }])
    expect(await fixture.metrics.sums({ key: 'exports', tenantId: fixture.acme })).toMatchObject({ total: 6 })
  })

  test('concurrent transactions that count in another order do not wait for each other', async () => {
    const keys = ['a', 'b', 'c', 'd']
    const orders = Array.from({ length: 6 }, (_, n) => (n % 2 ? keys : keys.toReversed()))
    const count = (order: readonly string[]) =>
      transaction(async () => {
        for (const key of order) await fixture.metrics.increment(fixture.acme, key)
      })
    for (let round = 0; round < 5; round++) await Promise.all(orders.map(count))
    expect(await read()).toEqual(Object.fromEntries(keys.map((key) => [`${date()} ${key}`, 30])))
  })

  test('a count that its transaction does not await is counted', async () => {
    let counting: Promise<void> | undefined
    await transaction(async () => {
      counting = fixture.metrics.increment(fixture.acme, 'exports', 2)
    })
    await counting
    await eventually(async () => expect(await rows()).toEqual([`${date()} exports 2`]))
  })

  test('a sum stops at the largest exact integer', async () => {
    const count = () => transaction(() => fixture.metrics.increment(fixture.acme, 'large', Number.MAX_SAFE_INTEGER))
    for (let n = 0; n < 3; n++) await count()
    expect(await read()).toEqual({ [`${date()} large`]: Number.MAX_SAFE_INTEGER })
  })

  test('a tenant that is purged before the commit has no rows', async () => {
    const { database } = fixture.opened.tenancy.kernel
    await transaction(async () => {
      await fixture.metrics.increment(fixture.acme, 'exports')
      await database.sql("update multitenancy.tenants set status = 'deleted', purged_at = now() where id = $1", [
        fixture.acme,
      ])
    })
    expect(await rows()).toEqual([])
  })
})
