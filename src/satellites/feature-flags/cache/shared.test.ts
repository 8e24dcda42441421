/** Flags in Redis: shared, overwritten, and never outdated again. */
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { eventually } from '../../../testing/base/tenancy.ts'
import { type FlagsTenancy, queriesOf } from '../flags.fixture.ts'
import type { FlagRequest } from '../index.ts'
import {
  CACHE_TTL_MS,
  CHANNEL,
  flagsOf,
  openSharedFlags,
  SHARED_TTL_MS,
  type SharedFlagsOpened,
} from './shared.fixture.ts'
import { SharedFlags } from './shared.ts'

const TOMBSTONE = '-'

let shared: SharedFlagsOpened
let here: FlagsTenancy
let there: FlagsTenancy
let id: string
let stored: ReturnType<typeof flagsOf>

beforeAll(async () => {
  shared = await openSharedFlags()
  ;({ here, there } = shared)
})
afterAll(() => shared.end())
beforeEach(async () => {
  id = `tenant-${randomUUID()}`
  stored = flagsOf(here, id)
  await here.tenants.create({ id, name: 'Acme' })
})
afterEach(() => vi.useRealTimers())

const set = (key: string, request: FlagRequest) => here.featureFlags.set(id, key, request)
const isOn = (tenancy: FlagsTenancy, key = 'one') => tenancy.featureFlags.isEnabled(key, { tenantId: id })
const kept = (key?: string) => stored.kept(key)
/** Time to live. */
const leftMs = () => shared.redis.pttl(`${shared.keyPrefix}tenants/${id}/feature-flags/one`)
const setLongAgo = (key: string, enabled: boolean) => stored.setLongAgo(key, enabled)

describe('a flag in Redis', () => {
  test('spares other processes a query, also if it does not exist', async () => {
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

  test('is a tombstone after a change, which is visible immediately here and soon there', async () => {
    await setLongAgo('one', false)
    for (const tenancy of [here, there]) expect(await isOn(tenancy)).toBe(false)
    await set('one', { enabled: true })
    expect(await kept()).toBe(TOMBSTONE)
    expect(await isOn(here)).toBe(true)
    await eventually(async () => expect(await isOn(there)).toBe(true))
    expect(await kept()).toBe(TOMBSTONE)
    await eventually(async () => expect(await leftMs()).toBeLessThanOrEqual(10_000))
  })

  test('has its changes published through Redis, too', async () => {
    await setLongAgo('one', false)
    expect(await isOn(there)).toBe(false)
    await setLongAgo('one', true) // whose notification was never sent
    await here.kernel.store.publish(CHANNEL, `${randomUUID()} ${id} one`)
    await eventually(async () => expect(await isOn(there)).toBe(true))
  })

  test('is a tombstone before the commit, because the writer may be killed after it', async () => {
    await setLongAgo('one', false)
    await isOn(here)
    await eventually(async () => expect(await kept()).not.toBeNull())
    const failing = here.transaction(async () => {
      await set('one', { enabled: true })
      expect(await kept()).toBe(TOMBSTONE)
      expect(await leftMs()).toBeGreaterThan(60_000) // longer than an old value can be stored
      throw new Error('the writer was killed')
    })
    await expect(failing).rejects.toThrow('the writer was killed')
    expect(await kept()).toBe(TOMBSTONE)
    expect(await isOn(there)).toBe(false)
  })

  test('is never the old value of a slow loader', async () => {
    const loader = new SharedFlags(here.kernel, 60)
    const old = { key: 'one', enabled: false, rolloutPercent: null, bucketKey: null }
    const startedAt = performance.now()
    await set('one', { enabled: true })
    await loader.fill(id, 'one', old, startedAt)
    expect(await kept()).toBe(TOMBSTONE)
    await stored.forgetInStore() // the tombstone has expired
    await loader.fill(id, 'one', old, startedAt - 5_001)
    expect(await kept()).toBeNull()
    await loader.fill(id, 'one', { ...old, enabled: true }, performance.now())
    expect(JSON.parse((await kept()) ?? '{}')).toMatchObject({ enabled: true })
    await loader.fill(id, 'one', old, performance.now())
    expect(JSON.parse((await kept()) ?? '{}')).toMatchObject({ enabled: true })
  })

  test('is ignored while the flag is doubtful', async () => {
    await setLongAgo('one', false)
    expect(await isOn(there)).toBe(false)
    await eventually(async () => expect(await kept()).not.toBeNull())
    const old = await kept()
    await set('one', { enabled: true })
    await here.kernel.store.set(id, 'feature-flags/one', old ?? '', 60)
    await eventually(async () => expect(await isOn(there)).toBe(true))
  })

  test('with foreign content is ignored', async () => {
    await setLongAgo('one', true)
    for (const text of ['', 'true', '{"key":"one"}', '{', '[]']) {
      await here.kernel.store.set(id, 'feature-flags/one', text, 60)
      const tenancy = await shared.opened.open()
      expect(await isOn(tenancy), text).toBe(true)
    }
  })
})

describe('a change that Redis did not receive', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))

  test('is visible after 5 seconds in a process that has just started to listen', async () => {
    await stored.changeInSecret()
    const young = await shared.opened.open()
    expect(await isOn(young)).toBe(true)
    vi.advanceTimersByTime(5_000)
    await eventually(async () => expect(await isOn(young)).toBe(false))
    expect(JSON.parse((await kept()) ?? '')).toMatchObject({ enabled: true })
  })

  test('is outdated in Redis only until entries expire: then Redis is trusted', async () => {
    const old = await shared.opened.open()
    await isOn(old, 'any')
    await eventually(() => expect(old.kernel.database.isListening).toBe(true))
    vi.advanceTimersByTime(SHARED_TTL_MS)
    await stored.changeInSecret()
    expect(await queriesOf(old, () => isOn(old))).toBe(0)
    vi.advanceTimersByTime(CACHE_TTL_MS - 1)
    expect(await queriesOf(old, async () => expect(await isOn(old)).toBe(true))).toBe(0)
  })
})

describe('a published change', () => {
  test('is received once, by the faster of both ways', async () => {
    const published: unknown[] = []
    const words: string[] = []
    for (const [name, tenancy] of Object.entries({ here, there })) {
      tenancy.featureFlags.onChange((tenantId, keys) => {
        if (tenantId === id) published.push([name, keys])
      })
      const { database, store } = tenancy.kernel
      // They run after the listeners of the flags.
      const hear = (word: string) => void (word.includes(id) && words.push(word))
      await database.listen(CHANNEL, hear, () => undefined)
      await store.subscribe(CHANNEL, hear, () => undefined)
    }
    await set('one', { enabled: true })
    await eventually(() => expect(words).toHaveLength(4))
    expect(published.toSorted()).toEqual([
      ['here', ['one']],
      ['there', ['one']],
    ])
    await here.featureFlags.delete(id, 'one')
    await eventually(() => expect(words).toHaveLength(8))
    expect(published).toHaveLength(4)
  })
})
