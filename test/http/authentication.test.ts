/** Every path below the prefix requires a token, for any method and body; on every host framework. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { createHttp } from '../../src/http/app.ts'
import { type Host, hosts } from './hosts.ts'
import { PREFIX, type Served, send, served, TOKEN } from './served.ts'

const LINES = [
  'GET /tenants',
  'GET /tenants/acme',
  'POST /tenants',
  'PATCH /tenants/acme',
  'PUT /tenants/acme/suspend',
  'DELETE /tenants/acme',
  'DELETE /session',
  'GET /session',
  'GET /health',
  'GET /openapi.json',
  'GET /openapi',
  'GET /no/such/path',
  'GET /',
  'GET ',
  'GET ?a=b',
  'OPTIONS /tenants',
  'GET /tenants/%2F',
  'GET /tenants/%2e%2e/tenants',
  'GET //tenants',
]

const WRONG: Readonly<Record<string, string | readonly string[]>> = {
  empty: '',
  'a prefix of the token': TOKEN.slice(0, -1),
  'the token with a suffix': `${TOKEN}0`,
  'in another case': TOKEN.toUpperCase(),
  'sent twice': [TOKEN, TOKEN],
  'after a wrong token': ['wrong-token-0123456789', TOKEN],
  'in a list': `${TOKEN}, ${TOKEN}`,
  quoted: `"${TOKEN}"`,
  'with a scheme': `Bearer ${TOKEN}`,
  'beyond ASCII': 'ädm_f3kR8sQ2xL0v',
}

let tenancy: Served
beforeAll(async () => {
  tenancy = await served(
    inject('postgresUrl'),
    [],
    {
      adminTokens: [
        { name: 'admin', token: TOKEN },
        { name: 'second', token: 'second-token-0123456789' },
        { name: 'reader', token: 'reader-token-0123456789', scope: 'read' },
        { name: 'server', token: 'server-token-0123456789', scope: 'runtime' },
        { name: 'eraser', token: 'eraser-token-0123456789', scope: 'erase' },
      ],
    },
    'api',
  )
})
afterAll(() => tenancy.stop())

test.each([undefined, {}, { adminTokens: [] }])(
  'createHttp(tenancy, %j) fails because the token is missing',
  (options: any) => {
    expect(() => createHttp(tenancy.tenancy, options)).toThrow('the admin API needs a token: createHttp(tenancy, {')
  },
)

test.each([
  ['/nothing', 404],
  ['/tenants/none/backup', 405],
])('HEAD %s returns %d without a body', async (path, status) => {
  const headers = { 'x-admin-token': TOKEN }
  const request = new Request(`http://localhost${PREFIX}${path}`, { method: 'HEAD', headers })
  const response = await tenancy.http.fetch(request)
  expect(response.status).toBe(status)
  expect(response.body).toBeNull()
})

describe.each(Object.entries(hosts))('%s', (name, start) => {
  const from = `127.0.1.${Object.keys(hosts).indexOf(name) + 1}`
  let host: Host
  beforeAll(async () => {
    host = await start(tenancy.http)
  })
  afterAll(() => host.close())

  test.each(LINES)('%s without a token returns 401', async (line) => {
    const [method, path] = line.split(' ')
    const response = await send(host.origin, `${method} ${PREFIX}${path}`)
    expect(response.status).toBe(401)
    expect(response.headers['content-type']).toBe('application/problem+json')
    expect(response.headers['www-authenticate']).toBeDefined()
    expect(response.json).toMatchObject({
      status: 401,
      code: 'E_UNAUTHORIZED',
      requestId: response.headers['x-request-id'],
    })
  })

  test('a body is not read before the token is checked', async () => {
    const responses = await Promise.all(
      ['{', 'x'.repeat(2_000_000)].map((body) => send(host.origin, `POST ${PREFIX}/tenants`, { body })),
    )
    expect(responses.map(({ status }) => status)).toEqual([401, 401])
  })

  test('HEAD without a token returns 401 without a body', async () => {
    expect(await send(host.origin, `HEAD ${PREFIX}/tenants`)).toMatchObject({ status: 401, body: '' })
  })

  test.each(Object.entries(WRONG))('an invalid token is rejected: %s', async (_what, token) => {
    const headers = { 'x-admin-token': token as string }
    const response = await send(host.origin, `GET ${PREFIX}/tenants`, { headers, from })
    expect(response).toMatchObject({ status: 401, json: { code: 'E_UNAUTHORIZED' } })
  })

  test('a token is read from its header only', async () => {
    const headers = { authorization: `Bearer ${TOKEN}`, cookie: `x-admin-token=${TOKEN}; tenantry_session=${TOKEN}` }
    const response = await send(host.origin, `GET ${PREFIX}/tenants?x-admin-token=${TOKEN}`, { headers })
    expect(response.status).toBe(401)
  })

  test('each token permits the requests of its scope', async () => {
    const statusOf = async (line: string, token: string) =>
      (await send(host.origin, line, { headers: { 'x-admin-token': token } })).status
    const read = `GET ${PREFIX}/tenants`
    const write = `PUT ${PREFIX}/tenants/unknown/suspend`
    expect(await statusOf(read, 'second-token-0123456789')).toBe(200)
    expect(await statusOf(read, 'reader-token-0123456789')).toBe(200)
    expect(await statusOf(write, 'reader-token-0123456789')).toBe(403)
    expect(await statusOf(read, 'server-token-0123456789')).toBe(403)
    expect(await statusOf(`GET ${PREFIX}/openapi.json`, 'server-token-0123456789')).toBe(403)
    const erasure = `GET ${PREFIX}/tenants/unknown/erasure`
    const erase = `POST ${PREFIX}/tenants/unknown/erase`
    for (const line of [read, write]) expect(await statusOf(line, 'eraser-token-0123456789')).toBe(403)
    expect(await statusOf(erasure, 'eraser-token-0123456789')).toBe(404)
    expect(await statusOf(erase, 'eraser-token-0123456789')).toBe(400)
    expect(await statusOf(erasure, 'reader-token-0123456789')).toBe(404)
    for (const line of [erasure, erase]) expect(await statusOf(line, 'server-token-0123456789')).toBe(403)
    expect(await statusOf(erase, 'reader-token-0123456789')).toBe(403)
  })

  test('a navigation without a session shows the sign-in page', async () => {
    const headers = { accept: 'text/html,application/xhtml+xml' }
    for (const path of ['/openapi', '/tenants', '/no/such/path']) {
      const response = await send(host.origin, `GET ${PREFIX}${path}`, { headers })
      expect(response.status).toBe(401)
      expect(response.headers['content-type']).toBe('text/html; charset=utf-8')
      expect(response.headers['content-security-policy']).toContain("default-src 'none'")
      expect(response.body).toContain('Sign in')
      expect(response.body).not.toContain(TOKEN)
    }
  })
})
