/** A token with a tenant limit, or without an operation, is rejected by every operation of the contract. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { TOKENS } from '../contract/calls.ts'
import { described } from '../contract/document.ts'
import { merged } from '../contract/parts.ts'
import { type OpenRunner, openRunner, play } from '../contract/runner.ts'

const FORBIDDEN = { status: 403, json: { code: 'E_FORBIDDEN' } }
/** Parameters in addition to the tenant may be anything, because the call is rejected before they are read. */
const pathOfGlobex = (path: string) => path.replace('/tenants/{id}', '/tenants/globex').replaceAll(/\{\w+\}/g, 'x')
/** Operations that each token may call: their responses have what the token permits. */
const OF_EVERY_TOKEN = ['activity.stream', 'session.get']
const limitedByName = described.filter(({ name }) => !OF_EVERY_TOKEN.includes(name))
const isOfTenant = (path: string) => path.startsWith('/tenants/{id}')

let runner: OpenRunner
beforeAll(async () => {
  runner = await openRunner(inject('postgresUrl'))
})
afterAll(() => runner?.end())

const create = async (body: object) => {
  const { json, status, text } = await runner.api.call('POST', '/tokens', { body })
  expect(status, text).toBe(201)
  return { 'x-admin-token': json.token as string }
}

describe('a token that is limited to one tenant', () => {
  let limited: { 'x-admin-token': string }
  beforeAll(async () => {
    limited = await create({ name: 'of acme', may: ['admin'], tenants: ['acme'] })
  })

  test.each(limitedByName)('$name is rejected for another tenant, or for no tenant', async (operation) => {
    const path = pathOfGlobex(operation.path)
    const response = await runner.api.call(operation.method, path, { who: 'anonymous', headers: limited })
    expect(response, response.text).toMatchObject(FORBIDDEN)
  })

  test('an id in another spelling is not that of its tenant', async () => {
    for (const id of [
      'ACME',
      'acme%20',
      'acme%00',
      '%2e%2e%2fglobex',
      'acme%2f..%2fglobex',
      './globex',
      '../acme/../globex',
    ]) {
      const { status } = await runner.api.call('GET', `/tenants/${id}`, { who: 'anonymous', headers: limited })
      expect([403, 404], id).toContain(status)
    }
  })

  test('session.get lists the permitted operations: those of a tenant that create no other', async () => {
    const { json } = await runner.api.call('GET', '/session', { who: 'anonymous', headers: limited })
    const expected = described.filter(
      ({ name, path }) => (isOfTenant(path) && name !== 'tenants.clone') || OF_EVERY_TOKEN.includes(name),
    )
    expect(Object.keys(json.operations).toSorted()).toEqual(expected.map(({ name }) => name).toSorted())
    expect(json).toMatchObject({ name: 'of acme', may: ['admin'], tenants: ['acme'] })
  })

  test('the API description, and its page, are rejected', async () => {
    for (const path of ['/openapi.json', '/openapi']) {
      expect(await runner.api.call('GET', path, { who: 'anonymous', headers: limited })).toMatchObject({ status: 403 })
    }
  })

  test.each(described.filter(({ path, method }) => isOfTenant(path) && method === 'GET'))(
    '$name is permitted for its tenant',
    async (operation) => {
      const { success } = merged('operations')[operation.name] ?? expect.fail(operation.name)
      const names = await runner.prepareUnchanged(success)
      const { id = '' } = names
      const { json } = await runner.api.call('POST', '/tokens', {
        body: { name: `${operation.name} of ${id}`, may: [operation.name, 'auditLogs.list'], tenants: ['acme', id] },
      })
      const headers = { 'x-admin-token': json.token }
      expect(await play(runner.api, operation, success, names, { who: 'anonymous', headers })).toMatchObject({
        status: 200,
      })
    },
  )
})

test('each operation is permitted by its name only', async () => {
  for (const operation of limitedByName) {
    const headers = await create({ name: `not ${operation.name}`, may: ['admin', `!${operation.name}`] })
    const path = pathOfGlobex(operation.path)
    const response = await runner.api.call(operation.method, path, { who: 'anonymous', headers })
    expect(response, `${operation.name}: ${response.text}`).toMatchObject(FORBIDDEN)
  }
})

test('a prefix does not permit the erasure of a tenant', async () => {
  const headers = await create({ name: 'of support', may: ['tenants.*', '!tenants.delete'] })
  const body = { confirm: 'globex', reason: 'request 4711' }
  const response = await runner.api.call('POST', '/tenants/globex/erase', { who: 'anonymous', headers, body })
  expect(response).toMatchObject(FORBIDDEN)
})

test('session.get lists what each configured token permits', async () => {
  const operationsOf = async (token: keyof typeof TOKENS) =>
    Object.keys((await runner.api.call('GET', '/session', { who: token })).json.operations)
  expect((await operationsOf('admin')).toSorted()).toEqual(described.map(({ name }) => name).toSorted())
  const reads = described.filter(({ method }) => method === 'GET').map(({ name }) => name)
  expect((await operationsOf('read')).toSorted()).toEqual(reads.toSorted())
  expect(await operationsOf('narrow')).toEqual(OF_EVERY_TOKEN)
})
