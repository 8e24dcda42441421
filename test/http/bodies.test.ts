/** Optional bodies, unexpected bodies, and media types of JSON; on every host framework. */
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Host, hosts } from './hosts.ts'
import { ADMIN, PREFIX, type Sent, type Served, send, served, TOKEN } from './served.ts'

const OK = { status: 200 }
const INVALID = { status: 400, json: { code: 'E_INVALID_REQUEST' } }
const NOT_JSON = { status: 400, json: { code: 'E_INVALID_JSON' } }
const OTHER_TYPE = { status: 415, json: { code: 'E_UNSUPPORTED_MEDIA_TYPE' } }

let tenancy: Served
beforeAll(async () => {
  tenancy = await served(inject('postgresUrl'))
})
afterAll(() => tenancy.stop())

describe.each(Object.entries(hosts))('%s', (name, start) => {
  const id = `acme-${name}`
  let host: Host
  beforeAll(async () => {
    host = await start(tenancy.http)
    await call('POST /tenants', { body: { id, name: 'Acme' }, headers: { prefer: 'wait=20' } })
  })
  afterAll(() => host.close())

  const call = (line: string, { headers, body }: Sent = {}) => {
    const [method, path] = line.split(' ')
    return send(host.origin, `${method} ${PREFIX}${path}`, { headers: { ...ADMIN, ...headers }, body })
  }

  test.each([
    ['nothing', undefined, OK],
    ['no bytes', '', OK],
    ['an empty object', '{}', OK],
    ['an object', '{"message":"Back at noon"}', OK],
    ['null', 'null', INVALID],
    ['a list', '[]', INVALID],
    ['a text', '"now"', INVALID],
    ['a blank', ' ', NOT_JSON],
  ] as const)('an optional body may be %s', async (_what, body, expected) => {
    expect(await call(`PUT /tenants/${id}/maintenance`, { body })).toMatchObject(expected)
  })

  test.each([
    ['nothing', undefined, {}, OK],
    ['no bytes of some type', '', { 'content-type': 'text/plain' }, OK],
    ['an empty object', '{}', {}, OK],
    ['null', 'null', {}, INVALID],
    ['a member', '{"now":true}', {}, INVALID],
    ['a list', '[]', {}, INVALID],
    ['half an object', '{', {}, NOT_JSON],
    ['a form', 'now=true', { 'content-type': 'application/x-www-form-urlencoded' }, OTHER_TYPE],
    ['bytes', Buffer.from([0xff, 0xfe]), {}, NOT_JSON],
  ] as const)('an operation without a body ignores %s', async (_what, body, headers, expected) => {
    expect(await call(`PUT /tenants/${id}/suspend`, { body, headers })).toMatchObject(expected)
  })

  test.each(['{"limit":1}', '{', 'x'.repeat(100_000)])('a body of a GET or DELETE is ignored', async (body) => {
    const headers = { 'content-length': body.length }
    const response = { status: 200, json: { id } }
    expect(await call(`GET /tenants/${id}`, { body, headers })).toMatchObject(response)
    expect(await call(`DELETE /tenants/${id}/maintenance`, { body, headers })).toMatchObject(response)
  })

  test('an ignored body is not read as the next request', async () => {
    const smuggled = `GET /mine HTTP/1.1\r\nhost: x\r\n\r\n`
    const head = (path: string, length: number) =>
      `GET ${PREFIX}${path} HTTP/1.1\r\nhost: x\r\nx-admin-token: ${TOKEN}\r\ncontent-length: ${length}\r\n`
    const responses = await raw(
      host.origin,
      `${head(`/tenants/${id}`, smuggled.length)}\r\n${smuggled}${head('/plans', 0)}connection: close\r\n\r\n`,
    )
    expect(responses.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 200'])
    expect(responses).toContain('defaultPlan')
    expect(responses).not.toContain('mine')
  })

  test.each([
    'application/json; charset=utf-8',
    'application/json;charset=UTF-8',
    'Application/JSON',
    'application/json ; charset="utf-8"',
    'application/merge-patch+json',
  ])('a body of type %s is accepted as JSON', async (type) => {
    const body = JSON.stringify({ metadata: { calledBy: type } })
    const response = await call(`PATCH /tenants/${id}`, { body, headers: { 'content-type': type } })
    expect(response).toMatchObject({ status: 200, json: { metadata: { calledBy: type } } })
  })

  test.each([
    'text/json',
    'application/json-patch+json',
    'application/x-json',
    'json',
    'text/plain; application/json',
    'application/json; charset=iso-8859-1',
    'application/json; charset="utf-16"',
    'application/merge-patch+json;charset=us-ascii',
    'application/json; version=1; charset=latin1',
  ])('a body of type %s is rejected', async (type) => {
    const response = await call(`PATCH /tenants/${id}`, { body: '{}', headers: { 'content-type': type } })
    expect(response).toMatchObject(OTHER_TYPE)
  })

  test('a merge patch is accepted for PATCH only', async () => {
    const headers = { 'content-type': 'application/merge-patch+json' }
    expect(await call('POST /tenants', { body: '{"name":"Acme"}', headers })).toMatchObject(OTHER_TYPE)
    expect(await call(`PUT /tenants/${id}/maintenance`, { body: '{}', headers })).toMatchObject(OTHER_TYPE)
  })
})

function raw(origin: string, bytes: string): Promise<string> {
  const socket = connect(Number(new URL(origin).port), '127.0.0.1')
  socket.write(bytes)
  return text(socket)
}
