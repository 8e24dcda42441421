/** Providers that lie, are silent, or change their keys; and people in the middle. */
import { createHmac } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { CLIENT, newKey, startProvider, type TestProvider } from './provider.fixture.ts'
import {
  type CameBack,
  DEVELOPMENT,
  inCode,
  type OpenSso,
  openSso,
  refusedFor,
  type SsoTenancy,
  TIMEOUT_MS,
} from './sso.fixture.ts'

const HOUR_SECONDS = 3_600
const DISCOVERY = '/.well-known/openid-configuration'
const UNAVAILABLE = { code: 'E_SSO_PROVIDER_UNAVAILABLE', status: 503, retryAfterSeconds: expect.any(Number) }

let opened: OpenSso
let tenancy: SsoTenancy
let provider: TestProvider
let id: string

beforeAll(async () => {
  opened = await openSso(inject('postgresUrl'))
  tenancy = opened.tenancy
  // The timers that undici keeps are those of the machine from now on, also where a test has its own.
  const first = await startProvider()
  await opened.logIn(await opened.tenantAt(first), first)
  await first.close()
})
afterAll(() => opened?.end())
beforeEach(async () => {
  opened.clock.set(new Date()) // the provider's is the machine's
  provider = await startProvider()
  id = await opened.tenantAt(provider)
})
afterEach(async () => {
  vi.useRealTimers()
  await provider.close()
})

const comeBack = (): Promise<CameBack> => opened.comeBack(id, provider)
const finishing = async () => tenancy.sso.finish(await comeBack())
const asked = (path: string) => provider.requests.filter((one) => one === path).length
const json = { 'content-type': 'application/json' }
const keysOf = async ({ issuer }: TestProvider): Promise<any[]> => {
  const { keys } = (await (await fetch(`${issuer}/jwks`)).json()) as { keys: any[] }
  return keys
}
/** What the log says of the last login that failed. */
const lastReason = (): string =>
  JSON.parse(opened.log.findLast((line) => line.includes('single sign-on failed')) ?? '{}').reason
const seconds = () => Math.floor(Date.now() / 1_000)

describe('an ID token is refused', () => {
  test.each([
    ['of another issuer', '"iss"', (claims: any) => ({ ...claims, iss: 'https://evil.example' })],
    ['of our issuer with a slash', '"iss"', (claims: any) => ({ ...claims, iss: `${claims.iss}/` })],
    ['for another client', '"aud"', (claims: any) => ({ ...claims, aud: 'somebody-else' })],
    [
      'for several, which does not say that we are meant',
      'untrusted audiences',
      (claims: any) => ({ ...claims, aud: [claims.aud, 'x'] }),
    ],
    [
      'for several, of which another is meant',
      '"azp"',
      (claims: any) => ({ ...claims, aud: [claims.aud, 'x'], azp: 'x' }),
    ],
    ['that has expired', '"exp"', (claims: any) => ({ ...claims, exp: seconds() - HOUR_SECONDS })],
    ['that is not valid yet', '"nbf"', (claims: any) => ({ ...claims, nbf: seconds() + HOUR_SECONDS })],
    ['of another login', '"nonce"', (claims: any) => ({ ...claims, nonce: 'of-another-login' })],
    ['without a nonce', '"nonce"', ({ nonce: _, ...claims }: any) => claims],
    ['without an expiry', '"exp"', ({ exp: _, ...claims }: any) => claims],
    ['without a subject', '"sub"', ({ sub: _, ...claims }: any) => claims],
    ['of a subject that is no text', '"sub"', (claims: any) => ({ ...claims, sub: 1 })],
  ])('%s', async (_what, why, change) => {
    provider.bends(change)
    await expect(finishing()).rejects.toMatchObject(refusedFor('answer'))
    expect(lastReason()).toContain(why)
  })

  test('which is bent back: else each of these would pass for any reason', async () => {
    provider.bends((claims) => ({ ...claims, aud: [claims.aud] }))
    expect(await finishing()).toMatchObject({ tenantId: id })
  })

  test('by our clock', async () => {
    const back = await comeBack()
    provider.bends((claims) => ({ ...claims, exp: claims.iat + 120 }))
    opened.clock.advance(180_000)
    await expect(tenancy.sso.finish(back)).rejects.toMatchObject(refusedFor('answer'))
  })

  test('signed with a key that is not the provider’s, under the name of one that is', async () => {
    const [{ kid }] = await keysOf(provider)
    provider.bends((claims) => claims, { alg: 'RS256', kid }, newKey())
    await expect(finishing()).rejects.toMatchObject(refusedFor('answer'))
    expect(lastReason()).toContain('signature verification failed')
  })

  test('that is not signed', async () => {
    for (const alg of ['none', 'None']) {
      provider.bends((claims) => claims, { alg })
      await expect(finishing()).rejects.toMatchObject(refusedFor('answer'))
      provider.lies('/token', (answer) => {
        const [, payload] = answer.id_token.split('.')
        const header = Buffer.from(JSON.stringify({ alg })).toString('base64url')
        return { ...answer, id_token: `${header}.${payload}.` }
      })
      await expect(finishing()).rejects.toMatchObject(refusedFor('answer'))
    }
  })

  test('signed with what everybody knows, or with the secret of the client', async () => {
    const keys = await keysOf(provider)
    for (const secret of [CLIENT.clientSecret, JSON.stringify(keys[0]), keys[0].n]) {
      provider.lies('/token', (answer) => {
        const [, payload] = answer.id_token.split('.')
        const header = Buffer.from(JSON.stringify({ alg: 'HS256', kid: keys[0].kid })).toString('base64url')
        const signature = createHmac('sha256', secret).update(`${header}.${payload}`).digest('base64url')
        return { ...answer, id_token: `${header}.${payload}.${signature}` }
      })
      await expect(finishing()).rejects.toMatchObject(refusedFor('answer'))
    }
  })

  test('that is none, or not there', async () => {
    for (const token of [undefined, '', 'a.b.c', 'a', 1, `${'a'.repeat(5_000)}.b.c`]) {
      provider.lies('/token', (answer) => ({ ...answer, id_token: token }))
      await expect(finishing()).rejects.toMatchObject(refusedFor('answer'))
    }
  })
})

describe('an answer is refused', () => {
  test('that names another issuer, or none (mix-up)', async () => {
    const { url, cookie } = await comeBack()
    const other = new URL(url)
    other.searchParams.set('iss', 'https://evil.example')
    await expect(tenancy.sso.finish({ url: other.href, cookie })).rejects.toMatchObject(refusedFor('answer'))
    const second = await comeBack()
    const none = new URL(second.url)
    none.searchParams.delete('iss')
    await expect(tenancy.sso.finish({ url: none.href, cookie: second.cookie })).rejects.toMatchObject(
      refusedFor('answer'),
    )
    expect(asked('/token')).toBe(0)
  })

  test('of the code’s own flow alone', async () => {
    for (const extra of ['id_token=a.b.c', 'code=another', 'response=a.b.c', 'iss=https%3A%2F%2Fx.example']) {
      const { url, cookie } = await comeBack()
      await expect(tenancy.sso.finish({ url: `${url}&${extra}`, cookie })).rejects.toMatchObject(refusedFor('answer'))
    }
    expect(asked('/token')).toBe(0)
  })

  test('of userinfo, about somebody else', async () => {
    provider.lies('/me', (answer) => ({ ...answer, sub: 'the-boss' }))
    await expect(finishing()).rejects.toMatchObject(refusedFor('answer'))
  })

  test('of userinfo that verifies another address than the ID token has', async () => {
    await tenancy.sso.disable(id)
    id = await opened.tenantAt(provider, { allowedDomains: ['acme.example'] })
    provider.bends((claims) => ({ ...claims, email: 'alice@acme.example' }))
    provider.lies('/me', (answer) => ({ ...answer, email: 'alice@evil.example', email_verified: true }))
    await expect(finishing()).rejects.toMatchObject(inCode('E_SSO_DOMAIN_NOT_ALLOWED'))
  })

  test('of userinfo, which fails, when the gate needs it', async () => {
    provider.takesOver('/me', (_, response) => response.writeHead(403).end())
    expect(await finishing()).toMatchObject({ claims: { sub: 'alice', email: null } })
    id = await opened.tenantAt(provider, { allowedDomains: ['acme.example'] })
    await expect(finishing()).rejects.toMatchObject(refusedFor('answer'))
    provider.bends((claims) => ({ ...claims, email: 'alice@acme.example', email_verified: true }))
    expect(await finishing()).toMatchObject({ claims: { email: 'alice@acme.example', emailVerified: true } })
  })

  test('with an error of the provider in words of ours', async () => {
    provider.lies('/token', () => ({ error: 'invalid_client', error_description: 'words of the provider' }))
    const error = await finishing().catch((failure) => failure)
    expect(error).toMatchObject({ code: 'E_SSO_FAILED' })
    expect(JSON.stringify({ ...error, message: error.message })).not.toContain('words of the provider')
  })

  test('when the secret is not the right one', async () => {
    id = await opened.tenantAt(provider, { clientSecret: 'not-the-secret' })
    await expect(finishing()).rejects.toMatchObject(refusedFor('provider-error'))
  })
})

describe('keys', () => {
  test.each([[{ kty: 'RSA', n: 1, e: null }], [{ kty: 'RSA', n: '', e: '' }], [{ kty: {} }], [null]])(
    'that are none end no more than the login: %j',
    async (key) => {
      provider.lies('/jwks', ({ keys: [{ kid }] }) => ({ keys: [key && { ...key, kid, alg: 'RS256', use: 'sig' }] }))
      await expect(finishing()).rejects.toMatchObject(refusedFor('answer'))
    },
  )

  test('are read once for many logins', async () => {
    for (let login = 0; login < 3; login++) await finishing()
    expect([asked(DISCOVERY), asked('/jwks')]).toEqual([1, 1])
  })

  test('that are rolled are found, by whoever knew the old ones', async () => {
    await finishing()
    provider.rollKeys()
    opened.clock.advance(31_000)
    expect(await finishing()).toMatchObject({ tenantId: id })
    expect(asked('/jwks')).toBe(2)
    await finishing()
    expect(asked('/jwks')).toBe(2)
  })

  test('are not read again and again for one that nobody has', async () => {
    await finishing()
    const other = newKey()
    provider.bends((claims) => claims, undefined, other)
    await expect(finishing()).rejects.toMatchObject(refusedFor('answer'))
    expect(asked('/jwks')).toBe(1)
    opened.clock.advance(31_000)
    for (let login = 0; login < 3; login++) await expect(finishing()).rejects.toMatchObject(refusedFor('answer'))
    expect(asked('/jwks')).toBe(2)
  })

  test('that were taken back are not believed for longer than minutes', async () => {
    await finishing()
    const key = provider.rollKeys()
    provider.bends((claims) => claims, undefined, key)
    expect(await finishing()).toMatchObject({ tenantId: id })
    opened.clock.advance(301_000)
    await expect(finishing()).rejects.toMatchObject(refusedFor('answer'))
  })

  test('are those of each issuer alone', async () => {
    const other = await startProvider({}, undefined, newKey())
    try {
      await finishing()
      const there = await opened.tenantAt(other)
      await opened.logIn(there, other)
      const [{ kid }] = await keysOf(provider)
      other.bends((claims) => claims, { alg: 'RS256', kid })
      await expect(opened.logIn(there, other)).rejects.toMatchObject(refusedFor('answer'))
    } finally {
      await other.close()
    }
  })
})

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
    provider.lies(DISCOVERY, (answer) =>
      JSON.parse(JSON.stringify({ ...answer, ...members }).replaceAll('{issuer}', provider.issuer)),
    )
    await expect(tenancy.sso.start(id)).rejects.toMatchObject(UNAVAILABLE)
    provider.lies(DISCOVERY, undefined)
    expect(await finishing()).toMatchObject({ tenantId: id })
  })

  test('is not looked for where a redirect leads', async () => {
    const other = await startProvider()
    for (const status of [301, 302, 307]) {
      provider.takesOver(DISCOVERY, (_, response) =>
        response.writeHead(status, { location: `${other.issuer}${DISCOVERY}` }).end(),
      )
      await expect(tenancy.sso.start(id)).rejects.toMatchObject(UNAVAILABLE)
    }
    expect(other.requests).toEqual([])
    await other.close()
  })

  test('that changes is read again after minutes; while the provider is away the old one serves, for an hour', async () => {
    await tenancy.sso.start(id)
    opened.clock.advance(9 * 60_000)
    await tenancy.sso.start(id)
    expect(asked(DISCOVERY)).toBe(1)
    opened.clock.advance(61_000)
    await tenancy.sso.start(id)
    expect(asked(DISCOVERY)).toBe(2)
    provider.takesOver(DISCOVERY, (_, response) => response.writeHead(503).end())
    opened.clock.advance(11 * 60_000)
    await tenancy.sso.start(id)
    await tenancy.sso.start(id)
    expect(asked(DISCOVERY)).toBe(3)
    opened.clock.advance(50 * 60_000)
    await expect(tenancy.sso.start(id)).rejects.toMatchObject(UNAVAILABLE)
  })

  test('is asked for once by many who come at once', async () => {
    await Promise.all(Array.from({ length: 10 }, () => tenancy.sso.start(id)))
    expect(asked(DISCOVERY)).toBe(1)
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
    provider.takesOver(DISCOVERY, (_, response) => takeover(response))
    await expect(tenancy.sso.start(id)).rejects.toMatchObject(UNAVAILABLE)
    provider.takesOver(DISCOVERY, undefined)
    const gated = await opened.tenantAt(provider, { allowedDomains: ['acme.example'] })
    for (const path of ['/token', '/jwks', '/me']) {
      const back = await opened.comeBack(gated, provider)
      provider.takesOver(path, (_, response) => takeover(response))
      const refusal = PASSING.includes(what) ? UNAVAILABLE : refusedFor('answer')
      await expect(tenancy.sso.finish(back), path).rejects.toMatchObject(refusal)
      provider.takesOver(path, undefined)
    }
    provider.takesOver('/me', (_, response) => takeover(response))
    expect(await finishing(), 'without a gate that needs userinfo').toMatchObject({
      claims: { sub: 'alice', email: null },
    })
    provider.takesOver('/me', undefined)
    expect(await finishing()).toMatchObject({ claims: { email: 'alice@acme.example' } })
  })
})

test('where private networks are not allowed, none is called', async () => {
  const strict = await opened.open({ egress: { allowHttp: true } })
  await expect(strict.sso.start(id)).rejects.toMatchObject(UNAVAILABLE)
  await expect(strict.sso.finish(await comeBack())).rejects.toMatchObject(UNAVAILABLE)
  await expect(
    strict.sso.update(id, {
      issuer: provider.issuer,
      clientId: 'x',
      clientSecret: null,
      redirectUri: provider.redirectUri,
    }),
  ).rejects.toMatchObject({ code: 'E_URL_NOT_ALLOWED', status: 422 })
  const secure = await opened.open({ egress: { ...DEVELOPMENT, allowHttp: false } })
  await expect(secure.sso.start(id)).rejects.toMatchObject(UNAVAILABLE)
})
