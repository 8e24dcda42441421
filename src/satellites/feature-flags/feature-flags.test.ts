/** Changes of flags by an administrator, and their records. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { ChangeRecorded } from '../../kernel/events/changes.ts'
import type { EventOf } from '../../kernel/events/events.ts'
import { fakeClock } from '../../testing/base/clock.ts'
import type { TestTenancy } from '../../testing/base/tenancy.ts'
import { type Api, apiOf, type FlagsTenancy, openFlags } from './flags.fixture.ts'
import { FeatureFlagChanged, featureFlags } from './index.ts'

const DAY_MS = 86_400_000
const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

const clock = fakeClock()
const changes: EventOf<typeof ChangeRecorded>[] = []
const events: EventOf<typeof FeatureFlagChanged>[] = []
let opened: TestTenancy<[ReturnType<typeof featureFlags>]>
let tenancy: FlagsTenancy
let api: Api
let made = 0

beforeAll(async () => {
  opened = await openFlags(inject('postgresUrl'), { clock })
  tenancy = opened.tenancy
  api = apiOf(tenancy)
  tenancy.on(ChangeRecorded, (change) => void changes.push(change))
  tenancy.on(FeatureFlagChanged, (event) => void events.push(event))
})
afterAll(() => opened.end())

async function newTenant(): Promise<string> {
  const id = `tenant-${++made}`
  await tenancy.tenants.create({ id, name: 'Acme' })
  return id
}
const pathOf = (id: string, key = 'new-checkout') => `/tenants/${id}/feature-flags/${key}`
const put = (id: string, body: unknown, key?: string) => api.call('PUT', pathOf(id, key), body)
const refusal = (code: string) => expect.objectContaining({ code })
const recordedOf = (id: string) =>
  changes
    .filter(({ action, tenantId }) => action.startsWith('featureFlags.') && tenantId === id)
    .map(({ action, target, before, after }) => ({ action, target, before, after }))
const eventsOf = (id: string) =>
  events.filter(({ tenantId }) => tenantId === id).map(({ key, before, after }) => ({ key, before, after }))
const rowsOf = async (id: string) =>
  (await tenancy.kernel.database.sql('select key from multitenancy.feature_flags where tenant_id = $1', [id])).rows

describe('a flag', () => {
  test('a flag is created by the first write and replaced by the next', async () => {
    const id = await newTenant()
    const first = await api.send('PUT', pathOf(id), { enabled: true, rolloutPercent: 25, bucketKey: 'userId' })
    expect(first.status).toBe(201)
    expect(first.headers.get('location')).toBe(`/admin/multitenancy${pathOf(id)}`)
    const flag = (await first.json()) as object
    const at = clock.now().toISOString()
    expect(flag).toEqual({
      id: expect.stringMatching(UUID_V4),
      tenantId: id,
      key: 'new-checkout',
      enabled: true,
      rolloutPercent: 25,
      bucketKey: 'userId',
      createdAt: at,
      updatedAt: at,
    })
    clock.advance(1_000)
    const [again, changed] = await put(id, { enabled: true })
    expect(again).toBe(200)
    const updatedAt = clock.now().toISOString()
    expect(changed).toEqual({ ...flag, rolloutPercent: null, bucketKey: null, updatedAt })
  })

  test('a flag accepts either spelling of its members, and both if they are equal', async () => {
    const id = await newTenant()
    const settings = { enabled: true, rolloutPercent: 10, bucketKey: 'userId' }
    const snake = { enabled: true, rollout_percent: 10, bucket_key: 'userId' }
    expect(await put(id, snake)).toMatchObject([201, settings])
    expect(await put(id, { ...snake, ...settings })).toMatchObject([200, settings])
    for (const both of [
      { enabled: true, rolloutPercent: 10, rollout_percent: 11 },
      { enabled: true, rolloutPercent: 0, rollout_percent: null },
      { enabled: true, bucketKey: null, bucket_key: 'userId' },
    ]) {
      expect(await put(id, both)).toMatchObject([400, { code: 'E_INVALID_REQUEST' }])
    }
    expect(await put(id, { enabled: true, rolloutPercent: 0 })).toMatchObject([200, { rolloutPercent: 0 }])
  })

  test.each([
    [{}],
    [{ enabled: 'true' }],
    [{ enabled: null }],
    [{ enabled: true, rolloutPercent: 101 }],
    [{ enabled: true, rolloutPercent: -1 }],
    [{ enabled: true, rolloutPercent: 0.5 }],
    [{ enabled: true, rolloutPercent: '50' }],
    [{ enabled: true, bucketKey: '' }],
    [{ enabled: true, bucketKey: 'x'.repeat(129) }],
    [{ enabled: true, tenantId: 'another' }],
    [[]],
    [null],
  ])('a flag is rejected as %j', async (body) => {
    const id = await newTenant()
    expect(await put(id, body)).toMatchObject([400, { code: 'E_INVALID_REQUEST' }])
    await expect(tenancy.featureFlags.set(id, 'new-checkout', body as never)).rejects.toMatchObject({
      code: 'E_INVALID_REQUEST',
    })
    expect(await rowsOf(id)).toEqual([])
  })

  test('a key has letters, digits and a few punctuation marks', async () => {
    const id = await newTenant()
    for (const key of ['a%2Fb', '.a', '-a', '_a', 'a%20b', 'a:b', 'ä', 'x'.repeat(129), '__proto__']) {
      for (const [method, body] of [
        ['PUT', { enabled: true }],
        ['DELETE', undefined],
      ] as const) {
        expect((await api.call(method, pathOf(id, key), body))[0], `${method} ${key}`).toBe(400)
      }
    }
    for (const key of ['a', '0', 'A.b_c-D', 'constructor', 'x'.repeat(128)]) {
      expect((await put(id, { enabled: true }, key))[0], key).toBe(201)
      expect(await tenancy.featureFlags.isEnabled(key, { tenantId: id })).toBe(true)
    }
  })

  test('a change is recorded and published with the former state', async () => {
    const id = await newTenant()
    await put(id, { enabled: false })
    await put(id, { enabled: false })
    await put(id, { enabled: true, rolloutPercent: 5 })
    await api.call('DELETE', pathOf(id))
    const off = { enabled: false, rolloutPercent: null, bucketKey: null }
    const some = { enabled: true, rolloutPercent: 5, bucketKey: null }
    const steps = [
      { before: null, after: off },
      { before: off, after: some },
      { before: some, after: null },
    ]
    const actions = ['featureFlags.set', 'featureFlags.set', 'featureFlags.delete']
    const target = 'featureFlag:new-checkout'
    expect(recordedOf(id)).toEqual(steps.map((step, index) => ({ action: actions[index], target, ...step })))
    expect(eventsOf(id)).toEqual(steps.map((step) => ({ key: 'new-checkout', ...step })))
  })

  test('a deleted flag is gone, and cannot be deleted again', async () => {
    const id = await newTenant()
    await put(id, { enabled: true })
    expect(await tenancy.featureFlags.isEnabled('new-checkout', { tenantId: id })).toBe(true)
    expect((await api.call('DELETE', pathOf(id)))[0]).toBe(204)
    expect(await tenancy.featureFlags.isEnabled('new-checkout', { tenantId: id })).toBe(false)
    expect(await api.call('DELETE', pathOf(id))).toMatchObject([404, { code: 'E_FLAG_NOT_FOUND' }])
  })

  test('an edit changes only the named members', async () => {
    const id = await newTenant()
    const { featureFlags: flags } = tenancy
    expect(await flags.edit(id, 'new-checkout', { rolloutPercent: 5 })).toMatchObject({
      isCreated: true,
      flag: { enabled: false, rolloutPercent: 5 },
    })
    expect(await flags.edit(id, 'new-checkout', { enabled: true })).toMatchObject({
      isCreated: false,
      flag: { enabled: true, rolloutPercent: 5 },
    })
  })
})

describe('flags', () => {
  test('flags are listed by key in pages', async () => {
    const id = await newTenant()
    const keys = ['B', 'a', 'a.b', 'a-b', 'a0', 'zz', 'Z_9']
    for (const key of keys) await put(id, { enabled: true }, key)
    const listed: string[] = []
    let cursor = ''
    for (;;) {
      const [status, { data, nextCursor }] = await api.call('GET', `/tenants/${id}/feature-flags?limit=2${cursor}`)
      expect(status).toBe(200)
      listed.push(...data.map(({ key }: { key: string }) => key))
      if (nextCursor === null) break
      cursor = `&cursor=${nextCursor}`
    }
    expect(listed).toEqual(keys.toSorted())
    const other = await newTenant()
    expect((await api.call('GET', `/tenants/${other}/feature-flags?limit=2${cursor}`))[0]).toBe(400)
    expect(await api.call('GET', `/tenants/${other}/feature-flags`)).toMatchObject([
      200,
      { data: [], nextCursor: null },
    ])
  })

  test('each tenant has separate flags', async () => {
    const [one, other] = [await newTenant(), await newTenant()]
    await put(one, { enabled: true })
    const isOn = (tenantId: string) => tenancy.featureFlags.isEnabled('new-checkout', { tenantId })
    expect(await Promise.all([isOn(one), isOn(other)])).toEqual([true, false])
  })
})

describe('a tenant', () => {
  test('an unknown tenant has no flags, and none can be created', async () => {
    for (const [method, path] of [
      ['GET', '/tenants/unknown/feature-flags'],
      ['PUT', pathOf('unknown')],
      ['DELETE', pathOf('unknown')],
    ] as const) {
      const body = method === 'PUT' ? { enabled: true } : undefined
      expect(await api.call(method, path, body)).toEqual([404, refusal('E_TENANT_NOT_FOUND')])
    }
    expect(await api.call('POST', `${pathOf('unknown')}/evaluate`)).toMatchObject([200, { reason: 'FLAG_NOT_FOUND' }])
  })

  test('a deleted tenant keeps its flags unchanged', async () => {
    const id = await newTenant()
    await put(id, { enabled: true })
    await tenancy.tenants.delete(id)
    expect(await put(id, { enabled: false })).toMatchObject([409, { code: 'E_TENANT_STATE', from: 'deleted' }])
    expect(await api.call('DELETE', pathOf(id))).toMatchObject([409, { code: 'E_TENANT_STATE' }])
    await tenancy.tenants.restore(id)
    expect(await api.call('GET', `/tenants/${id}/feature-flags`)).toMatchObject([200, { data: [{ enabled: true }] }])
  })

  test('a purge removes all flags of the tenant', async () => {
    const id = await newTenant()
    await put(id, { enabled: true })
    expect(await tenancy.featureFlags.isEnabled('new-checkout', { tenantId: id })).toBe(true)
    await tenancy.tenants.delete(id)
    clock.advance(31 * DAY_MS)
    await tenancy.tenants.installation.purge(id)
    expect(await rowsOf(id)).toEqual([])
    expect(await tenancy.featureFlags.explain('new-checkout', { tenantId: id })).toMatchObject({
      reason: 'FLAG_NOT_FOUND',
    })
  })
})

describe('concurrent writes', () => {
  test('of a new flag create it once, and none fails', async () => {
    const id = await newTenant()
    const statuses = await Promise.all(
      Array.from({ length: 20 }, async (_, n) => (await put(id, { enabled: true, rolloutPercent: n }))[0]),
    )
    expect(statuses.toSorted()).toEqual([...Array.from({ length: 19 }, () => 200), 201])
    const chain = recordedOf(id).toSorted((one, other) => Number(one.before !== null) - Number(other.before !== null))
    expect(chain).toHaveLength(20)
    const percents = (images: readonly any[]) => images.map((image) => image?.rolloutPercent).toSorted()
    const [{ data }] = [(await api.call('GET', `/tenants/${id}/feature-flags`))[1]]
    // Each write recorded the state of its predecessor; the last state is stored.
    expect(percents(chain.slice(1).map(({ before }) => before))).toEqual(
      percents(chain.map(({ after }) => after).filter((after) => after?.rolloutPercent !== data[0].rolloutPercent)),
    )
  })

  test('a rolled-back write changes nothing', async () => {
    const id = await newTenant()
    const failing = tenancy.transaction(async () => {
      await tenancy.featureFlags.set(id, 'new-checkout', { enabled: true })
      expect(await tenancy.featureFlags.isEnabled('new-checkout', { tenantId: id })).toBe(true)
      throw new Error('the host rolls back')
    })
    await expect(failing).rejects.toThrow('rolls back')
    expect(await tenancy.featureFlags.isEnabled('new-checkout', { tenantId: id })).toBe(false)
    expect([recordedOf(id), eventsOf(id)]).toEqual([[], []])
  })
})

describe('an evaluation', () => {
  test('has a reason, and takes the tenant from the path only', async () => {
    const [id, other] = [await newTenant(), await newTenant()]
    await put(id, { enabled: true, rolloutPercent: 50, bucketKey: 'plan' })
    const evaluated = (body?: unknown) => api.call('POST', `${pathOf(id)}/evaluate`, body)
    expect(await evaluated({ attributes: { plan: 'pro' } })).toMatchObject([
      200,
      { enabled: expect.any(Boolean), reason: 'SPLIT', bucket: expect.any(Number), rolloutPercent: 50 },
    ])
    const byTenant = (await evaluated({ bucketKey: id }))[1]
    expect((await evaluated())[1]).toEqual({ ...byTenant, valueFrom: 'tenantId' })
    expect(byTenant).toMatchObject({ key: 'new-checkout', value: id, valueFrom: 'bucketKey' })
    expect((await evaluated({ bucketKey: 7 }))[1]).toEqual((await evaluated({ bucketKey: '7' }))[1])
    for (const body of [{ tenantId: other }, { context: {} }, { bucketKey: true }, { attributes: [] }, []]) {
      expect(await evaluated(body)).toMatchObject([400, { code: 'E_INVALID_REQUEST' }])
    }
    await put(id, { enabled: false })
    const disabled = { enabled: false, reason: 'DISABLED', bucket: null, rolloutPercent: null }
    expect((await evaluated())[1]).toEqual({ ...disabled, key: 'new-checkout', value: null, valueFrom: null })
  })

  test('of __proto__ and constructor reads own members only', async () => {
    const id = await newTenant()
    const evaluated = async (text: string) => (await api.call('POST', `${pathOf(id)}/evaluate`, text))[1]
    for (const name of ['__proto__', 'constructor']) {
      await put(id, { enabled: true, rolloutPercent: 50, bucketKey: name })
      const bare = await evaluated('{"bucketKey":"ann"}')
      expect(await evaluated('{"bucketKey":"ann","attributes":{}}')).toEqual(bare)
      const { bucket } = await tenancy.featureFlags.explain('new-checkout', { tenantId: id, bucketKey: 'bob' })
      expect(await evaluated(`{"bucketKey":"ann","attributes":{"${name}":"bob"}}`)).toMatchObject({ bucket })
    }
  })

  test('is counted by its reason', async () => {
    const id = await newTenant()
    const counted = async () => {
      const text = await api.text('/metrics')
      const samples = text.matchAll(/^multitenancy_flag_evaluations_total\{reason="(\w+)"\} (\d+)$/gm)
      return Object.fromEntries([...samples].map(([, reason = '', value]) => [reason, Number(value)]))
    }
    const ask = () => tenancy.featureFlags.isEnabled('new-checkout', { tenantId: id })
    const before = await counted()
    await ask()
    for (const settings of [{ enabled: true }, { enabled: false }, { enabled: true, rolloutPercent: 1 }]) {
      await tenancy.featureFlags.set(id, 'new-checkout', settings)
      await ask()
      await ask()
    }
    const after = await counted()
    const risen = Object.fromEntries(Object.entries(after).map(([reason, n]) => [reason, n - (before[reason] ?? 0)]))
    expect(risen).toEqual({ STATIC: 2, SPLIT: 2, DISABLED: 2, FLAG_NOT_FOUND: 1, STALE: 0, ERROR: 0 })
  })

  test('of an invalid flag or tenant is off', async () => {
    const id = await newTenant()
    for (const [key, tenantId] of [
      ['a/b', id],
      ['', id],
      [undefined, id],
      ['new-checkout', 'No Id'],
      ['new-checkout', undefined],
      ['new-checkout', 'unknown'],
    ] as [string, string][]) {
      expect(await tenancy.featureFlags.isEnabled(key, { tenantId })).toBe(false)
      expect(await tenancy.featureFlags.explain(key, { tenantId })).toMatchObject({ reason: 'FLAG_NOT_FOUND' })
    }
  })
})

test('an invalid time to live is rejected', () => {
  expect(() => featureFlags({ cacheTtl: 0 })).toThrow('featureFlags.cacheTtl')
  expect(() => featureFlags({ cachettl: 60 } as never)).toThrow('featureFlags')
})
