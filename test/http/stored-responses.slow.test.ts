/** The `Idempotency-Key` of a request whose process is killed. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { type Opened, openApi } from '../contract/api.ts'
import { startChild } from '../support/child.ts'
import { type Notes, notes } from './notes.fixture.ts'

let api: Opened
let service: Notes
beforeAll(async () => {
  api = await openApi(inject('postgresUrl'), { satellites: [notes()], role: 'api' })
  service = (api.tenancy as unknown as { notes: Notes }).notes
})
afterAll(() => api.end())

const id = crypto.randomUUID()
const sent = (text: string) => ({ body: { text }, headers: { 'idempotency-key': `key-${id}` } })
const add = (text: string) => api.call('POST', `/tenants/${id}/notes`, sent(text))
const kept = async () => (await api.tenancy.kernel.database.sql('select * from multitenancy.idempotency_keys')).rows

test('a killed process keeps its key until its lease ends, and no longer', async () => {
  const child = await startChild(new URL('./notes-process.fixture.ts', import.meta.url), { url: api.url })
  const cut = child
    .request({ path: `/tenants/${id}/notes`, sent: sent('hello') })
    .catch((error: Error) => error.message)
  const running = { status: 409, json: { code: 'E_IDEMPOTENCY_IN_PROGRESS' } }
  await eventually(async () => expect((await kept()).filter(({ response }) => response === null)).toHaveLength(1))
  expect(await add('hello')).toMatchObject(running)

  await child.kill('SIGKILL')
  expect(await cut).toBe('the child process has exited')
  const refused = await add('hello')
  expect(refused).toMatchObject(running)
  expect(refused.headers.get('retry-after')).toBe('1')

  await api.tenancy.kernel.database.sql(
    "update multitenancy.idempotency_keys set leased_until = now() - interval '1 second'",
  )
  expect(await add('something else')).toMatchObject({ status: 409, json: { code: 'E_IDEMPOTENCY_MISMATCH' } })
  const done = await add('hello')
  expect(done.status).toBe(201)
  expect(done.headers.get('idempotency-replayed')).toBeNull()
  expect(await service.of(id)).toEqual(['hello'])
})
