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

const UNAVAILABLE = { code: 'E_DEPENDENCY_UNAVAILABLE', status: 503 }
const TOMBSTONE = '-'

const keyPrefix = `test-${randomUUID()}:`
let opened: TestTenancy<[ReturnType<typeof featureFlags>]>
let here: FlagsTenancy
let there: FlagsTenancy
let proxy: Awaited<ReturnType<typeof startProxy>>
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
  const store = redisStore({ url: proxy.url, keyPrefix })
  open = await opened.open({ store })
  closed = await opened.open({ store, resilience: { redis: { cache: 'fail-closed' } } })
  for (const one of [open, closed]) one.on(DependencyDegraded, (event) => void degraded.push(event))
})
afterAll(async () => {
  await opened.end()
  redis.disconnect()
  await proxy.close()
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
    await here.kernel.store.publish('multitenancy_feature_flags', id)
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

    await set('one', { enabled: false }, open) // the store is no part of it
    expect(await isOn(open)).toBe(false)
    await eventually(async () => expect(await isOn(here)).toBe(false))

    if (how === 'silent') await proxy.close()
    await proxy.open()
    await eventually(async () => {
      vi.advanceTimersByTime(1_001)
      expect(await isOn(closed)).toBe(false)
    })
  })
})
