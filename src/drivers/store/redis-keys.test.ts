import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import type { Cluster, Redis } from 'ioredis'
import { describe, expect, inject, test, vi } from 'vitest'
import { dateOf, dayOf } from '../../kernel/store/counters.ts'
import { moveToNoon } from '../../testing/store/opened-store.ts'
import { type OpenedInRedis, openInRedis } from './redis.fixture.ts'
import { redisStore } from './redis.ts'
import { RedisKeys } from './redis-keys.ts'

const signs = fc.constantFrom('a', 'b', ':', '/', '{', '}', '%', '*', '7B', 'tenants', 'quota', 'metrics', '\\', '🔑')
const text = fc.array(signs, { minLength: 1, maxLength: 6 }).map((parts) => parts.join(''))
const owner = fc.option(text, { nil: null })
const EVENTUALLY = { timeout: 15_000, interval: 20 }

/** Takes one of each; 0 of a counter that is only read. */
const takes = (...names: string[]) => names.map((name) => ({ name, amount: name === 'looked' ? 0 : 1, limit: null }))

describe('RedisKeys', () => {
  const keys = new RedisKeys('app:')

  test.each([
    ['acme', 'circuit', 'app:circuit:{acme}'],
    ['acme', 'quota:x', 'app:%71uota:{acme}:x'],
    ['acme', '%71uota:x', 'app:%2571uota:{acme}:x'],
    ['acme', 'quotas:x', 'app:quotas:{acme}:x'],
    ['acme', 'metrics:2026-11-21', 'app:%6Detrics:{acme}:2026-11-21'],
    [null, 'metrics', 'app:%6Detrics:{}'],
    [null, 'session:4711', 'app:session:{}:4711'],
    ['acme', 'feature-flags/new-ui', 'app:tenants/acme/feature-flags/new-ui'],
    ['acme', 'page:a/b', 'app:page:{acme}:a/b'],
    ['a{c}m%e/', 'x{y}', 'app:x%7By%7D:{a%7Bc%7Dm%25e%2F}'],
  ])('maps the owner %s and the key %s to %s', (whose, key, expected) => {
    expect(keys.of(whose, key)).toBe(expected)
  })

  test('maps different keys to different Redis keys, each with its owner', () => {
    fc.assert(
      fc.property(owner, text, owner, text, (firstOwner, firstKey, secondOwner, secondKey) => {
        const first = keys.of(firstOwner, firstKey)
        const isSame = firstOwner === secondOwner && firstKey === secondKey
        expect(first === keys.of(secondOwner, secondKey)).toBe(isSame)
        expect(keys.ownerOf(first)).toBe(firstOwner)
        expect(first.startsWith(keys.counting(secondOwner ?? 'acme'))).toBe(false)
        expect(keys.ownerOf(`${keys.counting(secondKey)}names`)).toBe(secondKey)
        expect(first).not.toBe(keys.summing(secondOwner, '2026-11-21'))
        expect(keys.ownerOf(keys.summing(secondOwner, '2026-11-21'))).toBe(secondOwner)
      }),
      { numRuns: 2_000 },
    )
  })

  test('recognizes no foreign key as its own', () => {
    for (const key of ['acme', 'circuit:{acme}', 'app:circuit', 'app:circuit:acme', 'app:other/{acme}']) {
      expect(keys.ownerOf(key)).toBeUndefined()
    }
  })

  test('rejects a prefix with braces, which would map all tenants to one slot', () => {
    expect(() => new RedisKeys('{app}')).toThrow('braces')
  })
})

describe('counters in Redis', () => {
  const opening = async (work: (opened: OpenedInRedis) => Promise<void>) => {
    const opened = await openInRedis({ url: inject('redisUrl') })
    await moveToNoon(opened)
    try {
      await work(opened)
    } finally {
      await opened.store.close()
      await opened.cleanUp()
    }
  }
  const kept = async (redis: Redis | Cluster, prefix: string): Promise<string[]> =>
    (await redis.keys(`${prefix}*`)).map((key: string) => key.slice(prefix.length)).toSorted()

  test('are stored under the documented keys for 48 h after their last write', () =>
    opening(async ({ store, prefix, admin, advance }) => {
      const { nowMs } = await store.counters.take('acme', [{ name: 'api.calls', amount: 3, limit: 10 }])
      await store.counters.put('acme', 'seats', 12.5)
      const key = `quota:{acme}:${dateOf(dayOf(nowMs))}:api.calls`
      expect(await kept(admin, prefix)).toEqual([key, 'quota:{acme}:names', 'quota:{acme}:snap:seats'])
      expect(await admin.get(prefix + key)).toBe('3')
      expect(await admin.get(`${prefix}quota:{acme}:snap:seats`)).toBe('12.5')
      expect(await admin.ttl(`${prefix}quota:{acme}:snap:seats`)).toBe(-1)
      const ttl = () => admin.ttl(prefix + key)
      expect(await ttl()).toBeGreaterThan(172_790)
      await admin.expire(prefix + key, 1_000)
      await store.counters.take('acme', [{ name: 'api.calls', amount: 0, limit: 10 }])
      await store.counters.take('acme', [{ name: 'api.calls', amount: 8, limit: 10 }])
      await store.counters.read('acme', 'api.calls')
      expect(await ttl()).toBeLessThanOrEqual(1_000)
      await store.counters.take('acme', [{ name: 'api.calls', amount: 1, limit: 10 }])
      expect(await ttl()).toBeGreaterThan(172_790)
      await advance(172_800_000)
      expect(await kept(admin, prefix)).toEqual(['quota:{acme}:names', 'quota:{acme}:snap:seats'])
    }))

  test('leave no keys of an idle tenant', () =>
    opening(async ({ store, prefix, admin, advance }) => {
      await store.counters.take('quiet', [{ name: 'calls', amount: 1, limit: null }])
      await advance(172_800_000)
      expect(await kept(admin, prefix)).toEqual([])
    }))

  test('keep cleared counts in a hash of their slot for 48 h after the end of the day', () =>
    opening(async ({ store, prefix, admin, advance }) => {
      await store.counters.put('acme', 'seats', 1)
      await store.counters.clear('acme')
      expect(await kept(admin, prefix)).toEqual([])
      const { nowMs } = await store.counters.take('acme', takes('calls', 'bytes'))
      await store.counters.clear('acme', 'calls')
      await store.counters.clear('acme')
      const key = `quota:{acme}:cleared:${dateOf(dayOf(nowMs))}`
      expect(await kept(admin, prefix)).toEqual([key])
      expect(await admin.hgetall(prefix + key)).toEqual({ bytes: '1', calls: '1' })
      const endsMs = (dayOf(nowMs) + 3) * 86_400_000 - nowMs
      const leftMs = await admin.pttl(prefix + key)
      expect(Math.abs(leftMs - endsMs)).toBeLessThan(10_000)
      await store.counters.take('acme', takes('calls'))
      expect(await admin.pttl(prefix + key)).toBeGreaterThan(
        await admin.pttl(`${prefix}quota:{acme}:${dateOf(dayOf(nowMs))}:calls`),
      )
      await advance(leftMs)
      expect(await kept(admin, prefix)).toEqual([])
    }))

  test('neither report nor clear a key with another type of value', () =>
    opening(async ({ store: { counters }, prefix, admin }) => {
      const { nowMs } = await counters.take('acme', takes('calls', 'bytes'))
      const date = dateOf(dayOf(nowMs))
      const refusal = { code: 'E_INVALID_REQUEST' }
      await admin.set(`${prefix}quota:{acme}:${date}:word`, 'forty')
      await admin.lpush(`${prefix}quota:{acme}:${date}:list`, 'x')
      for (const name of ['word', 'list']) {
        await expect(counters.counted('acme', [name])).rejects.toMatchObject(refusal)
        await counters.clear('acme', name)
        expect((await counters.counted('acme', [name])).today).toEqual(new Map())
      }
      await admin.set(`${prefix}quota:{acme}:cleared:${date}`, 'x')
      await expect(counters.clear('acme')).rejects.toMatchObject(refusal)
      await expect(counters.counted('acme', ['calls'])).rejects.toMatchObject(refusal)
      await admin.del(`${prefix}quota:{acme}:cleared:${date}`)
      expect((await counters.counted('acme', ['calls', 'bytes'])).today).toEqual(
        new Map([
          ['calls', 1],
          ['bytes', 1],
        ]),
      )
    }))

  test('restore the set of names with the next write after its eviction', () =>
    opening(async ({ store: { counters }, prefix, admin }) => {
      const { nowMs } = await counters.take('acme', takes('calls', 'bytes'))
      await counters.put('acme', 'seats', 3)
      await admin.del(`${prefix}quota:{acme}:names`)
      expect(await counters.readAll('acme')).toMatchObject({ today: new Map(), gauges: new Map() })
      await counters.take('acme', takes('calls', 'bytes'))
      await counters.put('acme', 'seats', 4)
      expect(await counters.readAll('acme')).toMatchObject({
        today: new Map([
          ['bytes', 2],
          ['calls', 2],
        ]),
        gauges: new Map([['seats', 4]]),
      })
      await admin.del(`${prefix}quota:{acme}:names`)
      await counters.take('acme', takes('calls'))
      expect(await admin.ttl(`${prefix}quota:{acme}:names`)).toBeGreaterThan(172_790)
      await counters.clear('acme')
      expect(await kept(admin, prefix)).toEqual([
        `quota:{acme}:${dateOf(dayOf(nowMs))}:bytes`,
        `quota:{acme}:cleared:${dateOf(dayOf(nowMs))}`,
        'quota:{acme}:snap:seats',
      ])
    }))

  test('restore the sets of names of many tenants in one batch', () =>
    opening(async ({ store: { counters }, prefix, admin }) => {
      const tenants = Array.from({ length: 50 }, (_, n) => `tenant-${n}`)
      const takeAll = () => Promise.all(tenants.map((tenant) => counters.take(tenant, takes('calls'))))
      await takeAll()
      await Promise.all(tenants.map((tenant) => admin.del(`${prefix}quota:{${tenant}}:names`)))
      await vi.waitFor(async () => {
        // Another tenant is first in the script in each round.
        tenants.push(tenants.shift() as string)
        await takeAll()
        for (const tenant of tenants) expect((await counters.readAll(tenant)).today.size).toBe(1)
      }, EVENTUALLY)
    }))

  test('fail only the call with an invalid key, and count nothing of this call', () =>
    opening(async ({ store: { counters }, prefix, admin }) => {
      const { nowMs } = await counters.take('sound', takes('calls'))
      const key = (tenant: string, name: string) => `${prefix}quota:{${tenant}}:${dateOf(dayOf(nowMs))}:${name}`
      const foreign = ['a list', 'a word', 'a fraction', 'its names'] as const
      await admin.lpush(key('a list', 'bytes'), 'x')
      await admin.set(key('a word', 'bytes'), 'forty')
      await admin.set(key('a fraction', 'bytes'), '1.5')
      await admin.set(`${prefix}quota:{its names}:names`, 'x')
      const asked = [...foreign, ...foreign.toReversed()].flatMap((tenant) => ['sound', tenant, 'sound'])
      const outcomes = await Promise.allSettled(
        asked.map((tenant) => counters.take(tenant, takes('looked', 'calls', 'bytes'))),
      )
      for (const [index, tenant] of asked.entries()) {
        const outcome = outcomes[index] as PromiseSettledResult<unknown>
        if (tenant === 'sound') expect(outcome).toMatchObject({ status: 'fulfilled', value: { isAllowed: true } })
        else expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'E_INVALID_REQUEST' } })
      }
      expect((await counters.read('sound', 'calls')).today).toBe(17)
      expect((await counters.read('sound', 'bytes')).today).toBe(16)
      for (const tenant of foreign) expect((await counters.read(tenant, 'calls')).today).toBeNull()
      expect(await admin.get(key('a word', 'bytes'))).toBe('forty')
    }))

  test('put no gauge if its name cannot be noted', () =>
    opening(async ({ store: { counters }, prefix, admin }) => {
      await admin.set(`${prefix}quota:{acme}:names`, 'x')
      await expect(counters.put('acme', 'seats', 1)).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
      expect((await counters.read('acme', 'seats')).gauge).toBeNull()
    }))

  test('fail with the error of the invalid key in the same pipeline', () =>
    opening(async ({ store, prefix, admin }) => {
      await admin.lpush(`${prefix}circuit:{acme}`, 'a list')
      await expect(store.increment('acme', 'circuit', 1)).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
    }))
})

describe('sums in Redis', () => {
  const source = randomUUID()
  const batch = (number: number, tenantId = 'acme', more = {}) => {
    const additions = [{ tenantId, name: 'requests', amount: 3 }]
    return { day: '2026-11-21', source, number, additions, ...more }
  }

  test('are stored under the documented keys for 72 h after their last addition, in one slot for each tenant', async () => {
    const { store, prefix, admin, advance, cleanUp } = await openInRedis({ url: inject('redisUrl') })
    const { sums } = store
    await sums.add(batch(1))
    const [ofTenant, ofAll] = [`${prefix}metrics:{acme}:2026-11-21`, `${prefix}metrics:{}:2026-11-21`]
    expect((await admin.keys(`${prefix}*`)).toSorted()).toEqual([ofTenant, ofAll].toSorted())
    expect(await admin.hgetall(ofTenant)).toEqual({
      '@': expect.stringMatching(/^[0-9a-f-]{36}$/),
      [`#${source}`]: '1',
      requests: '3',
    })
    expect(await admin.smembers(ofAll)).toEqual(['acme'])
    for (const key of [ofTenant, ofAll]) {
      await admin.expire(key, 1_000)
      await sums.read('acme', ['2026-11-21'])
      expect(await admin.ttl(key)).toBeLessThanOrEqual(1_000)
    }
    await sums.add(batch(2))
    for (const key of [ofTenant, ofAll]) expect(await admin.ttl(key)).toBeGreaterThan(72 * 3_600 - 10)
    await advance(72 * 3_600_000)
    expect(await admin.keys(`${prefix}*`)).toEqual([])
    await store.close()
    await cleanUp()
  })

  test('are added once by a server that has lost its scripts', async () => {
    const { store, prefix, admin, cleanUp } = await openInRedis({ url: inject('redisUrl') })
    const { sums } = store
    await sums.add(batch(1))
    await sums.add(batch(1, 'globex'))
    await (admin as Redis).script('FLUSH')
    await admin.unlink(`${prefix}metrics:{globex}:2026-11-21`)
    await sums.add(batch(2))
    await sums.add(batch(2, 'globex'))
    const sumOf = async (tenant: string) => (await sums.read(tenant, ['2026-11-21']))[0]?.sum
    expect([await sumOf('acme'), await sumOf('globex')]).toEqual([6, 3])
    await store.close()
    await cleanUp()
  })

  test('fail with E_INVALID_REQUEST on a key with another type of value', async () => {
    const { store, prefix, admin, cleanUp } = await openInRedis({ url: inject('redisUrl') })
    await admin.lpush(`${prefix}metrics:{acme}:2026-11-21`, 'x')
    await expect(store.sums.add(batch(1))).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
    await store.close()
    await cleanUp()
  })
})

describe('redisStore', () => {
  test('rejects options without url and nodes, and options with both', () => {
    expect(() => redisStore({})).toThrow('either a url or nodes')
    expect(() => redisStore({ url: 'redis://x', nodes: ['redis://y'] })).toThrow('either a url or nodes')
  })
})
