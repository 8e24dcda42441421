/** Days to which nothing is added any more, as far as the clock of whoever flushes tells. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { DAY_MS } from '../../kernel/store/counters.ts'
import { type FakeClock, fakeClock } from '../../testing/base/clock.ts'
import { Flush } from './flush.ts'
import { MAX_DAYS_LATE } from './hand-over.ts'
import { type MetricsOpened, openMetrics } from './metrics.fixture.ts'

let all: MetricsOpened
let tenant: string
/** Of whoever flushes. */
let clock: FakeClock
let flush: Flush

beforeAll(async () => {
  all = await openMetrics('postgres')
})
beforeEach(async () => {
  const { store, database } = all.opened.tenancy.kernel
  tenant = await all.tenant()
  clock = fakeClock(all.clock.now())
  flush = new Flush({ store, database, clock }, undefined)
})
afterAll(() => all.opened.end())

const count = async (by: number) => {
  const { metrics } = all.opened.tenancy
  await metrics.increment(tenant, 'exports', by)
  await metrics.list(tenant) // which hands over
}
const written = async () => {
  const sql = 'select value from multitenancy.metric_sums where tenant_id = $1'
  return (await all.opened.tenancy.kernel.database.sql(sql, [tenant])).rows.map(({ value }) => value)
}

test('a clock that was days ahead for a while leaves nothing unwritten', async () => {
  await count(1)
  clock.advance(3 * DAY_MS)
  await flush.run()
  clock.set(all.clock.now())
  await count(999)
  await flush.run()
  expect(await written()).toEqual([1_000])
})

test('what is handed over in the last moment is written, though the clock is a little ahead', async () => {
  const midnight = Math.ceil(all.clock.now().getTime() / DAY_MS) * DAY_MS
  clock.set(new Date(midnight + MAX_DAYS_LATE * DAY_MS + 1_000))
  await count(1)
  await flush.run()
  await count(41)
  await flush.run()
  expect(await written()).toEqual([42])
})
