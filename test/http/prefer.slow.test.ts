/** `Prefer: wait=N` that times out: no worker installs the tenants here. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type Opened, openApi } from '../contract/api.ts'

let api: Opened
beforeAll(async () => {
  api = await openApi(inject('postgresUrl'), { role: 'api' })
})
afterAll(() => api?.end())

const create = (id: string, prefer: string, headers: Record<string, string> = {}) =>
  api.call('POST', '/tenants', { body: { id, name: 'Acme' }, headers: { prefer, ...headers } })
const applied = (response: Awaited<ReturnType<typeof create>>) => response.headers.get('preference-applied')

test('an unfinished job continues after the wait, and the response has the present state', async () => {
  const response = await create('one', 'wait=1', { 'idempotency-key': 'slow' })
  expect(response).toMatchObject({ status: 201, json: { status: 'provisioning' } })
  expect(applied(response)).toBe('wait=1')
  const again = await create('one', 'wait=1', { 'idempotency-key': 'slow' })
  expect(again.text).toBe(response.text)
})

test('a 202 remains a 202 after the wait', async () => {
  const id = 'twice'
  await create(id, 'wait=0')
  await api.call('DELETE', `/tenants/${id}`)
  const restored = await api.call('PUT', `/tenants/${id}/restore`, { headers: { prefer: 'wait=1' } })
  expect(restored).toMatchObject({ status: 202, json: { status: 'provisioning' } })
  expect(applied(restored)).toBe('wait=1')
})
