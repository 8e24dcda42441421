/** Sums of a key by day and by tenant. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { TenantMetrics } from './index.ts'
import { type MetricsOpened, openMetrics } from './metrics.fixture.ts'

let all: MetricsOpened
let metrics: TenantMetrics
let today: number

const DAY_MS = 86_400_000
const dayBack = (back: number) => new Date(today - back * DAY_MS)
const dateBack = (back: number) => dayBack(back).toISOString().slice(0, 10)

/** Adds a sum of one incarnation. */
const add = (back: number, tenantId: string, key: string, value: number) =>
  all.opened.tenancy.kernel.database.sql(
    'insert into multitenancy.metric_sums (day, tenant_id, key, incarnation, value) values ($1, $2, $3, gen_random_uuid(), $4)',
    [dateBack(back), tenantId, key, value],
  )

beforeAll(async () => {
  all = await openMetrics('postgres')
  metrics = all.opened.tenancy.metrics
  today = Date.parse(all.clock.now().toISOString().slice(0, 10))
  for (const id of ['acme', 'globex', 'hooli']) await all.opened.tenancy.tenants.create({ id, name: id })
  await add(0, 'acme', 'pages', 1)
  await add(0, 'acme', 'pages', 2)
  await add(0, 'globex', 'pages', 10)
  await add(0, 'globex', 'other', 1_000)
  await add(5, 'acme', 'pages', 20)
  await add(13, 'hooli', 'pages', 5)
  await add(14, 'hooli', 'pages', 500)
})
afterAll(() => all.opened.end())

describe('sums', () => {
  test('sums by day add all tenants, or one, of the last 14 days', async () => {
    const expected = {
      key: 'pages',
      from: dateBack(13),
      to: dateBack(0),
      total: 38,
      data: [
        { period: dateBack(0), value: 13 },
        { period: dateBack(5), value: 20 },
        { period: dateBack(13), value: 5 },
      ],
    }
    expect(await metrics.sums({ key: 'pages' })).toEqual(expected)
    expect(await metrics.sums({ key: 'pages' })).toEqual(expected) // with cached days
    const { total, data } = await metrics.sums({ key: 'pages', tenantId: 'acme' })
    expect({ total, data }).toEqual({
      total: 23,
      data: [
        { period: dateBack(0), value: 3 },
        { period: dateBack(5), value: 20 },
      ],
    })
  })

  test('sums by day have later counts of the present day', async () => {
    const before = (await metrics.sums({ key: 'late' })).total
    await add(0, 'acme', 'late', 4)
    await add(1, 'acme', 'late', 3)
    expect((await metrics.sums({ key: 'late' })).total).toBe(before + 7)
  })

  test('sums by tenant rank the greatest first, and the total includes tenants that are not shown', async () => {
    expect(await metrics.sums({ key: 'pages', by: 'tenant', top: 2, from: dayBack(20) })).toMatchObject({
      total: 538,
      data: [
        { tenantId: 'hooli', value: 505 },
        { tenantId: 'acme', value: 23 },
      ],
    })
    const within = await metrics.sums({ key: 'pages', by: 'tenant', from: dayBack(5), to: dayBack(4) })
    expect(within).toMatchObject({ from: dateBack(5), to: dateBack(5), data: [{ tenantId: 'acme', value: 20 }] })
  })

  test('sums of many tenants are read once in a minute, others for each request', async () => {
    const many = 10_000
    await all.opened.tenancy.kernel.database.sql(
      `insert into multitenancy.metric_sums (day, tenant_id, key, incarnation, value)
       select $1, 'many-' || n, 'common', gen_random_uuid(), 1 from generate_series(1, $2) n`,
      [dateBack(0), many],
    )
    const totalsOf = async (request: { tenantId?: string }) => [
      (await metrics.sums({ key: 'common', ...request })).total,
      (await metrics.sums({ key: 'common', by: 'tenant', ...request })).total,
    ]
    expect(await totalsOf({})).toEqual([many, many])
    expect(await totalsOf({ tenantId: 'many-7' })).toEqual([1, 1])
    await add(0, 'many-7', 'common', 5)
    expect(await totalsOf({})).toEqual([many, many])
    expect(await totalsOf({ tenantId: 'many-7' })).toEqual([6, 6])
  })

  test('sums over all tenants have no counts of a transaction in progress', async () => {
    const { database } = all.opened.tenancy.kernel
    const rollback = new Error('rollback')
    const transaction = database.transaction(async () => {
      for (const back of [1, 10]) await add(back, 'acme', 'uncommitted', 5)
      expect((await metrics.sums({ key: 'uncommitted' })).total).toBe(0)
      expect((await metrics.sums({ key: 'uncommitted', by: 'tenant' })).total).toBe(0)
      throw rollback
    })
    await expect(transaction).rejects.toBe(rollback)
    expect((await metrics.sums({ key: 'uncommitted' })).total).toBe(0)
  })

  test('concurrent requests for the sums of one tenant share no query', async () => {
    const { database } = all.opened.tenancy.kernel
    const request = { key: 'of-one', by: 'tenant', tenantId: 'acme' } as const
    await database.transaction(async () => {
      await add(0, 'acme', 'of-one', 5)
      const sums = await Promise.all([metrics.sums(request), database.outside(() => metrics.sums(request))])
      expect(sums.map(({ total }) => total)).toEqual([5, 0])
    })
  })

  test('a key without counts and an empty range have no sums', async () => {
    expect(await metrics.sums({ key: 'none' })).toMatchObject({ total: 0, data: [] })
    expect(await metrics.sums({ key: 'none', by: 'tenant' })).toMatchObject({ total: 0, data: [] })
    expect(await metrics.sums({ key: 'pages', from: dayBack(0), to: dayBack(1) })).toMatchObject({ total: 0, data: [] })
  })

  test('the operation rejects a longer range, a missing key and too many tenants', async () => {
    for (const query of [
      'key=pages&from=2020-01-01&to=2021-06-01',
      'by=day',
      'key=pages&top=201',
      'key=pages&by=hour',
    ]) {
      expect((await all.get(`/tenant-metrics/sums?${query}`)).status).toBe(400)
    }
    const response = await all.get('/tenant-metrics/sums?key=pages&by=tenant&top=1')
    expect(await response.json()).toMatchObject({ data: [{ tenantId: 'acme', value: 23 }] })
  })
})
