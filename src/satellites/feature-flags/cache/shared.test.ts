/** Flags by way of Redis: what is shared, and what is overwritten and does not come back. */
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
/** For how long. */
const leftMs = () => shared.redis.pttl(`${shared.keyPrefix}tenants/${id}/feature-flags/one`)
const setLongAgo = (key: string, enabled: boolean) => stored.setLongAgo(key, enabled)

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
    const loader = new SharedFlags(here.kernel, 60)
    const old = { key: 'one', enabled: false, rolloutPercent: null, bucketKey: null }
    const startedAt = performance.now()
    await set('one', { enabled: true })
    await loader.fill(id, 'one', old, startedAt)
    expect(await kept()).toBe(TOMBSTONE)
    await stored.forgetInStore() // the tombstone's time is over
    await loader.fill(id, 'one', old, startedAt - 5_001)
    expect(await kept()).toBeNull()
    await loader.fill(id, 'one', { ...old, enabled: true }, performance.now())
    expect(JSON.parse((await kept()) ?? '{}')).toMatchObject({ enabled: true })
    await loader.fill(id, 'one', old, performance.now())
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
      const tenancy = await shared.opened.open()
      expect(await isOn(tenancy), text).toBe(true)
    }
  })
})

describe('a change that Redis does not know of', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))

  test('is seen within 5 seconds by a process that has only just begun to hear', async () => {
    await stored.changeInSecret()
    const young = await shared.opened.open()
    expect(await isOn(young)).toBe(true)
    vi.advanceTimersByTime(5_000)
    await eventually(async () => expect(await isOn(young)).toBe(false))
    expect(JSON.parse((await kept()) ?? '')).toMatchObject({ enabled: true })
  })

  test('is not there when nothing was heard for as long as Redis keeps anything: then Redis is believed', async () => {
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

describe('being told', () => {
  test('is once for each change, by whichever way it comes first', async () => {
    const published: unknown[] = []
    const words: string[] = []
    for (const [name, tenancy] of Object.entries({ here, there })) {
      tenancy.featureFlags.onChange((tenantId, keys) => {
        if (tenantId === id) published.push([name, keys])
      })
      const { database, store } = tenancy.kernel
      // They come after what the flags themselves hear by.
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
