/** Rejected discovery documents, and providers that fail or do not respond: only the login fails. */
import { gzipSync } from 'node:zlib'
import { describe, expect, test, vi } from 'vitest'
import { DISCOVERY, openLogin, UNAVAILABLE } from './malicious-provider.fixture.ts'
import { startProvider } from './provider.fixture.ts'
import { DEVELOPMENT, rejectedFor, TIMEOUT_MS } from './sso.fixture.ts'

const json = { 'content-type': 'application/json' }

const login = openLogin()

describe('a discovery document', () => {
  test.each([
    ['of another issuer', { issuer: 'https://evil.example' }],
    ['of an issuer in another spelling', { issuer: '{issuer}/' }],
    ['whose issuer is a template', { issuer: 'https://login.example/{tenantid}/v2.0' }],
    ['without an authorization endpoint', { authorization_endpoint: undefined }],
    ['that redirects browsers to a script', { authorization_endpoint: 'javascript:alert(1)' }],
    ['with a private address as an endpoint', { token_endpoint: 'http://169.254.169.254/latest/meta-data/' }],
    ['with a file as its key set', { jwks_uri: 'file:///etc/passwd' }],
    ['whose userinfo is no address', { userinfo_endpoint: 5 }],
  ])('%s is rejected', async (_what, members) => {
    login.provider.lies(DISCOVERY, (response) =>
      JSON.parse(JSON.stringify({ ...response, ...members }).replaceAll('{issuer}', login.provider.issuer)),
    )
    await expect(login.opened.tenancy.sso.start(login.id)).rejects.toMatchObject(UNAVAILABLE)
    login.provider.lies(DISCOVERY, undefined)
    expect(await login.finish()).toMatchObject({ tenantId: login.id })
  })

  test('is not read through a redirect', async () => {
    const other = await startProvider()
    for (const status of [301, 302, 307]) {
      login.provider.takesOver(DISCOVERY, (_, response) =>
        response.writeHead(status, { location: `${other.issuer}${DISCOVERY}` }).end(),
      )
      await expect(login.opened.tenancy.sso.start(login.id)).rejects.toMatchObject(UNAVAILABLE)
    }
    expect(other.requests).toEqual([])
    await other.close()
  })

  test('is read again after minutes; during an outage, the former one is used for an hour', async () => {
    await login.opened.tenancy.sso.start(login.id)
    login.opened.clock.advance(9 * 60_000)
    await login.opened.tenancy.sso.start(login.id)
    expect(login.requestCount(DISCOVERY)).toBe(1)
    login.opened.clock.advance(61_000)
    await login.opened.tenancy.sso.start(login.id)
    expect(login.requestCount(DISCOVERY)).toBe(2)
    login.provider.takesOver(DISCOVERY, (_, response) => response.writeHead(503).end())
    login.opened.clock.advance(11 * 60_000)
    await login.opened.tenancy.sso.start(login.id)
    await login.opened.tenancy.sso.start(login.id)
    expect(login.requestCount(DISCOVERY)).toBe(3)
    login.opened.clock.advance(50 * 60_000)
    await expect(login.opened.tenancy.sso.start(login.id)).rejects.toMatchObject(UNAVAILABLE)
  })

  test('is requested once for concurrent logins', async () => {
    await Promise.all(Array.from({ length: 10 }, () => login.opened.tenancy.sso.start(login.id)))
    expect(login.requestCount(DISCOVERY)).toBe(1)
  })
})

describe('a provider that', () => {
  const takeovers = {
    'does not respond': () => void vi.advanceTimersByTime(TIMEOUT_MS),
    'responds without an end': (response: any) => {
      response.writeHead(200, json)
      const more = () => response.destroyed || response.write(' '.repeat(65_536), () => setImmediate(more))
      more()
    },
    'responds with too much': (response: any) => response.writeHead(200, json).end(' '.repeat(1_000_000)),
    'responds with an error': (response: any) => response.writeHead(500, json).end('{"error":"server_error"}'),
    'is overloaded': (response: any) => response.writeHead(429, json).end('{}'),
    'closes the connection': (response: any) => response.destroy(),
    'responds with malformed JSON': (response: any) => response.writeHead(200, json).end('<html>'),
    'responds with another media type': (response: any) =>
      response.writeHead(200, { 'content-type': 'text/html' }).end('{}'),
    'responds with an empty body': (response: any) => response.writeHead(204).end(),
    'responds with an array': (response: any) => response.writeHead(200, json).end('[]'),
    'responds with an unrequested encoding': (response: any) =>
      response.writeHead(200, { ...json, 'content-encoding': 'gzip' }).end(gzipSync('{}')),
  }
  const PASSING = ['does not respond', 'responds with an error', 'is overloaded', 'closes the connection']

  test.each(Object.entries(takeovers))('%s fails the login only', async (what, takeover) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'], shouldClearNativeTimers: true })
    login.provider.takesOver(DISCOVERY, (_, response) => takeover(response))
    await expect(login.opened.tenancy.sso.start(login.id)).rejects.toMatchObject(UNAVAILABLE)
    login.provider.takesOver(DISCOVERY, undefined)
    const restricted = await login.opened.tenantAt(login.provider, { allowedDomains: ['acme.example'] })
    for (const path of ['/token', '/jwks', '/me']) {
      const back = await login.opened.comeBack(restricted, login.provider)
      login.provider.takesOver(path, (_, response) => takeover(response))
      const refusal = PASSING.includes(what) ? UNAVAILABLE : rejectedFor('answer')
      await expect(login.opened.tenancy.sso.finish(back), path).rejects.toMatchObject(refusal)
      login.provider.takesOver(path, undefined)
    }
    login.provider.takesOver('/me', (_, response) => takeover(response))
    expect(await login.finish(), 'without allowed domains that need userinfo').toMatchObject({
      claims: { sub: 'alice', email: null },
    })
    login.provider.takesOver('/me', undefined)
    expect(await login.finish()).toMatchObject({ claims: { email: 'alice@acme.example' } })
  })
})

test('without private networks, no local provider is called', async () => {
  const strict = await login.opened.open({ egress: { allowHttp: true } })
  await expect(strict.sso.start(login.id)).rejects.toMatchObject(UNAVAILABLE)
  await expect(strict.sso.finish(await login.comeBack())).rejects.toMatchObject(UNAVAILABLE)
  await expect(
    strict.sso.update(login.id, {
      issuer: login.provider.issuer,
      clientId: 'x',
      clientSecret: null,
      redirectUri: login.provider.redirectUri,
    }),
  ).rejects.toMatchObject({ code: 'E_URL_NOT_ALLOWED', status: 422 })
  const secure = await login.opened.open({ egress: { ...DEVELOPMENT, allowHttp: false } })
  await expect(secure.sso.start(login.id)).rejects.toMatchObject(UNAVAILABLE)
})
