/** API tokens and browser sessions in the console: create, show once, revoke, end. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type OpenedConsole, openConsole, READER, SETUP_LIMIT_MS, STEP_LIMIT_MS } from './console.fixture.ts'
import { describeScreens, selectInMenu } from './screens.fixture.ts'

const LIMIT_MS = 4 * STEP_LIMIT_MS
let opened: OpenedConsole

beforeAll(async () => {
  opened = await openConsole(inject('postgresUrl'))
  await opened.call('POST', '/tokens', {
    name: 'support of the second level',
    may: ['tenants.*', '!tenants.delete', 'search.find', 'read'],
  })
  await opened.call('POST', '/tokens', {
    name: 'reporting',
    may: ['read'],
    tenants: ['acme', 'globex'],
    expiresAt: new Date(Date.now() + 30 * 86_400_000).toISOString(),
  })
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

const tokenNamed = async (name: string) =>
  (await opened.call('GET', '/tokens')).data.find((token: { name: string }) => token.name === name)

test('a token is created, shown once, limited to its patterns, and revoked', { timeout: 2 * LIMIT_MS }, async () => {
  await using console = await opened.open('/tokens')
  const { page } = console
  await page.getByRole('button', { name: 'New token' }).click()
  await page.getByLabel('Name', { exact: true }).fill('finance')
  await page.getByLabel('Permits').fill('no.such.operation')
  await page.getByRole('button', { name: 'Create token' }).click()
  await page.getByRole('alert').or(page.locator('.field-error')).first().waitFor()
  console.expect(/40[04]|422/)
  expect(await tokenNamed('finance')).toBeUndefined()

  await page.getByLabel('Permits').fill('tenants.list\nsession.get')
  await page.getByLabel('Limit to tenants').fill('acme')
  await page.getByLabel('Expires').fill('2099-01-31T10:00')
  await page.getByRole('button', { name: 'Create token' }).click()
  const dialog = page.getByRole('dialog')
  const secret = await dialog.locator('.shown-once code').innerText()
  await dialog.getByRole('button', { name: 'Done' }).click()
  await page.getByRole('rowheader', { name: 'finance' }).waitFor()
  expect(await page.content()).not.toContain(secret)
  expect(new URL(page.url()).search).toBe('')
  expect(await tokenNamed('finance')).toMatchObject({
    may: ['tenants.list', 'session.get'],
    tenants: ['acme'],
    expiresAt: expect.stringMatching(/^2099-01-/),
  })

  await selectInMenu(page, 'Actions for finance', 'Revoke…')
  await page.getByRole('alertdialog').getByRole('button', { name: 'Revoke' }).click()
  await page.getByText('Token finance revoked').waitFor()
  await page.getByRole('rowheader', { name: 'finance' }).waitFor({ state: 'detached' })
  expect(await tokenNamed('finance')).toBeUndefined()
  expect(console.complaints).toEqual([])
})

test('a session is ended, and its browser asks for a token', { timeout: 2 * LIMIT_MS }, async () => {
  await using other = await opened.open('/tenants', { token: READER })
  await other.page.getByRole('heading', { name: 'Tenants', level: 1 }).waitFor()
  await using console = await opened.open('/sessions')
  const { page } = console
  await selectInMenu(page, 'Actions for reader', 'End session…')
  await page.getByRole('alertdialog').getByRole('button', { name: 'End session' }).click()
  await page.getByText('Session of reader ended').waitFor()
  await page.getByRole('rowheader', { name: 'reader' }).waitFor({ state: 'detached' })
  const { data } = await opened.call('GET', '/sessions')
  expect(data.map(({ name }: { name: string }) => name)).not.toContain('reader')
  await other.page.reload()
  await other.page.getByLabel('Admin token').waitFor()
  expect(console.complaints).toEqual([])
})

test('a token of scope read sees tokens, and neither creates nor revokes one', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tokens', { token: READER })
  const { page } = console
  await page.getByRole('rowheader', { name: 'reporting' }).waitFor()
  expect(await page.getByRole('button', { name: 'New token' }).count()).toBe(0)
  expect(await page.getByRole('button', { name: 'Actions for reporting' }).count()).toBe(0)
  expect(console.complaints).toEqual([])
})

describeScreens(
  () => opened,
  [
    ['/tokens', 'reporting'],
    ['/tokens?open=new', 'Limit to tenants'],
    ['/sessions', '127.0.0.1'],
  ],
)
