import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Child, startChild } from '../../testing/child.ts'
import { type MetricsOpened, openMetrics } from './metrics.fixture.ts'

const PROCESSES = 10
const CALLS = 200
const TENANTS = 5
/** What each process adds: 1 + 2 + .. */
const SUM = (CALLS * (CALLS + 1)) / 2
const EXPECTED = { calls: SUM, requests: CALLS, errors: CALLS / 10, bytes: CALLS * 1_000 }

describe.each(['postgres', 'redis'] as const)('from ten processes at once on the store %s', (store) => {
  let all: MetricsOpened
  let children: Child[]
  let tenants: string[]

  beforeAll(async () => {
    all = await openMetrics(store)
    const redis = store === 'redis' ? { redisUrl: inject('redisUrl'), keyPrefix: all.keyPrefix } : {}
    const options = { url: all.opened.url, ...redis }
    const program = new URL('./counter.fixture.ts', import.meta.url)
    children = await Promise.all(Array.from({ length: PROCESSES }, () => startChild(program, options)))
    tenants = await Promise.all(Array.from({ length: TENANTS }, () => all.tenant()))
  }, 120_000)
  afterAll(async () => {
    await Promise.all(children.map((child) => child.kill('SIGTERM')))
    await all.opened.end()
  })

  /** Of a tenant, however many days that were: midnight may be in between. */
  const sumsOf = async (tenant: string) => {
    const sums: Record<string, number> = {}
    for (const { key, value } of (await all.opened.tenancy.metrics.list(tenant)).data) {
      sums[key] = (sums[key] ?? 0) + value
    }
    return sums
  }
  const times = (count: number) =>
    Object.fromEntries(Object.entries(EXPECTED).map(([key, value]) => [key, value * count]))

  test('everything is counted once, while half of them flush as they count', async () => {
    await Promise.all(
      children.map((child, n) => child.ask({ tenants, calls: CALLS, flushEvery: n % 2 ? CALLS / 4 : 0 })),
    )
    // Each hands over what it has before it reads.
    await Promise.all(children.map((child) => child.ask({ list: tenants[0] })))
    for (const tenant of tenants) expect(await sumsOf(tenant)).toEqual(times(PROCESSES))
    await all.opened.tenancy.metrics.flush()
    const { rows } = await all.opened.tenancy.kernel.database.sql(
      'select key, sum(value)::bigint as value from multitenancy.metric_sums where tenant_id = $1 group by key',
      [tenants[0]],
    )
    expect(Object.fromEntries(rows.map(({ key, value }) => [key, value]))).toEqual(times(PROCESSES))
  })

  test('what processes have at their end is handed over', async () => {
    const [tenant = ''] = tenants
    await Promise.all(children.slice(0, 5).map((child) => child.ask({ tenants: [tenant], calls: CALLS, stop: true })))
    expect(await sumsOf(tenant)).toEqual(times(PROCESSES + 5))
  })

  test('one that is killed has lost what it had not handed over, and nothing else', async () => {
    const [, tenant = ''] = tenants
    const [left, killed] = children.slice(5)
    await killed?.ask({ tenants: [tenant], calls: CALLS, list: tenant })
    await killed?.ask({ tenants: [tenant], calls: 1 })
    await killed?.kill('SIGKILL')
    await left?.ask({ tenants: [tenant], calls: CALLS, list: tenant })
    const { requests = 0 } = await sumsOf(tenant)
    const known = CALLS * (PROCESSES + 2)
    expect([known, known + 1]).toContain(requests)
  })
})
