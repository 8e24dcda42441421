/** False ID tokens, responses and keys of malicious providers, and of attackers between provider and browser. */
import { createHmac } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { DISCOVERY, openLogin } from './malicious-provider.fixture.ts'
import { CLIENT, newKey, startProvider, type TestProvider } from './provider.fixture.ts'
import { inCode, rejectedFor } from './sso.fixture.ts'

const HOUR_SECONDS = 3_600

const login = openLogin()

const keysOf = async ({ issuer }: TestProvider): Promise<any[]> => {
  const { keys } = (await (await fetch(`${issuer}/jwks`)).json()) as { keys: any[] }
  return keys
}
/** Logged reason of the last failed login. */
const lastReason = (): string =>
  JSON.parse(login.opened.log.findLast((line) => line.includes('a login by single sign-on failed')) ?? '{}').reason
const seconds = () => Math.floor(Date.now() / 1_000)
describe('rejects an ID token', () => {
  test.each([
    ['of another issuer', '"iss"', (claims: any) => ({ ...claims, iss: 'https://evil.example' })],
    ['of the issuer with a trailing slash', '"iss"', (claims: any) => ({ ...claims, iss: `${claims.iss}/` })],
    ['for another client', '"aud"', (claims: any) => ({ ...claims, aud: 'another-client' })],
    [
      'for several audiences without azp',
      'untrusted audiences',
      (claims: any) => ({ ...claims, aud: [claims.aud, 'x'] }),
    ],
    ['whose azp is another client', '"azp"', (claims: any) => ({ ...claims, aud: [claims.aud, 'x'], azp: 'x' })],
    ['that has expired', '"exp"', (claims: any) => ({ ...claims, exp: seconds() - HOUR_SECONDS })],
    ['that is not valid yet', '"nbf"', (claims: any) => ({ ...claims, nbf: seconds() + HOUR_SECONDS })],
    ['of another login', '"nonce"', (claims: any) => ({ ...claims, nonce: 'of-another-login' })],
    ['without a nonce', '"nonce"', ({ nonce: _, ...claims }: any) => claims],
    ['without an expiry', '"exp"', ({ exp: _, ...claims }: any) => claims],
    ['without a subject', '"sub"', ({ sub: _, ...claims }: any) => claims],
    ['with a subject that is no string', '"sub"', (claims: any) => ({ ...claims, sub: 1 })],
  ])('%s', async (_what, why, change) => {
    login.provider.bends(change)
    await expect(login.finish()).rejects.toMatchObject(rejectedFor('answer'))
    expect(lastReason()).toContain(why)
  })

  test('counter-proof: the unchanged ID token is accepted', async () => {
    login.provider.bends((claims) => ({ ...claims, aud: [claims.aud] }))
    expect(await login.finish()).toMatchObject({ tenantId: login.id })
  })

  test('that has expired by the clock of the tenancy', async () => {
    const back = await login.comeBack()
    login.provider.bends((claims) => ({ ...claims, exp: claims.iat + 120 }))
    login.opened.clock.advance(180_000)
    await expect(login.opened.tenancy.sso.finish(back)).rejects.toMatchObject(rejectedFor('answer'))
  })

  test('that is signed with a false key under a valid key id', async () => {
    const [{ kid }] = await keysOf(login.provider)
    login.provider.bends((claims) => claims, { alg: 'RS256', kid }, newKey())
    await expect(login.finish()).rejects.toMatchObject(rejectedFor('answer'))
    expect(lastReason()).toContain('signature verification failed')
  })

  test('without a signature', async () => {
    for (const alg of ['none', 'None']) {
      login.provider.bends((claims) => claims, { alg })
      await expect(login.finish()).rejects.toMatchObject(rejectedFor('answer'))
      login.provider.lies('/token', (response) => {
        const [, payload] = response.id_token.split('.')
        const header = Buffer.from(JSON.stringify({ alg })).toString('base64url')
        return { ...response, id_token: `${header}.${payload}.` }
      })
      await expect(login.finish()).rejects.toMatchObject(rejectedFor('answer'))
    }
  })

  test('that is signed with a public value, or with the client secret', async () => {
    const keys = await keysOf(login.provider)
    for (const secret of [CLIENT.clientSecret, JSON.stringify(keys[0]), keys[0].n]) {
      login.provider.lies('/token', (response) => {
        const [, payload] = response.id_token.split('.')
        const header = Buffer.from(JSON.stringify({ alg: 'HS256', kid: keys[0].kid })).toString('base64url')
        const signature = createHmac('sha256', secret).update(`${header}.${payload}`).digest('base64url')
        return { ...response, id_token: `${header}.${payload}.${signature}` }
      })
      await expect(login.finish()).rejects.toMatchObject(rejectedFor('answer'))
    }
  })

  test('that is malformed or missing', async () => {
    for (const token of [undefined, '', 'a.b.c', 'a', 1, `${'a'.repeat(5_000)}.b.c`]) {
      login.provider.lies('/token', (response) => ({ ...response, id_token: token }))
      await expect(login.finish()).rejects.toMatchObject(rejectedFor('answer'))
    }
  })
})

describe('rejects a response', () => {
  test('that names another issuer, or none (mix-up)', async () => {
    const { url, cookie } = await login.comeBack()
    const other = new URL(url)
    other.searchParams.set('iss', 'https://evil.example')
    await expect(login.opened.tenancy.sso.finish({ url: other.href, cookie })).rejects.toMatchObject(
      rejectedFor('answer'),
    )
    const second = await login.comeBack()
    const none = new URL(second.url)
    none.searchParams.delete('iss')
    await expect(login.opened.tenancy.sso.finish({ url: none.href, cookie: second.cookie })).rejects.toMatchObject(
      rejectedFor('answer'),
    )
    expect(login.requestCount('/token')).toBe(0)
  })

  test('of another flow than the code flow', async () => {
    for (const extra of ['id_token=a.b.c', 'code=another', 'response=a.b.c', 'iss=https%3A%2F%2Fx.example']) {
      const { url, cookie } = await login.comeBack()
      await expect(login.opened.tenancy.sso.finish({ url: `${url}&${extra}`, cookie })).rejects.toMatchObject(
        rejectedFor('answer'),
      )
    }
    expect(login.requestCount('/token')).toBe(0)
  })

  test('of userinfo about another subject', async () => {
    login.provider.lies('/me', (response) => ({ ...response, sub: 'the-boss' }))
    await expect(login.finish()).rejects.toMatchObject(rejectedFor('answer'))
  })

  test('of userinfo that verifies another address than the ID token has', async () => {
    await login.opened.tenancy.sso.disable(login.id)
    login.id = await login.opened.tenantAt(login.provider, { allowedDomains: ['acme.example'] })
    login.provider.bends((claims) => ({ ...claims, email: 'alice@acme.example' }))
    login.provider.lies('/me', (response) => ({ ...response, email: 'alice@evil.example', email_verified: true }))
    await expect(login.finish()).rejects.toMatchObject(inCode('E_SSO_DOMAIN_NOT_ALLOWED'))
  })

  test('of userinfo that failed although the allowed domains need it', async () => {
    login.provider.takesOver('/me', (_, response) => response.writeHead(403).end())
    expect(await login.finish()).toMatchObject({ claims: { sub: 'alice', email: null } })
    login.id = await login.opened.tenantAt(login.provider, { allowedDomains: ['acme.example'] })
    await expect(login.finish()).rejects.toMatchObject(rejectedFor('answer'))
    login.provider.bends((claims) => ({ ...claims, email: 'alice@acme.example', email_verified: true }))
    expect(await login.finish()).toMatchObject({ claims: { email: 'alice@acme.example', emailVerified: true } })
  })

  test('with an error of the provider in words of ours', async () => {
    login.provider.lies('/token', () => ({ error: 'invalid_client', error_description: 'words of the provider' }))
    const error = await login.finish().catch((failure) => failure)
    expect(error).toMatchObject({ code: 'E_SSO_FAILED' })
    expect(JSON.stringify({ ...error, message: error.message })).not.toContain('words of the provider')
  })

  test('to a wrong client secret', async () => {
    login.id = await login.opened.tenantAt(login.provider, { clientSecret: 'not-the-secret' })
    await expect(login.finish()).rejects.toMatchObject(rejectedFor('provider-error'))
  })
})

describe('keys', () => {
  test.each([[{ kty: 'RSA', n: 1, e: null }], [{ kty: 'RSA', n: '', e: '' }], [{ kty: {} }], [null]])(
    'malformed keys fail the login only: %j',
    async (key) => {
      login.provider.lies('/jwks', ({ keys: [{ kid }] }) => ({
        keys: [key && { ...key, kid, alg: 'RS256', use: 'sig' }],
      }))
      await expect(login.finish()).rejects.toMatchObject(rejectedFor('answer'))
    },
  )

  test('keys are read once for many logins', async () => {
    for (let n = 0; n < 3; n++) await login.finish()
    expect([login.requestCount(DISCOVERY), login.requestCount('/jwks')]).toEqual([1, 1])
  })

  test('rotated keys are found by a process that knows the former ones', async () => {
    await login.finish()
    login.provider.rollKeys()
    login.opened.clock.advance(31_000)
    expect(await login.finish()).toMatchObject({ tenantId: login.id })
    expect(login.requestCount('/jwks')).toBe(2)
    await login.finish()
    expect(login.requestCount('/jwks')).toBe(2)
  })

  test('keys are not read repeatedly for an unknown key id', async () => {
    await login.finish()
    const other = newKey()
    login.provider.bends((claims) => claims, undefined, other)
    await expect(login.finish()).rejects.toMatchObject(rejectedFor('answer'))
    expect(login.requestCount('/jwks')).toBe(1)
    login.opened.clock.advance(31_000)
    for (let n = 0; n < 3; n++) await expect(login.finish()).rejects.toMatchObject(rejectedFor('answer'))
    expect(login.requestCount('/jwks')).toBe(2)
  })

  test('revoked keys are trusted for minutes only', async () => {
    await login.finish()
    const key = login.provider.rollKeys()
    login.provider.bends((claims) => claims, undefined, key)
    expect(await login.finish()).toMatchObject({ tenantId: login.id })
    login.opened.clock.advance(301_000)
    await expect(login.finish()).rejects.toMatchObject(rejectedFor('answer'))
  })

  test('keys are separate for each issuer', async () => {
    const other = await startProvider({}, undefined, newKey())
    try {
      await login.finish()
      const there = await login.opened.tenantAt(other)
      await login.opened.logIn(there, other)
      const [{ kid }] = await keysOf(login.provider)
      other.bends((claims) => claims, { alg: 'RS256', kid })
      await expect(login.opened.logIn(there, other)).rejects.toMatchObject(rejectedFor('answer'))
    } finally {
      await other.close()
    }
  })
})
