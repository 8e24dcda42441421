/** The cache of flags in a process that receives no changes, because its connection to the database is closed. */
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, test, vi } from 'vitest'
import { startProxy } from '../../../../test/support/proxy.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import type { FlagsTenancy } from '../flags.fixture.ts'
import type { FlagRequest } from '../index.ts'
import { type FlagsPair, openPair } from './cache.fixture.ts'

let proxy: Awaited<ReturnType<typeof startProxy>>
let pair: FlagsPair
let here: FlagsTenancy
/** Reaches the database through the proxy. */
let there: FlagsTenancy
let id: string

beforeAll(async () => {
  pair = await openPair(inject('postgresUrl'), async (url) => {
    proxy = await startProxy(url)
    return proxy.url
  })
  ;({ here, there } = pair)
  vi.useFakeTimers({ toFake: ['performance'] }) // the clock stands still, so cached flags do not expire
})
afterAll(async () => {
  vi.useRealTimers()
  await pair.opened.end()
  await proxy.close()
})
beforeEach(async () => {
  id = `tenant-${randomUUID()}`
  await here.tenants.create({ id, name: 'Acme' })
})

const set = (key: string, request: FlagRequest) => here.featureFlags.set(id, key, request)
const setInSecret = (key: string, enabled: boolean) => pair.setInSecret(id, key, enabled)
const isOn = (key: string) => there.featureFlags.isEnabled(key, { tenantId: id })
const notificationsReceived = () => pair.notificationsReceived()
const slowRead = () => pair.slowRead(() => isOn('one'))

const deafen = async () => {
  await proxy.close()
  await eventually(() => expect(there.kernel.database.isListening).toBe(false))
  await proxy.open()
}
afterEach(() => eventually(() => expect(there.kernel.database.isListening).toBe(true)))

test('a process that receives no changes serves cached flags for 5 seconds, and then reports them as stale', async () => {
  await set('one', { enabled: true })
  await notificationsReceived()
  await isOn('one')
  await proxy.close()
  await eventually(() => expect(there.kernel.database.isListening).toBe(false))
  vi.advanceTimersByTime(4_999)
  expect((await there.featureFlags.explain('one', { tenantId: id })).reason).toBe('STATIC')
  vi.advanceTimersByTime(2)
  expect((await there.featureFlags.explain('one', { tenantId: id })).reason).toBe('STALE')
  await proxy.open()
  await eventually(async () =>
    expect((await there.featureFlags.explain('one', { tenantId: id })).reason).toBe('STATIC'),
  )
})

test('a process reads cached flags again after it could not receive changes', async () => {
  await set('one', { enabled: true })
  await notificationsReceived()
  await isOn('one')
  await deafen()
  await setInSecret('one', false)
  await eventually(() => expect(there.kernel.database.isListening).toBe(true))
  expect(await isOn('one')).toBe(false)
})

test('a read after the listener has reconnected does not use the result of an earlier read', async () => {
  await set('one', { enabled: false })
  await notificationsReceived()
  const { before, release } = await slowRead()
  await deafen()
  await setInSecret('one', true)
  await eventually(() => expect(there.kernel.database.isListening).toBe(true))
  expect(await isOn('one')).toBe(true)
  release()
  await before
  expect(await isOn('one')).toBe(true)
})
