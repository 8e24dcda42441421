/** What the doctor says of single sign-on, on a real tenancy in which exactly that is wrong. */
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { reencryptColumn } from '../../kernel/database/re-encrypt.ts'
import { TEST_APP_KEY } from '../../testing/base/tenancy.ts'
import { diagnoses } from './doctor.ts'
import { sso } from './index.ts'
import { CLIENT, startProvider, type TestProvider } from './provider.fixture.ts'
import { type OpenSso, openSso, type SsoTenancy } from './sso.fixture.ts'

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

test('nothing is found where nothing is wrong', async () => {
  await opened.tenant()
  expect(await checks()).toEqual([])
})

test('a provider that does not answer, once for all of its tenants', async () => {
  const [first = ''] = [id, await opened.tenantAt(provider)].toSorted()
  const off = await startProvider()
  await opened.tenantAt(off, { enabled: false, enforced: false })
  await off.close()
  provider.takesOver('/.well-known/openid-configuration', (_, response) => response.destroy())
  expect(await checks()).toMatchObject([
    {
      severity: 'warn',
      code: 'sso.provider-unreachable',
      message: expect.stringMatching(
        `the identity provider ${provider.issuer} of "${first}" and 1 more does not answer`,
      ),
      tenantId: first,
    },
  ])
})

test('a provider that does not answer any more, though its document is remembered', async () => {
  await opened.logIn(id, provider)
  await provider.close()
  expect(await checks()).toMatchObject([{ severity: 'warn', code: 'sso.provider-unreachable', tenantId: id }])
  provider = await startProvider()
})

test('an issuer at which everybody has an account, where no domains are named', async () => {
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

test('a provider whose document is another’s; not that of a tenant that is deleted', async () => {
  provider.lies('/.well-known/openid-configuration', (response) => ({ ...response, issuer: 'https://evil.example' }))
  expect(await checks()).toMatchObject([{ severity: 'warn', code: 'sso.provider-unusable', tenantId: id }])
  await opened.tenancy.tenants.delete(id)
  expect(await checks()).toEqual([])
})

test('a secret under a former key; when it is sealed anew, a login under way goes on', async () => {
  const rotated = await opened.open({ appKey: OTHER_APP_KEY, oldAppKeys: [TEST_APP_KEY] })
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

test('a secret under a key that is lost', async () => {
  await opened.open({ appKey: OTHER_APP_KEY, oldAppKeys: [TEST_APP_KEY] }) // what is not of this satellite is sealed anew
  const other = await opened.open({ appKey: OTHER_APP_KEY })
  expect(await checks(other)).toMatchObject([{ severity: 'error', code: 'sso.lost-key', tenantId: id }])
})
