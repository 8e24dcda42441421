/** Pages, filters and exports of metrics. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { TenantMetrics } from './index.ts'
import { type MetricsOpened, openMetrics } from './metrics.fixture.ts'
import { METRICS_AT_ONCE } from './metrics.ts'

const DAYS = METRICS_AT_ONCE
const KEYS = ['bytes', 'exports', 'requests']
const HEADER = 'tenantId,key,period,value'

let all: MetricsOpened
let metrics: TenantMetrics
let today: string

beforeAll(async () => {
  all = await openMetrics('postgres')
  metrics = all.opened.tenancy.metrics
  today = all.clock.now().toISOString().slice(0, 10)
  const { kernel, tenants } = all.opened.tenancy
  for (const id of ['acme', 'big', 'globex']) await tenants.create({ id, name: id })
  // Each sum has two incarnations, which responses must not show.
  await kernel.database.sql(
    `insert into multitenancy.metric_sums (day, tenant_id, key, incarnation, value)
     select date '2020-01-01' + n, 'big', key, gen_random_uuid(), n + half
     from generate_series(0, $1::int - 1) n, unnest($2::text[]) key, generate_series(1, 2) half`,
    [DAYS, KEYS],
  )
  await metrics.increment('acme', 'exports', 2)
  await metrics.increment('globex', 'exports', 3)
  await metrics.flush()
  await metrics.increment('acme', 'exports', 5)
  await metrics.increment('big', 'exports', 1)
})
afterAll(() => all.opened.end())

const json = async (path: string) => {
  const response = await all.get(path)
  return { status: response.status, body: (await response.json()) as any }
}
const linesOf = (text: string) => text.split('\n').filter(Boolean)
const objectsOf = (text: string) => linesOf(text).map((line) => JSON.parse(line))

async function everything(path: string, limit: number) {
  const seen: { tenantId?: string; period: string; key: string; value: number }[] = []
  let cursor: string | null = null
  let pages = 0
  do {
    const next: string = cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`
    const { body } = await json(`${path}${path.includes('?') ? '&' : '?'}limit=${limit}${next}`)
    seen.push(...body.data)
    cursor = body.nextCursor
    pages += 1
  } while (cursor !== null)
  return { seen, pages }
}

describe('a page', () => {
  test('a list of one tenant includes counts that are not flushed', async () => {
    expect(await json('/tenants/acme/metrics')).toEqual({
      status: 200,
      body: { data: [{ key: 'exports', period: today, value: 7 }], nextCursor: null },
    })
    expect((await json('/tenant-metrics?tenantId=acme')).body.data).toEqual([
      { tenantId: 'acme', key: 'exports', period: today, value: 2 },
    ])
  })

  test.each([
    [1, '2020-01-05', 4],
    [50, '2020-03-01', 60],
    [179, '2020-03-01', 60],
    [180, '2020-03-01', 60],
    [200, '2020-03-01', 60],
  ])('pages of %d items list everything until %s once, the newest first', async (limit, to, days) => {
    const { seen, pages } = await everything(`/tenants/big/metrics?from=2020-01-01&to=${to}`, limit)
    expect(seen).toHaveLength(days * KEYS.length)
    expect(pages).toBe(Math.ceil((days * KEYS.length) / limit))
    const places = seen.map(({ period, key }) => `${period} ${key}`)
    expect(places).toEqual([...new Set(places)].toSorted().reverse())
    for (const { period, value } of seen) {
      const n = (Date.parse(period) - Date.parse('2020-01-01')) / 86_400_000
      expect(value).toBe(2 * n + 3)
    }
  })

  test('a list starts with the present day, which is only in the store', async () => {
    const { body } = await json('/tenants/big/metrics?limit=2')
    expect(body.data).toMatchObject([
      { key: 'exports', period: today, value: 1 },
      { key: 'requests', value: 2 * (DAYS - 1) + 3 },
    ])
  })

  test('the list of all tenants has each metric once', async () => {
    const { seen } = await everything('/tenant-metrics', 200)
    expect(seen).toHaveLength(DAYS * KEYS.length + 2)
    const places = seen.map(({ tenantId, period, key }) => `${period} ${tenantId} ${key}`)
    expect(places).toEqual([...new Set(places)].toSorted().reverse())
  })

  test.each([
    ['from=2020-01-02&to=2020-01-03', ['2020-01-02']],
    ['from=2020-01-02T23:59:59.999Z&to=2020-01-03T00:00:00.001Z', ['2020-01-03', '2020-01-02']],
    ['from=2020-01-02T23:30:00-02:00&to=2020-01-04', ['2020-01-03']],
    ['from=2020-01-02&to=2020-01-02', []],
    ['from=2020-01-03&to=2020-01-02', []],
    ['to=2020-01-02', ['2020-01-01']],
    ['from=0001-01-01&to=2020-01-02', ['2020-01-01']],
    ['from=9999-12-31T23:59:59Z', []],
    ['to=0001-01-01', []],
  ])('with %s has the days that this touches', async (query, days) => {
    const { body } = await json(`/tenants/big/metrics?key=exports&${query}`)
    expect(body.data.map(({ period }: { period: string }) => period)).toEqual(days)
    const ofAll = await json(`/tenant-metrics?tenantId=big&key=exports&${query}`)
    expect(ofAll.body.data.map(({ period }: { period: string }) => period)).toEqual(days)
  })

  test('rejects a cursor of another list and an invalid query', async () => {
    const { body } = await json('/tenants/big/metrics?limit=1')
    const cursor = encodeURIComponent(body.nextCursor)
    const asked = [
      `/tenants/acme/metrics?cursor=${cursor}`,
      `/tenants/big/metrics?key=exports&cursor=${cursor}`,
      `/tenant-metrics?cursor=${cursor}`,
      '/tenants/big/metrics?from=yesterday',
      '/tenants/big/metrics?key=a%20b',
      '/tenants/big/metrics?group=month',
      '/tenant-metrics?tenantId=No%20Id',
    ]
    for (const path of asked) {
      expect(await json(path)).toMatchObject({ status: 400, body: { code: 'E_INVALID_REQUEST' } })
    }
  })
})

describe('an export of metrics', () => {
  test('an export of one tenant equals its list, as NDJSON and as CSV', async () => {
    const ndjson = await all.get('/tenants/acme/metrics', 'application/x-ndjson')
    expect(ndjson.headers.get('content-type')).toBe('application/x-ndjson')
    expect(ndjson.headers.get('content-disposition')).toBe('attachment; filename="metrics-acme.ndjson"')
    expect(objectsOf(await ndjson.text())).toEqual([{ key: 'exports', period: today, value: 7 }])
    const csv = await all.get('/tenants/acme/metrics', 'text/csv')
    expect(csv.headers.get('content-type')).toBe('text/csv; charset=utf-8; header=present')
    expect(await csv.text()).toBe(`key,period,value\r\nexports,${today},7\r\n`)
  })

  test('an export has everything once, and ignores limit and cursor', async () => {
    const text = await (await all.get('/tenants/big/metrics?limit=1&cursor=x', 'application/x-ndjson')).text()
    const { seen } = await everything('/tenants/big/metrics', 200)
    expect(objectsOf(text)).toEqual(seen)
    expect(seen).toHaveLength(DAYS * KEYS.length + 1)
  })

  test('an export of all tenants has everything that the filters select', async () => {
    const response = await all.get('/tenant-metrics', 'text/csv')
    expect(response.headers.get('content-disposition')).toBe('attachment; filename="metrics.csv"')
    const [header, ...lines] = (await response.text()).split('\r\n').filter(Boolean)
    expect(header).toBe(HEADER)
    expect(lines).toHaveLength(DAYS * KEYS.length + 2)
    expect(lines.slice(0, 2)).toEqual([`globex,exports,${today},3`, `acme,exports,${today},2`])
    const filtered = await all.get('/tenant-metrics?from=2020-01-01&to=2020-01-02&key=bytes', 'text/csv')
    expect(await filtered.text()).toBe(`${HEADER}\r\nbig,bytes,2020-01-01,3\r\n`)
    expect(await (await all.get('/tenant-metrics?key=absent', 'text/csv')).text()).toBe(`${HEADER}\r\n`)
  })

  test('an export reads each part on demand, and stops when its reader stops', async () => {
    const sizes: number[] = []
    for await (const piece of await metrics.export('big', 'ndjson')) sizes.push(linesOf(piece).length)
    expect(sizes).toEqual([...Array(KEYS.length).fill(METRICS_AT_ONCE), 1])
    const { body } = await all.get('/tenant-metrics', 'text/csv')
    const reader = body?.getReader()
    const { value } = (await reader?.read()) ?? {}
    expect(linesOf(new TextDecoder().decode(value))).toHaveLength(1 + METRICS_AT_ONCE)
    await reader?.cancel()
    expect((await reader?.read())?.done).toBe(true)
  })

  test('rejects an export of an unknown tenant or with an invalid filter', async () => {
    expect((await all.get('/tenants/unknown/metrics', 'text/csv')).status).toBe(404)
    expect((await all.get('/tenant-metrics?from=yesterday', 'text/csv')).status).toBe(400)
  })
})

test('a rollup removes only rows past their retention', async () => {
  const { opened, clock } = await openMetrics('memory')
  const database = opened.tenancy.kernel.database
  const { metrics: module } = await import('./index.ts')
  await opened.tenancy.tenants.create({ id: 'acme', name: 'Acme' })
  await database.sql(
    `insert into multitenancy.metric_sums
     select $1::date - n, 'acme', 'exports', gen_random_uuid(), 1 from generate_series(0, 40) n, generate_series(1, 500)`,
    [clock.now().toISOString().slice(0, 10)],
  )
  expect(await opened.tenancy.metrics.flush()).toMatchObject({ trimmed: 0 })
  const keeping = await opened.open({ satellites: [module({ retentionDays: 7 })] })
  expect(await keeping.metrics.flush()).toMatchObject({ trimmed: 33 * 500 })
  expect((await keeping.metrics.list('acme')).data).toHaveLength(8)
  await opened.end()
})

test('rejects invalid options', async () => {
  const { metrics: module } = await import('./index.ts')
  expect(() => module({ retentionDays: 0 })).toThrow('metrics.retentionDays')
})
