/** Errors of the store: counts are kept for a later flush. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { InvalidRequest } from '../../kernel/base/errors.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { type MetricsOpened, openMetrics, type Satellites } from './metrics.fixture.ts'

let all: MetricsOpened
let tenancy: Tenancy<Satellites>
const rename = (from: string, to: string) =>
  tenancy.kernel.database.sql(`alter table multitenancy.${from} rename to ${to}`)

beforeAll(async () => {
  all = await openMetrics('postgres')
  tenancy = all.opened.tenancy
})
afterAll(() => all.opened.end())

test('an unknown error of the store drops no counts', async () => {
  const id = await all.tenant()
  await rename('store_sums', 'store_sums_elsewhere')
  await tenancy.metrics.increment(id, 'exports', 3)
  await expect(tenancy.metrics.flush()).rejects.toThrow(/store_sums/)
  await tenancy.metrics.increment(id, 'exports', 4)
  await expect(tenancy.metrics.flush()).rejects.toThrow(/store_sums/)
  await rename('store_sums_elsewhere', 'store_sums')
  await tenancy.metrics.flush()
  expect((await tenancy.metrics.list(id)).data).toMatchObject([{ key: 'exports', value: 7 }])
})

test('a count that the store cannot keep is rejected immediately', async () => {
  const id = await all.tenant()
  await expect(tenancy.metrics.increment(id, 'a\0b')).rejects.toMatchObject({ code: InvalidRequest('').code })
})

test('the rollback of a transaction does not undo a flush', async () => {
  const id = await all.tenant()
  await tenancy.metrics.increment(id, 'exports', 5)
  const undone = tenancy.transaction(async () => {
    await tenancy.metrics.flush()
    throw new Error('undone')
  })
  await expect(undone).rejects.toThrow('undone')
  const { rows } = await tenancy.kernel.database.sql(
    'select value from multitenancy.metric_sums where tenant_id = $1',
    [id],
  )
  expect(rows.map(({ value }) => Number(value))).toEqual([5])
})
