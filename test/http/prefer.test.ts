/**
 * `Prefer: wait=N` (RFC 7240): the response comes when the job has ended, or with the present state after the timeout.
 */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type Opened, openApi } from '../contract/api.ts'

/** Installations of tenants whose id contains this text fail. */
const FAILING = 'failing'

let api: Opened
/** Another database, without a worker: its tenants are not installed. */
let idle: Opened

beforeAll(async () => {
  const up = `do $$ begin
    if current_schema() like '%${FAILING}%' then raise exception 'not this one'; end if;
  end $$`
  api = await openApi(inject('postgresUrl'), { migrations: [{ name: '0001_fails', checksum: '1', up }] })
  idle = await openApi(inject('postgresUrl'), { role: 'api' })
})
afterAll(async () => {
  await api?.end()
  await idle?.end()
})

const create = (id: string, prefer: string, at = api) =>
  at.call('POST', '/tenants', { body: { id, name: 'Acme' }, headers: { prefer } })
const applied = (response: Awaited<ReturnType<typeof create>>) => response.headers.get('preference-applied')

test('the response with Prefer: wait has an active tenant', async () => {
  const response = await create('quick', 'wait=20')
  expect(response).toMatchObject({ status: 201, json: { id: 'quick', status: 'active' } })
  expect(applied(response)).toBe('wait=20')
})

test.each([
  ['one of several preferences', 'respond-async, wait=20; because=why, foo="bar"', 'wait=20'],
  ['another case', 'Wait=20', 'wait=20'],
  ['a quoted value', 'wait="20"', 'wait=20'],
  ['blanks', 'foo ,  wait = 20 ', 'wait=20'],
  ['more than the maximum', 'wait=86400', 'wait=30'],
  ['more than any number', 'wait=99999999999999', 'wait=30'],
])('Prefer: wait is read with %s', async (_how, prefer, expected) => {
  const response = await create(`heard-${crypto.randomUUID().slice(0, 8)}`, prefer)
  expect(response).toMatchObject({ status: 201, json: { status: 'active' } })
  expect(applied(response)).toBe(expected)
})

test('a failed job returns the problem of its failure, and the location of the tenant', async () => {
  const made = await create(FAILING, 'wait=20')
  const at = `/admin/multitenancy/tenants/${FAILING}`
  expect(made).toMatchObject({ status: 409, json: { code: 'E_MIGRATION_FAILED', status: 409 } })
  expect(made.json.detail).toMatch('0001_fails')
  expect([applied(made), made.headers.get('location'), made.headers.get('etag')]).toEqual(['wait=20', at, null])
  expect(await api.call('GET', `/tenants/${FAILING}`)).toMatchObject({
    json: { status: 'failed', failure: { code: 'E_MIGRATION_FAILED', message: made.json.detail } },
  })
  const again = await api.call('PUT', `/tenants/${FAILING}/activate`, { headers: { prefer: 'wait=20' } })
  expect(again).toMatchObject({ status: 409, json: { code: 'E_MIGRATION_FAILED' } })
  expect([applied(again), again.headers.get('location'), again.headers.get('etag')]).toEqual(['wait=20', at, null])
})

test('a repeated Idempotency-Key returns the stored problem of a failed job', async () => {
  const body = { id: `${FAILING}-once`, name: 'Acme' }
  const send = () => api.call('POST', '/tenants', { body, headers: { prefer: 'wait=20', 'idempotency-key': 'once' } })
  const first = await send()
  const again = await send()
  expect(again).toMatchObject({ status: 409, json: { ...first.json, requestId: again.headers.get('x-request-id') } })
  expect([applied(again), again.headers.get('idempotency-replayed')]).toEqual(['wait=20', 'true'])
})

test.each([
  'wait',
  'wait=',
  'wait=soon',
  'wait=-1',
  'wait=1.5',
  'await=20',
  'wait=20s',
  'respond-async',
  'x="wait=20"',
])('the preference %s is ignored', async (prefer) => {
  const response = await create(`unheard-${crypto.randomUUID().slice(0, 8)}`, prefer, idle)
  expect(response).toMatchObject({ status: 201, json: { status: 'provisioning' } })
  expect(applied(response)).toBeNull()
})

test('wait=0 does not wait', async () => {
  const response = await create('none', 'wait=0', idle)
  expect(response).toMatchObject({ status: 201, json: { status: 'provisioning' } })
  expect(applied(response)).toBe('wait=0')
})

test('an operation without a job does not wait', async () => {
  await create('ready', 'wait=20')
  const suspended = await api.call('PUT', '/tenants/ready/suspend', { headers: { prefer: 'wait=20' } })
  expect(applied(suspended)).toBeNull()
  const activated = await api.call('PUT', '/tenants/ready/activate', { headers: { prefer: 'wait=20' } })
  expect(activated).toMatchObject({ status: 200, json: { status: 'active' } })
  expect(applied(activated)).toBeNull()
})

test('the tenant of a caller that disconnects is installed, and the wait ends', async () => {
  const gone = new AbortController()
  const request = new Request('http://localhost/admin/multitenancy/tenants', {
    method: 'POST',
    headers: { 'x-admin-token': 'token-of-an-admin-0123456789', 'content-type': 'application/json', prefer: 'wait=30' },
    body: JSON.stringify({ id: 'gone', name: 'Acme' }),
    signal: gone.signal,
  })
  const response = idle.http.fetch(request)
  setImmediate(() => gone.abort())
  expect(await (await response).json()).toMatchObject({ status: 'provisioning' })
  const worker = await idle.open({ role: 'all' })
  expect(await worker.tenancy.tenants.waitUntilInstalled('gone', AbortSignal.timeout(20_000))).toMatchObject({
    status: 'active',
  })
  await worker.tenancy.stop()
})
