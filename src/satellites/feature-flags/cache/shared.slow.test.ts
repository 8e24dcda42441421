/** Flags in Redis while Redis or the database is unavailable, or notifications do not arrive. */
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { startProxy } from '../../../../test/support/proxy.ts'
import { redisStore } from '../../../drivers/store/redis.ts'
import type { EventOf } from '../../../kernel/events/events.ts'
import { DependencyDegraded } from '../../../kernel/resilience/resilience.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import type { FlagsTenancy } from '../flags.fixture.ts'
import type { FlagRequest } from '../index.ts'
import { CHANNEL, flagsOf, openSharedFlags, SHARED_TTL_MS, type SharedFlagsOpened } from './shared.fixture.ts'

const UNAVAILABLE = { code: 'E_DEPENDENCY_UNAVAILABLE', status: 503 }
/** On the clock that the attempts advance. */
const WAIT_TIMEOUT_MS = 3_600_000

let shared: SharedFlagsOpened
let here: FlagsTenancy
let there: FlagsTenancy
let proxy: Awaited<ReturnType<typeof startProxy>>
let database: Awaited<ReturnType<typeof startProxy>>
/** They reach Redis through `proxy`. */
let open: FlagsTenancy
let closed: FlagsTenancy
let id: string
let stored: ReturnType<typeof flagsOf>
const degraded: EventOf<typeof DependencyDegraded>[] = []

beforeAll(async () => {
  shared = await openSharedFlags()
  ;({ here, there } = shared)
  proxy = await startProxy(inject('redisUrl'))
  database = await startProxy(shared.opened.url)
  // Without an identity: one server with two addresses is one store.
  const store = { ...redisStore({ url: proxy.url, keyPrefix: shared.keyPrefix }), identity: undefined }
  open = await shared.opened.open({ store })
  closed = await shared.opened.open({ store, resilience: { redis: { cache: 'fail-closed' } } })
  for (const one of [open, closed]) one.on(DependencyDegraded, (event) => void degraded.push(event))
})
afterAll(async () => {
  await shared.end()
  await Promise.all([proxy.close(), database.close()])
})
beforeEach(async () => {
  id = `tenant-${randomUUID()}`
  stored = flagsOf(here, id)
  await here.tenants.create({ id, name: 'Acme' })
})
afterEach(() => vi.useRealTimers())

const set = (key: string, request: FlagRequest, tenancy = here) => tenancy.featureFlags.set(id, key, request)
const isOn = (tenancy: FlagsTenancy, key = 'one') => tenancy.featureFlags.isEnabled(key, { tenantId: id })
const setLongAgo = (key: string, enabled: boolean) => stored.setLongAgo(key, enabled)

describe('a change that Redis did not receive', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))

  test('is visible in a process that receives its notification, also for a flag that was never read', async () => {
    await setLongAgo('one', true)
    expect(await isOn(here)).toBe(true)
    await eventually(async () => expect(await stored.kept()).not.toBeNull())
    const received = Promise.withResolvers<void>()
    there.featureFlags.onChange((tenantId) => tenantId === id && received.resolve())
    await proxy.close()
    vi.advanceTimersByTime(2_000)
    await set('one', { enabled: false }, open)
    await received.promise
    await proxy.open()
    expect(JSON.parse((await stored.kept()) ?? '')).toMatchObject({ enabled: true })
    expect(await isOn(there)).toBe(false)
    vi.advanceTimersByTime(SHARED_TTL_MS - 1)
    expect(await isOn(there)).toBe(false)
  })

  test('is visible in a process that receives no notifications', async () => {
    const mute = await startProxy(shared.opened.url, (sent) =>
      Buffer.from(sent.toString('latin1').replace(`listen "${CHANNEL}"`, `list.. "${CHANNEL}"`), 'latin1'),
    )
    const deaf = await shared.opened.open({ database: { url: mute.url } })
    await stored.changeInSecret()
    expect(await isOn(deaf)).toBe(false)
    await deaf.stop()
    await mute.close()
  })

  test('may be hidden by an older value during an outage of the database, in a process without a cached value', async () => {
    const cut = await shared.opened.open({ database: { url: database.url } })
    const explain = (key: string) => cut.featureFlags.explain(key, { tenantId: id })
    await explain('any')
    await stored.changeInSecret()
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
    }, WAIT_TIMEOUT_MS)
  })
})

describe('while Redis is unavailable', () => {
  beforeEach(async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    await setLongAgo('one', true)
    vi.advanceTimersByTime(2_000) // its back-off has ended
    degraded.splice(0)
  })

  test.each(['cut', 'silent'])('flags come from the database, or are rejected, by the policy: %s', async (how) => {
    if (how === 'cut') await proxy.close()
    else proxy.blackhole()
    expect(await isOn(open)).toBe(true)
    await expect(isOn(closed)).rejects.toMatchObject(UNAVAILABLE)
    const degradation = { dependency: 'redis', operation: 'flags.read', tenantId: id }
    await eventually(() =>
      expect(degraded).toMatchObject([
        { ...degradation, policy: 'fail-open' },
        { ...degradation, policy: 'fail-closed' },
      ]),
    )
    const asked = vi.spyOn(open.kernel.store, 'get')
    expect(await isOn(open, 'other')).toBe(false) // not tried again for a second
    expect(asked).not.toHaveBeenCalled()
    asked.mockRestore()

    const buried = vi.spyOn(open.kernel.store, 'set')
    await set('one', { enabled: false }, open) // a write does not wait for the store
    expect(buried).not.toHaveBeenCalled()
    buried.mockRestore()
    expect(await isOn(open)).toBe(false)
    await eventually(async () => expect(await isOn(here)).toBe(false))

    if (how === 'silent') await proxy.close()
    await proxy.open()
    await eventually(async () => {
      vi.advanceTimersByTime(1_001)
      expect(await isOn(closed)).toBe(false)
    }, WAIT_TIMEOUT_MS)
  })

  test('a cached flag is read again from the database under any policy', async () => {
    await eventually(async () => {
      vi.advanceTimersByTime(1_001)
      expect(await isOn(closed)).toBe(true)
    }, WAIT_TIMEOUT_MS)
    vi.advanceTimersByTime(SHARED_TTL_MS) // the back-off of Redis has ended
    await proxy.close()
    await setLongAgo('one', false)
    await eventually(async () => expect(await isOn(closed)).toBe(false))
    await proxy.open()
  })
})
