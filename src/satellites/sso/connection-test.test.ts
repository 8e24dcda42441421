/** Report of a connection test, before users log in. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, test, vi } from 'vitest'
import { TEST_APP_KEY } from '../../testing/base/tenancy.ts'
import { CLIENT, startProvider, type TestProvider } from './provider.fixture.ts'
import { type OpenSso, openSso, TIMEOUT_MS } from './sso.fixture.ts'

/** Opens another process as if the running ones were dead: they do not know its application key, and would prevent the start. */
const openWithKeys = async (keys: { readonly appKey: string; readonly oldAppKeys?: readonly string[] }) => {
  await opened.tenancy.kernel.database.sql(
    `update multitenancy.processes set heartbeat_at = now() - interval '1 minute'`,
  )
  return opened.open(keys)
}

const DISCOVERY = '/.well-known/openid-configuration'
const OTHER_APP_KEY = Buffer.alloc(32, 8).toString('base64')

let opened: OpenSso
let provider: TestProvider
let id: string

beforeAll(async () => {
  opened = await openSso(inject('postgresUrl'))
})
afterAll(() => opened?.end())
beforeEach(async () => {
  provider = await startProvider()
  id = await opened.tenantAt(provider, { enabled: false })
})
afterEach(async () => {
  vi.useRealTimers()
  await provider.close()
})

const report = async () => (await opened.call('POST', `/tenants/${id}/sso/test`)).json
const faults = async () => {
  const { ok, checks } = await report()
  const bad = checks.filter((check: { ok: boolean }) => !check.ok)
  expect(ok).toBe(bad.length === 0)
  return bad.map(({ name, message }: { name: string; message: string }) => `${name}: ${message}`)
}
const lies = (members: object) => provider.lies(DISCOVERY, (response) => ({ ...response, ...members }))

test('reports a working connection, enabled or disabled', async () => {
  const { status, json } = await opened.call('POST', `/tenants/${id}/sso/test`)
  expect(status).toBe(200)
  expect(json.ok).toBe(true)
  expect(json.checks.map(({ name }: { name: string }) => name)).toEqual([
    'settings',
    'secret',
    'redirectUri',
    'people',
    'discovery',
    'issuer',
    'endpoints',
    'flow',
    'pkce',
    'client',
    'signatures',
    'keys',
  ])
})

test('reports missing settings', async () => {
  id = await opened.tenant()
  expect(await faults()).toEqual(['settings: not set: issuer, clientId, redirectUri'])
})

test('reports a missing setting', async () => {
  await opened.tenancy.sso.update(id, { issuer: provider.issuer, clientId: CLIENT.clientId })
  expect(await faults()).toEqual(['settings: not set: redirectUri'])
})

test.each([
  [{ issuer: 'https://words-of-the-provider.example' }, ['discovery: the document names another issuer']],
  [{ authorization_endpoint: undefined }, ['endpoints: missing or not allowed: authorization_endpoint']],
  [
    { token_endpoint: 'http://169.254.169.254/', userinfo_endpoint: 'x' },
    ['endpoints: missing or not allowed: token_endpoint, userinfo_endpoint'],
  ],
  [{ response_types_supported: ['id_token'] }, ['flow: the provider does not support the authorization code flow']],
  [{ code_challenge_methods_supported: ['plain'] }, ['pkce: the provider does not support S256']],
  [{ code_challenge_methods_supported: undefined }, []],
  [
    { token_endpoint_auth_methods_supported: ['private_key_jwt'] },
    ['client: the provider supports neither client_secret_basic nor client_secret_post'],
  ],
])('reports a discovery document with %j', async (members, expected) => {
  lies(members)
  expect(await faults()).toEqual(expected)
})

test.each([
  [['HS256'], ['signatures: the provider signs ID tokens with none of RS, PS, ES and EdDSA']],
  [['none'], ['signatures: the provider signs ID tokens with none of RS, PS, ES and EdDSA']],
  [['HS256', 'ES256'], []],
  [undefined, []],
])('reports ID tokens that are signed with %j', async (id_token_signing_alg_values_supported, expected) => {
  lies({ id_token_signing_alg_values_supported })
  expect(await faults()).toEqual(expected)
})

test('reports an issuer with open registration if no domains are named', async () => {
  const settings = { issuer: 'https://accounts.google.com', redirectUri: provider.redirectUri }
  const people = async () => (await report()).checks.find(({ name }: { name: string }) => name === 'people')
  await opened.tenancy.sso.update(id, settings)
  expect(await people()).toMatchObject({ ok: false, message: expect.stringMatching(/^anyone can register/) })
  await opened.tenancy.sso.update(id, { ...settings, allowedDomains: ['acme.example'] })
  expect(await people()).toMatchObject({ ok: true })
})

test('reports an issuer that differs in its trailing slash', async () => {
  const expected = ['discovery: the document differs in the trailing slash of the issuer']
  provider.takesOver(`/a${DISCOVERY}`, (_, response) =>
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ issuer: `${provider.issuer}/a/` })),
  )
  await opened.tenancy.sso.update(id, { ...CLIENT, issuer: `${provider.issuer}/a`, redirectUri: provider.redirectUri })
  expect(await faults()).toEqual(expected)
})

test('reports an issuer whose trailing slash differs in its settings', async () => {
  const settings = { ...CLIENT, redirectUri: provider.redirectUri, issuer: `${provider.issuer}/` }
  await opened.tenancy.sso.update(id, settings)
  expect(await faults()).toEqual(['issuer: the document differs in the trailing slash of the issuer'])
})

test.each([
  [
    'does not respond',
    () => void vi.advanceTimersByTime(TIMEOUT_MS),
    'discovery: the provider is unreachable: timeout',
  ],
  ['responds with 500', (response: any) => response.writeHead(500).end(), 'discovery: the provider responded with 500'],
  [
    'redirects',
    (response: any) => response.writeHead(302, { location: 'http://169.254.169.254/' }).end(),
    'discovery: no discovery document at /.well-known/openid-configuration',
  ],
])('reports a provider that %s', async (_what, takeover, expected) => {
  expect(await faults()).toEqual([]) // Later timers of undici are those of the machine.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'], shouldClearNativeTimers: true })
  provider.takesOver(DISCOVERY, (_, response) => takeover(response))
  expect(await faults()).toEqual([expected])
})

test.each([
  ['{"keys":[]}', 'keys: no signing key'],
  ['{"keys":[{"kty":"oct","k":"AAAA"},null,1,{"kty":"RSA"}]}', 'keys: no signing key'],
  ['{"keys":{}}', 'keys: no key set at the address in the discovery document'],
  ['<html>', 'keys: no key set at the address in the discovery document'],
])('reports keys with %s', async (body, expected) => {
  provider.takesOver('/jwks', (_, response) => response.writeHead(200).end(body))
  expect(await faults()).toEqual([expected])
})

test('an encryption key is no signing key', async () => {
  provider.lies('/jwks', ({ keys: [key] }) => ({ keys: [{ ...key, use: 'enc' }] }))
  expect(await faults()).toEqual(['keys: no signing key'])
})

test('reports a secret whose encryption key is missing', async () => {
  await openWithKeys({ appKey: OTHER_APP_KEY, oldAppKeys: [TEST_APP_KEY] })
  const other = await openWithKeys({ appKey: OTHER_APP_KEY })
  const { ok, checks } = await other.sso.test(id)
  expect(ok).toBe(false)
  expect(checks.filter((check) => !check.ok)).toEqual([
    {
      name: 'secret',
      ok: false,
      message: 'its application key is not configured; set the secret again',
    },
  ])
})

test('tests a deleted tenant, too, with its settings', async () => {
  await opened.tenancy.tenants.delete(id)
  expect((await report()).ok).toBe(true)
})
