/** Settings over HTTP and in code: responses, records, rejections, and secrecy of the client secret. */
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { openTestEnvironment, type TestEnvironment } from '../../../test/support/two-servers.ts'
import { sso } from './index.ts'
import { type OpenSso, openSso, type SsoTenancy } from './sso.fixture.ts'

const NOTHING = {
  provider: 'oidc',
  issuer: null,
  clientId: null,
  clientSecretSet: false,
  scopes: ['openid', 'email', 'profile'],
  redirectUri: null,
  allowedDomains: [],
  enabled: false,
  enforced: false,
}
const SECRET = 'a-secret-that-is-never-read'
const CLIENT = { issuer: 'https://login.acme.example/', clientId: 'tenantry', redirectUri: 'https://app.example/cb' }
const EVERYTHING = {
  ...CLIENT,
  clientSecret: SECRET,
  scopes: ['openid', 'groups'],
  allowedDomains: ['acme.example', 'Bücher.example'],
  enabled: true,
  enforced: true,
}
const { clientSecret: _, ...shownMembers } = EVERYTHING
const SHOWN = {
  ...shownMembers,
  provider: 'oidc',
  clientSecretSet: true,
  allowedDomains: ['acme.example', 'xn--bcher-kva.example'],
}

let opened: OpenSso
let tenancy: SsoTenancy
let id: string
let path: string

beforeAll(async () => {
  opened = await openSso(inject('postgresUrl'), { egress: {} })
  tenancy = opened.tenancy
})
afterAll(() => opened?.end())
beforeEach(async () => {
  id = await opened.tenant()
  path = `/tenants/${id}/sso`
})

const put = (body: unknown) => opened.call('PUT', path, body)
const changes = () =>
  opened.changes
    .filter(({ tenantId, action }) => tenantId === id && action.startsWith('sso.'))
    .map(({ action, target, before, after }) => ({ action, target, before, after }))
const encryptedSecret = async (): Promise<string | null> => {
  const { rows } = await tenancy.kernel.database.sql(
    'select client_secret as secret from multitenancy.sso where tenant_id = $1',
    [id],
  )
  return rows[0]?.secret ?? null
}
const secretKept = async () =>
  tenancy.sso.records.decryptSecret({ tenantId: id, clientSecret: await encryptedSecret() })

describe('the settings', () => {
  test('are null and disabled by default', async () => {
    expect(await opened.call('GET', path)).toEqual({ status: 200, json: NOTHING })
    expect(await tenancy.sso.get(id)).toEqual(NOTHING)
  })

  test('contain the update without the secret', async () => {
    expect(await put(EVERYTHING)).toEqual({ status: 200, json: SHOWN })
    expect(await opened.call('GET', path)).toEqual({ status: 200, json: SHOWN })
    expect(await secretKept()).toBe(SECRET)
  })

  test('lose absent members except the secret; null removes the secret', async () => {
    await put(EVERYTHING)
    expect(await put(CLIENT)).toEqual({ status: 200, json: { ...NOTHING, ...CLIENT, clientSecretSet: true } })
    expect(await secretKept()).toBe(SECRET)
    expect((await put({ ...CLIENT, clientSecret: null })).json).toMatchObject({ clientSecretSet: false })
    await put(EVERYTHING)
    expect(await put({})).toEqual({ status: 200, json: NOTHING })
    expect(await encryptedSecret()).toBeNull()
  })

  test('lose the secret when client or issuer changes', async () => {
    await put(EVERYTHING)
    for (const other of [
      { issuer: 'https://evil.example' },
      { clientId: 'other' },
      { issuer: 'https://login.acme.example' },
    ]) {
      expect(await put({ ...CLIENT, ...other })).toMatchObject({
        status: 400,
        json: { code: 'E_INVALID_REQUEST', errors: [{ path: 'clientSecret', message: expect.any(String) }] },
      })
    }
    expect(await put({ ...CLIENT, issuer: null })).toMatchObject({ json: { clientSecretSet: false } })
    expect(await put(CLIENT)).toMatchObject({ json: { clientSecretSet: false } })
    await put(EVERYTHING)
    expect(await put({ ...CLIENT, clientId: 'other', clientSecret: 'another' })).toMatchObject({ status: 200 })
    expect(await secretKept()).toBe('another')
  })

  test('are recorded when they change, without the secret', async () => {
    await put(EVERYTHING)
    await put(EVERYTHING)
    await put({ ...EVERYTHING, clientSecret: 'the-next-secret' })
    await opened.call('POST', `${path}/disable`)
    await opened.call('POST', `${path}/disable`)
    const target = `sso:${id}`
    const { provider: _, ...members } = SHOWN
    const { provider: __, ...nothing } = NOTHING
    expect(changes()).toEqual([
      { action: 'sso.update', target, before: nothing, after: members },
      { action: 'sso.update', target, before: {}, after: { clientSecretReplaced: true } },
      {
        action: 'sso.disable',
        target,
        before: { enabled: true, enforced: true },
        after: { enabled: false, enforced: false },
      },
    ])
    const logged = JSON.stringify([opened.changes, opened.log])
    for (const secret of [SECRET, 'the-next-secret', await encryptedSecret()]) expect(logged).not.toContain(secret)
  })

  test('can be disabled repeatedly, also before the first update', async () => {
    expect(await opened.call('POST', `${path}/disable`)).toEqual({ status: 200, json: NOTHING })
    await put(EVERYTHING)
    const off = { ...SHOWN, enabled: false, enforced: false }
    for (let time = 0; time < 2; time++) {
      expect(await opened.call('POST', `${path}/disable`, {})).toEqual({ status: 200, json: off })
    }
    expect(changes().map(({ action }) => action)).toEqual(['sso.update', 'sso.disable'])
  })

  test('are one row for concurrent writers, and each change has the replaced state', async () => {
    await Promise.all(
      ['a', 'b', 'c', 'd'].map((clientId) => tenancy.sso.update(id, { ...CLIENT, clientId, clientSecret: clientId })),
    )
    const recorded = changes()
    expect(recorded).toHaveLength(4)
    for (const [index, { before }] of recorded.entries()) {
      expect(before?.clientId).toBe(index === 0 ? null : recorded[index - 1]?.after?.clientId)
    }
    expect(await secretKept()).toBe((await tenancy.sso.get(id)).clientId)
  })

  test('are removed with the tenant', async () => {
    await put(EVERYTHING)
    await tenancy.tenants.delete(id)
    expect(await opened.call('GET', path)).toEqual({ status: 200, json: SHOWN })
    expect(await put(EVERYTHING)).toMatchObject({ status: 409, json: { code: 'E_TENANT_STATE' } })
    expect(await opened.call('POST', `${path}/disable`)).toMatchObject({ json: { code: 'E_TENANT_STATE' } })
    opened.clock.advance(31 * 86_400_000)
    await tenancy.tenants.installation.purge(id)
    expect(await opened.call('GET', path)).toMatchObject({ status: 404, json: { code: 'E_TENANT_NOT_FOUND' } })
    expect(await encryptedSecret()).toBeNull()
  })
})

describe('a secret', () => {
  test('cannot be decrypted in the row of another tenant', async () => {
    await put(EVERYTHING)
    const other = await opened.tenant()
    const clientSecret = await encryptedSecret()
    expect(() => tenancy.sso.records.decryptSecret({ tenantId: other, clientSecret })).toThrow()
  })

  test('keep the ciphertext of a secret that is set again', async () => {
    await put(EVERYTHING)
    const before = await encryptedSecret()
    expect(before).toMatch(/^v1\./)
    await put({ ...EVERYTHING, allowedDomains: [] })
    expect(await encryptedSecret()).toBe(before)
  })
})

describe('rejects a request', () => {
  test.each([
    ['issuer', { issuer: 'login.acme.example' }],
    ['issuer', { issuer: 'https://login.acme.example/?tenant=1' }],
    ['issuer', { issuer: 'https://login.acme.example/#a' }],
    ['issuer', { issuer: 'https://login.acme.example/ x' }],
    ['clientId', { clientId: '' }],
    ['clientId', { clientId: 'Ümlaut' }],
    ['clientSecret', { clientSecret: '' }],
    ['clientSecret', { clientSecret: 'a\nb' }],
    ['redirectUri', { redirectUri: 'http://app.example/cb' }],
    ['redirectUri', { redirectUri: 'https://app.example/cb?x=1' }],
    ['redirectUri', { redirectUri: 'https://app.example/cb#x' }],
    ['redirectUri', { redirectUri: 'https://alice:secret@app.example/cb' }],
    ['redirectUri', { redirectUri: 'https://app.example/a/../cb' }],
    ['redirectUri', { redirectUri: 'https://app.example/%2e%2e/cb' }],
    ['redirectUri', { redirectUri: 'https://app.example/\u00fc' }],
    ['redirectUri', { redirectUri: 'https://App.example/cb' }],
    ['redirectUri', { redirectUri: 'HTTPS://app.example/cb' }],
    ['redirectUri', { redirectUri: 'https://app.example:443/cb' }],
    ['redirectUri', { redirectUri: 'https://b\u00fccher.example/cb' }],
    ['redirectUri', { redirectUri: 'https://app.example' }],
    ['redirectUri', { redirectUri: 'javascript:alert(1)' }],
    ['redirectUri', { redirectUri: 'https:app.example' }],
    ['redirectUri', { redirectUri: 'https://app.example\\@evil.example/' }],
    ['scopes', { scopes: ['email'] }],
    ['scopes', { scopes: ['openid', 'openid'] }],
    ['scopes.1', { scopes: ['openid', 'a b'] }],
    ['allowedDomains.0', { allowedDomains: ['*.acme.example'] }],
    ['allowedDomains.0', { allowedDomains: ['@acme.example'] }],
    ['allowedDomains.0', { allowedDomains: ['acme.example/x'] }],
    ['allowedDomains.0', { allowedDomains: ['localhost'] }],
    ['allowedDomains.0', { allowedDomains: ['127.0.0.1'] }],
    ['allowedDomains.0', { allowedDomains: ['ａcme.example'] }],
    ['allowedDomains', { allowedDomains: ['acme.example', 'ACME.example'] }],
    ['enforced', { enforced: true }],
    ['issuer', { enabled: true, issuer: null }],
    ['clientId', { enabled: true, clientId: null }],
    ['redirectUri', { enabled: true, redirectUri: null }],
    ['provider', { provider: 'saml' }],
  ])('with an invalid %s: %j', async (at, members) => {
    expect(await put({ ...CLIENT, ...members })).toMatchObject({
      status: 400,
      json: { code: 'E_INVALID_REQUEST', errors: [{ path: at, message: expect.any(String) }] },
    })
    expect(await tenancy.sso.get(id)).toEqual(NOTHING)
  })

  test.each([
    ['http://login.acme.example'],
    ['https://127.0.0.1'],
    ['https://[::ffff:169.254.169.254]/'],
    ['https://localhost.'],
    ['https://intranet'],
    ['https://alice:secret@login.acme.example'],
    ['file:///etc/passwd'],
  ])('with a forbidden issuer: %s', async (issuer) => {
    expect(await put({ ...CLIENT, issuer })).toMatchObject({ status: 422, json: { code: 'E_URL_NOT_ALLOWED' } })
  })

  test('with a loopback callback, unless development allows it', async () => {
    const redirectUri = 'http://localhost:3000/cb'
    expect(await put({ ...CLIENT, redirectUri })).toMatchObject({ status: 422, json: { code: 'E_URL_NOT_ALLOWED' } })
    const development = await opened.open({ egress: { allowHttp: true, allowPrivateNetworks: true } })
    expect(await development.sso.update(id, { ...CLIENT, redirectUri })).toMatchObject({ redirectUri })
  })

  test('with a member that there is not, and without any', async () => {
    expect(await put({ ...CLIENT, clientSecretSet: true })).toMatchObject({ status: 400 })
    expect(await opened.call('PUT', path)).toMatchObject({ status: 400 })
  })
})

describe('clones', () => {
  let environment: TestEnvironment<[ReturnType<typeof sso>]>
  beforeAll(async () => {
    environment = await openTestEnvironment(inject('postgresUrl'), { satellites: [sso()] })
  })
  afterAll(() => environment?.end())

  test('responses and records contain no secret', async () => {
    await environment.tenant('acme')
    await environment.tenancy.sso.update('acme', EVERYTHING)
    await environment.done(await environment.transfers.clone('acme', { id: 'copy', name: 'A copy' }))
    expect(await environment.tenancy.sso.get('copy')).toEqual(NOTHING)
  })
})
