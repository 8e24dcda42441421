/** `If-Match` with concurrent edits in two processes, and the tags of states. test/contract covers each operation. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Opened, openApi } from '../contract/api.ts'
import type { Api } from '../contract/calls.ts'

let api: Opened
/** On the same database, as another process. */
let other: Api
beforeAll(async () => {
  api = await openApi(inject('postgresUrl'), { role: 'api' })
  other = await api.open()
})
afterAll(() => api?.end())

async function tenantOf(id: string): Promise<string> {
  await api.call('POST', '/tenants', { body: { id, name: 'Acme' } })
  await api.tenancy.tenants.installation.install(id, { isLast: true })
  return `/tenants/${id}`
}
const tagAt = async (path: string) => (await api.call('GET', path)).headers.get('etag') ?? expect.fail('no ETag')
const changed = { status: 412, json: { code: 'E_CHANGED_MEANWHILE' } }

test('the second of two edits of one state is rejected, and the first one is kept', async () => {
  const path = await tenantOf('form')
  const headers = { 'if-match': await tagAt(path) }
  const first = await api.call('PATCH', path, { headers, body: { name: 'First' } })
  expect(first).toMatchObject({ status: 200, json: { name: 'First' } })
  const second = await other.call('PATCH', path, { headers, body: { name: 'Second' } })
  expect(second).toMatchObject({ ...changed, json: { current: first.json } })
  expect(second.headers.get('etag')).toBe(first.headers.get('etag'))

  const again = { 'if-match': second.headers.get('etag') ?? '' }
  expect((await other.call('PATCH', path, { headers: again, body: { name: 'Second' } })).json.name).toBe('Second')
})

test('of concurrent edits in two processes, one succeeds in each round', async () => {
  const path = await tenantOf('race')
  for (let round = 0; round < 3; round++) {
    const headers = { 'if-match': await tagAt(path) }
    const edits = Array.from({ length: 8 }, (_, index) =>
      (index % 2 ? api : other).call('PATCH', path, { headers, body: { metadata: { by: `${round} ${index}` } } }),
    )
    const statuses = (await Promise.all(edits)).map(({ status }) => status)
    expect(statuses.toSorted()).toEqual([200, ...Array(7).fill(412)])
  }
})

test('an edit without If-Match between read and write is detected', async () => {
  const path = `${await tenantOf('between')}/branding`
  const headers = { 'if-match': await tagAt(path) }
  await other.call('PUT', path, { body: { displayName: 'Other' } })
  expect(await api.call('PUT', path, { headers, body: { displayName: 'Mine' } })).toMatchObject(changed)
  expect((await api.call('GET', path)).json.displayName).toBe('Other')
})

test('a rejected change has no effect, and an edit without a change keeps the tag', async () => {
  const path = await tenantOf('same')
  const tag = await tagAt(path)
  await api.call('PATCH', path, { headers: { 'if-match': '"old"' }, body: { name: 'Refused' } })
  expect(await tagAt(path)).toBe(tag)
  const same = await api.call('PATCH', path, { headers: { 'if-match': tag }, body: { name: 'Acme' } })
  expect(same.headers.get('etag')).toBe(tag)
})

test('a tenant that is activated with If-Match is served immediately', async () => {
  const path = await tenantOf('resumed')
  const suspended = await api.call('PUT', `${path}/suspend`, { headers: { 'if-match': await tagAt(path) } })
  expect(suspended.headers.get('etag')).toBe(await tagAt(path))
  const headers = { 'if-match': suspended.headers.get('etag') ?? '' }
  expect(await api.call('PUT', `${path}/activate`, { headers })).toMatchObject({ json: { status: 'active' } })
  const { pool } = await api.tenancy.tenant('resumed')
  expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }])
})

describe('*', () => {
  test('If-Match: * matches any state, and no missing resource', async () => {
    const path = `${await tenantOf('any')}/feature-flags/beta`
    const headers = { 'if-match': '*' }
    const body = { enabled: true }
    expect(await api.call('PUT', path, { headers, body })).toMatchObject({ ...changed, json: { current: null } })
    expect(await api.call('GET', path)).toMatchObject({ status: 404 })
    await api.call('PUT', path, { body })
    expect(await api.call('PUT', path, { headers, body: { enabled: false } })).toMatchObject({ status: 200 })
    expect(await api.call('DELETE', path, { headers })).toMatchObject({ status: 204 })
  })

  test('a tag matches the state of a tenant without settings', async () => {
    const path = `${await tenantOf('none')}/sso`
    expect((await api.call('PUT', path, { headers: { 'if-match': '*' }, body: {} })).status).toBe(200)
  })
})

test('an invalid request and a missing tenant are reported before a mismatch', async () => {
  const headers = { 'if-match': '"old"' }
  const path = await tenantOf('first')
  expect(await api.call('PATCH', path, { headers, body: { name: '' } })).toMatchObject({ status: 400 })
  expect(await api.call('PATCH', '/tenants/unknown', { headers, body: {} })).toMatchObject({ status: 404 })
  expect(await api.call('PATCH', path, { headers, body: {}, who: 'read' })).toMatchObject({ status: 403 })
})

test('HEAD has the tag of GET', async () => {
  const path = await tenantOf('head')
  expect((await api.call('HEAD', path)).headers.get('etag')).toBe(await tagAt(path))
})
