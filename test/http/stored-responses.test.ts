/** What becomes of the answers kept for an `Idempotency-Key`: whose they are, what is never kept, and how a crash frees one. */
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { Idempotency } from '../../src/kernel/api/idempotency.ts'
import { DependencyUnavailable, defineError } from '../../src/kernel/base/errors.ts'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { type Opened, openApi } from '../contract/api.ts'
import { type HttpResponse, TOKENS } from '../contract/calls.ts'
import { type Notes, notes } from './notes.fixture.ts'

let api: Opened
let service: Notes
beforeAll(async () => {
  api = await openApi(inject('postgresUrl'), { satellites: [notes()], role: 'api' })
  service = (api.tenancy as unknown as { notes: Notes }).notes
})
afterAll(() => api.end())

/** A tenant of this test alone; that it does not exist is nothing to notes. */
let id: string
let key: string
beforeEach(() => {
  id = crypto.randomUUID()
  key = `key-${id}`
})

const sent = (text: string) => ({ body: { text }, headers: { 'idempotency-key': key } })
const add = (text: string, tenant = id) => api.call('POST', `/tenants/${tenant}/notes`, sent(text))
const isReplay = ({ headers }: HttpResponse) => headers.get('idempotency-replayed') === 'true'
/** Changes what is kept under the keys of this moment's requests, as time would. */
const pass = (change: string) =>
  api.tenancy.kernel.database.sql(`update multitenancy.idempotency_keys own set ${change}`)
const forget = () => api.tenancy.kernel.database.sql('delete from multitenancy.idempotency_keys')
const kept = async () => (await api.tenancy.kernel.database.sql('select * from multitenancy.idempotency_keys')).rows

test('a key is of its path: the same one elsewhere is another', async () => {
  const elsewhere = crypto.randomUUID()
  expect(await add('once')).toMatchObject({ status: 201, json: { tenantId: id } })
  const other = await add('once', elsewhere)
  expect(other).toMatchObject({ status: 201, json: { tenantId: elsewhere } })
  expect(isReplay(other)).toBe(false)
  expect(isReplay(await add('once', elsewhere))).toBe(true)
})

test('a key is of its path, however that is spelled', async () => {
  expect(await add('once')).toMatchObject({ status: 201 })
  const escaped = `%${id.charCodeAt(0).toString(16)}${id.slice(1)}`
  for (const path of [`/tenants/${id}/notes/`, `/tenants/${escaped}/notes`, `/%74enants/${id}/notes?`]) {
    const again = await api.call('POST', path, sent('once'))
    expect({ path, status: again.status, isReplay: isReplay(again) }).toEqual({ path, status: 201, isReplay: true })
  }
  expect(await service.of(id)).toEqual(['once'])
})

test('a key is for POST: what may be repeated by itself takes no notice of it', async () => {
  await api.call('POST', '/tenants', { body: { id, name: 'Acme' } })
  await api.tenancy.tenants.installation.install(id, { isLast: true })
  const put = (action: string) => api.call('PUT', `/tenants/${id}/${action}`, { headers: { 'idempotency-key': key } })
  expect((await put('suspend')).json.status).toBe('suspended')
  expect((await put('activate')).json.status).toBe('active')
  const again = await put('suspend')
  expect(again.json.status).toBe('suspended')
  expect(isReplay(again)).toBe(false)
})

test.each([
  ['a fault of ours', new Error('relation "secrets" does not exist'), 500, 'E_INTERNAL'],
  [
    'a dependency that is away',
    DependencyUnavailable('away', { retryAfterSeconds: 5 }),
    503,
    'E_DEPENDENCY_UNAVAILABLE',
  ],
])('%s is not kept, and leaves nothing behind', async (_what, fault, status, code) => {
  service.faults.push(fault, fault)
  for (let time = 0; time < 2; time++) {
    const failed = await add('hello')
    expect(failed).toMatchObject({ status, json: { code } })
    expect(failed.text).not.toContain('secrets')
    expect(isReplay(failed)).toBe(false)
    expect(await service.of(id)).toEqual([])
  }
  const done = await add('hello')
  expect(done.status).toBe(201)
  expect(isReplay(done)).toBe(false)
  expect(isReplay(await add('hello'))).toBe(true)
  expect(await service.of(id)).toEqual(['hello'])
})

test('a wait that fails undoes nothing: the answer from before it is given, and kept', async () => {
  const waiting = { body: { text: 'hello' }, headers: { 'idempotency-key': key, prefer: 'wait=5' } }
  service.lostWaits.push(new Error('the connection was lost'))
  const response = await api.call('POST', `/tenants/${id}/notes`, waiting)
  expect(response).toMatchObject({ status: 201, json: { tenantId: id, text: 'hello' } })
  expect(response.headers.get('preference-applied')).toBe('wait=5')
  const again = await api.call('POST', `/tenants/${id}/notes`, waiting)
  expect(again).toMatchObject({ status: 201, text: response.text })
  expect(isReplay(again)).toBe(true)
  expect(await service.of(id)).toEqual(['hello'])
})

test('a wait that fails is no failure without a key either', async () => {
  const waiting = { body: { text: 'hello' }, headers: { prefer: 'wait=5' } }
  service.lostWaits.push(new Error('the connection was lost'))
  const response = await api.call('POST', `/tenants/${id}/notes`, waiting)
  expect(response.status).toBe(201)
  expect(response.headers.get('preference-applied')).toBe('wait=5')
})

test('a kept answer is not released: its commit may have been told as failed', async () => {
  const { database, secrets } = api.tenancy.kernel
  const idempotency = new Idempotency(database, secrets)
  const response = { status: 201, headers: {}, body: '{}' }
  const lease = await idempotency.begin([key], '')
  if (!('keep' in lease)) throw new Error('the key is new')
  await lease.keep(response)
  await lease.release()
  lease.end()
  expect(await idempotency.begin([key], '')).toEqual(response)
})

test('a refusal that is given again names the request it is given to, and still when to come back', async () => {
  service.faults.push(defineError('E_TOO_MANY_NOTES', 429, 'Too many')('Not now.', { retryAfterSeconds: 7 }))
  const first = await add('hello')
  const again = await add('hello')
  expect(first).toMatchObject({ status: 429, json: { requestId: first.headers.get('x-request-id') } })
  expect(again).toMatchObject({ status: 429, json: { ...first.json, requestId: again.headers.get('x-request-id') } })
  expect(again.json.requestId).not.toBe(first.json.requestId)
  expect(isReplay(again)).toBe(true)
  for (const { headers } of [first, again]) {
    expect(headers.get('retry-after')).toBe('7')
    expect(headers.get('content-type')).toBe('application/problem+json')
  }
})

test('what is kept is sealed: neither answer, nor request, nor key, nor token can be read in the table', async () => {
  await add('Zaphod Beeblebrox')
  await pass("leased_until = now() - interval '1 second'")
  const rows = await kept()
  const text = JSON.stringify(rows)
  expect(rows.some(({ response }) => /^v1\./.test(response))).toBe(true)
  for (const secret of ['Zaphod', 'Beeblebrox', id, key, TOKENS.admin, 'tenantId', 'content-type']) {
    expect(text).not.toContain(secret)
  }
  for (const { answer } of rows)
    expect(Buffer.from(answer ?? '', 'base64url').toString('latin1')).not.toContain('Zaphod')
  expect(isReplay(await add('Zaphod Beeblebrox'))).toBe(true)
})

test('a sealed answer is of use in its own row alone', async () => {
  await forget()
  await add('mine')
  const own = key
  key = `other-${id}`
  await add('mine')
  await pass(
    `response = (select other.response from multitenancy.idempotency_keys other where other.scope <> own.scope)`,
  )
  key = own
  expect(await add('mine')).toMatchObject({ status: 500, json: { code: 'E_INTERNAL' } })
  await forget()
})

test('a day later the key is new', async () => {
  await add('yesterday')
  await pass("expires_at = now() - interval '1 second'")
  const today = await add('today')
  expect(today.status).toBe(201)
  expect(isReplay(today)).toBe(false)
  expect(isReplay(await add('today'))).toBe(true)
  expect(await service.of(id)).toEqual(['yesterday', 'today'])
})

test('what nobody asks for again is dropped', async () => {
  await add('old')
  await pass("expires_at = now() - interval '2 hours'")
  key = `new-${id}`
  await add('new')
  expect(await kept()).toHaveLength(1)
})

test('whoever comes back after its lease went to another has done nothing', async () => {
  const gate = Promise.withResolvers<void>()
  service.gate = gate.promise
  const slow = add('hello')
  await eventually(() => expect(service.waiting).toBe(1))
  await pass("leased_until = now() - interval '1 second' where response is null")

  service.gate = Promise.resolve()
  expect(await add('hello')).toMatchObject({ status: 201 })
  gate.resolve()
  expect(await slow).toMatchObject({ status: 409, json: { code: 'E_IDEMPOTENCY_IN_PROGRESS' } })
  expect(isReplay(await add('hello'))).toBe(true)
  expect(await service.of(id)).toEqual(['hello'])
})
