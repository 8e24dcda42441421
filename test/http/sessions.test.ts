/**
 * Browser sessions: sign-in by token or one-time code, bound to the origin, ended with the token; on every host
 * framework.
 */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Host, hosts } from './hosts.ts'
import { ADMIN, type HttpResponse, PREFIX, type Served, send, served, TOKEN } from './served.ts'

const SECOND = 'second-token-0123456789'

let tenancy: Served
beforeAll(async () => {
  tenancy = await served(
    inject('postgresUrl'),
    [],
    {
      adminTokens: [
        { name: 'admin', token: TOKEN },
        { name: 'second', token: SECOND },
      ],
    },
    'api',
  )
})
afterAll(() => tenancy.stop())

describe.each(Object.entries(hosts))('%s', (name, start) => {
  const from = `127.0.1.${Object.keys(hosts).indexOf(name) + 1}`
  let host: Host
  beforeAll(async () => {
    host = await start(tenancy.http)
  })
  afterAll(() => host.close())

  const call = (line: string, headers: Record<string, string> = {}, body?: unknown) => {
    const [method, path] = line.split(' ')
    return send(host.origin, `${method} ${PREFIX}${path}`, { headers, body, from })
  }
  const signIn = async (token = TOKEN) => cookieOf(await call('POST /session', {}, { token }))

  test('a token is exchanged for a session cookie', async () => {
    const response = await call('POST /session', { origin: host.origin }, { token: TOKEN })
    expect(response).toMatchObject({ status: 200, json: { name: 'admin', may: ['admin'] } })
    expect(response.headers['set-cookie']).toHaveLength(1)
    const [cookie = ''] = response.headers['set-cookie'] ?? []
    const [value, ...attributes] = cookie.split('; ')
    expect(attributes).toEqual([`Path=${PREFIX}`, 'Max-Age=43200', 'HttpOnly', 'SameSite=Strict'])
    expect(value).not.toContain(TOKEN)
    const list = await call('GET /tenants', { cookie: `theme=dark; ${value}; lang=de` })
    expect(list.status).toBe(200)
  })

  test('behind https the cookie is for https only', async () => {
    for (const forwarded of ['https', 'https, http', 'HTTPS , https']) {
      const response = await call('POST /session', { 'x-forwarded-proto': forwarded }, { token: TOKEN })
      expect(response.headers['set-cookie']?.[0]).toMatch(/^__Secure-tenantry_session=.*; Secure$/)
    }
    const response = await call('POST /session', { 'x-forwarded-proto': 'http, https' }, { token: TOKEN })
    expect(response.headers['set-cookie']?.[0]).not.toContain('Secure')
  })

  test('a session of https is invalid over http, and the reverse', async () => {
    for (const [made, asked] of [
      ['https', 'http'],
      ['http', 'https'],
    ] as const) {
      const response = await call('POST /session', { 'x-forwarded-proto': made }, { token: TOKEN })
      const cookie = cookieOf(response)
      expect(await call('GET /tenants', { cookie, 'x-forwarded-proto': made })).toMatchObject({ status: 200 })
      expect(await call('GET /tenants', { cookie, 'x-forwarded-proto': asked })).toMatchObject({ status: 401 })
      const ended = await call('DELETE /session', {
        cookie,
        'x-forwarded-proto': made,
        origin: host.origin.replace('http', made),
      })
      expect(ended.headers['set-cookie']?.[0]).toContain(`${cookie.split('=')[0]}=; `)
    }
  })

  test('another scheme is another origin', async () => {
    const secure = host.origin.replace('http:', 'https:')
    const statusOf = async (origin: string, forwarded = 'http') => {
      const proxied = { 'x-forwarded-proto': forwarded }
      const headers = { cookie: cookieOf(await call('POST /session', proxied, { token: TOKEN })), origin, ...proxied }
      return (await call('POST /tenants', headers, { name: 'Acme' })).status
    }
    expect(await statusOf(secure)).toBe(403)
    expect(await statusOf(host.origin, 'https')).toBe(403)
    expect(await statusOf(secure, 'https')).toBe(201)
    expect(await statusOf(secure, 'https, http')).toBe(201)
  })

  test('a credential must be JSON with a JSON content type', async () => {
    const body = JSON.stringify({ token: TOKEN })
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/merge-patch+json', '']) {
      const response = await call('POST /session', { 'content-type': type }, body)
      expect(response).toMatchObject({ status: 415, json: { code: 'E_UNSUPPORTED_MEDIA_TYPE' } })
      expect(response.headers['set-cookie']).toBeUndefined()
    }
  })

  test('the sign-in page responds with a slash at the end', async () => {
    expect(await call('GET /sign-in/')).toMatchObject({ status: 200, body: expect.stringContaining('Sign in') })
    expect(await call('POST /session/', {}, { token: TOKEN })).toMatchObject({ status: 200 })
  })

  test('a write with the cookie must come from a page of the same origin', async () => {
    const cookie = await signIn()
    const write = (headers: Record<string, string>) => call('POST /tenants', { cookie, ...headers }, { name: 'Acme' })
    for (const origin of [
      'https://evil.example',
      'null',
      `${host.origin}.evil.example`,
      'http://127.0.0.1:1',
      'nonsense',
    ]) {
      expect(await write({ origin })).toMatchObject({ status: 403, json: { code: 'E_FORBIDDEN' } })
    }
    expect(await write({})).toMatchObject({ status: 403, json: { code: 'E_FORBIDDEN' } })
    expect(await write({ origin: host.origin })).toMatchObject({ status: 201 })
    expect(await call('POST /tenants', { ...ADMIN, origin: 'https://evil.example' }, { name: 'Acme' })).toMatchObject({
      status: 201,
    })
  })

  test('a sign-in from a page of another origin is rejected', async () => {
    const response = await call('POST /session', { origin: 'https://evil.example' }, { token: TOKEN })
    expect(response).toMatchObject({ status: 403 })
    expect(response.headers['set-cookie']).toBeUndefined()
  })

  test('a wrong token header is rejected even with a valid cookie', async () => {
    const cookie = await signIn()
    expect(await call('GET /tenants', { cookie, 'x-admin-token': 'wrong-token-0123456789' })).toMatchObject({
      status: 401,
    })
  })

  test('an altered cookie is rejected', async () => {
    const cookie = await signIn()
    const [name = '', encrypted = ''] = cookie.split('=')
    const parts = encrypted.split('.')
    const altered = [
      `${name}=`,
      `${name}=${encrypted.slice(0, -1)}`,
      `${name}=${encrypted}A`,
      `${name}=${parts.with(3, [...(parts[3] ?? '')].reverse().join('')).join('.')}`,
      `${name}=${parts.with(2, 'AAAAAAAAAAAAAAAA').join('.')}`,
      `${name}=v1.00000000.${parts.slice(2).join('.')}`,
      `other_session=${encrypted}`,
    ]
    for (const cookie of altered) expect(await call('GET /tenants', { cookie })).toMatchObject({ status: 401 })
    expect(await call('GET /tenants', { cookie })).toMatchObject({ status: 200 })
  })

  test('a sign-out ends the session in addition to the cookie', async () => {
    const cookie = await signIn()
    expect(await call('DELETE /session', { cookie })).toMatchObject({ status: 403 })
    const response = await call('DELETE /session', { cookie, origin: host.origin })
    expect(response.status).toBe(204)
    expect(response.headers['set-cookie']?.[0]).toContain('tenantry_session=; ')
    expect(response.headers['set-cookie']?.[0]).toContain('Max-Age=0')
    expect(await call('GET /tenants', { cookie })).toMatchObject({ status: 401 })
  })

  test('a sign-in code is valid once', async () => {
    const link = await tenancy.http.signInLink()
    expect(link).toMatch(new RegExp(`^${PREFIX}/console#code=[\\w-]{43}$`))
    const code = link.split('=')[1]
    const both = await Promise.all([call('POST /session', {}, { code }), call('POST /session', {}, { code })])
    expect(both.map(({ status }) => status).sort()).toEqual([200, 401])
    expect(await call('POST /session', {}, { code })).toMatchObject({ status: 401, json: { code: 'E_UNAUTHORIZED' } })
    const winner = both.find(({ status }) => status === 200)
    expect(winner && (await call('GET /tenants', { cookie: cookieOf(winner) }))).toMatchObject({ status: 200 })
  })

  test('an invalid credential is rejected', async () => {
    for (const body of [{ token: 'wrong-token-0123456789' }, { code: 'x' }, { token: '' }, { code: TOKEN }]) {
      expect(await call('POST /session', {}, body)).toMatchObject({ status: 401 })
    }
    for (const body of [{}, { token: 7 }, { token: TOKEN, code: 'x' }, [], '{']) {
      const response = await call('POST /session', {}, body)
      expect(response.status).toBe(400)
      expect(response.headers['set-cookie']).toBeUndefined()
    }
  })

  test('a sign-in of more than 4 KiB is rejected without reading it', async () => {
    const ofBytes = (bytes: number) => `{"token":"${TOKEN}"}`.padEnd(bytes)
    expect(await call('POST /session', {}, ofBytes(4096))).toMatchObject({ status: 200 })
    const refusal = {
      status: 413,
      json: { code: 'E_PAYLOAD_TOO_LARGE', detail: 'The body exceeds the limit of 4096 bytes.' },
    }
    expect(await call('POST /session', {}, ofBytes(4097))).toMatchObject(refusal)
    expect(await call('POST /session', { 'transfer-encoding': 'chunked' }, ofBytes(4097))).toMatchObject(refusal)
  })

  test('sessions outlive a restart, and end when their token is removed', async () => {
    const [kept, ended] = [await signIn(TOKEN), await signIn(SECOND)]
    const restarted = await tenancy.again([{ name: 'admin', token: TOKEN }])
    const other = await start(restarted.http)
    try {
      const statusOf = async (cookie: string) =>
        (await send(other.origin, `GET ${PREFIX}/tenants`, { headers: { cookie } })).status
      expect(await statusOf(kept)).toBe(200)
      expect(await statusOf(ended)).toBe(401)
    } finally {
      await other.close()
      await restarted.stop()
    }
  })
})

test.each([
  ['the first token with full access', ['read', 'runtime', undefined, 'admin'], 'token 2'],
  ['the first token if none has full access', ['runtime', 'read'], 'token 0'],
] as const)('a sign-in link signs in as %s', async (_whom, scopes, expected) => {
  const adminTokens = scopes.map((scope, index) => ({
    name: `token ${index}`,
    token: `token-${index}-0123456789`,
    ...(scope ? { scope } : {}),
  }))
  const { http, stop } = await tenancy.again(adminTokens)
  try {
    const code = (await http.signInLink()).split('=')[1]
    const request = new Request(`http://localhost${PREFIX}/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ code }),
    })
    expect(await (await http.fetch(request)).json()).toMatchObject({ name: expected })
  } finally {
    await stop()
  }
})

const cookieOf = ({ headers }: HttpResponse): string => headers['set-cookie']?.[0]?.split(';')[0] ?? ''
