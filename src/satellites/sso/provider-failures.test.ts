/** Discovery documents that are refused, and providers that fail or do not respond: only the login fails. */
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
    ['of an issuer that is written otherwise', { issuer: '{issuer}/' }],
    ['whose issuer is a template', { issuer: 'https://login.example/{tenantid}/v2.0' }],
    ['without an authorization endpoint', { authorization_endpoint: undefined }],
    ['that sends browsers to a script', { authorization_endpoint: 'javascript:alert(1)' }],
    ['that asks us to call what is private', { token_endpoint: 'http://169.254.169.254/latest/meta-data/' }],
    ['that has its keys in a file', { jwks_uri: 'file:///etc/passwd' }],
    ['whose userinfo is no address', { userinfo_endpoint: 5 }],
  ])('%s is none to go by', async (_what, members) => {
    login.provider.lies(DISCOVERY, (response) =>
      JSON.parse(JSON.stringify({ ...response, ...members }).replaceAll('{issuer}', login.provider.issuer)),
    )
    await expect(login.opened.tenancy.sso.start(login.id)).rejects.toMatchObject(UNAVAILABLE)
    login.provider.lies(DISCOVERY, undefined)
    expect(await login.finish()).toMatchObject({ tenantId: login.id })
  })

  test('is not looked for where a redirect leads', async () => {
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

  test('that changes is read again after minutes; while the provider is away the old one serves, for an hour', async () => {
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

  test('is asked for once by many who come at once', async () => {
    await Promise.all(Array.from({ length: 10 }, () => login.opened.tenancy.sso.start(login.id)))
    expect(login.requestCount(DISCOVERY)).toBe(1)
  })
})

describe('a provider that', () => {
  const takeovers = {
    'is silent': () => void vi.advanceTimersByTime(TIMEOUT_MS),
    'goes on for ever': (response: any) => {
      response.writeHead(200, json)
      const more = () => response.destroyed || response.write(' '.repeat(65_536), () => setImmediate(more))
      more()
    },
    'says more than anybody would': (response: any) => response.writeHead(200, json).end(' '.repeat(1_000_000)),
    'is broken': (response: any) => response.writeHead(500, json).end('{"error":"server_error"}'),
    'is overloaded': (response: any) => response.writeHead(429, json).end('{}'),
    'hangs up': (response: any) => response.destroy(),
    'says no JSON': (response: any) => response.writeHead(200, json).end('<html>'),
    'says another type': (response: any) => response.writeHead(200, { 'content-type': 'text/html' }).end('{}'),
    'says nothing': (response: any) => response.writeHead(204).end(),
    'says a list': (response: any) => response.writeHead(200, json).end('[]'),
    'compresses unasked': (response: any) =>
      response.writeHead(200, { ...json, 'content-encoding': 'gzip' }).end(gzipSync('{}')),
  }
  const PASSING = ['is silent', 'is broken', 'is overloaded', 'hangs up']

  test.each(Object.entries(takeovers))('%s ends no more than the login', async (what, takeover) => {
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
    expect(await login.finish(), 'without a gate that needs userinfo').toMatchObject({
      claims: { sub: 'alice', email: null },
    })
    login.provider.takesOver('/me', undefined)
    expect(await login.finish()).toMatchObject({ claims: { email: 'alice@acme.example' } })
  })
})

test('where private networks are not allowed, none is called', async () => {
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
