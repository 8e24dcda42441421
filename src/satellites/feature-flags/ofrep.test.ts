/** OFREP on the wire, and through its provider in the OpenFeature SDK. */
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import type { TestTenancy } from '../../testing/base/tenancy.ts'
import { type Api, apiOf, openFlags } from './flags.fixture.ts'
import type { FlagRequest, featureFlags } from './index.ts'
import { bucketOf } from './model/rollout.ts'
import { type OfrepClient, openOfrepClient } from './ofrep.fixture.ts'

let opened: TestTenancy<[ReturnType<typeof featureFlags>]>
let api: Api
let id: string
let made = 0

beforeAll(async () => {
  opened = await openFlags(inject('postgresUrl'))
  api = apiOf(opened.tenancy)
})
afterAll(() => opened.end())
beforeEach(async () => {
  id = `tenant-${++made}`
  await opened.tenancy.tenants.create({ id, name: 'Acme' })
})

const set = (key: string, request: FlagRequest) => opened.tenancy.featureFlags.set(id, key, request)
const path = (key?: string) => `/ofrep/v1/evaluate/flags${key === undefined ? '' : `/${key}`}`
const evaluate = (key: string | undefined, body: unknown) => api.call('POST', path(key), body)

describe('an evaluation of one flag', () => {
  test('responds with value, reason and variant', async () => {
    await set('half', { enabled: true, rolloutPercent: 50, bucketKey: 'plan' })
    const bucket = bucketOf('half', 'pro')
    expect(await evaluate('half', { context: { tenantId: id, targetingKey: 'ann', plan: 'pro' } })).toEqual([
      200,
      {
        key: 'half',
        value: bucket < 5_000,
        reason: 'SPLIT',
        variant: bucket < 5_000 ? 'on' : 'off',
        metadata: { bucket, rolloutPercent: 50 },
      },
    ])
    const byTargetingKey = await evaluate('half', { context: { tenantId: id, targetingKey: 'ann' }, more: 'is free' })
    expect(byTargetingKey).toMatchObject([200, { metadata: { bucket: bucketOf('half', 'ann') } }])
    const byTenant = await evaluate('half', { context: { tenantId: id } })
    expect(byTenant).toMatchObject([200, { metadata: { bucket: bucketOf('half', id) } }])
    await set('half', { enabled: false })
    expect(await evaluate('half', { context: { tenantId: id } })).toEqual([
      200,
      { key: 'half', value: false, reason: 'DISABLED', variant: 'off', metadata: {} },
    ])
  })

  test.each([
    ['none', '{"context":{"tenantId":"ID"}}', 404, 'E_FLAG_NOT_FOUND', 'FLAG_NOT_FOUND'],
    ['none', '{', 400, 'E_INVALID_JSON', 'PARSE_ERROR'],
    ['none', '[]', 400, 'E_INVALID_REQUEST', 'PARSE_ERROR'],
    ['none', '{}', 400, 'E_INVALID_REQUEST', 'INVALID_CONTEXT'],
    ['none', '{"context":null}', 400, 'E_INVALID_REQUEST', 'INVALID_CONTEXT'],
    ['none', '{"context":[]}', 400, 'E_INVALID_REQUEST', 'INVALID_CONTEXT'],
    ['none', '{"context":{}}', 400, 'E_INVALID_REQUEST', 'INVALID_CONTEXT'],
    ['none', '{"context":{"tenantId":"No Id"}}', 400, 'E_INVALID_REQUEST', 'INVALID_CONTEXT'],
    ['none', '{"context":{"tenantId":7}}', 400, 'E_INVALID_REQUEST', 'INVALID_CONTEXT'],
    ['none', '{"context":{"__proto__":{"tenantId":"ID"}}}', 400, 'E_INVALID_REQUEST', 'INVALID_CONTEXT'],
    ['none', '{"context":{"tenantId":"ID","targetingKey":7}}', 400, 'E_INVALID_REQUEST', 'INVALID_CONTEXT'],
    ['a%2Fb', '{"context":{"tenantId":"ID"}}', 400, 'E_INVALID_REQUEST', 'PARSE_ERROR'],
  ])('%s with %s is %i, %s, as OFREP specifies', async (key, body, status, code, errorCode) => {
    const response = await evaluate(key, body.replace('ID', id))
    expect(response).toMatchObject([status, { key: decodeURIComponent(key), code, errorCode }])
    expect(response[1].errorDetails).toBe(response[1].detail)
  })

  test('repeats its response to a repeated request', async () => {
    const headers = { 'idempotency-key': `${id}-1` }
    const send = async () => (await api.send('POST', path('none'), { context: { tenantId: id } }, headers)).json()
    const { requestId, ...first } = (await send()) as Record<string, unknown>
    expect(first).toMatchObject({ key: 'none', errorCode: 'FLAG_NOT_FOUND' })
    expect(await send()).toMatchObject(first)
  })
})

describe('an evaluation of all flags', () => {
  const all = (headers: Record<string, string> = {}) =>
    api.send('POST', path(), { context: { tenantId: id, targetingKey: 'ann' } }, headers)

  test('has all flags of the tenant only', async () => {
    expect(await (await all()).json()).toEqual({ flags: [] })
    await set('off', { enabled: false })
    await set('Half', { enabled: true, rolloutPercent: 50 })
    await opened.tenancy.tenants.create({ id: `${id}-other`, name: 'Other' })
    await opened.tenancy.featureFlags.set(`${id}-other`, 'foreign', { enabled: true })
    const { flags } = (await (await all()).json()) as { flags: unknown[] }
    expect(flags).toMatchObject([
      { key: 'Half', reason: 'SPLIT', metadata: { bucket: bucketOf('Half', 'ann') } },
      { key: 'off', reason: 'DISABLED', value: false },
    ])
    expect(await evaluate(undefined, { context: { tenantId: 'unknown' } })).toEqual([200, { flags: [] }])
    expect(await evaluate(undefined, {})).toMatchObject([400, { errorCode: 'INVALID_CONTEXT' }])
  })

  test('is sent again only after a change', async () => {
    await set('one', { enabled: true })
    const first = await all()
    const etag = first.headers.get('etag') ?? ''
    expect(etag).toMatch(/^"[\w-]+"$/)
    for (const known of [etag, `W/${etag}`, `"other", W/${etag}`, '*']) {
      const again = await all({ 'if-none-match': known })
      expect([again.status, await again.text(), again.headers.get('etag')], known).toEqual([304, '', etag])
      expect(again.headers.get('content-type')).toBeNull()
    }
    expect((await all({ 'if-none-match': '"other"' })).status).toBe(200)
    await set('one', { enabled: false })
    const changed = await all({ 'if-none-match': etag })
    expect([changed.status, changed.headers.get('etag') === etag]).toEqual([200, false])
  })
})

describe("OFREP's own provider", () => {
  let ofrep: OfrepClient
  let client: OfrepClient['client']

  beforeAll(async () => {
    ofrep = await openOfrepClient(await opened.open())
    client = ofrep.client
  })
  afterAll(() => ofrep?.end())

  test('evaluates flags over HTTP', async () => {
    await set('on', { enabled: true })
    await set('half', { enabled: true, rolloutPercent: 50 })
    const context = { tenantId: id, targetingKey: 'ann' }
    expect(await client.getBooleanDetails('on', false, context)).toMatchObject({
      value: true,
      variant: 'on',
      reason: 'STATIC',
    })
    const bucket = bucketOf('half', 'ann')
    expect(await client.getBooleanDetails('half', false, context)).toMatchObject({
      value: bucket < 5_000,
      reason: 'SPLIT',
      flagMetadata: { bucket, rolloutPercent: 50 },
    })
  })

  test('understands errors, and returns the default', async () => {
    const context = { tenantId: id }
    expect(await client.getBooleanDetails('none', true, context)).toMatchObject({
      value: true,
      reason: 'ERROR',
      errorCode: 'FLAG_NOT_FOUND',
    })
    expect(await client.getBooleanDetails('none', true, {})).toMatchObject({
      value: true,
      errorCode: 'INVALID_CONTEXT',
    })
    await set('on', { enabled: true })
    expect(await client.getStringDetails('on', 'blue', context)).toMatchObject({
      value: 'blue',
      errorCode: 'TYPE_MISMATCH',
    })
  })
})
