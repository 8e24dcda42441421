import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import type { EventOf } from '../kernel/events.ts'
import { DependencyDegraded } from '../kernel/resilience.ts'
import type { Tenancy } from '../tenancy.ts'
import { startProxy } from '../testing/proxy.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../testing/tenancy.ts'
import type { Registry } from './registry.ts'
import { TenantCache } from './tenant-cache.ts'

const UNAVAILABLE = { code: 'E_DEPENDENCY_UNAVAILABLE', status: 503, retryAfterSeconds: 5 }

let opened: TestTenancy<[]>
let here: Tenancy
/** As in another process, which reaches the backoffice by a way that can be closed. */
let there: Tenancy
let registry: Registry
let proxy: Awaited<ReturnType<typeof startProxy>>
const degraded: EventOf<typeof DependencyDegraded>[] = []
const heard = new Set<string>()

beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'))
  here = opened.tenancy
  proxy = await startProxy(opened.url)
  there = await opened.open({ database: { url: proxy.url }, role: 'api' })
  registry = there.tenants.registry
  there.on(DependencyDegraded, (event) => void degraded.push(event))
  await there.kernel.database.listen(
    'the end',
    (word) => heard.add(word),
    () => undefined,
  )
  vi.useFakeTimers({ toFake: ['performance'] }) // time stands still: what is known does not grow old by itself
})
afterAll(async () => {
  vi.useRealTimers()
  await opened.end()
  await proxy.close()
})

const sql = (text: string, values: readonly unknown[] = []) => here.kernel.database.sql(text, values)
/** Changes that nobody is told of: who answers from a cache does not see them. */
const renameInSecret = (id: string, name: string) =>
  sql('update multitenancy.tenants set name = $2 where id = $1', [id, name])
const createInSecret = (id: string, of: string) =>
  sql(
    `insert into multitenancy.tenants select (jsonb_populate_record(t, jsonb_build_object('id', $1::text, 'locator', $1::text))).*
     from multitenancy.tenants t where id = $2`,
    [id, of],
  )

/** Waits until the other process has heard all there was to hear: PostgreSQL delivers in the order of commits. */
async function allIsHeard(): Promise<void> {
  const word = randomUUID()
  await here.kernel.database.notify('the end', word)
  await eventually(() => expect(heard.has(word)).toBe(true))
}

let isCut = false
const cut = async () => {
  await proxy.close()
  isCut = true
  await eventually(() => expect(there.kernel.database.isListening).toBe(false))
}
const restore = async () => {
  if (isCut) await proxy.open()
  isCut = false
  await eventually(() => expect(there.kernel.database.isListening).toBe(true))
}
afterEach(restore)

const nameOf = async (id: string) => (await registry.find(id))?.tenant.name
const ownerOf = async (domain: string) => (await registry.findByDomain(domain))?.tenant.id

describe('what is known', () => {
  let id: string
  beforeEach(async () => {
    ;({ id } = await installed(here, { name: 'Acme' }))
    await allIsHeard()
  })

  test('is told at once, without a promise', async () => {
    expect(registry.peek(id)).toBeUndefined()
    const located = await registry.find(id)
    expect(registry.peek(id)).toBe(located)
    await here.tenants.update(id, { name: 'Globex' })
    await allIsHeard()
    expect(registry.peek(id)).toBeUndefined()
    expect(await nameOf(id)).toBe('Globex')
  })

  test('is read anew for whoever has reason to doubt it', async () => {
    await registry.find(id)
    await renameInSecret(id, 'Globex')
    expect(await nameOf(id)).toBe('Acme')
    expect((await registry.refresh(id))?.tenant.name).toBe('Globex')
    expect(await nameOf(id)).toBe('Globex')
  })

  test('cannot be changed by one of those who share it', async () => {
    const located = await registry.find(id)
    for (const part of [located, located?.tenant, located?.place, located?.tenant.metadata, located?.tenant.domains]) {
      expect(() => Object.assign(part as object, { plan: 'enterprise' })).toThrow(TypeError)
    }
  })
})

describe('a tenant that is deleted', () => {
  test.each(['its id', 'its domain'])('costs as many reads as one that never was, asked by %s', async (by) => {
    const id = randomUUID()
    await installed(here, { id, name: 'Gone', domains: [`${id}.example`] })
    await here.tenants.delete(id)
    await allIsHeard()
    const reads = vi.spyOn(there.kernel.database, 'sql')
    const readsOf = async (name: string): Promise<unknown[]> => {
      const ask = async () => {
        const before = reads.mock.calls.length
        const [peeked, found] =
          by === 'its id'
            ? [registry.peek(name), registry.find(name)]
            : [registry.peekDomain(`${name}.example`), registry.findByDomain(`${name}.example`)]
        const outcome = await found.then(
          () => 'answered',
          ({ code }) => code,
        )
        return [peeked, outcome, reads.mock.calls.length - before]
      }
      const asked = [await ask(), await ask()]
      vi.advanceTimersByTime(1_001)
      asked.push(await ask(), await ask())
      vi.advanceTimersByTime(999)
      asked.push(await ask())
      await cut()
      vi.advanceTimersByTime(5_001)
      asked.push(await ask(), await ask())
      await restore()
      return asked
    }
    const never = await readsOf(randomUUID())
    expect(await readsOf(id)).toEqual(never)
    expect(never.map((one: any) => one[2])).toEqual([1, 0, 1, 0, 0, 1, 0])
    expect(never.at(-1)).toEqual([undefined, UNAVAILABLE.code, 0])
    reads.mockRestore()
  })

  test('is known as one that is deleted to who may know it', async () => {
    const { id } = await installed(here, { name: 'Gone' })
    await allIsHeard()
    await registry.find(id)
    await here.tenants.delete(id)
    await allIsHeard()
    for (let time = 0; time < 2; time++) expect((await registry.find(id))?.tenant.status).toBe('deleted')
    await here.tenants.restore(id)
    await allIsHeard()
    expect((await registry.find(id))?.tenant.status).toBe('active')
    expect(registry.peek(id)?.tenant.status).toBe('active')
  })
})

describe('a domain', () => {
  const name = () => `${randomUUID()}.example`

  test('is its tenant’s, and known from memory', async () => {
    const domain = name()
    expect(registry.peekDomain(domain)).toBeUndefined()
    expect(await ownerOf(domain)).toBeUndefined()
    const { id } = await installed(here, { name: 'Acme', domains: [name(), domain] })
    await allIsHeard()
    expect(await ownerOf(domain)).toBe(id)
    await renameInSecret(id, 'Globex')
    expect(registry.peekDomain(domain)?.tenant.name).toBe('Acme')
    expect(await nameOf(id)).toBe('Acme')
  })

  test('that becomes known, moves, or is given up, is seen at once in every process', async () => {
    const domain = name()
    const { id: a } = await here.tenants.create({ name: 'a' })
    const { id: b } = await here.tenants.create({ name: 'b' })
    const owners = async () => {
      await allIsHeard()
      await Promise.all([nameOf(a), nameOf(b)]) // who it was is known again before it is asked whose it is
      return [await ownerOf(domain), (await here.tenants.registry.findByDomain(domain))?.tenant.id]
    }
    expect(await owners()).toEqual([undefined, undefined])
    await here.tenants.update(a, { domains: [domain] })
    expect(await owners()).toEqual([a, a])
    await here.tenants.update(a, { domains: [] })
    expect(await owners()).toEqual([undefined, undefined])
    await here.tenants.update(b, { domains: [domain] })
    expect(await owners()).toEqual([b, b])
    await here.tenants.delete(b)
    expect(await owners()).toEqual([b, b])
    await sql(`update multitenancy.tenants set purge_at = now() - interval '1 day' where id = $1`, [b])
    await here.tenants.installation.purge(b)
    expect(await owners()).toEqual([undefined, undefined])
  })

  test('of a tenant that is being created is known inside the transaction, and to nobody else', async () => {
    const domain = name()
    await here.transaction(async () => {
      const { id } = await here.tenants.create({ name: 'Acme', domains: [domain] })
      expect((await here.tenants.registry.findByDomain(domain))?.tenant.id).toBe(id)
      expect(here.tenants.registry.peekDomain(domain)).toBeUndefined()
      expect(await ownerOf(domain)).toBeUndefined()
    })
    expect((await here.tenants.registry.findByDomain(domain))?.tenant.name).toBe('Acme')
  })

  test('that nobody has is remembered for a second, or until something changes', async () => {
    const domain = name()
    const { id } = await installed(here, { name: 'Acme', domains: [domain] })
    await allIsHeard()
    expect(await ownerOf(domain)).toBe(id)
    await here.tenants.update(id, { domains: [] })
    await allIsHeard()
    const claimInSecret = () => sql('insert into multitenancy.tenant_domains values ($1, $2)', [domain, id])
    expect(await ownerOf(domain)).toBeUndefined()
    await claimInSecret()
    await sql('update multitenancy.tenants set domains = array[$2] where id = $1', [id, domain])
    expect(await ownerOf(domain)).toBeUndefined()
    vi.advanceTimersByTime(1_001)
    expect(await ownerOf(domain)).toBe(id)
  })
})

describe('a tenant that is not there', () => {
  test('is remembered for a second', async () => {
    const { id } = await installed(here, { name: 'Acme' })
    const ghost = `ghost-${randomUUID().slice(0, 8)}`
    await allIsHeard()
    expect(await nameOf(ghost)).toBeUndefined()
    await createInSecret(ghost, id)
    expect(await nameOf(ghost)).toBeUndefined()
    vi.advanceTimersByTime(1_001)
    expect(await nameOf(ghost)).toBe('Acme')
  })

  test('is known at once in every process when it is created', async () => {
    const id = `new-${randomUUID()}`
    for (const one of [here, there]) expect(await one.tenants.registry.find(id)).toBeUndefined()
    await here.tenants.create({ id, name: 'New' })
    expect((await here.tenants.registry.find(id))?.tenant.name).toBe('New')
    await allIsHeard()
    expect(await nameOf(id)).toBe('New')
  })

  test('drives none out that is: however many are made up', async () => {
    const { id } = await installed(here, { name: 'Warm' })
    await allIsHeard()
    expect(await nameOf(id)).toBe('Warm')
    await renameInSecret(id, 'Read again')
    for (let batch = 0; batch < 21; batch++) {
      await Promise.all(Array.from({ length: 500 }, (_, n) => registry.find(`made-up-${batch}-${n}`)))
    }
    expect(registry.peek(id)?.tenant.name).toBe('Warm')
  })
})

describe('while the database is away', () => {
  let id: string
  const domain = () => `${id}.example`
  beforeEach(async () => {
    id = randomUUID()
    await installed(here, { id, name: 'Acme', domains: [domain()] })
    await allIsHeard()
    await registry.findByDomain(domain())
    degraded.splice(0)
    vi.advanceTimersByTime(3_600_000) // however long it was only heard that nothing changes
    await cut()
  })

  test('what was known is served, at once after the first failure', async () => {
    vi.advanceTimersByTime(5_001)
    expect(registry.peek(id)).toBeUndefined()
    expect(await nameOf(id)).toBe('Acme')
    expect(registry.peek(id)?.tenant.name).toBe('Acme')
    expect(registry.peekDomain(domain())?.tenant.id).toBe(id)
    expect(await ownerOf(domain())).toBe(id)
  })

  test('what is not known is unavailable, and not thought absent', async () => {
    await expect(registry.find('never-asked')).rejects.toMatchObject(UNAVAILABLE)
    await expect(registry.findByDomain('never.example')).rejects.toMatchObject(UNAVAILABLE)
    vi.advanceTimersByTime(1_001)
    await expect(registry.find('never-asked')).rejects.toMatchObject(UNAVAILABLE)
  })

  test('one attempt a second is made for all, and nobody waits for it', async () => {
    vi.advanceTimersByTime(5_001)
    await registry.find(id)
    const { database } = there.kernel
    const reads = vi.spyOn(database, 'sql')
    for (let round = 0; round < 100; round++) {
      expect(registry.peek(id)).toBeDefined()
      await expect(registry.find(`other-${round}`)).rejects.toMatchObject(UNAVAILABLE)
    }
    expect(reads).toHaveBeenCalledTimes(0)
    vi.advanceTimersByTime(1_001)
    for (let round = 0; round < 100; round++) expect(registry.peek(id)).toBeDefined()
    expect(reads).toHaveBeenCalledTimes(1)
  })

  test('it is told once a second, and not on every request', async () => {
    vi.advanceTimersByTime(5_001)
    for (let round = 0; round < 100; round++) await registry.find(id)
    await eventually(() => expect(degraded).toHaveLength(1))
    expect(degraded[0]).toMatchObject({
      dependency: 'database',
      operation: 'tenants.find',
      tenantId: id,
      policy: 'fail-open',
      errorCode: 'E_DEPENDENCY_UNAVAILABLE',
    })
    vi.advanceTimersByTime(1_001)
    for (let round = 0; round < 100; round++) registry.peek(id)
    await eventually(() => expect(degraded).toHaveLength(2))
  })

  test('a tenant is served for 300 seconds after it was last confirmed', async () => {
    vi.advanceTimersByTime(299_000)
    expect(await nameOf(id)).toBe('Acme')
    vi.advanceTimersByTime(1_001)
    expect(registry.peek(id)).toBeUndefined()
    await expect(registry.find(id)).rejects.toMatchObject(UNAVAILABLE)
    await expect(registry.findByDomain(domain())).rejects.toMatchObject(UNAVAILABLE)
  })

  test('a tenant that is to be read anew stays served when it cannot be', async () => {
    await expect(registry.refresh(id)).rejects.toMatchObject(UNAVAILABLE)
    expect(registry.peek(id)?.tenant.name).toBe('Acme')
    expect(await nameOf(id)).toBe('Acme')
    expect(await ownerOf(domain())).toBe(id)
    await expect(registry.refresh(id)).rejects.toMatchObject(UNAVAILABLE)
    vi.advanceTimersByTime(300_001)
    await expect(registry.find(id)).rejects.toMatchObject(UNAVAILABLE)
  })

  test('that the database was back for a moment, and gone again, confirms nothing', async () => {
    vi.advanceTimersByTime(200_000)
    await restore()
    expect(registry.peek(id)).toBeUndefined()
    await cut()
    expect(await nameOf(id)).toBe('Acme')
    vi.advanceTimersByTime(100_001)
    await expect(registry.find(id)).rejects.toMatchObject(UNAVAILABLE)
  })

  test('who is created meanwhile is known as soon as it is back', async () => {
    await restore()
    const late = `late-${id}`
    expect(await nameOf(late)).toBeUndefined()
    await cut()
    await here.tenants.create({ id: late, name: 'Late' })
    await restore()
    expect(await nameOf(late)).toBe('Late')
  })

  test('a change made meanwhile counts as soon as it is back', async () => {
    vi.advanceTimersByTime(5_001)
    expect(await nameOf(id)).toBe('Acme')
    await here.tenants.update(id, { name: 'Globex' })
    expect(await nameOf(id)).toBe('Acme')
    await restore()
    expect(registry.peek(id)).toBeUndefined()
    expect(await nameOf(id)).toBe('Globex')
  })
})

test('a change that was heard is never taken back by an outage', async () => {
  const { id } = await installed(here, { name: 'Acme' })
  await allIsHeard()
  await registry.find(id)
  await here.tenants.delete(id)
  await allIsHeard()
  await cut()
  await expect(registry.find(id)).rejects.toMatchObject(UNAVAILABLE)
  await restore()
  expect((await registry.find(id))?.tenant.status).toBe('deleted')
})

describe('a read that takes its time', () => {
  let id: string
  let cache: TenantCache
  let reads: number
  let answered: number
  let gate: PromiseWithResolvers<void>
  beforeEach(async () => {
    ;({ id } = await installed(here, { name: 'Acme' }))
    await allIsHeard()
    const read = async (id: string) => {
      reads++
      const { promise } = gate
      const located = await registry.refresh(id)
      answered++
      await promise
      return located
    }
    cache = new TenantCache(there.kernel, { byId: read, byDomain: () => read(id) }, 300_000)
    reads = answered = 0
    gate = Promise.withResolvers()
  })

  test.each(['forget', 'doubtAll'] as const)('is not kept, nor shared, once it may be old: %s', async (word) => {
    const asked = () => [cache.find(id), cache.findByDomain('some.example')]
    const early = [...asked(), ...asked()]
    expect(reads).toBe(2)
    cache[word](id)
    const late = asked()
    expect(reads).toBe(4)
    cache[word](id)
    gate.resolve()
    for (const located of await Promise.all([...early, ...late])) expect(located?.tenant.id).toBe(id)
    expect([cache.peek(id), cache.peekDomain('some.example')]).toEqual([undefined, undefined])
    await cache.find(id)
    expect(cache.peek(id)?.tenant.id).toBe(id)
  })

  test('is not what is answered to who asks anew, nor kept when it ends later', async () => {
    gate.resolve()
    await cache.find(id)
    gate = Promise.withResolvers()
    const early = gate
    cache.doubtAll()
    const found = cache.find(id) // with the name of before
    await eventually(() => expect(answered).toBe(2))
    await renameInSecret(id, 'Globex')
    gate = Promise.withResolvers()
    gate.resolve()
    expect((await cache.refresh(id))?.tenant.name).toBe('Globex')
    expect(cache.peek(id)?.tenant.name).toBe('Globex')
    early.resolve()
    expect((await found)?.tenant.name).toBe('Acme')
    expect(cache.peek(id)?.tenant.name).toBe('Globex')
  })

  test('that it has begun drops nothing: what is known is served until it has an answer', async () => {
    gate.resolve()
    await cache.find(id)
    gate = Promise.withResolvers()
    await renameInSecret(id, 'Globex')
    const refreshed = cache.refresh(id)
    expect(cache.peek(id)?.tenant.name).toBe('Acme')
    gate.resolve()
    await refreshed
    expect(cache.peek(id)?.tenant.name).toBe('Globex')
  })

  test('and finds that the tenant is gone, ends what was known of it', async () => {
    gate.resolve()
    await cache.find(id)
    await sql('update multitenancy.tenants set purged_at = now() where id = $1', [id])
    expect(await cache.refresh(id)).toBeUndefined()
    expect(cache.peek(id)).toBeUndefined()
    expect(await cache.find(id)).toBeUndefined()
    expect(reads).toBe(2)
  })

  test('is the only one, while the database is away, however long it takes', async () => {
    gate.resolve()
    await cache.find(id)
    await cut()
    vi.advanceTimersByTime(5_001)
    await cache.find(id)
    gate = Promise.withResolvers()
    vi.advanceTimersByTime(1_001)
    reads = 0
    for (let round = 0; round < 5; round++) {
      expect(cache.peek(id)).toBeDefined()
      await expect(cache.find('another')).rejects.toMatchObject(UNAVAILABLE)
      vi.advanceTimersByTime(1_001)
    }
    expect(reads).toBe(1)
    gate.resolve()
  })
})

test('a database that has gone silent counts as away', async () => {
  const { id } = await installed(here, { name: 'Acme' })
  await allIsHeard()
  await there.kernel.database.ping()
  await here.transaction(async () => {
    await sql('lock table multitenancy.tenants in access exclusive mode')
    vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] })
    const asked = Promise.allSettled([registry.find(id), registry.find(id)])
    for (let waiting = 0; waiting === 0; ) {
      const { rows } = await sql(
        `select count(*) as count from pg_locks join pg_stat_activity using (pid)
         where not granted and datname = current_database()`,
      )
      waiting = rows[0].count
    }
    vi.advanceTimersByTime(5_001)
    vi.useRealTimers()
    const [first, second] = await asked
    expect(first).toMatchObject({ status: 'rejected', reason: UNAVAILABLE })
    expect(second).toMatchObject({ status: 'rejected', reason: UNAVAILABLE })
  })
  await eventually(async () => expect(await nameOf(id)).toBe('Acme'))
})
