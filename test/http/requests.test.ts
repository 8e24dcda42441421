/** Valid and invalid requests and their responses; on every host framework. */
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Host, hosts } from './hosts.ts'
import { ADMIN, PREFIX, type Sent, type Served, send, served, TOKEN } from './served.ts'

const MEBIBYTE = 1024 * 1024
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-/

/** Rejected with 400 and this code, without effect. */
const BAD_BODIES: Readonly<Record<string, [body: unknown, code: string]>> = {
  'half an object': ['{"name": "Acme"', 'E_INVALID_JSON'],
  'two values': ['{} {}', 'E_INVALID_JSON'],
  'a trailing comma': ['{"name": "Acme",}', 'E_INVALID_JSON'],
  'the same key twice': ['{"name": "Acme", "name": "Evil"}', 'E_INVALID_JSON'],
  'the same key twice, once escaped': ['{"name": "Acme", "n\\u0061me": "Evil"}', 'E_INVALID_JSON'],
  'deep nesting': [`{"name": "Acme", "metadata": {"a": ${'['.repeat(100)}${']'.repeat(100)}}}`, 'E_INVALID_JSON'],
  'endless nesting': ['['.repeat(1_000_000), 'E_INVALID_JSON'],
  'NUL in a string': ['{"name": "Ac\\u0000me"}', 'E_INVALID_JSON'],
  'NUL in a key': ['{"name": "Acme", "metadata": {"a\\u0000": 1}}', 'E_INVALID_JSON'],
  'an unpaired surrogate': ['{"name": "\\ud83d"}', 'E_INVALID_JSON'],
  'an infinite number': ['{"name": "Acme", "metadata": {"n": 1e999}}', 'E_INVALID_JSON'],
  'an inexact integer': ['{"name": "Acme", "metadata": {"n": 9007199254740993}}', 'E_INVALID_JSON'],
  'bytes that are not UTF-8': [Buffer.from('7b226e616d65223a22ff227d', 'hex'), 'E_INVALID_JSON'],
  'UTF-16': [Buffer.from('{"name": "Acme"}', 'utf16le'), 'E_INVALID_JSON'],
  nothing: ['', 'E_INVALID_REQUEST'],
  'a value that is not an object': ['[]', 'E_INVALID_REQUEST'],
  null: ['null', 'E_INVALID_REQUEST'],
  'an unknown field': [{ name: 'Acme', colour: 'red' }, 'E_INVALID_REQUEST'],
  'a wrong type': [{ name: 7 }, 'E_INVALID_REQUEST'],
  'an unusable id': [{ id: '../../etc', name: 'Acme' }, 'E_INVALID_REQUEST'],
  'a prototype': ['{"name": "Acme", "__proto__": {"admin": true}}', 'E_INVALID_REQUEST'],
}

/** Invalid tenant ids in a path, with the status of the response. */
const IDS: Readonly<Record<string, [id: string, status: number]>> = {
  unknown: ['unknown', 404],
  'with an escaped slash': ['a%2Fb', 400],
  'with non-ASCII characters': ['%C3%A4cme', 400],
  'in upper case': ['ACME', 400],
  'with NUL': ['a%00b', 404],
  'of 10,000 characters': ['a'.repeat(10_000), 400],
  'with a malformed escape': ['%zz', 400],
  'with incomplete UTF-8': ['%C3', 400],
  SQL: ["a'%20or%201=1--", 400],
}

let tenancy: Served
beforeAll(async () => {
  tenancy = await served(inject('postgresUrl'))
})
afterAll(() => tenancy.stop())

describe.each(Object.entries(hosts))('%s', (name, start) => {
  let host: Host
  beforeAll(async () => {
    host = await start(tenancy.http)
  })
  afterAll(() => host.close())

  const call = (line: string, { headers, body }: Sent = {}) => {
    const [method, path] = line.split(' ')
    return send(host.origin, `${method} ${PREFIX}${path}`, { headers: { ...ADMIN, ...headers }, body })
  }
  const countTenants = async () => (await call('GET /tenants?limit=200')).json.data.length

  test('a tenant is created, read and listed', async () => {
    const id = `acme-${name}`
    const made = await call('POST /tenants', { headers: { prefer: 'wait=20' }, body: { id, name: 'Acme' } })
    expect(made).toMatchObject({
      status: 201,
      headers: {
        location: `${PREFIX}/tenants/${id}`,
        'preference-applied': 'wait=20',
        'content-type': 'application/json',
      },
      json: { id, name: 'Acme', status: 'active' },
    })
    expect(made.headers['cache-control']).toBe('no-store')
    const read = await call(`GET /tenants/${id}`)
    expect(read).toMatchObject({ status: 200, json: made.json })
    expect(Number(read.headers['content-length'])).toBe(Buffer.byteLength(read.body))
    const list = await call('GET /tenants?q=Acme')
    expect(list.json.data).toContainEqual(made.json)
    expect(await call('POST /tenants', { body: { id, name: 'Acme' } })).toMatchObject({ status: 409 })
  })

  test('HEAD returns the headers of GET without the body', async () => {
    const get = await call('GET /tenants')
    const head = await call('HEAD /tenants')
    expect(head).toMatchObject({ status: 200, body: '', headers: { 'content-type': get.headers['content-type'] } })
    expect(await call('HEAD /tenants/unknown')).toMatchObject({ status: 404, body: '' })
  })

  test('a body in UTF-8 is stored and returned unchanged', async () => {
    const body = { name: 'Äcme \u2028 🚀', metadata: { clé: ['\u0001', '"\\', '日本'] } }
    const made = await call('POST /tenants', { headers: { 'content-type': 'application/json; charset=utf-8' }, body })
    expect(made).toMatchObject({ status: 201, json: body })
  })

  test('unknown paths return 404, other methods 405 with Allow', async () => {
    expect(await call('GET /no/such/path')).toMatchObject({ status: 404, json: { code: 'E_NOT_FOUND' } })
    expect(await call('GET /')).toMatchObject({ status: 404, json: { code: 'E_NOT_FOUND' } })
    expect(await call('GET ')).toMatchObject({ status: 404, json: { code: 'E_NOT_FOUND' } })
    const refusal = { status: 405, json: { code: 'E_METHOD_NOT_ALLOWED' } }
    expect(await call('PUT /tenants')).toMatchObject({ ...refusal, headers: { allow: 'GET, POST, HEAD' } })
    expect(await call('OPTIONS /tenants/acme')).toMatchObject({
      ...refusal,
      headers: { allow: 'GET, PATCH, DELETE, HEAD' },
    })
    expect(await call('POST /openapi.json')).toMatchObject({ ...refusal, headers: { allow: 'GET, HEAD' } })
    expect(await call('PUT /session')).toMatchObject({ ...refusal, headers: { allow: 'GET, DELETE, POST, HEAD' } })
  })

  test.each(Object.entries(BAD_BODIES))('a body is rejected: %s', async (_what, [body, code]) => {
    const before = await countTenants()
    const response = await call('POST /tenants', { body })
    expect(response).toMatchObject({ status: 400, json: { code, requestId: response.headers['x-request-id'] } })
    expect(await countTenants()).toBe(before)
  })

  test('another content type returns 415', async () => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/jsonx', 'nonsense', '']) {
      const response = await call('POST /tenants', { headers: { 'content-type': type }, body: '{"name":"Acme"}' })
      expect(response).toMatchObject({ status: 415, json: { code: 'E_UNSUPPORTED_MEDIA_TYPE' } })
    }
  })

  test('more than a mebibyte returns 413, with and without a length', async () => {
    const body = JSON.stringify({ name: 'x'.repeat(MEBIBYTE) })
    const refusal = { status: 413, json: { code: 'E_PAYLOAD_TOO_LARGE' } }
    expect(await call('POST /tenants', { body })).toMatchObject(refusal)
    expect(await call('POST /tenants', { body, headers: { 'transfer-encoding': 'chunked' } })).toMatchObject(refusal)
  })

  test('a body of a mebibyte is read', async () => {
    const body = '{"name":"x"}'.padEnd(MEBIBYTE)
    expect(await call('POST /tenants', { body })).toMatchObject({ status: 201 })
    expect(await call('POST /tenants', { body, headers: { 'transfer-encoding': 'chunked' } })).toMatchObject({
      status: 201,
    })
  })

  test.each(Object.entries(IDS))('a tenant id is rejected: %s', async (_what, [id, status]) => {
    const response = await call(`GET /tenants/${id}`)
    expect(response.status).toBe(status)
    // Fastify's router responds to malformed escapes before any plugin runs.
    if (response.json.code === 'FST_ERR_BAD_URL') expect(name).toBe('fastify')
    else expect(response.headers['content-type']).toBe('application/problem+json')
  })

  test('dots in a path are resolved before it is decoded', async () => {
    expect(await call('GET /tenants/%2e%2e/tenants')).toMatchObject({ status: 200 })
    expect(await call('GET /tenants/./unknown')).toMatchObject({ status: 404, json: { code: 'E_TENANT_NOT_FOUND' } })
    const outside = await send(host.origin, `GET ${PREFIX}/%2e%2e/%2e%2e/no/such/path`)
    expect(outside.status).toBe(404)
  })

  test('an unknown, repeated or malformed parameter returns 400', async () => {
    for (const query of ['a=1', 'limit=1&limit=2', 'limit=0', 'limit=201', 'q=%00', 'cursor=nonsense', '__proto__=1']) {
      expect(await call(`GET /tenants?${query}`)).toMatchObject({ status: 400, json: { code: 'E_INVALID_REQUEST' } })
    }
  })

  test('a valid request id is returned, and otherwise a new one', async () => {
    const idFor = async (id: string) =>
      (await call('GET /tenants', { headers: { 'x-request-id': id } })).headers['x-request-id']
    expect(await idFor('Order-7.of_9')).toBe('Order-7.of_9')
    expect(await idFor('x'.repeat(128))).toBe('x'.repeat(128))
    for (const malformed of ['x'.repeat(129), 'a b', 'ä', '<script>', '']) expect(await idFor(malformed)).toMatch(UUID)
    const made = await Promise.all([call('GET /tenants'), call('GET /tenants')])
    expect(new Set(made.map(({ headers }) => headers['x-request-id'])).size).toBe(2)
  })

  test('the script of the API page has the request id', async () => {
    const read = (headers: Record<string, string>) =>
      call('GET /openapi/reference.js', { headers: { 'x-request-id': 'script', ...headers } })
    const whole = await read({})
    expect(whole).toMatchObject({ status: 200, headers: { 'x-request-id': 'script' } })
    expect(whole.headers['cache-control']).toContain('immutable')
    expect(whole.body).toContain('createApiReference')
    const known = await read({ 'if-none-match': String(whole.headers.etag) })
    expect(known).toMatchObject({ status: 304, body: '', headers: { 'x-request-id': 'script' } })
  })

  test('a probe responds with and without a slash at the end', async () => {
    for (const path of ['/livez/', '/readyz/', '/metrics/']) {
      const { status } = await send(host.origin, `GET ${path}`)
      // Fastify's router treats these as other paths, unless it is configured to ignore the slash.
      expect(status).toBe(name === 'fastify' ? 404 : 200)
    }
  })

  test('probes and metrics need no token', async () => {
    for (const path of ['/livez', '/readyz', '/healthz']) {
      expect(await send(host.origin, `GET ${path}`)).toMatchObject({ status: 200, json: { status: 'ok' } })
      expect(await send(host.origin, `HEAD ${path}`)).toMatchObject({ status: 200, body: '' })
    }
    const { json } = await send(host.origin, 'GET /readyz')
    expect(Object.keys(json.checks)).toEqual(expect.arrayContaining(['backoffice', 'store', 'circuits', 'logins']))
    expect(await send(host.origin, 'POST /livez', { body: {} })).toMatchObject({
      status: 405,
      headers: { allow: 'GET, HEAD' },
    })
    const metrics = await send(host.origin, 'GET /metrics?name=x')
    expect(metrics.headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8')
    expect(metrics.body).toMatch(
      /^multitenancy_http_request_seconds_count\{operation="tenants\.list",status="200"\} [1-9]/m,
    )
  })

  test("other paths are the host's", async () => {
    if (name === 'service') {
      expect(await send(host.origin, 'GET /mine')).toMatchObject({ status: 404, json: { code: 'E_NOT_FOUND' } })
      return
    }
    expect(await send(host.origin, 'GET /mine')).toMatchObject({ status: 200, body: 'mine' })
    for (const path of ['/', '/admin', `${PREFIX}x`, '/livez//', '/admin//multitenancy/tenants', '/mine/../livez/x']) {
      const response = await send(host.origin, `GET ${path}`)
      expect(response.status).toBe(404)
      expect(response.headers['content-type'] ?? '').not.toContain('problem')
    }
  })

  test('requests without a Host and with an invalid Host are rejected', async () => {
    const line = `GET ${PREFIX}/tenants`
    const old = await raw(host.origin, `${line} HTTP/1.0\r\nx-admin-token: ${TOKEN}\r\n\r\n`)
    // In Hono, the host's own server rejects them earlier.
    expect(old).toMatch(name === 'hono' ? /^HTTP\/1\.1 400 / : /^HTTP\/1\.1 200 /)
    const strange = await raw(host.origin, `${line} HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n`)
    expect(strange).toMatch(/^HTTP\/1\.1 400 /)
    expect(strange).not.toContain('at ')
  })

  test('a target with scheme and host is routed by its path', async () => {
    const target = `${host.origin}${PREFIX}/tenants`
    const response = await raw(
      host.origin,
      `GET ${target} HTTP/1.1\r\nHost: x\r\nx-admin-token: ${TOKEN}\r\nConnection: close\r\n\r\n`,
    )
    expect(response).toMatch(/^HTTP\/1\.1 200 /)
  })
})

test('probes respond with and without a slash at the end of their prefix', async () => {
  const { http, stop } = await served(
    inject('postgresUrl'),
    [],
    {
      probes: { prefix: '/internal/' },
      exposition: { prefix: '/' },
    },
    'api',
  )
  try {
    for (const path of ['/internal/livez', '/metrics']) {
      expect(http.handles(path)).toBe(true)
      expect((await http.fetch(new Request(`http://localhost${path}`))).status).toBe(200)
    }
  } finally {
    await stop()
  }
})

function raw(origin: string, bytes: string): Promise<string> {
  const socket = connect(Number(new URL(origin).port), '127.0.0.1')
  socket.write(bytes)
  return text(socket)
}
