/** Settings of tenants in the console: set, delete and undo, secrets shown only by `reveal` in its dialog. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { z } from 'zod'
import {
  type OpenedConsole,
  openConsole,
  SETUP_LIMIT_MS,
  STEP_LIMIT_MS,
} from '../../../test/console/console.fixture.ts'
import { describeScreens, selectInMenu } from '../../../test/console/screens.fixture.ts'
import { secret, settings } from './index.ts'

const LIMIT_MS = 4 * STEP_LIMIT_MS
const ADMIN = { name: 'admin', token: 'adm_f3kR8sQ2xL0v' }
const READER = { name: 'reader', token: 'rea_f3kR8sQ2xL0v_long', scope: 'read' as const }
const WITHOUT_REVEAL = { name: 'support', token: 'sup_f3kR8sQ2xL0v_long', may: ['admin', '!settings.reveal'] }
const PASSWORD = 'hunter2-and-more'
let opened: OpenedConsole

beforeAll(async () => {
  const satellite = settings({
    define: {
      'mail.from': z.email(),
      'mail.password': secret(z.string()),
      'upload.mb': z.int().max(100).default(10),
      'integrations.of.the.finance.department': z.record(z.string(), z.string()).default({
        endpoint: 'https://finance.acme.example/a/rather/long/address/of/an/endpoint',
      }),
    },
  })
  opened = await openConsole(inject('postgresUrl'), [satellite], { adminTokens: [ADMIN, READER, WITHOUT_REVEAL] })
  await opened.call('POST', '/tenants', { id: 'acme', name: 'Acme Corp' })
  await opened.call('PUT', '/tenants/acme/settings/mail.password', { value: PASSWORD })
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

const stored = (name: string) => opened.call('GET', `/tenants/acme/settings/${name}`)

test('a setting is set, checked by its schema, deleted, and restored by undo', { timeout: 2 * LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme/configuration')
  const { page } = console
  const dialog = page.getByRole('dialog')
  await selectInMenu(page, 'Actions for upload.mb', 'Set value…')
  await dialog.getByLabel('Value').fill('101')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await dialog.locator('.field-error, .problem').first().waitFor()
  console.expect(/400|422/)
  await dialog.getByLabel('Value').fill('42')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await page.getByText('upload.mb saved').waitFor()
  expect(await stored('upload.mb')).toMatchObject({ value: 42, source: 'tenant' })

  await page.getByRole('cell', { name: 'Tenant', exact: true }).first().waitFor()
  await selectInMenu(page, 'Actions for upload.mb', 'Delete value')
  await page.getByText('upload.mb has the value of the plan or the default').waitFor()
  expect(await stored('upload.mb')).toMatchObject({ value: 10, source: 'default' })
  await page.getByRole('button', { name: 'Undo' }).last().click()
  await expect.poll(() => stored('upload.mb')).toMatchObject({ value: 42, source: 'tenant' })
  expect(console.complaints).toEqual([])
})

test('a secret is shown only by reveal, in its dialog', { timeout: 2 * LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme/configuration')
  const { page } = console
  await selectInMenu(page, 'Actions for mail.password', 'Reveal…')
  expect(await page.content()).not.toContain(PASSWORD)
  await page.getByRole('alertdialog').getByRole('button', { name: 'Reveal' }).click()
  await page.getByRole('dialog').getByText(PASSWORD).waitFor()
  await page.getByRole('dialog').getByRole('button', { name: 'Done' }).click()
  await page.getByText(PASSWORD).waitFor({ state: 'detached' })

  await selectInMenu(page, 'Actions for mail.password', 'Delete value…')
  await page.getByRole('alertdialog').getByRole('button', { name: 'Delete value' }).click()
  await expect.poll(() => stored('mail.password')).toMatchObject({ isSet: false })
  expect(console.complaints).toEqual([])
})

test('a token that may not reveal has no such action, and a reader has none', { timeout: LIMIT_MS }, async () => {
  await opened.call('PUT', '/tenants/acme/settings/mail.password', { value: PASSWORD })
  await using console = await opened.open('/tenants/acme/configuration', { token: WITHOUT_REVEAL.token })
  const { page } = console
  await page.getByRole('button', { name: 'Actions for mail.password' }).click()
  await page.getByRole('menuitem', { name: 'Set value…' }).waitFor()
  expect(await page.getByRole('menuitem', { name: 'Reveal…' }).count()).toBe(0)
  await using reading = await opened.open('/tenants/acme/configuration', { token: READER.token })
  await reading.page.getByText('upload.mb').waitFor()
  expect(await reading.page.getByRole('button', { name: 'Actions for upload.mb' }).count()).toBe(0)
  expect([...console.complaints, ...reading.complaints]).toEqual([])
})

describeScreens(() => opened, [['/tenants/acme/configuration', 'upload.mb']])
