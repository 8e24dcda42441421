/** Days that have ended, by the clock of the process that rolls up. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { DAY_MS } from '../../kernel/store/counters.ts'
import { type FakeClock, fakeClock } from '../../testing/base/clock.ts'
import { type MetricsOpened, openMetrics } from './metrics.fixture.ts'
import { Rollup } from './rollup.ts'
import { MAX_DAYS_LATE } from './store-flush.ts'

let all: MetricsOpened
let tenant: string
/** Of the process that rolls up. */
let clock: FakeClock
let rollup: Rollup

beforeAll(async () => {
  all = await openMetrics('postgres')
})
beforeEach(async () => {
  const { store, database } = all.opened.tenancy.kernel
  tenant = await all.tenant()
  clock = fakeClock(all.clock.now())
  rollup = new Rollup({ store, database, clock }, undefined)
})
afterAll(() => all.opened.end())

const count = async (by: number) => {
  const { metrics } = all.opened.tenancy
  await metrics.increment(tenant, 'exports', by)
  await metrics.list(tenant) // which flushes to the store
}
const written = async () => {
  const sql = 'select value from multitenancy.metric_sums where tenant_id = $1'
  return (await all.opened.tenancy.kernel.database.sql(sql, [tenant])).rows.map(({ value }) => value)
}

test('a clock that was temporarily days ahead leaves no sums without a row', async () => {
  await count(1)
  clock.advance(3 * DAY_MS)
  await rollup.run()
  clock.set(all.clock.now())
  await count(999)
  await rollup.run()
  expect(await written()).toEqual([1_000])
})

test('a flush at the end of a day is rolled up, even with a clock slightly ahead', async () => {
  const midnight = Math.ceil(all.clock.now().getTime() / DAY_MS) * DAY_MS
  clock.set(new Date(midnight + MAX_DAYS_LATE * DAY_MS + 1_000))
  await count(1)
  await rollup.run()
  await count(41)
  await rollup.run()
  expect(await written()).toEqual([42])
})
