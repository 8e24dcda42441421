/** Flags of all tenants by key, and previews of unsaved rollouts. */
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import type { TestTenancy } from '../../testing/base/tenancy.ts'
import { KeyCounts } from './cache/key-counts.ts'
import { type Api, apiOf, type FlagsTenancy, openFlags } from './flags.fixture.ts'
import type { featureFlags } from './index.ts'
import { bucketOf } from './model/rollout.ts'

let opened: TestTenancy<[ReturnType<typeof featureFlags>]>
let tenancy: FlagsTenancy
let api: Api

beforeAll(async () => {
  opened = await openFlags(inject('postgresUrl'))
  tenancy = opened.tenancy
  api = apiOf(tenancy)
  for (const id of ['one', 'two', 'three']) await tenancy.tenants.create({ id, name: id })
})
afterAll(() => opened.end())
beforeEach(() => tenancy.kernel.database.sql('delete from multitenancy.feature_flags'))

const set = (id: string, key: string, rolloutPercent: number | null | false) =>
  tenancy.featureFlags.set(id, key, {
    enabled: rolloutPercent !== false,
    rolloutPercent: rolloutPercent === false ? null : rolloutPercent,
  })

describe('flags of all tenants', () => {
  test('the list of keys counts tenants by state, in pages by key', async () => {
    await set('one', 'editor', null)
    await set('two', 'editor', 10)
    await set('three', 'editor', false)
    await set('one', 'banner', null)
    const first = await tenancy.featureFlags.listKeys({ limit: 1 })
    expect(first.data).toEqual([{ key: 'banner', tenants: 1, on: 1, inRollout: 0, off: 0 }])
    const next = await tenancy.featureFlags.listKeys({ limit: 1, cursor: first.nextCursor ?? '' })
    expect(next).toEqual({
      data: [{ key: 'editor', tenants: 3, on: 1, inRollout: 1, off: 1 }],
      nextCursor: null,
    })
  })

  test('keys are found by a part in any case, in pages', async () => {
    for (const key of ['Editor-new', 'banner', 'new-editor', 'old.EDITOR', 'e_d']) await set('one', key, null)
    const keysOf = async (options: object) => (await tenancy.featureFlags.listKeys(options)).data.map(({ key }) => key)
    expect(await keysOf({ q: 'edit' })).toEqual(['Editor-new', 'new-editor', 'old.EDITOR'])
    expect(await keysOf({ q: '_' })).toEqual(['e_d'])
    expect(await keysOf({ q: '%' })).toEqual([])
    const { nextCursor } = await tenancy.featureFlags.listKeys({ q: 'edit', limit: 2 })
    expect(await keysOf({ q: 'edit', limit: 2, cursor: nextCursor })).toEqual(['old.EDITOR'])
    expect(await keysOf({ limit: 200 })).toHaveLength(5)
  })

  test('a search continues after the keys that one page compares', async () => {
    await tenancy.kernel.database.sql(
      `insert into multitenancy.feature_flags (id, tenant_id, key, enabled, created_at, updated_at)
       select gen_random_uuid(), 'one', 'key-' || lpad(n::text, 5, '0'), true, now(), now() from generate_series(1, 10000) n`,
    )
    await set('one', 'new-editor', null)
    await set('one', 'old-editor', null)
    const page = async (limit: number, cursor?: string) => {
      const { data, nextCursor } = await tenancy.featureFlags.listKeys({ q: 'edit', limit, cursor })
      return { keys: data.map(({ key }) => key), cursor: nextCursor ?? undefined }
    }
    const first = await page(1)
    expect(first).toEqual({ keys: [], cursor: expect.any(String) })
    expect(await page(2, first.cursor)).toEqual({ keys: ['new-editor', 'old-editor'], cursor: undefined })
    const second = await page(1, first.cursor)
    expect(second).toEqual({ keys: ['new-editor'], cursor: expect.any(String) })
    expect(await page(1, second.cursor)).toEqual({ keys: ['old-editor'], cursor: undefined })
  })

  test('a key that is deleted while a page is read does not end the list', async () => {
    for (const key of ['a', 'b', 'c']) await set('one', key, null)
    const { database, cursors } = tenancy.kernel
    const deleting = {
      sql: async (text: string, values: unknown[]) => {
        const read = await database.sql(text, values)
        await database.sql(`delete from multitenancy.feature_flags where key = 'a'`)
        return read
      },
    }
    const { data, nextCursor } = await new KeyCounts({ cursors, database: deleting as never }).list({ limit: 2 })
    expect(data.map(({ key }) => key)).toEqual(['b'])
    const next = await tenancy.featureFlags.listKeys({ limit: 2, cursor: nextCursor ?? '' })
    expect(next).toMatchObject({ data: [{ key: 'c' }], nextCursor: null })
  })

  test('the counts of a key of many tenants are read once', async () => {
    const database = tenancy.kernel.database
    const many = [...Array(10_000).keys()].map((number) => `many-${number}`)
    await database.sql(
      `insert into multitenancy.tenants (id, name, status, metadata, domains, locator, isolation, placement, created_at, updated_at)
       select id, id, 'active', '{}', '{}', 'of_' || id, 'schema-pg', 'main', now(), now() from unnest($1::text[]) id`,
      [many],
    )
    await database.sql(
      `insert into multitenancy.feature_flags (id, tenant_id, key, enabled, created_at, updated_at)
       select gen_random_uuid(), id, 'common', true, now(), now() from unnest($1::text[]) id`,
      [many],
    )
    await set('one', 'rare', null)
    const countsOf = async () =>
      (await tenancy.featureFlags.listKeys()).data.map(({ key, on, off }) => [key, on, off].join(' '))
    expect(await countsOf()).toEqual(['common 10000 0', 'rare 1 0'])
    await set('one', 'common', false)
    await set('one', 'rare', false)
    expect(await countsOf()).toEqual(['common 10000 0', 'rare 0 1'])
    await database.sql(`delete from multitenancy.feature_flags where key = 'common'`)
    expect(await countsOf()).toEqual(['rare 0 1'])
  })

  test('the tenants of a key are listed in pages by id, and filtered by state', async () => {
    for (const [id, percent] of [
      ['one', null],
      ['two', 10],
      ['three', false],
    ] as const)
      await set(id, 'editor', percent)
    await set('one', 'banner', null)
    const idsOf = async (options = {}) => {
      const { data, nextCursor } = await tenancy.featureFlags.listTenants('editor', options)
      return [...data.map(({ tenantId }) => tenantId), nextCursor !== null]
    }
    expect(await idsOf()).toEqual(['one', 'three', 'two', false])
    expect(await idsOf({ enabled: true })).toEqual(['one', 'two', false])
    expect(await idsOf({ enabled: false })).toEqual(['three', false])
    expect(await idsOf({ limit: 2 })).toEqual(['one', 'three', true])
    const { nextCursor } = await tenancy.featureFlags.listTenants('editor', { limit: 2 })
    expect(await idsOf({ limit: 2, cursor: nextCursor })).toEqual(['two', false])
    const ofOther = tenancy.featureFlags.listTenants('banner', { limit: 2, cursor: nextCursor ?? '' })
    await expect(ofOther).rejects.toThrow(expect.objectContaining({ code: 'E_INVALID_REQUEST' }))
  })

  test('an unknown key has no tenants', async () => {
    expect(await tenancy.featureFlags.listTenants('unknown')).toEqual({ data: [], nextCursor: null })
  })
})

describe('a preview', () => {
  const values = Array.from({ length: 1_000 }, (_, number) => `user-${number}`)

  test('a preview has the result that evaluations have after the rollout is saved, and saves nothing', async () => {
    await set('one', 'editor', 5)
    const preview = await tenancy.featureFlags.preview('one', 'editor', { rolloutPercent: 30, bucketKeys: values })
    expect((await tenancy.featureFlags.get('one', 'editor')).rolloutPercent).toBe(5)
    await set('one', 'editor', 30)
    for (const [index, one] of preview.data.entries()) {
      const context = { tenantId: 'one', bucketKey: values[index] ?? '' }
      const { enabled, reason, bucket, value } = await tenancy.featureFlags.explain('editor', context)
      expect(one).toMatchObject({ enabled, reason, bucket, value })
    }
    expect(preview.on).toBe(preview.data.filter(({ enabled }) => enabled).length)
    expect(preview.on).toBeGreaterThan(200)
    expect(preview.on).toBeLessThan(400)
  })

  test('a value is off below onFromPercent and on from it', async () => {
    const bucketKeys = values.slice(0, 20)
    const { data } = await tenancy.featureFlags.preview('one', 'editor', {
      enabled: true,
      rolloutPercent: 0,
      bucketKeys,
    })
    for (const { value, onFromPercent } of data) {
      const isOn = async (rolloutPercent: number) =>
        (await tenancy.featureFlags.preview('one', 'editor', { enabled: true, rolloutPercent, bucketKeys: [value] }))
          .data[0]?.enabled
      expect(await isOn(onFromPercent - 1)).toBe(false)
      expect(await isOn(onFromPercent)).toBe(true)
    }
  })

  test('absent members are those of the present flag, and a flag that does not exist is off', async () => {
    await set('one', 'editor', null)
    const of = async (request: object) => {
      const { data, ...rest } = await tenancy.featureFlags.preview('one', 'editor', { bucketKeys: ['a'], ...request })
      return { ...rest, reason: data[0]?.reason }
    }
    expect(await of({})).toEqual({ enabled: true, rolloutPercent: null, on: 1, reason: 'STATIC' })
    expect(await of({ enabled: false })).toEqual({ enabled: false, rolloutPercent: null, on: 0, reason: 'DISABLED' })
    expect(await of({ rolloutPercent: 100 })).toEqual({ enabled: true, rolloutPercent: 100, on: 1, reason: 'SPLIT' })
    const unknown = await tenancy.featureFlags.preview('one', 'unknown', { bucketKeys: ['a'] })
    expect(unknown).toMatchObject({ enabled: false, on: 0, data: [{ bucket: bucketOf('unknown', 'a') }] })
  })

  test('a preview hashes numbers as evaluations do, and rejects more than 1,000 values', async () => {
    const { data } = await tenancy.featureFlags.preview('one', 'editor', { bucketKeys: [1e21] })
    expect(data).toMatchObject([{ value: '1e+21', bucket: bucketOf('editor', '1e+21') }])
    const body = { bucketKeys: [...values, 'one more'] }
    const response = await api.send('POST', '/tenants/one/feature-flags/editor/preview', body)
    expect(response.status).toBe(400)
  })
})
