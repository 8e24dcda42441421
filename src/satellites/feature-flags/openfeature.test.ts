/** The provider in the real SDK. */
import { type Client, type EvaluationContext, OpenFeature, ProviderEvents } from '@openfeature/server-sdk'
import { afterAll, beforeAll, beforeEach, expect, inject, test, vi } from 'vitest'
import { eventually, type TestTenancy } from '../../testing/base/tenancy.ts'
import { type FlagsTenancy, openFlags } from './flags.fixture.ts'
import type { FlagRequest, featureFlags } from './index.ts'
import { bucketOf } from './model/rollout.ts'
import { tenantryProvider } from './openfeature.ts'

let opened: TestTenancy<[ReturnType<typeof featureFlags>]>
let tenancy: FlagsTenancy
let client: Client
let id: string
let made = 0

beforeAll(async () => {
  opened = await openFlags(inject('postgresUrl'))
  tenancy = await opened.open()
  await OpenFeature.setProviderAndWait('tenantry', tenantryProvider(tenancy.featureFlags))
  client = OpenFeature.getClient('tenantry')
})
afterAll(async () => {
  await OpenFeature.clearProviders()
  await opened.end()
})
beforeEach(async () => {
  id = `tenant-${++made}`
  await opened.tenancy.tenants.create({ id, name: 'Acme' })
})

const set = (key: string, request: FlagRequest) => tenancy.featureFlags.set(id, key, request)

test('returns the value of a flag with its reason', async () => {
  await set('on', { enabled: true })
  await set('off', { enabled: false })
  await set('half', { enabled: true, rolloutPercent: 50, bucketKey: 'plan' })
  const context = { tenantId: id, targetingKey: 'ann' }
  expect(await client.getBooleanValue('on', false, context)).toBe(true)
  expect(await client.getBooleanDetails('on', false, context)).toMatchObject({
    value: true,
    variant: 'on',
    reason: 'STATIC',
    flagMetadata: {},
  })
  expect(await client.getBooleanDetails('off', true, context)).toMatchObject({
    value: false,
    variant: 'off',
    reason: 'DISABLED',
  })
  const contexts: readonly (readonly [EvaluationContext, string])[] = [
    [context, 'ann'],
    [{ ...context, plan: 'pro' }, 'pro'],
    [{ ...context, plan: true }, 'ann'],
    [{ tenantId: id }, id],
  ]
  for (const [of, value] of contexts) {
    const bucket = bucketOf('half', value)
    expect(await client.getBooleanDetails('half', false, of)).toMatchObject({
      value: bucket < 5_000,
      reason: 'SPLIT',
      flagMetadata: { bucket, rolloutPercent: 50 },
    })
  }
})

test.each([true, false])('returns the default for an unknown value: %s', async (value) => {
  const details = (key: string, context: Record<string, any>) => client.getBooleanDetails(key, value, context)
  const error = { value, reason: 'ERROR' }
  expect(await details('none', { tenantId: id })).toMatchObject({ ...error, errorCode: 'FLAG_NOT_FOUND' })
  expect(await details('none', { tenantId: 'unknown' })).toMatchObject({ ...error, errorCode: 'FLAG_NOT_FOUND' })
  for (const tenantId of [undefined, 7, null]) {
    expect(await details('none', { tenantId })).toMatchObject({ ...error, errorCode: 'INVALID_CONTEXT' })
  }
})

test('accepts only boolean flags', async () => {
  await set('on', { enabled: true })
  const error = { reason: 'ERROR', errorCode: 'TYPE_MISMATCH' }
  const context = { tenantId: id }
  expect(await client.getStringDetails('on', 'blue', context)).toMatchObject({ ...error, value: 'blue' })
  expect(await client.getNumberDetails('on', 7, context)).toMatchObject({ ...error, value: 7 })
  expect(await client.getObjectDetails('on', { a: 1 }, context)).toMatchObject({ ...error, value: { a: 1 } })
})

test('publishes a change by any process as a change of the configuration', async () => {
  const changes: unknown[] = []
  const hear = (details: any) => void changes.push([details?.metadata?.tenantId, details?.flagsChanged])
  client.addHandler(ProviderEvents.ConfigurationChanged, hear)
  await opened.tenancy.featureFlags.set(id, 'on', { enabled: true })
  await eventually(() => expect(changes).toContainEqual([id, ['on']]))
  expect(await client.getBooleanValue('on', false, { tenantId: id })).toBe(true)
  client.removeHandler(ProviderEvents.ConfigurationChanged, hear)
})

test('a closed provider receives no more changes', async () => {
  const provider = tenantryProvider(tenancy.featureFlags)
  const emitted = vi.spyOn(provider.events as { emit: (...given: any[]) => void }, 'emit')
  await set('one', { enabled: true })
  expect(emitted).toHaveBeenCalled()
  await provider.onClose?.()
  emitted.mockClear()
  await set('one', { enabled: false })
  expect(emitted).not.toHaveBeenCalled()
})
