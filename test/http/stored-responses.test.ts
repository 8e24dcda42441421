/** Stored responses of an `Idempotency-Key`: scope, exceptions, encryption, and recovery after a crash. */
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { Idempotency } from '../../src/kernel/api/idempotency.ts'
import { DependencyUnavailable, defineError } from '../../src/kernel/base/errors.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import { holderOf } from '../../src/kernel/processes/processes.ts'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { type Opened, openApi } from '../contract/api.ts'
import { type HttpResponse, TOKENS } from '../contract/calls.ts'
import { type Notes, notes } from './notes.fixture.ts'

let api: Opened
let service: Notes
const logged: string[] = []
beforeAll(async () => {
  const logger = createLogger({ level: 'warn', write: (line) => void logged.push(line) })
  api = await openApi(inject('postgresUrl'), { satellites: [notes()], role: 'api', logger })
  service = (api.tenancy as unknown as { notes: Notes }).notes
})
afterAll(() => api.end())

/** Tenant of this test; it does not exist, which notes do not check. */
let id: string
let key: string
beforeEach(() => {
  id = crypto.randomUUID()
  key = `key-${id}`
})

const sent = (text: string) => ({ body: { text }, headers: { 'idempotency-key': key } })
const add = (text: string, tenant = id) => api.call('POST', `/tenants/${tenant}/notes`, sent(text))
const isReplay = ({ headers }: HttpResponse) => headers.get('idempotency-replayed') === 'true'
/** Changes the stored keys of the present requests, as elapsed time would. */
const pass = (change: string) =>
  api.tenancy.kernel.database.sql(`update multitenancy.idempotency_keys own set ${change}`)
const forget = () => api.tenancy.kernel.database.sql('delete from multitenancy.idempotency_keys')
const kept = async () => (await api.tenancy.kernel.database.sql('select * from multitenancy.idempotency_keys')).rows

test('the same key on another path is independent', async () => {
  const elsewhere = crypto.randomUUID()
  expect(await add('once')).toMatchObject({ status: 201, json: { tenantId: id } })
  const other = await add('once', elsewhere)
  expect(other).toMatchObject({ status: 201, json: { tenantId: elsewhere } })
  expect(isReplay(other)).toBe(false)
  expect(isReplay(await add('once', elsewhere))).toBe(true)
})

test('a key belongs to its path in any spelling', async () => {
  expect(await add('once')).toMatchObject({ status: 201 })
  const escaped = `%${id.charCodeAt(0).toString(16)}${id.slice(1)}`
  for (const path of [`/tenants/${id}/notes/`, `/tenants/${escaped}/notes`, `/%74enants/${id}/notes?`]) {
    const again = await api.call('POST', path, sent('once'))
    expect({ path, status: again.status, isReplay: isReplay(again) }).toEqual({ path, status: 201, isReplay: true })
  }
  expect(await service.of(id)).toEqual(['once'])
})

test('a key is ignored for methods other than POST', async () => {
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
  ['an internal error', new Error('relation "secrets" does not exist'), 500, 'E_INTERNAL'],
  [
    'an unavailable dependency',
    DependencyUnavailable('away', { retryAfterSeconds: 5 }),
    503,
    'E_DEPENDENCY_UNAVAILABLE',
  ],
])('%s is not stored, and its request has no effect', async (_what, fault, status, code) => {
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

test('after a failed wait, the response from before the wait is returned and stored', async () => {
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

test('a failed wait without a key is not an error', async () => {
  const waiting = { body: { text: 'hello' }, headers: { prefer: 'wait=5' } }
  service.lostWaits.push(new Error('the connection was lost'))
  const response = await api.call('POST', `/tenants/${id}/notes`, waiting)
  expect(response.status).toBe(201)
  expect(response.headers.get('preference-applied')).toBe('wait=5')
})

test('a stored response is not released, because its commit may have been reported as failed', async () => {
  const idempotency = new Idempotency(api.tenancy.kernel)
  const response = { status: 201, headers: {}, body: '{}' }
  const lease = await idempotency.begin([key], '', 60_000)
  if (!('keep' in lease)) throw new Error('the key is new')
  await lease.keep(response)
  await lease.release()
  expect(await idempotency.begin([key], '', 60_000)).toEqual(response)
})

test('the error of a request is logged, also if its key cannot be released', async () => {
  const refusal = `create function public.refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$`
  const { database } = api.tenancy.kernel
  await database.sql(refusal)
  await database.sql(
    'create trigger refuse before delete on multitenancy.idempotency_keys for each row execute function public.refuse()',
  )
  try {
    service.faults.push(new Error('the pen is empty'))
    logged.length = 0
    expect(await add('hello')).toMatchObject({ status: 500, json: { code: 'E_INTERNAL' } })
    expect(logged.join()).toContain('the pen is empty')
    expect(logged.join()).toContain('the lease of an Idempotency-Key was not released')
  } finally {
    await database.sql('drop function public.refuse() cascade')
  }
})

test('a repeated rejection has the request id of the repeat, and Retry-After', async () => {
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

test('stored data is encrypted: response, request, key and token are not readable in the table', async () => {
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

test('an encrypted response is valid in its own row only', async () => {
  await forget()
  await add('mine')
  const own = key
  key = `other-${id}`
  await add('mine')
  await pass(
    `response = (select other.response from multitenancy.idempotency_keys other where other.scope <> own.scope)`,
  )
  key = own
  expect(await add('mine')).toMatchObject({ status: 409, json: { code: 'E_IDEMPOTENCY_RESPONSE_LOST' } })
  await forget()
})

test('a key can be used again after a day', async () => {
  await add('yesterday')
  await pass("expires_at = now() - interval '1 second'")
  const today = await add('today')
  expect(today.status).toBe(201)
  expect(isReplay(today)).toBe(false)
  expect(isReplay(await add('today'))).toBe(true)
  expect(await service.of(id)).toEqual(['yesterday', 'today'])
})

test('expired keys are deleted', async () => {
  await add('old')
  await pass("expires_at = now() - interval '2 hours'")
  key = `new-${id}`
  await add('new')
  expect(await kept()).toHaveLength(1)
})

test('Retry-After of a request in progress is the time until the deadline of the first one', async () => {
  const idempotency = new Idempotency(api.tenancy.kernel)
  await idempotency.begin([key], '', 3_600_000)
  const error = await idempotency.begin([key], '', 10_000).catch((thrown) => thrown)
  expect(error).toMatchObject({ code: 'E_IDEMPOTENCY_IN_PROGRESS' })
  expect(error.retryAfterSeconds).toBeLessThanOrEqual(3_600)
  expect(error.retryAfterSeconds).toBeGreaterThan(3_000)
})

test('the key of a stopped process can be used immediately, the key of another one cannot', async () => {
  const other = await api.open()
  const lease = async (one: Pick<Opened, 'tenancy'>) => new Idempotency(one.tenancy.kernel).begin([key], '', 3_600_000)
  await lease(other)
  await expect(lease(api)).rejects.toThrow('still running')
  await other.tenancy.stop()
  await eventually(async () => expect(await lease(api)).toHaveProperty('keep'))
  await expect(lease(api)).rejects.toThrow('still running')
})

test('a key that a process of the former version took over keeps its lease, also after the end of its former process', async () => {
  const other = await api.open()
  const lease = async (one: Pick<Opened, 'tenancy'>) => new Idempotency(one.tenancy.kernel).begin([key], '', 3_600_000)
  await lease(other)
  await other.tenancy.stop()
  // The former version changes no column about processes.
  await pass(`lease = gen_random_uuid() where process_id = '${other.tenancy.kernel.processes.id}'`)
  await expect(lease(api)).rejects.toThrow('still running')
})

test('a running process that has lost its session loses the key, and its request has no effect', async () => {
  const other = await api.open()
  const { notes: others } = other.tenancy as unknown as { notes: Notes }
  const gate = Promise.withResolvers<void>()
  others.gate = gate.promise
  const slow = other.call('POST', `/tenants/${id}/notes`, sent('hello'))
  await eventually(() => expect(others.waiting).toBe(1))
  expect(await add('hello')).toMatchObject({ status: 409, json: { code: 'E_IDEMPOTENCY_IN_PROGRESS' } })

  const { processes } = other.tenancy.kernel
  await eventually(async () => {
    await api.tenancy.kernel.database.sql(`select pg_terminate_backend(pid) from (${holderOf('$1')}) holder`, [
      processes.id,
    ])
    expect(await add('hello')).toMatchObject({ status: 201 })
  })
  gate.resolve()
  expect(await slow).toMatchObject({ status: 409, json: { code: 'E_IDEMPOTENCY_IN_PROGRESS' } })
  expect(await service.of(id)).toEqual(['hello'])
})

test('a request whose lease was taken over has no effect', async () => {
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
