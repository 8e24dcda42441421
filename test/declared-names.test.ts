/** Declared names at run time: flags, events, metrics and quotas. The compiler rejects wrong names; here are casts and HTTP. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { z } from 'zod'
import { createHttp, DEFAULT_PREFIX, type Http } from '../src/http/app.ts'
import { featureFlags } from '../src/satellites/feature-flags/index.ts'
import { tenantryProvider } from '../src/satellites/feature-flags/openfeature.ts'
import { metrics } from '../src/satellites/metrics/index.ts'
import { quotas } from '../src/satellites/quotas/index.ts'
import { webhooks } from '../src/satellites/webhooks/index.ts'
import type { Tenancy } from '../src/tenancy/tenancy.ts'
import { installed, type TestTenancy, testTenancy } from '../src/testing/base/tenancy.ts'

const TOKEN = 'a-token-for-the-tests'
const NOTE = z.object({ id: z.number(), title: z.string().default('Untitled') }).describe('A note was created')

/** As in a configuration file. */
const DELETED = { type: 'object', properties: { id: { type: 'number' } }, required: ['id'] }

const satellites = [
  featureFlags({ flags: ['new-editor', 'new-search'] }),
  webhooks({ events: { 'note.created': NOTE, 'note.deleted': DELETED } }),
  metrics({ metrics: ['notes'] }),
  quotas({ unlimited: ['api-calls'] }),
] as const
const plans = { defaultPlan: 'free', definitions: { free: { limits: { exports: 10 } } } }

let opened: TestTenancy<typeof satellites>
/** Without the types of names. */
let untyped: Tenancy<any>
let http: Http
beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), {
    satellites,
    plans,
    migrations: [{ name: '0001_notes', checksum: '', up: 'create table notes (id int primary key)' }],
    egress: { allowHttp: true, allowPrivateNetworks: true },
  })
  untyped = opened.tenancy as unknown as Tenancy<any>
  http = createHttp(opened.tenancy, { adminTokens: [{ name: 'alice', token: TOKEN }] })
  await installed(opened.tenancy, { id: 'acme', name: 'Acme' })
})
afterAll(() => opened.end())

const invalid = (path: string, message: string) =>
  expect.objectContaining({ code: 'E_INVALID_REQUEST', extras: { errors: [{ path, message }] } })

async function call(method: string, path: string, body?: unknown): Promise<[status: number, body: any]> {
  const response = await http.fetch(
    new Request(`http://localhost${DEFAULT_PREFIX}${path}`, {
      method,
      headers: { 'x-admin-token': TOKEN, 'content-type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
    }),
  )
  const text = await response.text()
  return [response.status, text === '' ? undefined : JSON.parse(text)]
}

describe('flags', () => {
  const flags = '"old" is not declared. Declared names: new-editor, new-search.'

  test('a call for an undeclared flag is rejected with the declared names', async () => {
    const { featureFlags } = untyped
    for (const attempt of [
      () => featureFlags.isEnabled('old', { tenantId: 'acme' }),
      () => featureFlags.explain('old', { tenantId: 'acme' }),
      () => featureFlags.set('acme', 'old', { enabled: true }),
      () => featureFlags.edit('acme', 'old', { enabled: true }),
    ]) {
      await expect(attempt()).rejects.toEqual(invalid('key', flags))
    }
    await opened.tenancy.featureFlags.set('acme', 'new-editor', { enabled: true })
    expect(await opened.tenancy.featureFlags.isEnabled('new-editor', { tenantId: 'acme' })).toBe(true)
  })

  test('remote callers get an undeclared flag as unknown, and cannot create it', async () => {
    const path = '/tenants/acme/feature-flags/old'
    expect(await call('POST', `${path}/evaluate`)).toMatchObject([200, { enabled: false, reason: 'FLAG_NOT_FOUND' }])
    expect((await call('PUT', path, { enabled: true }))[0]).toBe(400)
    const provider = tenantryProvider(opened.tenancy.featureFlags)
    const logger = console
    const evaluation = provider.resolveBooleanEvaluation('old', true, { tenantId: 'acme' }, logger)
    expect(await evaluation).toMatchObject({ value: true, errorCode: 'FLAG_NOT_FOUND' })
    await provider.onClose?.()
  })

  test('a stored flag that is no longer declared is listed, evaluated for remote callers, and deleted', async () => {
    const before = await opened.open({ satellites: [featureFlags()] as any, role: 'api' })
    await before.featureFlags.set('acme', 'old' as never, { enabled: true })
    await before.stop()
    const path = '/tenants/acme/feature-flags/old'
    expect((await opened.tenancy.featureFlags.list('acme')).data.map(({ key }) => key)).toContain('old')
    expect(await call('POST', `${path}/evaluate`)).toMatchObject([200, { enabled: true }])
    expect((await call('DELETE', path))[0]).toBe(204)
  })

  test('a declaration with an invalid key is rejected', () => {
    expect(() => featureFlags({ flags: ['new editor'] })).toThrow('featureFlags.flags.0')
  })
})

describe('events', () => {
  const undeclared = '"note.moved" is not declared. Declared names: note.created, note.deleted.'

  test('a dispatch of an undeclared event is rejected with the declared names, also over HTTP', async () => {
    await expect(untyped.webhooks.dispatch('acme', 'note.moved', { id: 1 })).rejects.toEqual(
      invalid('event', undeclared),
    )
    const [status, problem] = await call('POST', '/tenants/acme/dispatch', { event: 'note.moved', payload: { id: 1 } })
    expect([status, problem.errors]).toEqual([400, [{ path: 'event', message: undeclared }]])
  })

  test.each([
    ['note.created', { id: '1' }, 'payload.id'],
    ['note.deleted', {}, 'payload.id'],
  ])('a payload of %s that does not match its schema is rejected', async (event, payload, path) => {
    const dispatched = untyped.webhooks.dispatch('acme', event, payload)
    await expect(dispatched).rejects.toMatchObject({ code: 'E_INVALID_REQUEST', extras: { errors: [{ path }] } })
  })

  test('the sent payload is the output of the schema, also in a transaction of the tenant', async () => {
    const { webhooks } = opened.tenancy
    const { webhookId } = await webhooks.create('acme', { url: 'http://127.0.0.1:9/', events: ['note.*'] })
    const payload = { id: 1, password: 'not for receivers' }
    const [id = ''] = await webhooks.dispatch('acme', 'note.created', payload)
    expect((await webhooks.delivery('acme', webhookId, id)).payload).toEqual({ id: 1, title: 'Untitled' })
    const acme = await opened.tenancy.tenant('acme')
    await expect(
      acme.transaction(async () => untyped.webhooks.dispatch('acme', 'note.moved', { id: 2 })),
    ).rejects.toEqual(invalid('event', undeclared))
    const [{ values = [] } = {}] = await acme.statements(() => webhooks.dispatch('acme', 'note.created', { id: 2 }))
    expect(JSON.stringify(values)).toContain('Untitled')
  })

  test('the catalogue has the declared events with their JSON Schemas', () => {
    const found = opened.tenancy.webhooks.catalogue.list().filter(({ name }) => name.startsWith('note.'))
    expect(found).toMatchObject([
      { name: 'note.created', type: 'note.created', summary: 'A note was created', schema: { type: 'object' } },
      { name: 'note.deleted', summary: 'Event of the host', schema: { required: ['id'] } },
    ])
  })

  test('a declaration with an invalid name or schema is rejected', () => {
    expect(() => webhooks({ events: { NoteCreated: NOTE } })).toThrow('webhooks.events.NoteCreated')
    expect(() => webhooks({ events: { 'note.created': { type: 'no type' } } })).toThrow('webhooks.events.note.created')
  })
})

describe('metrics', () => {
  test('an increment of an undeclared key is rejected with the declared names', async () => {
    await opened.tenancy.metrics.increment('acme', 'notes')
    const message = '"note" is not declared. Declared names: notes.'
    await expect(untyped.metrics.increment('acme', 'note')).rejects.toEqual(invalid('key', message))
  })

  test('a declaration of a key of the guard, or of an invalid key, is rejected', () => {
    expect(() => metrics({ metrics: ['requests'] })).toThrow('metrics.metrics.0: is reserved for the guard')
    expect(() => metrics({ metrics: ['a b'] })).toThrow('metrics.metrics.0')
  })
})

describe('quotas', () => {
  test('with declared unlimited quotas, a name that no plan limits is rejected with the declared names', async () => {
    const { quotas } = untyped
    expect(await quotas.consume('acme', 'exports')).toBe(1)
    expect(await quotas.track('acme', 'api-calls', 3)).toBe(3)
    const message = '"exprots" is not declared. Declared names: api-calls, exports.'
    for (const attempt of [
      () => quotas.consume('acme', 'exprots'),
      () => quotas.track('acme', 'exprots'),
      () => quotas.consumeAll('acme', [{ quota: 'exports' }, { quota: 'exprots' }]),
      () => quotas.decide('acme', 'exprots'),
      () => quotas.check('acme', 'exprots'),
      () => quotas.getUsage('acme', 'exprots'),
      () => quotas.setUsage('acme', 'exprots', 1),
      async () => quotas.enforcement('exprots'),
    ]) {
      await expect(attempt()).rejects.toEqual(invalid('quota', message))
    }
    expect((await call('POST', '/tenants/acme/quotas/exprots/consume'))[0]).toBe(400)
    expect(await quotas.getUsage('acme', 'exports')).toBe(1)
  })

  test('a declaration with an invalid name is rejected', () => {
    expect(() => quotas({ unlimited: ['a b'] })).toThrow('quotas.unlimited.0')
  })
})

test('processes compare declared names', () => {
  expect(satellites.map(({ sharedOptions }) => sharedOptions)).toMatchObject([
    { 'flags.new-editor': 'declared', 'flags.new-search': 'declared' },
    { 'events.note.created': 'declared', 'events.note.deleted': 'declared' },
    { 'metrics.notes': 'declared' },
    { 'unlimited.api-calls': 'declared' },
  ])
})
