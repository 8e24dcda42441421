import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { type FakeClock, fakeClock } from '../../testing/base/clock.ts'
import { installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { Tenants } from '../tenants.ts'
import type { TenantFilter } from './registry.ts'

const DAY_MS = 86_400_000

let opened: TestTenancy<[]>
let tenants: Tenants
let clock: FakeClock

beforeAll(async () => {
  clock = fakeClock()
  opened = await testTenancy(inject('postgresUrl'), { clock })
  tenants = opened.tenancy.tenants
})
afterAll(() => opened.end())
beforeEach(async () => {
  await opened.tenancy.kernel.database.sql('truncate multitenancy.tenants cascade')
})

const create = (id: string, more: { name?: string; domains?: string[] } = {}) =>
  tenants.create({ id, name: id, ...more })
const idsOf = async (filter: Partial<TenantFilter> = {}) =>
  (await tenants.list({ limit: 50, ...filter })).data.map(({ id }) => id)

/** Ids of every page; `between` runs before each page except the first. */
async function pagesOf(filter: Partial<TenantFilter>, between: () => unknown = () => undefined): Promise<string[][]> {
  const pages: string[][] = []
  let cursor: string | undefined
  do {
    if (cursor) await between()
    const page = await tenants.list({ limit: 3, ...filter, cursor })
    pages.push(page.data.map(({ id }) => id))
    cursor = page.nextCursor ?? undefined
  } while (cursor)
  return pages
}

describe('pages', () => {
  test('list the newest tenants first, and the last page has no cursor even if it is full', async () => {
    expect(await pagesOf({})).toEqual([[]])
    for (const id of ['a', 'b', 'c', 'd', 'e', 'f']) {
      clock.advance(1)
      await create(id)
    }
    expect(await pagesOf({})).toEqual([
      ['f', 'e', 'd'],
      ['c', 'b', 'a'],
    ])
  })

  test('contain each of the tenants created in the same millisecond once', async () => {
    const ids = Array.from({ length: 20 }, (_, n) => `same-${String(n).padStart(2, '0')}`)
    await Promise.all(ids.map((id) => create(id)))
    expect((await pagesOf({})).flat()).toEqual(ids.toReversed())
  })

  test('are stable while tenants are added, changed and removed', async () => {
    const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
    for (const id of ids) await create(id)
    let added = 0
    const seen = await pagesOf({}, async () => {
      clock.advance(1)
      await create(`new-${added++}`)
      await tenants.update('a', { name: `changed ${added}` })
      await tenants.delete('h')
    })
    expect(seen.flat()).toEqual(ids.toReversed())
  })

  test('reject a cursor of another list', async () => {
    for (const id of ['a', 'b', 'c', 'd']) await create(id)
    const { nextCursor } = await tenants.list({ limit: 2 })
    const cursor = nextCursor ?? ''
    for (const wrong of [
      { limit: 2, cursor, q: 'a' },
      { limit: 2, cursor, status: 'active' as const },
      { limit: 2, cursor, includeDeleted: true },
      { limit: 2, cursor: `${cursor}x` },
      { limit: 2, cursor: 'W10.W10' },
    ]) {
      await expect(tenants.list(wrong)).rejects.toMatchObject({ status: 400, extras: { errors: [{ path: 'cursor' }] } })
    }
    expect((await tenants.list({ limit: 10, cursor })).data.map(({ id }) => id)).toEqual(['b', 'a'])
  })
})

describe('a search', () => {
  test('finds part of an id, a name or a domain, case-insensitively', async () => {
    await create('by-id')
    await create('one', { name: 'The Name' })
    await create('two', { domains: ['shop.example', 'other.example'] })
    expect(await idsOf({ q: 'Y-I' })).toEqual(['by-id'])
    expect(await idsOf({ q: 'e nAm' })).toEqual(['one'])
    expect(await idsOf({ q: 'HOP.ex' })).toEqual(['two'])
    expect(await idsOf({ q: 'nothing' })).toEqual([])
  })

  test('finds a long word only as a whole', async () => {
    await create('customer-777')
    await create('cus-tom-er-777')
    await create('one', { name: 'Kundenzahlenübersicht' })
    expect(await idsOf({ q: 'customer-777' })).toEqual(['customer-777'])
    expect(await idsOf({ q: 'kundenZAHLENÜBERS' })).toEqual(['one'])
    expect(await idsOf({ q: 'kundenübersicht' })).toEqual([])
  })

  test('finds signs, at the beginning of a value by fewer than three of them', async () => {
    await create('one', { name: '*star, off ... now' })
    await create('two', { name: 'a %%% b' })
    expect(await idsOf({ q: '*' })).toEqual(['one'])
    expect(await idsOf({ q: '*S' })).toEqual(['one'])
    expect(await idsOf({ q: 'f ...' })).toEqual(['one'])
    expect(await idsOf({ q: '%%%' })).toEqual(['two'])
    expect(await idsOf({ q: '%' })).toEqual([])
    expect(await idsOf({ q: '___' })).toEqual([])
  })

  test('finds the beginning of an id, a name or a domain by fewer than three characters', async () => {
    await create('by-id')
    await create('one', { name: 'The Name' })
    await create('two', { domains: ['shop.example', 'other.example'] })
    expect(await idsOf({ q: 'BY' })).toEqual(['by-id'])
    expect(await idsOf({ q: 't' })).toEqual(['two', 'one'])
    expect(await idsOf({ q: 'ot' })).toEqual(['two'])
    expect(await idsOf({ q: 'na' })).toEqual([])
  })

  test.each([
    ['00%', '100% sure'],
    ['e_c', 'snake_case'],
    ['k\\s', 'back\\slash'],
    ['h\\%', 'both\\%'],
    ["O'N", "O'Neil"],
    ['%', '% off'],
    ['_', '_private'],
    ['\\', '\\root'],
  ])('matches %s literally', async (q, name) => {
    const names = [
      '100% sure',
      'snake_case',
      'back\\slash',
      'both\\%',
      "O'Neil",
      '% off',
      '_private',
      '\\root',
      'plain',
    ]
    for (const [index, other] of names.entries()) await create(`n${index}`, { name: other })
    expect((await tenants.list({ limit: 50, q })).data.map((tenant) => tenant.name)).toEqual([name])
  })
})

describe('a filter', () => {
  beforeEach(async () => {
    for (const id of ['active', 'suspended', 'deleted', 'purged']) await installed(opened.tenancy, { id, name: id })
    await tenants.suspend('suspended')
    await tenants.delete('purged')
    clock.advance(31 * DAY_MS)
    await tenants.installation.purge('purged')
    await tenants.delete('deleted')
  })

  test('excludes deleted tenants by default, and purged tenants always', async () => {
    expect((await idsOf()).sort()).toEqual(['active', 'suspended'])
    expect((await idsOf({ includeDeleted: true })).sort()).toEqual(['active', 'deleted', 'suspended'])
    expect(await idsOf({ q: 'e', includeDeleted: true })).not.toContain('purged')
    for (const status of ['active', 'suspended', 'deleted'] as const) expect(await idsOf({ status })).toEqual([status])
    expect(await idsOf({ status: 'failed' })).toEqual([])
    expect(await tenants.registry.countByStatus()).toEqual({ active: 1, suspended: 1, deleted: 1 })
  })
})
