/** The tenant cache of a process without a connection to the database. */
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { startProxy, type Proxy as Way } from '../../../test/support/proxy.ts'
import { eventually, installed } from '../../testing/base/tenancy.ts'
import { type CacheEnvironment, openCacheEnvironment, UNAVAILABLE } from './tenant-cache.fixture.ts'
import { TenantCache } from './tenant-cache.ts'

let environment: CacheEnvironment
let way: Way
beforeAll(async () => {
  environment = await openCacheEnvironment(inject('postgresUrl'), async (url) => {
    way = await startProxy(url)
    return way.url
  })
  vi.useFakeTimers({ toFake: ['performance'] }) // time is frozen: entries do not age
})
afterAll(async () => {
  vi.useRealTimers()
  await environment.end()
  await way.close()
})

let isCut = false
const cut = async () => {
  await way.close()
  isCut = true
  await eventually(() => expect(environment.there.kernel.database.isListening).toBe(false))
}
const restore = async () => {
  if (isCut) await way.open()
  isCut = false
  await eventually(() => expect(environment.there.kernel.database.isListening).toBe(true))
}
afterEach(async () => {
  await restore()
  vi.advanceTimersByTime(1_001)
  await eventually(() => environment.registry.find(randomUUID())) // a read ends the outage for the next test
})

test.each(['its id', 'its domain'])('a deleted tenant costs as many reads as an unknown one, by %s', async (by) => {
  const id = randomUUID()
  await installed(environment.here, { id, name: 'Gone', domains: [`${id}.example`] })
  await environment.here.tenants.delete(id)
  await environment.notificationsReceived()
  const reads = vi.spyOn(environment.there.kernel.database, 'sql')
  /** Without the reads of circuits after the reconnection. */
  const count = () => reads.mock.calls.filter(([sql]) => JSON.stringify(sql).includes('multitenancy.tenants')).length
  const readsOf = async (name: string): Promise<unknown[]> => {
    const countReads = async () => {
      const before = count()
      const [peeked, found] =
        by === 'its id'
          ? [environment.registry.peek(name), environment.registry.find(name)]
          : [environment.registry.peekDomain(`${name}.example`), environment.registry.findByDomain(`${name}.example`)]
      const outcome = await found.then(
        () => 'answered',
        ({ code }) => code,
      )
      return [peeked, outcome, count() - before]
    }
    const counts = [await countReads(), await countReads()]
    vi.advanceTimersByTime(1_001)
    counts.push(await countReads(), await countReads())
    vi.advanceTimersByTime(999)
    counts.push(await countReads())
    await cut()
    vi.advanceTimersByTime(5_001)
    counts.push(await countReads(), await countReads())
    await restore()
    return counts
  }
  const never = await readsOf(randomUUID())
  expect(await readsOf(id)).toEqual(never)
  expect(never.map((one: any) => one[2])).toEqual([1, 0, 1, 0, 0, 1, 0])
  expect(never.at(-1)).toEqual([undefined, UNAVAILABLE.code, 0])
  reads.mockRestore()
})

describe('while the database is unavailable', () => {
  let id: string
  const domain = () => `${id}.example`
  beforeEach(async () => {
    id = randomUUID()
    await installed(environment.here, { id, name: 'Acme', domains: [domain()] })
    await environment.notificationsReceived()
    await environment.registry.findByDomain(domain())
    environment.degraded.splice(0)
    vi.advanceTimersByTime(3_600_000) // regardless of the time since the last notification
    await cut()
  })

  test('cached tenants are served, immediately after the first failure', async () => {
    vi.advanceTimersByTime(5_001)
    expect(environment.registry.peek(id)).toBeUndefined()
    expect(await environment.nameOf(id)).toBe('Acme')
    expect(environment.registry.peek(id)?.tenant.name).toBe('Acme')
    expect(environment.registry.peekDomain(domain())?.tenant.id).toBe(id)
    expect(await environment.ownerOf(domain())).toBe(id)
  })

  test('tenants that are not cached are unavailable, not unknown', async () => {
    await expect(environment.registry.find('never-cached')).rejects.toMatchObject(UNAVAILABLE)
    await expect(environment.registry.findByDomain('never.example')).rejects.toMatchObject(UNAVAILABLE)
    vi.advanceTimersByTime(1_001)
    await expect(environment.registry.find('never-cached')).rejects.toMatchObject(UNAVAILABLE)
  })

  test('one attempt per second is made for all, and requests do not wait for it', async () => {
    vi.advanceTimersByTime(5_001)
    await environment.registry.find(id)
    const { database } = environment.there.kernel
    const reads = vi.spyOn(database, 'sql')
    for (let round = 0; round < 100; round++) {
      expect(environment.registry.peek(id)).toBeDefined()
      await expect(environment.registry.find(`other-${round}`)).rejects.toMatchObject(UNAVAILABLE)
    }
    expect(reads).toHaveBeenCalledTimes(0)
    vi.advanceTimersByTime(1_001)
    for (let round = 0; round < 100; round++) expect(environment.registry.peek(id)).toBeDefined()
    expect(reads).toHaveBeenCalledTimes(1)
  })

  test('DependencyDegraded is published for each served stale tenant', async () => {
    vi.advanceTimersByTime(5_001)
    for (let round = 0; round < 10; round++) await environment.registry.find(id)
    await eventually(() => expect(environment.degraded).toHaveLength(10))
    expect(environment.degraded[0]).toMatchObject({
      dependency: 'database',
      operation: 'tenants.find',
      tenantId: id,
      policy: 'fail-open',
      errorCode: 'E_DEPENDENCY_UNAVAILABLE',
    })
    for (let round = 0; round < 10; round++) environment.registry.peek(id)
    await eventually(() => expect(environment.degraded).toHaveLength(20))
  })

  test('a tenant is served for 300 seconds after its last confirmation', async () => {
    vi.advanceTimersByTime(299_000)
    expect(await environment.nameOf(id)).toBe('Acme')
    vi.advanceTimersByTime(1_001)
    expect(environment.registry.peek(id)).toBeUndefined()
    await expect(environment.registry.find(id)).rejects.toMatchObject(UNAVAILABLE)
    await expect(environment.registry.findByDomain(domain())).rejects.toMatchObject(UNAVAILABLE)
  })

  test('a tenant due for a new read stays served after a failed read', async () => {
    await expect(environment.registry.refresh(id)).rejects.toMatchObject(UNAVAILABLE)
    expect(environment.registry.peek(id)?.tenant.name).toBe('Acme')
    expect(await environment.nameOf(id)).toBe('Acme')
    expect(await environment.ownerOf(domain())).toBe(id)
    await expect(environment.registry.refresh(id)).rejects.toMatchObject(UNAVAILABLE)
    vi.advanceTimersByTime(300_001)
    await expect(environment.registry.find(id)).rejects.toMatchObject(UNAVAILABLE)
  })

  test('a short recovery of the database confirms nothing', async () => {
    vi.advanceTimersByTime(200_000)
    await restore()
    expect(environment.registry.peek(id)).toBeUndefined()
    await cut()
    expect(await environment.nameOf(id)).toBe('Acme')
    vi.advanceTimersByTime(100_001)
    await expect(environment.registry.find(id)).rejects.toMatchObject(UNAVAILABLE)
  })

  test('a tenant created during the outage is found immediately after it', async () => {
    await restore()
    const late = `late-${id}`
    expect(await environment.nameOf(late)).toBeUndefined()
    await cut()
    await environment.here.tenants.create({ id: late, name: 'Late' })
    await restore()
    expect(await environment.nameOf(late)).toBe('Late')
  })

  test('a change made during the outage is visible immediately after it', async () => {
    vi.advanceTimersByTime(5_001)
    expect(await environment.nameOf(id)).toBe('Acme')
    await environment.here.tenants.update(id, { name: 'Globex' })
    expect(await environment.nameOf(id)).toBe('Acme')
    await restore()
    expect(environment.registry.peek(id)).toBeUndefined()
    expect(await environment.nameOf(id)).toBe('Globex')
  })
})

test('an outage does not revert a received change', async () => {
  const { id } = await installed(environment.here, { name: 'Acme' })
  await environment.notificationsReceived()
  await environment.registry.find(id)
  await environment.here.tenants.delete(id)
  await environment.notificationsReceived()
  await cut()
  await expect(environment.registry.find(id)).rejects.toMatchObject(UNAVAILABLE)
  await restore()
  expect((await environment.registry.find(id))?.tenant.status).toBe('deleted')
})

test('while the database is unavailable, a slow read is the only one', async () => {
  const { id } = await installed(environment.here, { name: 'Acme' })
  await environment.notificationsReceived()
  let reads = 0
  let gate = Promise.resolve()
  const read = async (id: string) => {
    reads++
    await gate
    return environment.registry.refresh(id)
  }
  const cache = new TenantCache(environment.there.kernel, { byId: read, byDomain: () => read(id) }, 300_000)
  await cache.find(id)
  await cut()
  vi.advanceTimersByTime(5_001)
  await cache.find(id)
  const { promise, resolve } = Promise.withResolvers<void>()
  gate = promise
  vi.advanceTimersByTime(1_001)
  reads = 0
  for (let round = 0; round < 5; round++) {
    expect(cache.peek(id)).toBeDefined()
    await expect(cache.find('another')).rejects.toMatchObject(UNAVAILABLE)
    vi.advanceTimersByTime(1_001)
  }
  expect(reads).toBe(1)
  resolve()
})
