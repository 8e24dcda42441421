/** Ranking of tenants by the used share of a limit, on each store. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openQuotas, type QuotasOpened, STORES } from './quotas.fixture.ts'
import { UsageRecords } from './usage-records.ts'

describe.each(STORES)('the ranking with the store %s', (store) => {
  let all: QuotasOpened
  beforeAll(async () => {
    all = await openQuotas(store)
  })
  afterAll(() => all.opened.end())
  beforeEach(() => all.opened.tenancy.kernel.database.sql('delete from multitenancy.quota_usage'))

  const quotas = () => all.opened.tenancy.quotas
  const top = async (options = {}) => {
    await quotas().usageRecords.write()
    return (await quotas().top(options)).data.map(({ tenantId, quota, usage, limit }) => [
      tenantId,
      quota,
      usage,
      limit,
    ])
  }

  test('tenants are ranked by the used share of the limit of their plan, the greatest first', async () => {
    const [nearly, full, little] = [await all.tenant(), await all.tenant('pro'), await all.tenant()]
    await quotas().consume(nearly, 'exports', 8)
    await quotas().track(full, 'exports', 120)
    await quotas().consume(little, 'exports', 5)
    await quotas().setUsage(nearly, 'seats', 2.7)
    expect(await top()).toEqual([
      [full, 'exports', 120, 100],
      [nearly, 'seats', 2.7, 3],
      [nearly, 'exports', 8, 10],
    ])
    expect(await top({ quota: 'seats' })).toEqual([[nearly, 'seats', 2.7, 3]])
    expect(await top({ above: 1 })).toEqual([[full, 'exports', 120, 100]])
    expect(await top({ above: 0.5, quota: 'exports' })).toHaveLength(3)
    const { data, nextCursor } = await quotas().top({ limit: 1 })
    expect(data).toMatchObject([{ name: 'Acme', plan: 'pro', share: 1.2, notedAt: expect.any(String) }])
    expect((await quotas().top({ limit: 1, cursor: nextCursor ?? '' })).data).toMatchObject([{ tenantId: nearly }])
  })

  test('the ranking follows later use, a change of the plan, a reset and a deletion', async () => {
    const [one, other] = [await all.tenant(), await all.tenant()]
    await quotas().consume(one, 'exports', 6)
    await quotas().consume(other, 'exports', 9)
    expect(await top()).toEqual([[other, 'exports', 9, 10]])
    await quotas().consume(one, 'exports', 4)
    expect(await top()).toEqual([
      [one, 'exports', 10, 10],
      [other, 'exports', 9, 10],
    ])
    const { tenants } = all.opened.tenancy
    await tenants.setPlan(one, 'pro')
    expect(await top()).toEqual([[other, 'exports', 9, 10]])
    await tenants.setPlan(one, 'free')
    expect(await top()).toHaveLength(2)
    await quotas().reset(one)
    expect(await top()).toEqual([[other, 'exports', 9, 10]])
    await quotas().consume(one, 'exports', 8)
    expect(await top()).toHaveLength(2)
    await tenants.delete(other)
    expect(await top()).toEqual([[one, 'exports', 8, 10]])
  })

  test('use of former days is not ranked, and a gauge keeps its rank until it is set again', async () => {
    const one = await all.tenant()
    await quotas().setUsage(one, 'seats', 3)
    await quotas().consume(one, 'exports', 9)
    expect(await top()).toHaveLength(2)
    await all.opened.tenancy.kernel.database.sql(
      'update multitenancy.quota_usage set day = day - 1 where tenant_id = $1 and day is not null',
      [one],
    )
    expect(await top()).toEqual([[one, 'seats', 3, 3]])
    await quotas().setUsage(one, 'seats', 1)
    expect(await top()).toEqual([])
  })

  test('unlimited quotas and limits of 0 are not ranked', async () => {
    const one = await all.tenant('open')
    await quotas().track(one, 'exports', 1_000)
    await quotas().track(await all.tenant(), 'none', 5)
    await quotas().track(await all.tenant(), 'pages', 5)
    expect(await top()).toEqual([])
  })

  test('an older row of another process replaces no newer one', async () => {
    const one = await all.tenant()
    const { kernel, tenants } = all.opened.tenancy
    const processes = Array.from({ length: 2 }, () => new UsageRecords(kernel, tenants.plans))
    const nowMs = all.storeNow()
    const use = { tenantId: one, quota: 'exports', plan: 'free', limit: 10 }
    processes[0]?.note({ ...use, usage: 9, nowMs })
    processes[1]?.note({ ...use, usage: 8, nowMs: nowMs - 5 })
    for (const records of processes) await records.write()
    expect(await top()).toEqual([[one, 'exports', 9, 10]])
  })

  test('a row of another process from before a reset leaves no rank', async () => {
    const [one, other] = [await all.tenant(), await all.tenant()]
    const { kernel, tenants } = all.opened.tenancy
    const process = new UsageRecords(kernel, tenants.plans)
    const nowMs = all.storeNow() - 5
    for (const tenantId of [one, other]) {
      const use = { tenantId, plan: 'free', nowMs }
      process.note({ ...use, quota: 'exports', limit: 10, usage: 9 })
      process.note({ ...use, quota: 'seats', limit: 3, usage: 3, isGauge: true })
    }
    await quotas().reset(one)
    await quotas().reset(other, 'seats')
    await process.write()
    expect(await top()).toEqual([[other, 'exports', 9, 10]])
  })

  test('the same use as before a reset by another process is ranked again after a minute', async () => {
    const one = await all.tenant()
    const { kernel, tenants } = all.opened.tenancy
    const process = new UsageRecords(kernel, tenants.plans)
    const use = async (afterMs: number) => {
      const gauge = { tenantId: one, quota: 'seats', plan: 'free', limit: 3, usage: 3, isGauge: true }
      process.note({ ...gauge, nowMs: all.storeNow() + afterMs })
      await process.write()
      return top()
    }
    expect(await use(0)).toEqual([[one, 'seats', 3, 3]])
    await quotas().reset(one)
    expect(await use(59_000)).toEqual([])
    expect(await use(61_000)).toEqual([[one, 'seats', 3, 3]])
  })

  test('use by another process during a reset is ranked', async () => {
    const one = await all.tenant()
    const { kernel, tenants } = all.opened.tenancy
    const { counters } = kernel.store
    const process = new UsageRecords(kernel, tenants.plans)
    const use = { tenantId: one, plan: 'free' }
    const { nowMs } = await counters.take(one, [{ name: 'exports', amount: 9, limit: 10 }])
    process.note({ ...use, quota: 'exports', limit: 10, usage: 9, nowMs })
    process.note({
      ...use,
      quota: 'seats',
      limit: 3,
      usage: 3,
      isGauge: true,
      nowMs: await counters.put(one, 'seats', 3),
    })
    await process.write()
    await quotas().usageRecords.cleared(one, undefined, counters)
    expect(await top()).toEqual([
      [one, 'seats', 3, 3],
      [one, 'exports', 9, 10],
    ])
    await all.opened.tenancy.kernel.database.sql(
      'update multitenancy.quota_usage set day = day - 1 where tenant_id = $1 and day is not null',
      [one],
    )
    expect(await top()).toEqual([[one, 'seats', 3, 3]])
  })

  test('the same use as before a reset is ranked again', async () => {
    const one = await all.tenant()
    await quotas().setUsage(one, 'seats', 3)
    expect(await top()).toEqual([[one, 'seats', 3, 3]])
    await quotas().reset(one)
    expect(await top()).toEqual([])
    await quotas().setUsage(one, 'seats', 3)
    expect(await top()).toEqual([[one, 'seats', 3, 3]])
  })
})

test('use is written when it has changed by a hundredth of the limit, from half of the smallest limit on', async () => {
  const rows: unknown[][] = []
  const sql = async (_: string, values: unknown[]) => void rows.push(values)
  const database = { sql, outside: (work: () => unknown) => work() }
  const plans = {
    describe: () => ({
      defaultPlan: 'small',
      resolvedBy: 'metadata' as const,
      definitions: { small: { limits: { calls: 100 } }, large: { limits: { calls: 10_000 } } },
    }),
  }
  const records = new UsageRecords({ database, log: {} } as never, plans)
  const written = async (usages: readonly number[]) => {
    const found: number[] = []
    for (const usage of usages) {
      records.note({ tenantId: 'acme', quota: 'calls', plan: 'large', limit: 10_000, usage, nowMs: 0 })
      const before = rows.length
      await records.write()
      if (rows.length > before) found.push(usage)
    }
    return found
  }
  // At the limit, steps become tenths of the usage.
  expect(await written([49, 50, 149, 150, 9_990, 9_999, 10_000, 10_050, 10_100, 11_109, 11_110, 0])).toEqual([
    50, 150, 9_990, 10_000, 10_100, 11_110, 0,
  ])
})
