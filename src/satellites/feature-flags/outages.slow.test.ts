/** Evaluations while the database is unavailable, under each policy, and after its recovery. */
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { startProxy } from '../../../test/support/proxy.ts'
import type { EventOf } from '../../kernel/events/events.ts'
import { DependencyDegraded } from '../../kernel/resilience/resilience.ts'
import { eventually, type TestTenancy } from '../../testing/base/tenancy.ts'
import { type Api, apiOf, type FlagsTenancy, openFlags } from './flags.fixture.ts'
import type { featureFlags } from './index.ts'

const DEAF_TTL_MS = 5_001
const CACHE_TTL_MS = 60_000
/** On the clock that the attempts advance. */
const WAIT_TIMEOUT_MS = 3_600_000
const UNAVAILABLE = { code: 'E_DEPENDENCY_UNAVAILABLE', status: 503 }

let opened: TestTenancy<[ReturnType<typeof featureFlags>]>
let here: FlagsTenancy
let proxy: Awaited<ReturnType<typeof startProxy>>
/** They reach the database through a connection that a test can close. */
let open: FlagsTenancy
let closed: FlagsTenancy
let openApi: Api
let closedApi: Api
let id: string
const degraded: EventOf<typeof DependencyDegraded>[] = []

beforeAll(async () => {
  opened = await openFlags(inject('postgresUrl'))
  here = opened.tenancy
  proxy = await startProxy(opened.url)
  const database = { url: proxy.url }
  open = await opened.open({ database })
  closed = await opened.open({ database, resilience: { database: { flags: 'fail-closed' }, retryAfterSeconds: 7 } })
  ;[openApi, closedApi] = [apiOf(open), apiOf(closed)]
  for (const one of [open, closed]) one.on(DependencyDegraded, (event) => void degraded.push(event))
  vi.useFakeTimers({ toFake: ['performance'] })
})
afterAll(async () => {
  vi.useRealTimers()
  await opened.end()
  await proxy.close()
})

const both = () => [open, closed]
const explain = (tenancy: FlagsTenancy, key: string) =>
  tenancy.featureFlags.explain(key, { tenantId: id, bucketKey: 'ann' })
const explainAll = (tenancy: FlagsTenancy) => tenancy.featureFlags.explainAll({ tenantId: id })
/** All flags are known in the following outage. */
const knowAll = (...keys: string[]) =>
  eventually(async () => {
    for (const tenancy of both()) expect((await explainAll(tenancy)).map(({ key }) => key)).toEqual(keys)
  })

/** Notifications arrive in the order of commits: none of earlier changes is in flight. */
async function notificationsDelivered(): Promise<void> {
  for (const { kernel } of both()) {
    const { promise, resolve } = Promise.withResolvers<void>()
    const ear = await kernel.database.listen(
      'everything_heard',
      () => resolve(),
      () => undefined,
    )
    await here.kernel.database.notify('everything_heard', '')
    await promise
    await ear.close()
  }
}

beforeEach(async () => {
  id = `tenant-${randomUUID()}`
  await here.tenants.create({ id, name: 'Acme' })
  await here.featureFlags.set(id, 'on', { enabled: true })
  await here.featureFlags.set(id, 'half', { enabled: true, rolloutPercent: 50 })
  await eventually(async () => {
    for (const tenancy of both()) {
      expect((await explain(tenancy, 'on')).reason).toBe('STATIC')
      expect((await explain(tenancy, 'half')).reason).toBe('SPLIT')
      expect((await explain(tenancy, 'none')).reason).toBe('FLAG_NOT_FOUND')
    }
  })
})

let outage: 'cut' | 'silent' | undefined
/** Resolves when the listener has noticed the outage, and cached flags are doubtful. */
async function disconnect(how: 'cut' | 'silent'): Promise<void> {
  outage = how
  if (how === 'cut') await proxy.close()
  else proxy.blackhole()
  for (const { kernel } of both()) await eventually(() => expect(kernel.database.isListening).toBe(false))
  vi.advanceTimersByTime(DEAF_TTL_MS)
  degraded.splice(0)
}
async function bringBack(): Promise<void> {
  if (!outage) return
  if (outage === 'silent') await proxy.close()
  outage = undefined
  await proxy.open()
  for (const { kernel } of both()) await eventually(() => expect(kernel.database.isListening).toBe(true))
}
afterEach(bringBack)

describe.each(['cut', 'silent'] as const)('while the connection to the database is %s', (how) => {
  test('cached flags apply, unknown ones are off, and after the outage flags are read again', async () => {
    await knowAll('half', 'on')
    const { enabled, bucket } = await explain(open, 'half')
    await disconnect(how)
    const { featureFlags: flags } = open
    for (let time = 0; time < 2; time++) {
      expect(await explain(open, 'on')).toMatchObject({ enabled: true, reason: 'STALE' })
      expect(await explain(open, 'half')).toMatchObject({ enabled, bucket, reason: 'STALE' })
      expect(await explain(open, 'none')).toMatchObject({ enabled: false, reason: 'STALE' })
      expect(await explain(open, 'never-asked')).toMatchObject({ enabled: false, reason: 'ERROR' })
      expect(await flags.isEnabled('on', { tenantId: id })).toBe(true)
      expect(await flags.isEnabled('never-asked', { tenantId: id })).toBe(false)
      expect(await flags.isEnabled('a/b', { tenantId: id })).toBe(false)
      expect(await explainAll(open)).toMatchObject([
        { key: 'half', reason: 'STALE' },
        { key: 'on', reason: 'STALE' },
      ])
      vi.advanceTimersByTime(3_600_000) // regardless of its length
    }
    await here.featureFlags.set(id, 'on', { enabled: false })
    await bringBack()
    await eventually(async () =>
      expect(await explain(open, 'on')).toMatchObject({ enabled: false, reason: 'DISABLED' }),
    )
    expect(await explain(open, 'never-asked')).toMatchObject({ reason: 'FLAG_NOT_FOUND' })
  })

  test('a fail-closed policy rejects cached and unknown flags until the outage ends', async () => {
    await disconnect(how)
    for (const key of ['on', 'never-asked', 'on']) {
      await expect(closed.featureFlags.isEnabled(key, { tenantId: id })).rejects.toMatchObject({
        ...UNAVAILABLE,
        retryAfterSeconds: 7,
      })
    }
    await expect(explainAll(closed)).rejects.toMatchObject(UNAVAILABLE)
    await bringBack()
    await eventually(async () => expect(await explain(closed, 'on')).toMatchObject({ reason: 'STATIC' }))
  })

  test('a transaction that has lost its connection uses cached flags', async () => {
    await knowAll('half', 'on')
    const reasons: string[] = []
    const transaction = open.transaction(async () => {
      expect((await explain(open, 'on')).reason).toBe('STATIC')
      expect(await explainAll(open)).toHaveLength(2)
      await disconnect(how)
      for (const key of ['on', 'never-asked']) reasons.push((await explain(open, key)).reason)
      for (const { reason } of await explainAll(open)) reasons.push(reason)
      await bringBack()
    })
    await expect(transaction).rejects.toThrow()
    expect(reasons).toEqual(['STALE', 'ERROR', 'STALE', 'STALE'])
  })
})

describe('while the database is unavailable', () => {
  test('one caller tries the database each second, and other callers do not wait', async () => {
    await disconnect('cut')
    await explain(open, 'on')
    const reads = vi.spyOn(open.kernel.database, 'sql')
    const ask = () => Promise.all(['on', 'half', 'never-asked', 'nor-this'].map((key) => explain(open, key)))
    for (let round = 0; round < 50; round++) await ask()
    expect(reads).toHaveBeenCalledTimes(0)
    vi.advanceTimersByTime(1_001)
    for (let round = 0; round < 50; round++) await ask()
    await eventually(() => expect(reads).toHaveBeenCalledTimes(1))
    for (let round = 0; round < 50; round++) await ask()
    expect(reads).toHaveBeenCalledTimes(1)
    reads.mockRestore()
  })

  test('DependencyDegraded is published for each evaluation, by either policy', async () => {
    await disconnect('cut')
    degraded.splice(0)
    for (let round = 0; round < 3; round++) await explain(open, 'on')
    const degradation = (policy: string) => ({
      dependency: 'database',
      operation: 'flags.evaluate',
      tenantId: id,
      policy,
      errorCode: 'E_DEPENDENCY_UNAVAILABLE',
    })
    await eventually(() => expect(degraded).toMatchObject([1, 2, 3].map(() => degradation('fail-open'))))
    degraded.splice(0)
    for (let round = 0; round < 3; round++) await expect(explain(closed, 'on')).rejects.toMatchObject(UNAVAILABLE)
    await eventually(() => expect(degraded).toMatchObject([1, 2, 3].map(() => degradation('fail-closed'))))
  })

  test('evaluations over HTTP respond unless a policy rejects them; changes by an administrator are 503', async () => {
    await knowAll('half', 'on')
    await disconnect('cut')
    const context = { context: { tenantId: id, targetingKey: 'ann' } }
    const native = (api: Api, key: string) => api.call('POST', `/tenants/${id}/feature-flags/${key}/evaluate`)
    const ofrep = (api: Api, key = '') => api.call('POST', `/ofrep/v1/evaluate/flags${key}`, context)
    expect(await native(openApi, 'on')).toMatchObject([200, { enabled: true, reason: 'STALE' }])
    expect(await native(openApi, 'never-asked')).toMatchObject([200, { enabled: false, reason: 'ERROR' }])
    expect(await ofrep(openApi, '/on')).toMatchObject([200, { key: 'on', value: true, reason: 'STALE' }])
    expect(await ofrep(openApi, '/never-asked')).toMatchObject([
      503,
      { key: 'never-asked', code: UNAVAILABLE.code, errorCode: 'GENERAL' },
    ])
    expect(await ofrep(openApi)).toMatchObject([200, { flags: [{ key: 'half' }, { key: 'on' }] }])
    for (const refused of [native(closedApi, 'on'), ofrep(closedApi, '/on'), ofrep(closedApi)]) {
      expect(await refused).toMatchObject([503, { code: UNAVAILABLE.code }])
    }
    expect((await ofrep(closedApi, '/on'))[1]).toMatchObject({ key: 'on', errorCode: 'GENERAL' })
    for (const [method, path, body] of [
      ['GET', '', undefined],
      ['PUT', '/on', { enabled: false }],
      ['DELETE', '/on', undefined],
    ] as const) {
      const response = await openApi.call(method, `/tenants/${id}/feature-flags${path}`, body)
      expect(response).toMatchObject([503, { code: UNAVAILABLE.code }])
    }
  })

  test('a flag that is known not to exist stays off', async () => {
    await here.featureFlags.set(id, 'gone', { enabled: true })
    await knowAll('gone', 'half', 'on')
    await here.featureFlags.delete(id, 'gone')
    await knowAll('half', 'on')
    await disconnect('cut')
    expect(await explain(open, 'gone')).toMatchObject({ enabled: false, reason: 'STALE' })
    expect(await explainAll(open)).toMatchObject([
      { key: 'half', reason: 'STALE' },
      { key: 'on', reason: 'STALE' },
    ])
  })

  test('the evaluation of all flags is an error unless all are known', async () => {
    await disconnect('cut')
    expect(await explain(open, 'on')).toMatchObject({ reason: 'STALE' })
    for (const tenancy of both()) await expect(explainAll(tenancy)).rejects.toMatchObject(UNAVAILABLE)
    const response = await openApi.call('POST', '/ofrep/v1/evaluate/flags', { context: { tenantId: id } })
    expect(response).toMatchObject([503, { code: UNAVAILABLE.code, errorCode: 'GENERAL' }])
    await expect(open.transaction(() => explainAll(open))).rejects.toThrow()
  })
})

describe('while flags cannot be read, although changes are received', () => {
  test('cached flags are stale after their TTL, or rejected, until they can be read', async () => {
    await notificationsDelivered()
    await knowAll('half', 'on')
    for (const tenancy of both()) expect((await explain(tenancy, 'on')).reason).toBe('STATIC')
    await here.kernel.database.session(async (locking) => {
      await locking.query('begin; lock table multitenancy.feature_flags in access exclusive mode')
      expect((await explain(open, 'on')).reason).toBe('STATIC')
      vi.advanceTimersByTime(CACHE_TTL_MS)
      await eventually(async () => {
        expect(await explain(open, 'on')).toMatchObject({ enabled: true, reason: 'STALE' })
        expect(await explainAll(open)).toMatchObject([{ reason: 'STALE' }, { reason: 'STALE' }])
        await expect(closed.featureFlags.isEnabled('on', { tenantId: id })).rejects.toMatchObject(UNAVAILABLE)
      })
      for (const { kernel } of both()) expect(kernel.database.isListening).toBe(true)
      vi.advanceTimersByTime(3_600_000)
      expect((await explain(open, 'on')).reason).toBe('STALE')
    })
    await eventually(async () => {
      vi.advanceTimersByTime(1_001)
      for (const tenancy of both()) expect((await explain(tenancy, 'on')).reason).toBe('STATIC')
    }, WAIT_TIMEOUT_MS)
  })
})
