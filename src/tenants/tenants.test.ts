import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Recorded, recorded } from '../../test/support/recorded.ts'
import { type FakeClock, fakeClock } from '../testing/base/clock.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../testing/base/tenancy.ts'
import type { Tenants } from './tenants.ts'

let opened: TestTenancy<[]>
let tenants: Tenants
let clock: FakeClock
let published: Recorded

beforeAll(async () => {
  clock = fakeClock()
  opened = await testTenancy(inject('postgresUrl'), { clock })
  tenants = opened.tenancy.tenants
  published = recorded(opened.tenancy)
})
afterAll(() => opened.end())

describe('a new tenant', () => {
  test('is provisioning, then active, with one event per step', async () => {
    const now = clock.now().toISOString()
    const created = await tenants.create({ id: 'acme', name: '  Acme  ', metadata: { seats: 3 } })
    expect(created).toEqual({
      id: 'acme',
      name: 'Acme',
      status: 'provisioning',
      metadata: { seats: 3 },
      domains: [],
      isolation: 'schema-pg',
      placement: 'main',
      maintenance: null,
      createdAt: now,
      updatedAt: now,
      activatedAt: null,
      suspendedAt: null,
      deletedAt: null,
      purgeAt: null,
      failure: null,
    })
    const settled = await tenants.waitUntilInstalled('acme', AbortSignal.timeout(10_000))
    expect(settled).toEqual({ ...created, status: 'active', activatedAt: now })
    expect(await tenants.get('acme')).toEqual(settled)
    expect(await published.until('acme', 'TenantProvisioned')).toEqual([
      'tenants.create',
      'TenantCreated',
      'tenants.install',
      'TenantProvisioned',
    ])
  })

  test('has a time-ordered id by default', async () => {
    const { id: first } = await tenants.create({ name: 'One' })
    clock.advance(1)
    const { id: second } = await tenants.create({ name: 'Two' })
    expect(first).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    expect(second > first).toBe(true)
  })

  test('with a taken id is rejected without a change or an event', async () => {
    await installed(opened.tenancy, { id: 'taken', name: 'First' })
    await published.until('taken', 'TenantProvisioned')
    const second = tenants.create({ id: 'taken', name: 'Second', domains: ['taken.example'] })
    await expect(second).rejects.toMatchObject({ code: 'E_TENANT_EXISTS', status: 409 })
    expect(await tenants.get('taken')).toMatchObject({ name: 'First', domains: [] })
    expect(published.of('taken')).toEqual([])
    await tenants.create({ id: 'other', name: 'Other', domains: ['taken.example'] })
  })

  test('is created once for ten concurrent requests', async () => {
    const attempts = await Promise.allSettled(
      Array.from({ length: 10 }, (_, n) => tenants.create({ id: 'popular', name: `Caller ${n}` })),
    )
    const lost = attempts.filter(({ status }) => status === 'rejected')
    expect(lost).toHaveLength(9)
    for (const { reason } of lost as PromiseRejectedResult[]) expect(reason).toMatchObject({ code: 'E_TENANT_EXISTS' })
    await tenants.waitUntilInstalled('popular', AbortSignal.timeout(10_000))
    expect(await published.until('popular', 'TenantProvisioned')).toEqual([
      'tenants.create',
      'TenantCreated',
      'tenants.install',
      'TenantProvisioned',
    ])
  })

  test.each([
    ['an id in capitals', { id: 'Acme', name: 'x' }, 'id'],
    ['an id of 49 characters', { id: 'a'.repeat(49), name: 'x' }, 'id'],
    ['an id that starts with a hyphen', { id: '-acme', name: 'x' }, 'id'],
    ['no name', { name: '   ' }, 'name'],
    ['a name of 201 characters', { name: 'x'.repeat(201) }, 'name'],
    ['metadata that is a list', { name: 'x', metadata: [1] as never }, 'metadata'],
    ['metadata over 16 KiB', { name: 'x', metadata: { note: 'é'.repeat(8 * 1024) } }, 'metadata'],
    ['an unknown driver', { name: 'x', isolation: 'paper' }, 'isolation'],
    ['an unknown placement', { name: 'x', placement: 'moon' }, 'placement'],
    ['an unknown plan', { name: 'x', metadata: { plan: 'platinum' } }, 'metadata.plan'],
    ['a plan that is not a text', { name: 'x', metadata: { plan: 7 } } as never, 'metadata.plan'],
    [
      'a plan with the name of a member of Object.prototype',
      { name: 'x', metadata: { plan: 'constructor' } },
      'metadata.plan',
    ],
    ['an unknown member', { name: 'x', color: 'red' } as never, ''],
  ])('with %s is rejected', async (_, request, path) => {
    const creation = tenants.create(request)
    await expect(creation).rejects.toMatchObject({ code: 'E_INVALID_REQUEST', status: 400 })
    await expect(creation).rejects.toMatchObject({ extras: { errors: [{ path }] } })
  })

  test.each([
    { name: 'NUL \0' },
    { name: 'half \ud800' },
    { name: 'Acme', metadata: { note: 'NUL \0' } },
    { name: 'Acme', metadata: { 'half \udc00': [1] } },
    { name: 'Acme', metadata: { big: 1n } },
  ])('is rejected with text that PostgreSQL cannot store, in code and over HTTP: %o', async (request) => {
    await expect(tenants.create(request)).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
  })

  test('can have an id of 48 characters and metadata of exactly 16 KiB', async () => {
    const id = 'z'.repeat(48)
    const metadata = { note: 'x'.repeat(16 * 1024 - '{"note":""}'.length) }
    const tenant = await installed(opened.tenancy, { id, name: 'x'.repeat(200), metadata })
    expect(tenant).toMatchObject({ id, status: 'active', metadata })
  })

  test('is not created by a transaction that fails', async () => {
    const failing = opened.tenancy.transaction(async () => {
      await tenants.create({ id: 'dreamt', name: 'Dreamt' })
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    await expect(tenants.get('dreamt')).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND', status: 404 })
    expect(published.of('dreamt')).toEqual([])
    expect(await opened.tenancy.kernel.jobs.counts('dreamt')).toEqual([])
  })
})

describe('an update', () => {
  const edited = async (id: string, change: Parameters<Tenants['update']>[1]) => {
    published.of(id)
    clock.advance(1_000)
    return tenants.update(id, change)
  }
  const create = async (id: string, metadata: Record<string, unknown> = {}) => {
    const tenant = await installed(opened.tenancy, { id, name: id, metadata })
    await published.until(id, 'TenantProvisioned')
    return tenant
  }

  test('changes only the given members and records old and new values', async () => {
    const before = await create('renamed', { a: 1 })
    const after = await edited('renamed', { name: 'New name' })
    expect(after).toEqual({ ...before, name: 'New name', updatedAt: clock.now().toISOString() })
    expect(published.of('renamed')).toEqual(['tenants.update', 'TenantUpdated'])
    expect(published.changes.at(-1)).toMatchObject({ before: { name: 'renamed' }, after: { name: 'New name' } })
    expect(published.changes.at(-1)?.after).not.toHaveProperty('metadata')
    expect(published.events.at(-1)).toMatchObject({ changed: ['name'] })
  })

  test('of metadata is a merge patch: members are replaced, objects merged, null removes', async () => {
    await create('patched', { keep: 1, gone: 2, deep: { keep: [1, 2], gone: true }, list: [1, 2, 3] })
    const { metadata } = await edited('patched', {
      metadata: { gone: null, deep: { gone: null, added: { x: null, y: 1 } }, list: [{ x: null }], missing: null },
    })
    expect(metadata).toEqual({ keep: 1, deep: { keep: [1, 2], added: { y: 1 } }, list: [{ x: null }] })
    expect((await tenants.get('patched')).metadata).toEqual(metadata)
  })

  test('without a change writes and publishes nothing, with any order of keys', async () => {
    const list = [{ longKey: 1, b: { d: 1, c: [2] } }]
    const before = await create('steady', { plan: 'free', list })
    for (const change of [
      {},
      { name: 'steady' },
      { metadata: {} },
      { domains: [] },
      { metadata: { missing: null, plan: 'free', list: [{ b: { c: [2], d: 1 }, longKey: 1 }] } },
    ]) {
      expect(await edited('steady', change)).toEqual(before)
      expect(published.of('steady')).toEqual([])
    }
  })

  test('keeps members named __proto__ and constructor as plain data', async () => {
    const metadata = JSON.parse('{"__proto__": {"isAdmin": true}, "constructor": {"prototype": {"a": 1}}}')
    const text = JSON.stringify(metadata)
    await create('odd', metadata)
    expect(JSON.stringify((await tenants.get('odd')).metadata)).toBe(text)
    await edited('odd', { metadata: JSON.parse('{"deep": {"__proto__": {"b": 2}}, "__proto__": {"c": 3}}') })
    const kept = (await tenants.get('odd')).metadata
    expect(Object.getOwnPropertyDescriptor(kept, '__proto__')?.value).toEqual({ isAdmin: true, c: 3 })
    expect(Object.keys(kept.deep as object)).toEqual(['__proto__'])
    expect(Object.getPrototypeOf(kept)).toBe(Object.prototype)
    expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined()
    await edited('odd', { metadata: JSON.parse('{"__proto__": null, "constructor": null, "deep": null}') })
    expect(Object.keys((await tenants.get('odd')).metadata)).toEqual([])
  })

  test('cannot increase metadata above 16 KiB step by step', async () => {
    await create('growing')
    await edited('growing', { metadata: { first: 'x'.repeat(8 * 1024) } })
    const second = edited('growing', { metadata: { second: 'x'.repeat(8 * 1024) } })
    await expect(second).rejects.toMatchObject({
      code: 'E_INVALID_REQUEST',
      extras: { errors: [{ path: 'metadata' }] },
    })
    expect(Object.keys((await tenants.get('growing')).metadata)).toEqual(['first'])
  })

  test('of a deleted or unknown tenant is rejected', async () => {
    await create('gone')
    await tenants.delete('gone')
    await expect(tenants.update('gone', { name: 'x' })).rejects.toMatchObject({ code: 'E_TENANT_STATE', status: 409 })
    await expect(tenants.update('unknown', { name: 'x' })).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
    await expect(tenants.update('gone', { status: 'active' } as never)).rejects.toMatchObject({ status: 400 })
  })

  test('and a concurrent one are both kept', async () => {
    await create('busy')
    await Promise.all(Array.from({ length: 20 }, (_, n) => tenants.update('busy', { metadata: { [`key${n}`]: n } })))
    expect(Object.keys((await tenants.get('busy')).metadata)).toHaveLength(20)
  })
})

describe('maintenance', () => {
  test('closes the tenant until its end in every status, and a repeated start publishes nothing', async () => {
    await installed(opened.tenancy, { id: 'workshop', name: 'Workshop' })
    await published.until('workshop', 'TenantProvisioned')
    const since = clock.now().toISOString()
    expect(await tenants.enterMaintenance('workshop', { message: 'Back soon', retryAfterSeconds: 90 })).toMatchObject({
      status: 'active',
      maintenance: { message: 'Back soon', retryAfterSeconds: 90, since },
    })
    await eventually(() =>
      expect(tenants.handle('workshop')).rejects.toMatchObject({
        code: 'E_TENANT_MAINTENANCE',
        status: 503,
        retryAfterSeconds: 90,
        message: 'Back soon',
      }),
    )
    expect(published.of('workshop')).toEqual(['tenants.enterMaintenance', 'TenantEnteredMaintenance'])

    clock.advance(60_000)
    await tenants.enterMaintenance('workshop', { message: 'Back soon', retryAfterSeconds: 90 })
    expect(published.of('workshop')).toEqual([])
    const { maintenance } = await tenants.enterMaintenance('workshop', { message: 'A little longer' })
    expect(maintenance).toEqual({ message: 'A little longer', retryAfterSeconds: 60, since })
    expect(published.of('workshop')).toEqual(['tenants.enterMaintenance'])

    expect((await tenants.exitMaintenance('workshop')).maintenance).toBeNull()
    await tenants.exitMaintenance('workshop')
    expect(published.of('workshop')).toEqual(['tenants.exitMaintenance', 'TenantExitedMaintenance'])
    await eventually(() => tenants.handle('workshop'))
  })

  test.each([
    { retryAfterSeconds: 0 },
    { retryAfterSeconds: 86_401 },
    { retryAfterSeconds: 1.5 },
    { message: 'x'.repeat(501) },
  ])('rejects %o', async (request) => {
    await expect(tenants.enterMaintenance('workshop', request)).rejects.toMatchObject({ status: 400 })
  })
})
