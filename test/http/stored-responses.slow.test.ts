/** The `Idempotency-Key` of a request whose process is killed or stopped. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { type Opened, openApi } from '../contract/api.ts'
import { type Child, startChild } from '../support/child.ts'
import { type Notes, notes } from './notes.fixture.ts'

let api: Opened
let service: Notes
beforeAll(async () => {
  api = await openApi(inject('postgresUrl'), { satellites: [notes()], role: 'api' })
  service = (api.tenancy as unknown as { notes: Notes }).notes
})
afterAll(() => api.end())

const id = crypto.randomUUID()
const RUNNING = { status: 409, json: { code: 'E_IDEMPOTENCY_IN_PROGRESS' } }
const sent = (text: string, key: string) => ({ body: { text }, headers: { 'idempotency-key': `${key}-${id}` } })
const add = (text: string, key: string) => api.call('POST', `/tenants/${id}/notes`, sent(text, key))
const kept = async () => (await api.tenancy.kernel.database.sql('select * from multitenancy.idempotency_keys')).rows

/** A process that holds the key of a request that does not end. */
async function startProcess(key: string): Promise<Child & { readonly cut: Promise<unknown> }> {
  const child = await startChild(new URL('./notes-process.fixture.ts', import.meta.url), { url: api.url })
  const request = { path: `/tenants/${id}/notes`, sent: sent('hello', key) }
  const cut = child.request(request).catch((error: Error) => error.message)
  await eventually(async () => expect((await kept()).filter(({ response }) => response === null)).toHaveLength(1))
  return { ...child, cut }
}

test('a killed process loses its key: another process runs the repeated request', async () => {
  const child = await startProcess('killed')
  const refused = await add('hello', 'killed')
  expect(refused).toMatchObject(RUNNING)
  const retryAfter = Number(refused.headers.get('retry-after'))
  expect(retryAfter).toBeGreaterThan(3_000) // the deadline of the process is an hour
  expect(retryAfter).toBeLessThanOrEqual(3_600)

  await child.kill('SIGKILL')
  expect(await child.cut).toBe('the child process has exited')
  await eventually(async () => {
    const done = await add('hello', 'killed')
    expect(done.status).toBe(201)
    expect(done.headers.get('idempotency-replayed')).toBeNull()
  })
  expect(await add('something else', 'killed')).toMatchObject({
    status: 409,
    json: { code: 'E_IDEMPOTENCY_MISMATCH' },
  })
  expect(await service.of(id)).toEqual(['hello'])
})

test('a stopped process keeps its key until its deadline', async () => {
  const child = await startProcess('stopped')
  child.signal('SIGSTOP')
  try {
    for (let time = 0; time < 5; time++) expect(await add('hello', 'stopped')).toMatchObject(RUNNING)
    await api.tenancy.kernel.database.sql(
      "update multitenancy.idempotency_keys set leased_until = now() - interval '1 second' where response is null",
    )
    expect(await add('hello', 'stopped')).toMatchObject({ status: 201 })
  } finally {
    await child.kill('SIGKILL')
  }
  expect(await service.of(id)).toEqual(['hello', 'hello'])
})
