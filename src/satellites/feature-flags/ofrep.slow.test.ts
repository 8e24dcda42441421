/** OFREP and the OpenFeature provider while the database is unavailable. */
import { OpenFeature } from '@openfeature/server-sdk'
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest'
import { startProxy } from '../../../test/support/proxy.ts'
import { eventually, type TestTenancy } from '../../testing/base/tenancy.ts'
import { type FlagsTenancy, openFlags } from './flags.fixture.ts'
import type { featureFlags } from './index.ts'
import { type OfrepClient, openOfrepClient } from './ofrep.fixture.ts'
import { tenantryProvider } from './openfeature.ts'

/** On the clock that the attempts advance. */
const WAIT_TIMEOUT_MS = 3_600_000

let opened: TestTenancy<[ReturnType<typeof featureFlags>]>
let proxy: Awaited<ReturnType<typeof startProxy>>
/** Reaches the database through the proxy. */
let tenancy: FlagsTenancy
let ofrep: OfrepClient

beforeAll(async () => {
  opened = await openFlags(inject('postgresUrl'))
  proxy = await startProxy(opened.url)
  tenancy = await opened.open({ database: { url: proxy.url } })
  ofrep = await openOfrepClient(tenancy)
  vi.useFakeTimers({ toFake: ['performance'] })
})
afterAll(async () => {
  vi.useRealTimers()
  await ofrep?.end()
  await opened.end()
  await proxy.close()
})

/** Repeats `attempt` while the fake clock advances: after an outage, the database is tried once a second. */
const whileTimePasses = (attempt: () => Promise<void>) =>
  eventually(async () => {
    vi.advanceTimersByTime(1_001)
    await attempt()
  }, WAIT_TIMEOUT_MS)

test.each([true, false])(
  'the OFREP provider returns the default %s for an unknown flag while the database is unavailable',
  async (value) => {
    const id = `tenant-${value}`
    await opened.tenancy.tenants.create({ id, name: 'Acme' })
    await opened.tenancy.featureFlags.set(id, 'on', { enabled: true })
    const details = (key: string) => ofrep.client.getBooleanDetails(key, value, { tenantId: id })
    await whileTimePasses(async () => expect(await details('on')).toMatchObject({ reason: 'STATIC' }))
    await proxy.close()
    await eventually(() => expect(tenancy.kernel.database.isListening).toBe(false))
    vi.advanceTimersByTime(5_001)
    expect(await details('on')).toMatchObject({ value: true, reason: 'STALE' })
    expect(await details('never-asked')).toMatchObject({ value, reason: 'ERROR', errorCode: 'GENERAL' })
    await proxy.open()
    await whileTimePasses(async () =>
      expect(await details('never-asked')).toMatchObject({ value, errorCode: 'FLAG_NOT_FOUND' }),
    )
  },
)

test('the OpenFeature provider returns cached flags as stale, otherwise the default, while the database is unavailable', async () => {
  const id = 'tenant-openfeature'
  await opened.tenancy.tenants.create({ id, name: 'Acme' })
  await opened.tenancy.featureFlags.set(id, 'on', { enabled: true })
  await OpenFeature.setProviderAndWait('tenantry', tenantryProvider(tenancy.featureFlags))
  const client = OpenFeature.getClient('tenantry')
  const details = (key: string) => client.getBooleanDetails(key, true, { tenantId: id })
  await whileTimePasses(async () => expect(await details('on')).toMatchObject({ reason: 'STATIC' }))
  await proxy.close()
  await eventually(() => expect(tenancy.kernel.database.isListening).toBe(false))
  vi.advanceTimersByTime(3_600_000)
  expect(await details('on')).toMatchObject({ value: true, reason: 'STALE' })
  expect(await details('never-asked')).toMatchObject({ value: true, reason: 'ERROR', errorCode: 'GENERAL' })
  await proxy.open()
  await whileTimePasses(async () => expect(await details('on')).toMatchObject({ reason: 'STATIC' }))
})
