/** `Prefer: wait=N` (RFC 7240): the answer comes when the job is done, or as things are when the time is up. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { Database } from '../../src/kernel/database.ts'
import { createLogger } from '../../src/kernel/logger.ts'
import { type Opened, openApi } from '../contract/api.ts'

/**
 * Installations of tenants whose id holds this wait for a lock that the tests hold, and so do all others once every worker has
 * one: what must be installed comes first here.
 */
const SLOW = 'slow'
const FAILING = 'failing'
const LOCK = 7_240

let api: Opened
let holder: Database
let release: () => void
let released: Promise<void>

beforeAll(async () => {
  const up = `do $$ begin
    if current_schema() like '%${SLOW}%' then perform pg_advisory_xact_lock(${LOCK}); end if;
    if current_schema() like '%${FAILING}%' then raise exception 'not this one'; end if;
  end $$`
  api = await openApi(inject('postgresUrl'), { migrations: [{ name: '0001_waits', checksum: '1', up }] })
  holder = new Database({ url: api.url, max: 1 }, createLogger({ level: 'silent' }))
  const held = Promise.withResolvers<void>()
  released = holder.session(async (client) => {
    await client.query('select pg_advisory_lock($1)', [LOCK])
    held.resolve()
    await new Promise<void>((resolve) => {
      release = resolve
    })
  })
  await held.promise
})
afterAll(async () => {
  release()
  await released
  await holder.close()
  await api.end()
})

const create = (id: string, prefer: string, headers: Record<string, string> = {}) =>
  api.call('POST', '/tenants', { body: { id, name: 'Acme' }, headers: { prefer, ...headers } })
const applied = (answer: Awaited<ReturnType<typeof create>>) => answer.headers.get('preference-applied')

test('the tenant is active when the answer comes', async () => {
  const answer = await create('quick', 'wait=20')
  expect(answer).toMatchObject({ status: 201, json: { id: 'quick', status: 'active' } })
  expect(applied(answer)).toBe('wait=20')
})

test.each([
  ['it stands among others', 'respond-async, wait=20; because=why, foo="bar"', 'wait=20'],
  ['it is written in another case', 'Wait=20', 'wait=20'],
  ['it is quoted', 'wait="20"', 'wait=20'],
  ['it has blanks', 'foo ,  wait = 20 ', 'wait=20'],
  ['it is more than is waited', 'wait=86400', 'wait=30'],
  ['it is more than any wait', 'wait=99999999999999', 'wait=30'],
])('%s', async (_how, prefer, expected) => {
  const answer = await create(`heard-${crypto.randomUUID().slice(0, 8)}`, prefer)
  expect(answer).toMatchObject({ status: 201, json: { status: 'active' } })
  expect(applied(answer)).toBe(expected)
})

test('a job that fails has ended, too', async () => {
  const made = await create(FAILING, 'wait=20')
  expect(made).toMatchObject({ status: 201, json: { status: 'failed', failure: { code: 'E_MIGRATION_FAILED' } } })
  const again = await api.call('PUT', `/tenants/${FAILING}/activate`, { headers: { prefer: 'wait=20' } })
  expect(again).toMatchObject({ status: 200, json: { status: 'failed' } })
  expect(applied(again)).toBe('wait=20')
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
])('%s is no such preference: nothing is waited for, and nothing is said to be', async (prefer) => {
  const answer = await create(`${SLOW}-${crypto.randomUUID().slice(0, 8)}`, prefer)
  expect(answer).toMatchObject({ status: 201, json: { status: 'provisioning' } })
  expect(applied(answer)).toBeNull()
})

test('a job that is not done when the time is up goes on, and the answer shows what is', async () => {
  const answer = await create(`${SLOW}-one`, 'wait=1', { 'idempotency-key': 'slow' })
  expect(answer).toMatchObject({ status: 201, json: { status: 'provisioning' } })
  expect(applied(answer)).toBe('wait=1')
  const again = await create(`${SLOW}-one`, 'wait=1', { 'idempotency-key': 'slow' })
  expect(again.text).toBe(answer.text)
})

test('wait=0 does not wait', async () => {
  const answer = await create(`${SLOW}-none`, 'wait=0')
  expect(answer).toMatchObject({ status: 201, json: { status: 'provisioning' } })
  expect(applied(answer)).toBe('wait=0')
})

test('202 stays 202 when the time is up', async () => {
  const id = `${SLOW}-twice`
  await create(id, 'wait=0')
  await api.call('DELETE', `/tenants/${id}`)
  const restored = await api.call('PUT', `/tenants/${id}/restore`, { headers: { prefer: 'wait=1' } })
  expect(restored).toMatchObject({ status: 202, json: { status: 'provisioning' } })
  expect(applied(restored)).toBe('wait=1')
})

test('what needs no job is not waited for', async () => {
  const suspended = await api.call('PUT', '/tenants/quick/suspend', { headers: { prefer: 'wait=20' } })
  expect(applied(suspended)).toBeNull()
  const activated = await api.call('PUT', '/tenants/quick/activate', { headers: { prefer: 'wait=20' } })
  expect(activated).toMatchObject({ status: 200, json: { status: 'active' } })
  expect(applied(activated)).toBeNull()
})

test('a caller that hangs up is not waited for, and its tenant is made all the same', async () => {
  const gone = new AbortController()
  const request = new Request('http://localhost/admin/multitenancy/tenants', {
    method: 'POST',
    headers: { 'x-admin-token': 'token-of-an-admin-0123456789', 'content-type': 'application/json', prefer: 'wait=30' },
    body: JSON.stringify({ id: `${SLOW}-gone`, name: 'Acme' }),
    signal: gone.signal,
  })
  const answer = api.http.fetch(request)
  setImmediate(() => gone.abort())
  expect(await (await answer).json()).toMatchObject({ status: 'provisioning' })
  release()
  await released
  expect(await api.tenancy.tenants.settled(`${SLOW}-gone`, AbortSignal.timeout(20_000))).toMatchObject({
    status: 'active',
  })
})
