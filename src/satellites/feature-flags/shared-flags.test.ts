/** Flags by way of Redis: what is shared, what is overwritten and does not come back, and what its absence costs. */
import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { redisStore } from '../../drivers/store/redis.ts'
import type { EventOf } from '../../kernel/events.ts'
import { DependencyDegraded } from '../../kernel/resilience.ts'
import { startProxy } from '../../testing/proxy.ts'
import { eventually, type TestTenancy } from '../../testing/tenancy.ts'
import { type FlagsTenancy, openFlags } from './flags.fixture.ts'
import type { FlagRequest, featureFlags } from './index.ts'
import { SharedFlags } from './shared-flags.ts'

const CACHE_TTL_MS = 60_000
/** After a change: as long as something older could stand in Redis. */
const SHARED_TTL_MS = CACHE_TTL_MS + 10_000
const CHANNEL = 'multitenancy_feature_flags'
const UNAVAILABLE = { code: 'E_DEPENDENCY_UNAVAILABLE', status: 503 }
const TOMBSTONE = '-'
/** By the clock that the attempts move on themselves. */
const PATIENCE_MS = 3_600_000

const keyPrefix = `test-${randomUUID()}:`
let opened: TestTenancy<[ReturnType<typeof featureFlags>]>
let here: FlagsTenancy
let there: FlagsTenancy
let proxy: Awaited<ReturnType<typeof startProxy>>
let database: Awaited<ReturnType<typeof startProxy>>
/** They reach Redis by a way that can be closed. */
let open: FlagsTenancy
let closed: FlagsTenancy
let id: string
let redis: Redis
const degraded: EventOf<typeof DependencyDegraded>[] = []

beforeAll(async () => {
  const url = inject('redisUrl')
  redis = new Redis(url)
  opened = await openFlags(inject('postgresUrl'), { store: redisStore({ url, keyPrefix }) })
  here = opened.tenancy
  there = await opened.open()
  proxy = await startProxy(url)
  database = await startProxy(opened.url)
  const store = redisStore({ url: proxy.url, keyPrefix })
  open = await opened.open({ store })
  closed = await opened.open({ store, resilience: { redis: { cache: 'fail-closed' } } })
  for (const one of [open, closed]) one.on(DependencyDegraded, (event) => void degraded.push(event))
})
afterAll(async () => {
  await opened.end()
  redis.disconnect()
  await Promise.all([proxy.close(), database.close()])
})
beforeEach(async () => {
  id = `tenant-${randomUUID()}`
  await here.tenants.create({ id, name: 'Acme' })
})
afterEach(() => vi.useRealTimers())

const set = (key: string, request: FlagRequest, tenancy = here) => tenancy.featureFlags.set(id, key, request)
const isOn = (tenancy: FlagsTenancy, key = 'one') => tenancy.featureFlags.isEnabled(key, { tenantId: id })
const kept = (key = 'one') => here.kernel.store.get(id, `feature-flags/${key}`)
/** For how long. */
const leftMs = () => redis.pttl(`${keyPrefix}tenants/${id}/feature-flags/one`)
const forgetInStore = (key = 'one') => here.kernel.store.delete(id, `feature-flags/${key}`)
const sql = (text: string, values: readonly unknown[]) => here.kernel.database.sql(text, values)
/** A row that is there without a tombstone: as if it had been there long ago. */
const setLongAgo = (key: string, enabled: boolean) =>
  sql(
    `insert into multitenancy.feature_flags (id, tenant_id, key, enabled, created_at, updated_at)
     values (gen_random_uuid(), $1, $2, $3, now(), now())
     on conflict (tenant_id, key) do update set enabled = excluded.enabled`,
    [id, key, enabled],
  )

describe('in Redis', () => {
  test('what one process has read, others need not, also that there is no such flag', async () => {
    await setLongAgo('one', true)
    expect([await isOn(here), await isOn(here, 'none')]).toEqual([true, false])
    await eventually(async () => {
      expect(JSON.parse((await kept()) ?? '{}')).toEqual({
        key: 'one',
        enabled: true,
        rolloutPercent: null,
        bucketKey: null,
      })
      expect(await kept('none')).toBe('null')
    })
    const reads = vi.spyOn(there.kernel.database, 'sql')
    expect([await isOn(there), await isOn(there, 'none')]).toEqual([true, false])
    expect(reads).not.toHaveBeenCalled()
    reads.mockRestore()
  })

  test('a change leaves a tombstone, and is seen at once here and soon there', async () => {
    await setLongAgo('one', false)
    for (const tenancy of [here, there]) expect(await isOn(tenancy)).toBe(false)
    await set('one', { enabled: true })
    expect(await kept()).toBe(TOMBSTONE)
    expect(await isOn(here)).toBe(true)
    await eventually(async () => expect(await isOn(there)).toBe(true))
    expect(await kept()).toBe(TOMBSTONE)
    await eventually(async () => expect(await leftMs()).toBeLessThanOrEqual(10_000))
  })

  test('a change is heard by way of it alone, too', async () => {
    await setLongAgo('one', false)
    expect(await isOn(there)).toBe(false)
    await setLongAgo('one', true) // whose notification was never sent
    await here.kernel.store.publish(CHANNEL, `${randomUUID()} ${id} one`)
    await eventually(async () => expect(await isOn(there)).toBe(true))
  })

  test('the tombstone is there before the commit, for the writer may die after it', async () => {
    await setLongAgo('one', false)
    await isOn(here)
    await eventually(async () => expect(await kept()).not.toBeNull())
    const failing = here.transaction(async () => {
      await set('one', { enabled: true })
      expect(await kept()).toBe(TOMBSTONE)
      expect(await leftMs()).toBeGreaterThan(60_000) // longer than what is old could be kept
      throw new Error('the writer died')
    })
    await expect(failing).rejects.toThrow('the writer died')
    expect(await kept()).toBe(TOMBSTONE)
    expect(await isOn(there)).toBe(false)
  })

  test('what was read before a change does not come back by a slow loader', async () => {
    const shared = new SharedFlags(here.kernel, 60)
    const old = { key: 'one', enabled: false, rolloutPercent: null, bucketKey: null }
    const begunAt = performance.now()
    await set('one', { enabled: true })
    await shared.fill(id, 'one', old, begunAt)
    expect(await kept()).toBe(TOMBSTONE)
    await forgetInStore() // the tombstone's time is over
    await shared.fill(id, 'one', old, begunAt - 5_001)
    expect(await kept()).toBeNull()
    await shared.fill(id, 'one', { ...old, enabled: true }, performance.now())
    expect(JSON.parse((await kept()) ?? '{}')).toMatchObject({ enabled: true })
    await shared.fill(id, 'one', old, performance.now())
    expect(JSON.parse((await kept()) ?? '{}')).toMatchObject({ enabled: true })
  })

  test('what is in doubt is read from the database, whatever is there', async () => {
    await setLongAgo('one', false)
    expect(await isOn(there)).toBe(false)
    await eventually(async () => expect(await kept()).not.toBeNull())
    const old = await kept()
    await set('one', { enabled: true })
    await here.kernel.store.set(id, 'feature-flags/one', old ?? '', 60)
    await eventually(async () => expect(await isOn(there)).toBe(true))
  })

  test('what somebody else wrote is nothing', async () => {
    await setLongAgo('one', true)
    for (const text of ['', 'true', '{"key":"one"}', '{', '[]']) {
      await here.kernel.store.set(id, 'feature-flags/one', text, 60)
      const tenancy = await opened.open()
      expect(await isOn(tenancy), text).toBe(true)
    }
  })
})

describe('a change that Redis does not know of', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))

  /** Redis has what is old, and goes on having it. */
  const changeInSecret = async () => {
    await setLongAgo('one', true)
    await here.kernel.store.set(id, 'feature-flags/one', ruleOf(true), 60)
    await setLongAgo('one', false)
  }
  const ruleOf = (enabled: boolean) => JSON.stringify({ key: 'one', enabled, rolloutPercent: null, bucketKey: null })
  const queriesOf = async (tenancy: FlagsTenancy, work: () => Promise<unknown>) => {
    const queries = vi.spyOn(tenancy.kernel.database, 'sql')
    await work()
    const { length } = queries.mock.calls
    queries.mockRestore()
    return length
  }

  test('is seen by whoever hears of it, also of a flag that was never asked for', async () => {
    await setLongAgo('one', true)
    expect(await isOn(here)).toBe(true)
    await eventually(async () => expect(await kept()).not.toBeNull())
    const heard = Promise.withResolvers<void>()
    there.featureFlags.onChange((tenantId) => tenantId === id && heard.resolve())
    await proxy.close()
    vi.advanceTimersByTime(2_000)
    await set('one', { enabled: false }, open)
    await heard.promise
    await proxy.open()
    expect(JSON.parse((await kept()) ?? '')).toMatchObject({ enabled: true })
    expect(await isOn(there)).toBe(false)
    vi.advanceTimersByTime(SHARED_TTL_MS - 1)
    expect(await isOn(there)).toBe(false)
  })

  test('is seen within 5 seconds by a process that has only just begun to hear', async () => {
    await changeInSecret()
    const young = await opened.open()
    expect(await isOn(young)).toBe(true)
    vi.advanceTimersByTime(5_000)
    await eventually(async () => expect(await isOn(young)).toBe(false))
    expect(JSON.parse((await kept()) ?? '')).toMatchObject({ enabled: true })
  })

  test('is not there when nothing was heard for as long as Redis keeps anything: then Redis is believed', async () => {
    const old = await opened.open()
    await isOn(old, 'any')
    await eventually(() => expect(old.kernel.database.isListening).toBe(true))
    vi.advanceTimersByTime(SHARED_TTL_MS)
    await changeInSecret()
    expect(await queriesOf(old, () => isOn(old))).toBe(0)
    vi.advanceTimersByTime(CACHE_TTL_MS - 1)
    expect(await queriesOf(old, async () => expect(await isOn(old)).toBe(true))).toBe(0)
  })

  test('is seen by a process that hears nothing', async () => {
    const mute = await startProxy(opened.url, (sent) =>
      Buffer.from(sent.toString('latin1').replace(`listen "${CHANNEL}"`, `list.. "${CHANNEL}"`), 'latin1'),
    )
    const deaf = await opened.open({ database: { url: mute.url } })
    await changeInSecret()
    expect(await isOn(deaf)).toBe(false)
    await deaf.stop()
    await mute.close()
  })

  test('may be older than what holds while the database is away, where the process knows nothing itself', async () => {
    const cut = await opened.open({ database: { url: database.url } })
    const explain = (key: string) => cut.featureFlags.explain(key, { tenantId: id })
    await explain('any')
    await changeInSecret()
    await database.close()
    await eventually(() => expect(cut.kernel.database.isListening).toBe(false))
    for (let time = 0; time < 2; time++) {
      expect(await explain('one')).toMatchObject({ enabled: true, reason: 'STALE' })
      expect(await explain('none')).toMatchObject({ enabled: false, reason: 'ERROR' })
    }
    await database.open()
    await eventually(async () => {
      vi.advanceTimersByTime(1_001)
      expect(await explain('one')).toMatchObject({ enabled: false, reason: 'DISABLED' })
    }, PATIENCE_MS)
  })
})

describe('being told', () => {
  test('is once for each change, by whichever way it comes first', async () => {
    const told: unknown[] = []
    const words: string[] = []
    for (const [name, tenancy] of Object.entries({ here, there })) {
      tenancy.featureFlags.onChange((tenantId, keys) => {
        if (tenantId === id) told.push([name, keys])
      })
      const { database, store } = tenancy.kernel
      // They come after what the flags themselves hear by.
      const hear = (word: string) => void (word.includes(id) && words.push(word))
      await database.listen(CHANNEL, hear, () => undefined)
      await store.subscribe(CHANNEL, hear, () => undefined)
    }
    await set('one', { enabled: true })
    await eventually(() => expect(words).toHaveLength(4))
    expect(told.toSorted()).toEqual([
      ['here', ['one']],
      ['there', ['one']],
    ])
    await here.featureFlags.delete(id, 'one')
    await eventually(() => expect(words).toHaveLength(8))
    expect(told).toHaveLength(4)
  })
})

describe('while Redis is away', () => {
  beforeEach(async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    await setLongAgo('one', true)
    vi.advanceTimersByTime(2_000) // it is left alone no longer
    degraded.splice(0)
  })

  test.each(['cut', 'silent'])('flags come from the database, or are refused, by the policy: %s', async (how) => {
    if (how === 'cut') await proxy.close()
    else proxy.silence()
    expect(await isOn(open)).toBe(true)
    await expect(isOn(closed)).rejects.toMatchObject(UNAVAILABLE)
    const told = { dependency: 'redis', operation: 'flags.read', tenantId: id }
    await eventually(() =>
      expect(degraded).toMatchObject([
        { ...told, policy: 'fail-open' },
        { ...told, policy: 'fail-closed' },
      ]),
    )
    const asked = vi.spyOn(open.kernel.store, 'get')
    expect(await isOn(open, 'other')).toBe(false) // not asked again for a second
    expect(asked).not.toHaveBeenCalled()
    asked.mockRestore()

    const buried = vi.spyOn(open.kernel.store, 'set')
    await set('one', { enabled: false }, open) // the store is no part of it, and is not waited for
    expect(buried).not.toHaveBeenCalled()
    buried.mockRestore()
    expect(await isOn(open)).toBe(false)
    await eventually(async () => expect(await isOn(here)).toBe(false))

    if (how === 'silent') await proxy.close()
    await proxy.open()
    await eventually(async () => {
      vi.advanceTimersByTime(1_001)
      expect(await isOn(closed)).toBe(false)
    }, PATIENCE_MS)
  })

  test('a flag that is known is read again from the database, whatever the policy', async () => {
    await eventually(async () => {
      vi.advanceTimersByTime(1_001)
      expect(await isOn(closed)).toBe(true)
    }, PATIENCE_MS)
    vi.advanceTimersByTime(SHARED_TTL_MS) // Redis is worth asking again
    await proxy.close()
    await setLongAgo('one', false)
    await eventually(async () => expect(await isOn(closed)).toBe(false))
    await proxy.open()
  })
})
