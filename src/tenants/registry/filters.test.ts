import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { databasePg } from '../../drivers/isolation/database-pg.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { type FakeClock, fakeClock } from '../../testing/base/clock.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { TenantFilter } from './registry.ts'

const plans = { defaultPlan: 'free', definitions: { free: { limits: {} }, pro: { limits: {} } } }

let opened: TestTenancy<[]>
let clock: FakeClock
let createdAt: Date

beforeAll(async () => {
  clock = fakeClock()
  opened = await testTenancy(inject('postgresUrl'), { clock, plans, role: 'api' })
  const { tenants, kernel } = opened.tenancy
  const create = async (id: string, metadata: Record<string, unknown>, name = id) => {
    clock.advance(1_000)
    return tenants.create({ id, name, metadata })
  }
  await create('one', { plan: 'pro', crmId: '4711', seats: 5, address: { city: 'Bern' } }, 'Globex')
  await create('two', { plan: 'free', crmId: 4711, seats: 12_345_678_901_234, isTrial: true }, 'acme')
  createdAt = new Date((await create('three', { 'a.b': 'x"y', gone: null }, 'Initech')).createdAt)
  await create('four', { plan: 'pro' }, 'Hooli')
  await tenants.enterMaintenance('two')
  clock.advance(1_000)
  await tenants.update('one', { name: 'Globex Corp' })
  await kernel.database.sql(
    `update multitenancy.tenants set isolation = 'database-pg', placement = 'eu-1', metadata = metadata || '{"plan":"retired"}' where id = 'four'`,
  )
})
afterAll(() => opened.end())

const idsOf = async (filter: Partial<TenantFilter>) =>
  (await opened.tenancy.tenants.list({ limit: 50, ...filter })).data.map(({ id }) => id)

describe('a filter', () => {
  test.each<[string, Partial<TenantFilter>, string[]]>([
    ['a plan', { plan: 'pro' }, ['one']],
    ['the default plan, with tenants without a defined plan', { plan: 'free' }, ['four', 'three', 'two']],
    ['an isolation driver', { isolation: 'database-pg' }, ['four']],
    ['a placement', { placement: 'eu-1' }, ['four']],
    ['a placement without tenants', { placement: 'nowhere' }, []],
    ['maintenance', { inMaintenance: true }, ['two']],
    ['no maintenance', { inMaintenance: false }, ['four', 'three', 'one']],
    ['a string and a number with the same text', { metadata: { crmId: '4711' } }, ['two', 'one']],
    ['a large number', { metadata: { seats: '12345678901234' } }, ['two']],
    ['a boolean', { metadata: { isTrial: 'true' } }, ['two']],
    ['null', { metadata: { gone: 'null' } }, ['three']],
    ['a key with a dot and a value with a quote', { metadata: { 'a.b': 'x"y' } }, ['three']],
    ['two members', { metadata: { crmId: '4711', seats: '5' } }, ['one']],
    ['part of a value', { metadata: { crmId: '471' } }, []],
    ['an absent key', { metadata: { city: 'Bern' } }, []],
    ['several filters', { plan: 'pro', inMaintenance: false, isolation: 'schema-pg' }, ['one']],
  ])('selects %s', async (_, filter, ids) => {
    expect(await idsOf(filter)).toEqual(ids)
  })

  test('selects times from the start, without the end', async () => {
    const later = new Date(createdAt.getTime() + 1)
    expect(await idsOf({ createdFrom: createdAt })).toEqual(['four', 'three'])
    expect(await idsOf({ createdFrom: later })).toEqual(['four'])
    expect(await idsOf({ createdTo: createdAt })).toEqual(['two', 'one'])
    expect(await idsOf({ createdFrom: createdAt, createdTo: later })).toEqual(['three'])
  })

  test('rejects an undefined plan, and every plan if the host resolves plans', async () => {
    await expect(idsOf({ plan: 'retired' })).rejects.toMatchObject({
      status: 400,
      extras: { errors: [{ path: 'plan', message: 'must be one of free, pro' }] },
    })
    const ofHost = await opened.open({
      isolation: [schemaPg(), databasePg()],
      plans: { ...plans, getPlan: () => 'pro' },
    })
    await expect(ofHost.tenants.list({ limit: 1, plan: 'pro' })).rejects.toMatchObject({
      code: 'E_PLAN_RESOLVED_BY_HOST',
    })
    await expect(ofHost.tenants.overview.counts.get(['plan'])).rejects.toMatchObject({
      code: 'E_PLAN_RESOLVED_BY_HOST',
    })
    expect((await ofHost.tenants.overview.counts.get()).data.filter(({ by }) => by === 'plan')).toEqual([])
  })
})

describe('an order', () => {
  test.each<[TenantFilter['sort'], string[]]>([
    ['-createdAt', ['four', 'three', 'two', 'one']],
    ['-updatedAt', ['one', 'two', 'four', 'three']],
  ])('%s is that of all pages', async (sort, ids) => {
    expect(await pagesOf({ sort })).toEqual(ids)
  })

  test('by name is that of the database, on all pages', async () => {
    const { rows } = await opened.tenancy.kernel.database.sql('select id from multitenancy.tenants order by name')
    expect(await pagesOf({ sort: 'name' })).toEqual(rows.map(({ id }) => id))
  })

  test('a cursor is valid for its order and filters only', async () => {
    const { nextCursor } = await opened.tenancy.tenants.list({ limit: 1, sort: 'name' })
    const cursor = nextCursor ?? ''
    for (const wrong of [{}, { sort: '-updatedAt' }, { sort: 'name', metadata: { crmId: '4711' } }] as const) {
      await expect(opened.tenancy.tenants.list({ limit: 1, cursor, ...wrong })).rejects.toMatchObject({ status: 400 })
    }
  })
})

async function pagesOf(filter: Partial<TenantFilter>): Promise<string[]> {
  const ids: string[] = []
  let cursor: string | undefined
  do {
    const page = await opened.tenancy.tenants.list({ limit: 1, ...filter, cursor })
    ids.push(...page.data.map(({ id }) => id))
    cursor = page.nextCursor ?? undefined
  } while (cursor)
  return ids
}
