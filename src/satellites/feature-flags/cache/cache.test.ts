/** The cache of flags: its content, its expiry, its invalidation. */
import { AsyncResource } from 'node:async_hooks'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { eventually } from '../../../testing/base/tenancy.ts'
import type { FlagsTenancy } from '../flags.fixture.ts'
import type { FlagRequest } from '../index.ts'
import { type FlagsPair, openPair } from './cache.fixture.ts'

const CACHE_TTL_MS = 60_000

let pair: FlagsPair
let here: FlagsTenancy
/** Acts as another process. */
let there: FlagsTenancy
let id: string

beforeAll(async () => {
  pair = await openPair(inject('postgresUrl'))
  ;({ here, there } = pair)
  vi.useFakeTimers({ toFake: ['performance'] }) // the clock stands still, so cached flags do not expire
})
afterAll(async () => {
  vi.useRealTimers()
  await pair.opened.end()
})
beforeEach(async () => {
  id = `tenant-${randomUUID()}`
  await here.tenants.create({ id, name: 'Acme' })
})

const set = (key: string, request: FlagRequest) => here.featureFlags.set(id, key, request)
const setInSecret = (key: string, enabled: boolean) => pair.setInSecret(id, key, enabled)
const isOn = (key: string, tenantId = id) => there.featureFlags.isEnabled(key, { tenantId })
const notificationsReceived = () => pair.notificationsReceived()
const queriesOf = (work: () => Promise<unknown>) => pair.queriesOf(work)
const slowRead = () => pair.slowRead(() => isOn('one'))

describe('a cached flag', () => {
  test('is served without a query, also if it does not exist', async () => {
    await set('one', { enabled: true })
    await notificationsReceived()
    expect(await queriesOf(async () => expect([await isOn('one'), await isOn('none')]).toEqual([true, false]))).toBe(2)
    await setInSecret('one', false)
    await setInSecret('none', true)
    expect(await queriesOf(async () => expect([await isOn('one'), await isOn('none')]).toEqual([true, false]))).toBe(0)
  })

  test('is the rule, not the result of an evaluation', async () => {
    await set('half', { enabled: true, rolloutPercent: 50, bucketKey: 'plan' })
    await notificationsReceived()
    const results = new Set<boolean>()
    const ask = async (plan: string) => {
      const context = { tenantId: id, attributes: { plan } }
      const { enabled } = await there.featureFlags.explain('half', context)
      expect(await there.featureFlags.isEnabled('half', context)).toBe(enabled)
      results.add(enabled)
    }
    await ask('first')
    const queries = await queriesOf(async () => {
      for (let n = 0; n < 50; n++) await ask(`plan-${n}`)
    })
    expect([queries, results]).toEqual([0, new Set([true, false])])
  })

  test('is loaded by one query for concurrent callers', async () => {
    for (const key of ['a', 'b', 'c']) await set(key, { enabled: true })
    await notificationsReceived()
    const queries = await queriesOf(async () => {
      const asked = Array.from({ length: 300 }, (_, n) => isOn(['a', 'b', 'c', 'd'][n % 4] as string))
      const other = isOn('a', `other-${id.slice(0, 20)}`)
      expect((await Promise.all(asked)).filter(Boolean)).toHaveLength(225)
      expect(await other).toBe(false)
    })
    expect(queries).toBe(1)
  })

  test('that is being loaded delays its readers', async () => {
    await set('one', { enabled: true })
    await notificationsReceived()
    const { before, release } = await slowRead()
    const queries = await queriesOf(async () => {
      const asked = Array.from({ length: 10 }, () => isOn('one'))
      release()
      expect(await Promise.all([before, ...asked])).not.toContain(false)
    })
    expect(queries).toBe(0)
  })

  test('is loaded again in the background, by one query, after its TTL', async () => {
    await set('one', { enabled: true })
    await notificationsReceived()
    await isOn('one')
    await setInSecret('one', false)
    vi.advanceTimersByTime(CACHE_TTL_MS - 1)
    expect(await isOn('one')).toBe(true)
    vi.advanceTimersByTime(1)
    const queries = await queriesOf(async () => {
      await eventually(async () => {
        const asked = await Promise.all(Array.from({ length: 500 }, () => isOn('one')))
        expect(new Set(asked).size).toBe(1) // no reader waits
        expect(asked[0]).toBe(false)
      })
    })
    expect(queries).toBe(1)
  })

  test('of one tenant is not evicted by many unknown flags of another tenant', async () => {
    await set('one', { enabled: true })
    await notificationsReceived()
    await isOn('one')
    await setInSecret('one', false)
    const other = `other-${id.slice(0, 20)}`
    for (let batch = 0; batch < 6; batch++) {
      await Promise.all(Array.from({ length: 1_000 }, (_, n) => isOn(`made-up-${batch}-${n}`, other)))
    }
    expect(await isOn('one')).toBe(true)
    expect(await queriesOf(() => isOn('made-up-5-999', other))).toBe(0)
    expect(await queriesOf(() => isOn('made-up-0-0', other))).toBe(1)
  })

  test('that exists is not evicted by unknown flags', async () => {
    await set('one', { enabled: true })
    await notificationsReceived()
    await isOn('one')
    await setInSecret('one', false)
    for (let batch = 0; batch < 6; batch++) {
      await Promise.all(Array.from({ length: 1_000 }, (_, n) => isOn(`made-up-${batch}-${n}`)))
    }
    expect(await queriesOf(async () => expect(await isOn('one')).toBe(true))).toBe(0)
  })
})

describe('a change', () => {
  test('a change is visible immediately in its process, and soon in others', async () => {
    for (const settings of [{ enabled: true }, { enabled: false }, { enabled: true, rolloutPercent: 0 }]) {
      await set('one', settings)
      const expected = settings.enabled && settings.rolloutPercent !== 0
      expect(await here.featureFlags.isEnabled('one', { tenantId: id })).toBe(expected)
      await notificationsReceived()
      expect(await isOn('one')).toBe(expected)
    }
    await here.featureFlags.delete(id, 'one')
    expect(await here.featureFlags.explain('one', { tenantId: id })).toMatchObject({ reason: 'FLAG_NOT_FOUND' })
    await notificationsReceived()
    expect(await there.featureFlags.explain('one', { tenantId: id })).toMatchObject({ reason: 'FLAG_NOT_FOUND' })
  })

  test('a change that was received delays later readers, and discards earlier reads', async () => {
    await set('one', { enabled: false })
    await notificationsReceived()
    const { release, before } = await slowRead()
    await set('one', { enabled: true })
    await notificationsReceived()
    expect(await isOn('one')).toBe(true)
    release()
    expect(await before).toBe(false)
    expect(await queriesOf(async () => expect(await isOn('one')).toBe(true))).toBe(0)
  })

  test('a change during a read repeats the read', async () => {
    await set('one', { enabled: false })
    await notificationsReceived()
    const { release, before } = await slowRead()
    await set('one', { enabled: true })
    await notificationsReceived()
    release()
    expect(await before).toBe(false)
    expect(await isOn('one')).toBe(true)
  })

  test('a change in a transaction is visible in it, and outside only after the commit', async () => {
    await set('one', { enabled: false })
    await notificationsReceived()
    expect(await isOn('one')).toBe(false)
    const outside = AsyncResource.bind((key: string) => isOn(key))
    await there.transaction(async () => {
      for (const key of ['one', 'two']) await there.featureFlags.set(id, key, { enabled: true })
      const asked = Promise.all([outside('one'), isOn('one'), outside('two'), isOn('two')]) // in one tick
      expect(await asked).toEqual([false, true, false, true])
      const all = await there.featureFlags.explainAll({ tenantId: id })
      expect(all).toMatchObject([
        { key: 'one', enabled: true },
        { key: 'two', enabled: true },
      ])
      expect(await outside('one')).toBe(false)
    })
    expect([await isOn('one'), await isOn('two')]).toEqual([true, true])
  })

  test('a change does not invalidate other flags', async () => {
    await set('one', { enabled: false })
    await notificationsReceived()
    expect([await isOn('one'), await isOn('other')]).toEqual([false, false])
    await setInSecret('other', true)
    await set('one', { enabled: true })
    await notificationsReceived()
    expect(await queriesOf(async () => expect(await isOn('other')).toBe(false))).toBe(0)
    expect(await isOn('one')).toBe(true)
    expect(await there.featureFlags.explainAll({ tenantId: id })).toMatchObject([{ key: 'one' }, { key: 'other' }])
  })

  test('a change of more flags than a message can hold invalidates all flags of the tenant', async () => {
    const source = `source-${id.slice(0, 20)}`
    await here.tenants.create({ id: source, name: 'Source' })
    await here.kernel.database.sql(
      `insert into multitenancy.feature_flags (id, tenant_id, key, enabled, created_at, updated_at)
       select gen_random_uuid(), $1, repeat('k', 100) || n, true, now(), now() from generate_series(1, 100) as n`,
      [source],
    )
    const key = `${'k'.repeat(100)}1`
    expect(await isOn(key)).toBe(false)
    const changes: unknown[] = []
    const stop = there.featureFlags.onChange((...change) => void changes.push(change))
    await here.transaction(() => here.featureFlags.copy(source, id))
    await notificationsReceived()
    stop()
    expect(changes).toEqual([[id, undefined]])
    expect(await isOn(key)).toBe(true)
  })

  test('a malformed message invalidates everything', async () => {
    await set('one', { enabled: true })
    await notificationsReceived()
    expect(await isOn('one')).toBe(true)
    await setInSecret('one', false)
    await here.kernel.database.notify('multitenancy_feature_flags', id)
    await notificationsReceived()
    expect(await isOn('one')).toBe(false)
  })

  test('a change is published to listeners with tenant and key', async () => {
    const changes: unknown[] = []
    const stop = there.featureFlags.onChange((...change) => void changes.push(change))
    await set('one', { enabled: true })
    await notificationsReceived()
    stop()
    await set('one', { enabled: false })
    await notificationsReceived()
    expect(changes).toEqual([[id, ['one']]])
  })
})
