import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { WAITING_LOCKS } from '../../testing/base/database.ts'
import { eventually, installed } from '../../testing/base/tenancy.ts'
import { type CacheEnvironment, openCacheEnvironment, UNAVAILABLE } from './tenant-cache.fixture.ts'
import { TenantCache } from './tenant-cache.ts'

let environment: CacheEnvironment
/** Freezes time: entries do not age. */
const stopTime = () => vi.useFakeTimers({ toFake: ['performance'] })
beforeAll(async () => {
  environment = await openCacheEnvironment(inject('postgresUrl'))
  stopTime()
})
afterAll(async () => {
  vi.useRealTimers()
  await environment.end()
})

describe('a cached tenant', () => {
  let id: string
  beforeEach(async () => {
    ;({ id } = await installed(environment.here, { name: 'Acme' }))
    await environment.notificationsReceived()
  })

  test('is returned synchronously', async () => {
    expect(environment.registry.peek(id)).toBeUndefined()
    const located = await environment.registry.find(id)
    expect(environment.registry.peek(id)).toBe(located)
    await environment.here.tenants.update(id, { name: 'Globex' })
    await environment.notificationsReceived()
    expect(environment.registry.peek(id)).toBeUndefined()
    expect(await environment.nameOf(id)).toBe('Globex')
  })

  test('is read again by refresh', async () => {
    await environment.registry.find(id)
    await environment.renameInSecret(id, 'Globex')
    expect(await environment.nameOf(id)).toBe('Acme')
    expect((await environment.registry.refresh(id))?.tenant.name).toBe('Globex')
    expect(await environment.nameOf(id)).toBe('Globex')
  })

  test('is immutable', async () => {
    const located = await environment.registry.find(id)
    for (const part of [
      located,
      located?.tenant,
      located?.location,
      located?.tenant.metadata,
      located?.tenant.domains,
    ]) {
      expect(() => Object.assign(part as object, { plan: 'enterprise' })).toThrow(TypeError)
    }
  })
})

describe('a deleted tenant', () => {
  test('is returned as deleted by find', async () => {
    const { id } = await installed(environment.here, { name: 'Gone' })
    await environment.notificationsReceived()
    await environment.registry.find(id)
    await environment.here.tenants.delete(id)
    await environment.notificationsReceived()
    for (let time = 0; time < 2; time++) expect((await environment.registry.find(id))?.tenant.status).toBe('deleted')
    await environment.here.tenants.restore(id)
    await environment.notificationsReceived()
    expect((await environment.registry.find(id))?.tenant.status).toBe('active')
    expect(environment.registry.peek(id)?.tenant.status).toBe('active')
  })
})

describe('a domain', () => {
  const name = () => `${randomUUID()}.example`

  test('resolves to its tenant, from memory', async () => {
    const domain = name()
    expect(environment.registry.peekDomain(domain)).toBeUndefined()
    expect(await environment.ownerOf(domain)).toBeUndefined()
    const { id } = await installed(environment.here, { name: 'Acme', domains: [name(), domain] })
    await environment.notificationsReceived()
    expect(await environment.ownerOf(domain)).toBe(id)
    await environment.renameInSecret(id, 'Globex')
    expect(environment.registry.peekDomain(domain)?.tenant.name).toBe('Acme')
    expect(await environment.nameOf(id)).toBe('Acme')
  })

  test('is visible in every process immediately after it is added, moved or released', async () => {
    const domain = name()
    const { id: a } = await environment.here.tenants.create({ name: 'a' })
    const { id: b } = await environment.here.tenants.create({ name: 'b' })
    const owners = async () => {
      await environment.notificationsReceived()
      await Promise.all([environment.nameOf(a), environment.nameOf(b)]) // the former owner is cached again before the lookup of the domain
      return [
        await environment.ownerOf(domain),
        (await environment.here.tenants.registry.findByDomain(domain))?.tenant.id,
      ]
    }
    expect(await owners()).toEqual([undefined, undefined])
    await environment.here.tenants.update(a, { domains: [domain] })
    expect(await owners()).toEqual([a, a])
    await environment.here.tenants.update(a, { domains: [] })
    expect(await owners()).toEqual([undefined, undefined])
    await environment.here.tenants.update(b, { domains: [domain] })
    expect(await owners()).toEqual([b, b])
    await environment.here.tenants.delete(b)
    expect(await owners()).toEqual([b, b])
    await environment.sql(`update multitenancy.tenants set purge_at = now() - interval '1 day' where id = $1`, [b])
    await environment.here.tenants.installation.purge(b)
    expect(await owners()).toEqual([undefined, undefined])
  })

  test('of a tenant in creation is visible only inside the transaction', async () => {
    const domain = name()
    await environment.here.transaction(async () => {
      const { id } = await environment.here.tenants.create({ name: 'Acme', domains: [domain] })
      expect((await environment.here.tenants.registry.findByDomain(domain))?.tenant.id).toBe(id)
      expect(environment.here.tenants.registry.peekDomain(domain)).toBeUndefined()
      expect(await environment.ownerOf(domain)).toBeUndefined()
    })
    expect((await environment.here.tenants.registry.findByDomain(domain))?.tenant.name).toBe('Acme')
  })

  test('without a tenant is remembered for one second, or until a change', async () => {
    const domain = name()
    const { id } = await installed(environment.here, { name: 'Acme', domains: [domain] })
    await environment.notificationsReceived()
    expect(await environment.ownerOf(domain)).toBe(id)
    await environment.here.tenants.update(id, { domains: [] })
    await environment.notificationsReceived()
    const claimInSecret = () => environment.sql('insert into multitenancy.tenant_domains values ($1, $2)', [domain, id])
    expect(await environment.ownerOf(domain)).toBeUndefined()
    await claimInSecret()
    await environment.sql('update multitenancy.tenants set domains = array[$2] where id = $1', [id, domain])
    expect(await environment.ownerOf(domain)).toBeUndefined()
    vi.advanceTimersByTime(1_001)
    expect(await environment.ownerOf(domain)).toBe(id)
  })
})

describe('an unknown tenant', () => {
  test('is remembered for one second', async () => {
    const { id } = await installed(environment.here, { name: 'Acme' })
    const ghost = `ghost-${randomUUID().slice(0, 8)}`
    await environment.notificationsReceived()
    expect(await environment.nameOf(ghost)).toBeUndefined()
    await environment.createInSecret(ghost, id)
    expect(await environment.nameOf(ghost)).toBeUndefined()
    vi.advanceTimersByTime(1_001)
    expect(await environment.nameOf(ghost)).toBe('Acme')
  })

  test('is found in every process immediately after its creation', async () => {
    const id = `new-${randomUUID()}`
    for (const one of [environment.here, environment.there]) expect(await one.tenants.registry.find(id)).toBeUndefined()
    await environment.here.tenants.create({ id, name: 'New' })
    expect((await environment.here.tenants.registry.find(id))?.tenant.name).toBe('New')
    await environment.notificationsReceived()
    expect(await environment.nameOf(id)).toBe('New')
  })

  test('does not evict existing tenants, regardless of the number of unknown ids', async () => {
    const { id } = await installed(environment.here, { name: 'Warm' })
    await environment.notificationsReceived()
    const byId = async (name: string) => (name === id ? environment.registry.refresh(id) : undefined)
    const cache = new TenantCache(environment.there.kernel, { byId, byDomain: byId }, 300_000)
    await cache.find(id)
    await environment.renameInSecret(id, 'Read again')
    const found = await Promise.all(Array.from({ length: 10_500 }, (_, n) => cache.find(`made-up-${n}`)))
    expect(found.filter(Boolean)).toEqual([])
    expect(cache.peek(id)?.tenant.name).toBe('Warm')
  })
})

describe('a slow read', () => {
  let id: string
  let cache: TenantCache
  let reads: number
  let answered: number
  let gate: PromiseWithResolvers<void>
  beforeEach(async () => {
    ;({ id } = await installed(environment.here, { name: 'Acme' }))
    await environment.notificationsReceived()
    const read = async (id: string) => {
      reads++
      const { promise } = gate
      const located = await environment.registry.refresh(id)
      answered++
      await promise
      return located
    }
    cache = new TenantCache(environment.there.kernel, { byId: read, byDomain: () => read(id) }, 300_000)
    reads = answered = 0
    gate = Promise.withResolvers()
  })

  test.each(['forget', 'doubtAll'] as const)('is neither kept nor shared after an invalidation: %s', async (word) => {
    const lookups = () => [cache.find(id), cache.findByDomain('some.example')]
    const early = [...lookups(), ...lookups()]
    expect(reads).toBe(2)
    cache[word](id)
    const late = lookups()
    expect(reads).toBe(4)
    cache[word](id)
    gate.resolve()
    for (const located of await Promise.all([...early, ...late])) expect(located?.tenant.id).toBe(id)
    expect([cache.peek(id), cache.peekDomain('some.example')]).toEqual([undefined, undefined])
    await cache.find(id)
    expect(cache.peek(id)?.tenant.id).toBe(id)
  })

  test('is not shared with refresh, nor kept if it ends after a newer read', async () => {
    gate.resolve()
    await cache.find(id)
    gate = Promise.withResolvers()
    const early = gate
    cache.doubtAll()
    const found = cache.find(id) // with the former name
    await eventually(() => expect(answered).toBe(2))
    await environment.renameInSecret(id, 'Globex')
    gate = Promise.withResolvers()
    gate.resolve()
    expect((await cache.refresh(id))?.tenant.name).toBe('Globex')
    expect(cache.peek(id)?.tenant.name).toBe('Globex')
    early.resolve()
    expect((await found)?.tenant.name).toBe('Acme')
    expect(cache.peek(id)?.tenant.name).toBe('Globex')
  })

  test('keeps the cached tenant until its result arrives', async () => {
    gate.resolve()
    await cache.find(id)
    gate = Promise.withResolvers()
    await environment.renameInSecret(id, 'Globex')
    const refreshed = cache.refresh(id)
    expect(cache.peek(id)?.tenant.name).toBe('Acme')
    gate.resolve()
    await refreshed
    expect(cache.peek(id)?.tenant.name).toBe('Globex')
  })

  test('without a result drops the cached tenant', async () => {
    gate.resolve()
    await cache.find(id)
    await environment.sql('update multitenancy.tenants set purged_at = now() where id = $1', [id])
    expect(await cache.refresh(id)).toBeUndefined()
    expect(cache.peek(id)).toBeUndefined()
    expect(await cache.find(id)).toBeUndefined()
    expect(reads).toBe(2)
  })
})

test('an unresponsive database counts as unavailable', async () => {
  const { id } = await installed(environment.here, { name: 'Acme' })
  await environment.notificationsReceived()
  await environment.there.kernel.database.ping()
  await environment.here.transaction(async () => {
    await environment.sql('lock table multitenancy.tenants in access exclusive mode')
    vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] })
    const lookups = Promise.allSettled([environment.registry.find(id), environment.registry.find(id)])
    for (let waiting = 0; waiting === 0; ) {
      const { rows } = await environment.sql(`select count(*) as count from ${WAITING_LOCKS}`)
      waiting = rows[0].count
    }
    vi.advanceTimersByTime(5_001)
    vi.useRealTimers()
    const [first, second] = await lookups
    expect(first).toMatchObject({ status: 'rejected', reason: UNAVAILABLE })
    expect(second).toMatchObject({ status: 'rejected', reason: UNAVAILABLE })
  })
  await eventually(async () => expect(await environment.nameOf(id)).toBe('Acme'))
  stopTime()
})
