/** Single sign-on in the console, with a provider: form, secret, test of the connection, disable. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import {
  type OpenedConsole,
  READER,
  SETUP_LIMIT_MS,
  STEP_LIMIT_MS,
  serveConsole,
} from '../../../test/console/console.fixture.ts'
import { describeScreens } from '../../../test/console/screens.fixture.ts'
import { CLIENT, startProvider, type TestProvider } from './provider.fixture.ts'
import { openSso } from './sso.fixture.ts'

const LIMIT_MS = 4 * STEP_LIMIT_MS
let opened: OpenedConsole
let provider: TestProvider
let tenantId: string

beforeAll(async () => {
  provider = await startProvider()
  const sso = await openSso(inject('postgresUrl'))
  tenantId = await sso.tenant()
  opened = await serveConsole(sso)
}, SETUP_LIMIT_MS)
afterAll(async () => {
  await opened?.[Symbol.asyncDispose]()
  await provider?.close()
})

const stored = () => opened.call('GET', `/tenants/${tenantId}/sso`)

test('settings are saved, the secret stays unless it is removed, and each check of the test is shown', {
  timeout: 3 * LIMIT_MS,
}, async () => {
  await using console = await opened.open(`/tenants/${tenantId}/sso`)
  const { page } = console
  const save = page.getByRole('button', { name: 'Save changes' })
  await page.getByLabel('Enabled').check()
  await save.click()
  await page.getByText('is required when enabled').first().waitFor()
  console.expect(/400|422/)
  await page.getByLabel('Issuer').fill(provider.issuer)
  await page.getByLabel('Client id').fill(CLIENT.clientId)
  await page.getByLabel('Client secret').fill(CLIENT.clientSecret)
  await page.getByLabel('Redirect URI').fill(provider.redirectUri)
  await save.click()
  await page.getByText('A secret is stored').waitFor()
  expect(await stored()).toMatchObject({ issuer: provider.issuer, clientSecretSet: true, enabled: true })
  expect(await page.content()).not.toContain(CLIENT.clientSecret)

  await page.getByRole('button', { name: 'Test the connection' }).click()
  await page.getByText('All checks pass').waitFor()
  await page.getByRole('rowheader', { name: 'Discovery document' }).waitFor()

  await page.getByLabel('Allowed domains').fill('acme.example')
  await save.click()
  await expect.poll(stored).toMatchObject({ allowedDomains: ['acme.example'], clientSecretSet: true })

  await page.getByRole('button', { name: 'Remove the client secret…' }).click()
  await page.getByRole('alertdialog').getByRole('button', { name: 'Remove the client secret' }).click()
  await expect.poll(stored).toMatchObject({ clientSecretSet: false, clientId: CLIENT.clientId })
  await page.getByRole('button', { name: 'Disable…' }).click()
  await page.getByRole('alertdialog').getByRole('textbox').fill(tenantId)
  await page.getByRole('alertdialog').getByRole('button', { name: 'Disable' }).click()
  await expect.poll(stored).toMatchObject({ enabled: false, issuer: provider.issuer })
  await expect.poll(() => page.getByLabel('Enabled').isChecked()).toBe(false)
  expect(console.complaints).toEqual([])
})

test('a change of another operator meanwhile is shown, and is not overwritten', { timeout: 2 * LIMIT_MS }, async () => {
  await using console = await opened.open(`/tenants/${tenantId}/sso`)
  const { page } = console
  await page.getByLabel('Client id').fill('mine')
  await opened.call('PUT', `/tenants/${tenantId}/sso`, { issuer: provider.issuer, clientId: 'theirs' })
  await page.getByRole('button', { name: 'Save changes' }).click()
  await page.getByRole('alert').waitFor()
  console.expect(/412/)
  expect(await stored()).toMatchObject({ clientId: 'theirs' })
  await page.getByRole('button', { name: 'Apply mine' }).click()
  await expect.poll(stored).toMatchObject({ clientId: 'mine' })
  expect(console.complaints).toEqual([])
})

test('empty fields remove their values', { timeout: LIMIT_MS }, async () => {
  const { redirectUri, issuer } = provider
  const allowedDomains = ['acme.example']
  await opened.call('PUT', `/tenants/${tenantId}/sso`, { issuer, clientId: 'client', redirectUri, allowedDomains })
  await using console = await opened.open(`/tenants/${tenantId}/sso`)
  const { page } = console
  for (const label of ['Issuer', 'Client id', 'Redirect URI', 'Allowed domains']) await page.getByLabel(label).fill('')
  await page.getByRole('button', { name: 'Save changes' }).click()
  await page.getByText('Single sign-on saved').waitFor()
  expect(await stored()).toMatchObject({ issuer: null, clientId: null, redirectUri: null, allowedDomains: [] })
  expect(console.complaints).toEqual([])
})

test('a token of scope read sees the settings, and cannot change them', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open(`/tenants/${tenantId}/sso`, { token: READER })
  const { page } = console
  expect(await page.getByLabel('Client id').isDisabled()).toBe(true)
  expect(await page.getByRole('button', { name: /Save|Disable|Test/ }).count()).toBe(0)
  expect(console.complaints).toEqual([])
})

describeScreens(() => opened, [[() => `/tenants/${tenantId}/sso`, 'Redirect URI']])
