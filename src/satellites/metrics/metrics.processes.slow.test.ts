import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Child, startChild } from '../../../test/support/child.ts'
import { type MetricsOpened, openMetrics } from './metrics.fixture.ts'

const PROCESSES = 5
const STOPPED = 3
/** Of the store: no flush fails because the machine is busy. */
const TIMEOUT_MS = 60_000
const CALLS = 200
const TENANTS = 5
/** Total of each process: 1 + 2 + .. */
const SUM = (CALLS * (CALLS + 1)) / 2
const EXPECTED = { calls: SUM, requests: CALLS, errors: CALLS / 10, bytes: CALLS * 1_000 }

describe.each(['postgres', 'redis'] as const)('counts of five processes on the store %s', (store) => {
  let all: MetricsOpened
  let children: Child[]
  let tenants: string[]

  beforeAll(async () => {
    all = await openMetrics(store)
    const redis = store === 'redis' ? { redisUrl: inject('redisUrl'), keyPrefix: all.keyPrefix } : {}
    const options = { url: all.opened.url, timeoutMs: TIMEOUT_MS, ...redis }
    const program = new URL('./counter.fixture.ts', import.meta.url)
    children = await Promise.all(Array.from({ length: PROCESSES }, () => startChild(program, options)))
    tenants = await Promise.all(Array.from({ length: TENANTS }, () => all.tenant()))
  })
  afterAll(async () => {
    await Promise.all(children.map((child) => child.kill('SIGTERM')))
    await all.opened.end()
  })

  /** Of a tenant over all days, because midnight may be in between. */
  const sumsOf = async (tenant: string) => {
    const sums: Record<string, number> = {}
    for (const { key, value } of (await all.opened.tenancy.metrics.list(tenant)).data) {
      sums[key] = (sums[key] ?? 0) + value
    }
    return sums
  }
  const times = (count: number) =>
    Object.fromEntries(Object.entries(EXPECTED).map(([key, value]) => [key, value * count]))

  test('each count is in the sums once, after flushes, the end of a process, and a kill', async () => {
    await Promise.all(
      children.map((child, n) => child.request({ tenants, calls: CALLS, flushEvery: n % 2 ? CALLS / 4 : 0 })),
    )
    // Each process flushes before it reads.
    await Promise.all(children.map((child) => child.request({ list: tenants[0] })))
    for (const tenant of tenants) expect(await sumsOf(tenant)).toEqual(times(PROCESSES))
    await all.opened.tenancy.metrics.flush()
    const { rows } = await all.opened.tenancy.kernel.database.sql(
      'select key, sum(value)::bigint as value from multitenancy.metric_sums where tenant_id = $1 group by key',
      [tenants[0]],
    )
    expect(Object.fromEntries(rows.map(({ key, value }) => [key, value]))).toEqual(times(PROCESSES))

    // A process flushes its counts at its end.
    const [first = '', second = ''] = tenants
    await Promise.all(
      children.slice(0, STOPPED).map((child) => child.request({ tenants: [first], calls: CALLS, stop: true })),
    )
    expect(await sumsOf(first)).toEqual(times(PROCESSES + STOPPED))

    // A killed process loses only the counts that it has not flushed.
    const [left, killed] = children.slice(STOPPED)
    await killed?.request({ tenants: [second], calls: CALLS, list: second })
    await killed?.request({ tenants: [second], calls: 1 })
    await killed?.kill('SIGKILL')
    await left?.request({ tenants: [second], calls: CALLS, list: second })
    const { requests = 0 } = await sumsOf(second)
    const known = CALLS * (PROCESSES + 2)
    expect([known, known + 1]).toContain(requests)
  })
})
