/** Complete logins at a real provider. */
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { TenancyError } from '../../kernel/base/errors.ts'
import { CLIENT, POSTING_CLIENT, PUBLIC_CLIENT, startProvider, type TestProvider } from './provider.fixture.ts'
import { inCode, type OpenSso, openSso, rejectedFor, type SsoTenancy } from './sso.fixture.ts'

/** Numeric levels of log lines. */
const PINO = { debug: 20, error: 50 } as const

let opened: OpenSso
let tenancy: SsoTenancy
let provider: TestProvider

beforeAll(async () => {
  opened = await openSso(inject('postgresUrl'))
  tenancy = opened.tenancy
  provider = await startProvider()
})
afterAll(async () => {
  await provider?.close()
  await opened?.end()
})

describe('a login', () => {
  test('returns the identity and the return path', async () => {
    const id = await opened.tenantAt(provider)
    const login = await opened.logIn(id, provider, { returnTo: '/projects?open=1#new' })
    expect(login).toEqual({
      tenantId: id,
      returnTo: '/projects?open=1#new',
      claims: {
        issuer: provider.issuer,
        sub: 'alice',
        email: 'alice@acme.example',
        emailVerified: true,
        name: 'Alice Doe',
        all: expect.objectContaining({ sub: 'alice', aud: CLIENT.clientId }),
      },
      idToken: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
      clearCookie: expect.stringMatching(/^__Host-tenantry-sso-[0-9a-f]{8}=; Path=\/; Max-Age=0; .*Secure$/),
    })
  })

  test('requests the required claims with PKCE', async () => {
    const id = await opened.tenantAt(provider)
    const options = { loginHint: 'alice@acme.example', prompt: 'login' } as const
    const { url, state, setCookie } = await tenancy.sso.start(id, options)
    const asked = new URL(url)
    expect(asked.origin + asked.pathname).toBe(`${provider.issuer}/auth`)
    expect(Object.fromEntries(asked.searchParams)).toEqual({
      client_id: CLIENT.clientId,
      response_type: 'code',
      redirect_uri: provider.redirectUri,
      scope: 'openid email profile',
      state,
      nonce: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge_method: 'S256',
      login_hint: 'alice@acme.example',
      prompt: 'login',
    })
    const name = createHash('sha256').update(state).digest('hex').slice(0, 8)
    expect(setCookie).toMatch(
      new RegExp(`^__Host-tenantry-sso-${name}=[\\w-]{43}; Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure$`),
    )
  })

  test('accepts a web request, or a path and its cookies', async () => {
    const id = await opened.tenantAt(provider)
    const first = await opened.comeBack(id, provider)
    const request = new Request(first.url, { headers: { cookie: `other=1; ${first.cookie}` } })
    expect(await tenancy.sso.finish(request)).toMatchObject({ tenantId: id, returnTo: '/' })
    const second = await opened.comeBack(id, provider)
    const { pathname, search } = new URL(second.url)
    expect(await tenancy.sso.finish({ url: pathname + search, cookie: second.cookie })).toMatchObject({ tenantId: id })
  })

  test('allows several logins in one browser', async () => {
    const id = await opened.tenantAt(provider)
    const [one, other] = [await opened.comeBack(id, provider), await opened.comeBack(id, provider)]
    const cookie = `${one.cookie}; ${other.cookie}`
    for (const { url } of [other, one])
      expect(await tenancy.sso.finish({ url, cookie })).toMatchObject({ tenantId: id })
  })

  test.each([
    ['a public client', { clientId: PUBLIC_CLIENT, clientSecret: null }],
    ['a client that sends its secret in the body', POSTING_CLIENT],
  ])('works for %s', async (_who, client) => {
    const methods = 'clientSecret' in client && client.clientSecret ? ['client_secret_post'] : ['none']
    const posting = await startProvider({ clientAuthMethods: methods })
    const id = await opened.tenantAt(posting, client)
    try {
      expect(await opened.logIn(id, posting)).toMatchObject({ claims: { sub: 'alice' } })
    } finally {
      await posting.close()
    }
  })

  test('takes claims from the ID token without a request to userinfo', async () => {
    const generous = await startProvider({ conformIdTokenClaims: false })
    try {
      const id = await opened.tenantAt(generous)
      expect(await opened.logIn(id, generous)).toMatchObject({
        claims: { email: 'alice@acme.example', name: 'Alice Doe' },
      })
      expect(generous.requests.filter((path) => path === '/me')).toEqual([])
    } finally {
      await generous.close()
    }
  })

  test('finishes in another process than it started in', async () => {
    const id = await opened.tenantAt(provider)
    const back = await opened.comeBack(id, provider)
    const other = await opened.open()
    expect(await other.sso.finish(back)).toMatchObject({ tenantId: id })
    await expect(tenancy.sso.finish(back)).rejects.toMatchObject(rejectedFor('state'))
  })
})

describe('a login is rejected', () => {
  test('if its state was used before', async () => {
    const id = await opened.tenantAt(provider)
    const back = await opened.comeBack(id, provider)
    await tenancy.sso.finish(back)
    await expect(tenancy.sso.finish(back)).rejects.toMatchObject(rejectedFor('state'))
  })

  test('if several callers finish it concurrently, except one', async () => {
    const id = await opened.tenantAt(provider)
    const back = await opened.comeBack(id, provider)
    const all = await Promise.allSettled(Array.from({ length: 10 }, () => tenancy.sso.finish(back)))
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  })

  test('if its state is unknown, missing, or repeated', async () => {
    const id = await opened.tenantAt(provider)
    const { url, cookie, state } = await opened.comeBack(id, provider)
    const states = [
      url.replace(state, `${state.slice(0, -2)}__`),
      url.replace('state=', 'estate='),
      `${url}&state=${state}`,
      url.replace(state, `../${state}`),
      url.replace(state, encodeURIComponent('a\0b.c')),
    ]
    for (const one of states) {
      await expect(tenancy.sso.finish({ url: one, cookie })).rejects.toMatchObject(rejectedFor('state'))
    }
    expect(await tenancy.sso.finish({ url, cookie })).toMatchObject({ tenantId: id })
  })

  test('if its state is presented for another tenant', async () => {
    const [id, other] = [await opened.tenantAt(provider), await opened.tenantAt(provider)]
    const { url, cookie } = await opened.comeBack(id, provider)
    const turned = url.replace(`state=${id}.`, `state=${other}.`)
    expect(turned).not.toBe(url)
    await expect(tenancy.sso.finish({ url: turned, cookie })).rejects.toMatchObject(rejectedFor('state'))
  })

  test('at the callback of another tenant, without using its state', async () => {
    const [id, other] = [await opened.tenantAt(provider), await opened.tenantAt(provider)]
    const back = await opened.comeBack(id, provider)
    await expect(tenancy.sso.finish(back, { tenantId: other })).rejects.toMatchObject(rejectedFor('state'))
    expect(await tenancy.sso.finish(back, { tenantId: id })).toMatchObject({ tenantId: id })
  })

  test('after ten minutes', async () => {
    const id = await opened.tenantAt(provider)
    const back = await opened.comeBack(id, provider)
    opened.clock.advance(600_000)
    await expect(tenancy.sso.finish(back)).rejects.toMatchObject(rejectedFor('state'))
  })

  test('in another browser than the one that started it', async () => {
    const id = await opened.tenantAt(provider)
    for (const foreign of [
      async () => null,
      async () => (await opened.comeBack(id, provider)).cookie,
      async () => undefined,
    ]) {
      const { url, state } = await opened.comeBack(id, provider)
      await expect(tenancy.sso.finish({ url, cookie: await foreign() })).rejects.toMatchObject(rejectedFor('browser'))
      expect(opened.log.join('')).not.toContain(state)
    }
    const { url, cookie } = await opened.comeBack(id, provider)
    const [name] = cookie.split('=')
    await expect(tenancy.sso.finish({ url, cookie: `${name}=${'A'.repeat(43)}` })).rejects.toMatchObject(
      rejectedFor('browser'),
    )
  })

  test('if the user declines, or input would be required', async () => {
    const id = await opened.tenantAt(provider)
    const silent = await opened.comeBack(id, provider, { prompt: 'none' })
    expect(silent.url).toContain('error=login_required')
    await expect(tenancy.sso.finish(silent)).rejects.toMatchObject(rejectedFor('interaction-required'))
    const errors = { access_denied: 'denied', server_error: 'provider-error', __proto__x: 'provider-error' }
    for (const [error, reason] of Object.entries(errors)) {
      const { state, cookie } = await opened.comeBack(id, provider)
      const iss = encodeURIComponent(provider.issuer)
      const description = encodeURIComponent('<b>words of the provider</b>')
      const url = `${provider.redirectUri}?state=${state}&iss=${iss}&error=${error}&error_description=${description}`
      const refusal = await tenancy.sso.finish({ url, cookie }).catch((failure) => failure)
      expect(refusal).toMatchObject(rejectedFor(reason))
      expect(JSON.stringify([refusal.message, refusal.extras])).not.toContain('words of the provider')
      const lines = opened.log.filter((line) => line.includes('words of the provider'))
      expect(lines.map((line) => JSON.parse(line).level)).toEqual(lines.map(() => PINO.debug))
      expect(lines).not.toEqual([])
      expect(opened.log.join('')).toContain(`(${error})`)
    }
  })

  test('if single sign-on was disabled or changed during the login', async () => {
    const id = await opened.tenantAt(provider)
    const first = await opened.comeBack(id, provider)
    await tenancy.sso.disable(id)
    await expect(tenancy.sso.finish(first)).rejects.toMatchObject(inCode('E_SSO_NOT_ENABLED'))
    await expect(tenancy.sso.start(id)).rejects.toMatchObject(inCode('E_SSO_NOT_ENABLED'))
    const settings = {
      issuer: provider.issuer,
      clientId: CLIENT.clientId,
      redirectUri: provider.redirectUri,
      enabled: true,
    }
    await tenancy.sso.update(id, settings)
    const second = await opened.comeBack(id, provider)
    await tenancy.sso.update(id, { ...settings, allowedDomains: ['acme.example'] })
    await expect(tenancy.sso.finish(second)).rejects.toMatchObject(rejectedFor('changed'))
  })

  test('if single sign-on is disabled during the exchange of the code', async () => {
    const id = await opened.tenantAt(provider)
    const back = await opened.comeBack(id, provider)
    let isOff: Promise<unknown> | undefined
    provider.takesOver('/me', (_, response) => {
      isOff = tenancy.sso.disable(id).then(() => {
        const body = JSON.stringify({ sub: 'alice', email: 'alice@acme.example', email_verified: true })
        response.writeHead(200, { 'content-type': 'application/json' }).end(body)
      })
    })
    const refusal = await tenancy.sso.finish(back).catch((error) => error)
    provider.takesOver('/me', undefined)
    await isOff
    expect(refusal).toMatchObject(inCode('E_SSO_NOT_ENABLED'))
  })

  test('with the error of a guarded route if the tenant is unusable', async () => {
    const id = await opened.tenantAt(provider)
    const backs = [
      await opened.comeBack(id, provider),
      await opened.comeBack(id, provider),
      await opened.comeBack(id, provider),
    ]
    const finish = () => tenancy.sso.finish(backs.pop() ?? expect.fail())
    await tenancy.tenants.enterMaintenance(id, { message: 'back soon', retryAfterSeconds: 60 })
    await expect(finish()).rejects.toMatchObject({ code: 'E_TENANT_MAINTENANCE', retryAfterSeconds: 60 })
    await expect(tenancy.sso.start(id)).rejects.toMatchObject(inCode('E_TENANT_MAINTENANCE'))
    await tenancy.tenants.exitMaintenance(id)
    await tenancy.tenants.suspend(id)
    await expect(finish()).rejects.toMatchObject(inCode('E_TENANT_SUSPENDED'))
    await expect(tenancy.sso.start(id)).rejects.toMatchObject(inCode('E_TENANT_SUSPENDED'))
    await tenancy.tenants.delete(id)
    await expect(finish()).rejects.toMatchObject(inCode('E_TENANT_NOT_FOUND'))
    await expect(tenancy.sso.start(id)).rejects.toMatchObject(inCode('E_TENANT_NOT_FOUND'))
  })

  test('with the code of another login', async () => {
    const id = await opened.tenantAt(provider)
    const [mine, theirs] = [await opened.comeBack(id, provider), await opened.comeBack(id, provider)]
    const code = new URL(theirs.url).searchParams.get('code') ?? ''
    const url = new URL(mine.url)
    url.searchParams.set('code', code)
    // The provider compares the verifier of one login with the challenge of the other.
    await expect(tenancy.sso.finish({ url: url.href, cookie: mine.cookie })).rejects.toMatchObject(
      rejectedFor('provider-error'),
    )
    expect(opened.log.join('')).toContain('invalid_grant')
  })

  test.each([
    ['https://evil.example/'],
    ['//evil.example'],
    ['/\\evil.example'],
    ['/\t/evil.example'],
    ['/.//evil.example'],
    ['/x\r\nset-cookie: a=b'],
    ['projects'],
    [''],
    [`/${'a'.repeat(2_048)}`],
  ])('before it starts, for the return path %j', async (returnTo) => {
    const id = await opened.tenantAt(provider)
    await expect(tenancy.sso.start(id, { returnTo })).rejects.toMatchObject({
      code: 'E_INVALID_REQUEST',
      extras: { errors: [{ path: 'returnTo', message: expect.any(String) }] },
    })
  })

  test('for an unknown tenant', async () => {
    for (const id of ['unknown', 'No Id', '../x']) {
      await expect(tenancy.sso.start(id)).rejects.toMatchObject(inCode('E_TENANT_NOT_FOUND'))
      await expect(tenancy.sso.isEnforced(id)).rejects.toMatchObject(inCode('E_TENANT_NOT_FOUND'))
    }
  })
})

describe('a secret that cannot be decrypted', () => {
  test('an undecryptable secret is no failure of the provider: the response has no detail, and the log has the cause', async () => {
    const id = await opened.tenantAt(provider)
    const back = await opened.comeBack(id, provider)
    await tenancy.kernel.database.sql(
      `update multitenancy.sso set client_secret = 'v1.00000000.AAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAAAA' where tenant_id = $1`,
      [id],
    )
    const before = provider.requests.length
    for (const attempt of [() => tenancy.sso.start(id), () => tenancy.sso.finish(back)]) {
      const error = await attempt().catch((failure) => failure)
      expect(error).toBeInstanceOf(Error)
      expect(error).not.toBeInstanceOf(TenancyError)
    }
    expect(provider.requests).toHaveLength(before)
    const lines = opened.log
      .map((line) => JSON.parse(line))
      .filter(({ tenantId, level }) => tenantId === id && level === PINO.error)
    expect(lines).toHaveLength(2)
    expect(lines[0].err.stack).toContain('decryptSecret')
  })
})

describe('allowed domains', () => {
  const person = { email: 'alice@acme.example', email_verified: true as unknown }
  const attempt = async (allowedDomains: string[], who: object) => {
    const id = await opened.tenantAt(provider, { allowedDomains })
    const before = { ...provider.person }
    Object.assign(provider.person, person, who)
    return opened.logIn(id, provider).finally(() => Object.assign(provider.person, before))
  }

  test.each([
    [['acme.example'], {}],
    [['ACME.example'], { email: 'Alice@Acme.EXAMPLE' }],
    [['other.example', 'bücher.example'], { email: 'alice@xn--bcher-kva.example' }],
    [['xn--bcher-kva.example'], { email: 'alice@BÜCHER.example' }],
    [['acme.example'], { email_verified: 'true' }],
    [[], { email: undefined, email_verified: undefined }],
    [[], { email: 'alice@anywhere.example', email_verified: false }],
  ])('%j allow %j', async (allowed, who) => {
    expect(await attempt(allowed, who)).toMatchObject({ claims: { sub: 'alice' } })
  })

  test.each([
    { email_verified: false },
    { email_verified: undefined },
    { email_verified: 1 },
    { email: undefined },
    { email: ['alice@acme.example'] },
    { email: 'alice@evil.example' },
    { email: 'alice@acme.example.evil.example' },
    { email: 'alice@notacme.example' },
    { email: 'alice@sub.acme.example' },
    { email: 'alice@evil.example@acme.example' },
    { email: '"alice@evil.example"@acme.example' },
    { email: 'alice@acme.example.' },
    { email: 'alice@acme.example/evil' },
    { email: 'alice@ａcme.example' },
    { email: 'alice@аcme.example' },
    { email: 'alice@ac\u00adme.example' },
    { email: '@acme.example' },
    { email: 'acme.example' },
    { email: 'alice@acme.example\0' },
  ])('acme.example rejects %j', async (who) => {
    await expect(attempt(['acme.example'], who)).rejects.toMatchObject(inCode('E_SSO_DOMAIN_NOT_ALLOWED'))
  })
})

test('isEnforced returns a changed setting immediately', async () => {
  const id = await opened.tenant()
  expect(await tenancy.sso.isEnforced(id)).toBe(false)
  const settings = { issuer: provider.issuer, ...CLIENT, redirectUri: provider.redirectUri, enabled: true }
  await tenancy.sso.update(id, settings)
  expect(await tenancy.sso.isEnforced(id)).toBe(false)
  await tenancy.sso.update(id, { ...settings, enforced: true })
  expect(await tenancy.sso.isEnforced(id)).toBe(true)
  await tenancy.sso.disable(id)
  expect(await tenancy.sso.isEnforced(id)).toBe(false)
})

test('the log contains no secret of a login', async () => {
  const id = await opened.tenantAt(provider)
  provider.bends((claims) => ({ ...claims, aud: 'another-client' }))
  const back = await opened.comeBack(id, provider)
  await expect(tenancy.sso.finish(back)).rejects.toMatchObject(rejectedFor('answer'))
  provider.bends(undefined)
  const lines = opened.log.join('')
  expect(lines).toContain('a login by single sign-on failed')
  const code = new URL(back.url).searchParams.get('code') ?? ''
  for (const secret of [back.state, back.cookie, code, CLIENT.clientSecret, 'alice@acme.example', 'eyJ']) {
    expect(lines).not.toContain(secret)
  }
})
