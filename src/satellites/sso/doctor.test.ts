/** Findings of single sign-on, on a real tenancy with exactly the named problem. */
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { reencryptColumn } from '../../kernel/database/re-encrypt.ts'
import { TEST_APP_KEY } from '../../testing/base/tenancy.ts'
import { diagnoses } from './doctor.ts'
import { sso } from './index.ts'
import { CLIENT, startProvider, type TestProvider } from './provider.fixture.ts'
import { type OpenSso, openSso, type SsoTenancy } from './sso.fixture.ts'

/** Opens another process as if the running ones were dead: they do not know its application key, and would prevent the start. */
const openWithKeys = async (keys: { readonly appKey: string; readonly oldAppKeys?: readonly string[] }) => {
  await opened.tenancy.kernel.database.sql(
    `update multitenancy.processes set heartbeat_at = now() - interval '1 minute'`,
  )
  return opened.open(keys)
}

const OTHER_APP_KEY = Buffer.alloc(32, 8).toString('base64')

let opened: OpenSso
let provider: TestProvider
let id: string

beforeEach(async () => {
  opened = await openSso(inject('postgresUrl'))
  provider = await startProvider()
  id = await opened.tenantAt(provider)
})
afterEach(async () => {
  await provider.close()
  await opened.end()
})

const checks = async ({ doctor }: Pick<SsoTenancy, 'doctor'> = opened.tenancy) =>
  (await doctor.examine()).checks.filter(({ name }) => name.startsWith('sso'))

test('finds nothing on a working installation', async () => {
  await opened.tenant()
  expect(await checks()).toEqual([])
})

test('finds an unresponsive provider, once for all of its tenants', async () => {
  const [first = ''] = [id, await opened.tenantAt(provider)].toSorted()
  const off = await startProvider()
  await opened.tenantAt(off, { enabled: false, enforced: false })
  await off.close()
  provider.takesOver('/.well-known/openid-configuration', (_, response) => response.destroy())
  expect(await checks()).toMatchObject([
    {
      severity: 'warn',
      code: 'sso.provider-unreachable',
      message: expect.stringMatching(`identity provider ${provider.issuer} of "${first}" and 1 more does not respond`),
      tenantId: first,
    },
  ])
})

test('finds an unresponsive provider whose document is cached', async () => {
  await opened.logIn(id, provider)
  await provider.close()
  expect(await checks()).toMatchObject([{ severity: 'warn', code: 'sso.provider-unreachable', tenantId: id }])
  provider = await startProvider()
})

test('finds an issuer with open registration if no domains are named', async () => {
  const { sso, kernel } = opened.tenancy
  const settings = {
    issuer: 'https://accounts.google.com',
    ...CLIENT,
    redirectUri: 'https://app.example/g',
    enabled: true,
  }
  const signal = new AbortController().signal
  const found = async () =>
    Array.fromAsync(
      diagnoses.find(({ name }) => name === 'sso.people')?.examine(sso, { prove: false, signal, log: kernel.log }) ??
        [],
    )
  expect(await found()).toEqual([])
  await sso.update(id, settings)
  expect(await found()).toMatchObject([{ severity: 'warn', code: 'sso.everybody', tenantId: id }])
  await sso.update(id, { ...settings, allowedDomains: ['acme.example'] })
  expect(await found()).toEqual([])
})

test("finds a provider with another provider's document, and ignores a deleted tenant", async () => {
  provider.lies('/.well-known/openid-configuration', (response) => ({ ...response, issuer: 'https://evil.example' }))
  expect(await checks()).toMatchObject([{ severity: 'warn', code: 'sso.provider-unusable', tenantId: id }])
  await opened.tenancy.tenants.delete(id)
  expect(await checks()).toEqual([])
})

test('finds a secret under a former key, and a login in progress survives its re-encryption', async () => {
  const rotated = await openWithKeys({ appKey: OTHER_APP_KEY, oldAppKeys: [TEST_APP_KEY] })
  expect(await checks(rotated)).toMatchObject([{ severity: 'info', code: 'sso.old-key', tenantId: id }])
  const back = await opened.comeBack(id, provider)
  const { database, secrets } = rotated.kernel
  for (const column of sso().encryptedColumns ?? []) {
    const done = await reencryptColumn(database, secrets, column, new AbortController().signal)
    expect(done).toMatchObject({ resealed: 1, failed: 0 })
  }
  expect(await checks(rotated)).toEqual([])
  expect(await rotated.sso.finish(back)).toMatchObject({ tenantId: id })
  const row = await rotated.sso.records.row(id)
  expect(row && rotated.sso.records.decryptSecret(row)).toBe(CLIENT.clientSecret)
})

test('finds a secret whose key is missing', async () => {
  await openWithKeys({ appKey: OTHER_APP_KEY, oldAppKeys: [TEST_APP_KEY] }) // other satellites' secrets are re-encrypted
  const other = await openWithKeys({ appKey: OTHER_APP_KEY })
  expect(await checks(other)).toMatchObject([{ severity: 'error', code: 'sso.lost-key', tenantId: id }])
})
