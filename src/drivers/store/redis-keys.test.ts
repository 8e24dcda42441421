import fc from 'fast-check'
import { describe, expect, inject, test } from 'vitest'
import { dateOf, dayOf } from '../../kernel/counters.ts'
import { type OpenedInRedis, openInRedis } from './redis.fixture.ts'
import { redisStore } from './redis.ts'
import { RedisKeys } from './redis-keys.ts'

const signs = fc.constantFrom('a', 'b', ':', '/', '{', '}', '%', '*', '7B', 'tenants', 'quota', '\\', '🔑')
const text = fc.array(signs, { minLength: 1, maxLength: 6 }).map((parts) => parts.join(''))
const owner = fc.option(text, { nil: null })

describe('keys in Redis', () => {
  const keys = new RedisKeys('app:')

  test.each([
    ['acme', 'circuit', 'app:circuit:{acme}'],
    ['acme', 'quota:x', 'app:quota:{acme}:x'],
    [null, 'session:4711', 'app:session:{}:4711'],
    ['acme', 'feature-flags/new-ui', 'app:tenants/acme/feature-flags/new-ui'],
    ['acme', 'page:a/b', 'app:page:{acme}:a/b'],
    ['a{c}m%e/', 'x{y}', 'app:x%7By%7D:{a%7Bc%7Dm%25e%2F}'],
  ])('of %s, %s is %s', (whose, key, expected) => {
    expect(keys.of(whose, key)).toBe(expected)
  })

  test('no two meet, and each says whose it is', () => {
    fc.assert(
      fc.property(owner, text, owner, text, (firstOwner, firstKey, secondOwner, secondKey) => {
        const first = keys.of(firstOwner, firstKey)
        const isSame = firstOwner === secondOwner && firstKey === secondKey
        expect(first === keys.of(secondOwner, secondKey)).toBe(isSame)
        expect(keys.ownerOf(first)).toBe(firstOwner)
      }),
      { numRuns: 2_000 },
    )
  })

  test('of others are none of ours', () => {
    for (const key of ['acme', 'circuit:{acme}', 'app:circuit', 'app:circuit:acme', 'app:other/{acme}']) {
      expect(keys.ownerOf(key)).toBeUndefined()
    }
  })

  test('a prefix with braces would move tenants to one slot', () => {
    expect(() => new RedisKeys('{app}')).toThrow('braces')
  })
})

describe('counters in Redis', () => {
  const opening = async (work: (opened: OpenedInRedis, redis: any) => Promise<void>) => {
    const opened = await openInRedis({ url: inject('redisUrl') })
    try {
      await work(opened, opened.admin)
    } finally {
      await opened.store.close()
      await opened.cleanUp()
    }
  }
  const kept = async (redis: any, prefix: string): Promise<string[]> =>
    (await redis.keys(`${prefix}*`)).map((key: string) => key.slice(prefix.length)).toSorted()

  test('stand where the documentation says, for 48 h after their last write', () =>
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

  test('leave nothing behind of a tenant that has gone quiet, or was cleared', () =>
    opening(async ({ store, prefix, admin, advance }) => {
      await store.counters.take('quiet', [{ name: 'calls', amount: 1, limit: null }])
      await advance(172_800_000)
      expect(await kept(admin, prefix)).toEqual([])
      await store.counters.take('acme', [{ name: 'calls', amount: 1, limit: null }])
      await store.counters.put('acme', 'seats', 1)
      await store.counters.clear('acme')
      expect(await kept(admin, prefix)).toEqual([])
    }))

  test('are refused together with a key that is no counter, as the failure that it is', () =>
    opening(async ({ store, prefix, admin }) => {
      await admin.lpush(`${prefix}circuit:{acme}`, 'a list')
      await expect(store.increment('acme', 'circuit', 1)).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
    }))
})

describe('the options of the store redis', () => {
  test('name one server, or nodes', () => {
    expect(() => redisStore({})).toThrow('either a url or nodes')
    expect(() => redisStore({ url: 'redis://x', nodes: ['redis://y'] })).toThrow('either a url or nodes')
  })
})
