/** Impersonation in the console: start with a reason, token shown once, bar on every screen, end by key and by button. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import {
  type OpenedConsole,
  openConsole,
  SETUP_LIMIT_MS,
  STEP_LIMIT_MS,
} from '../../../test/console/console.fixture.ts'
import { describeScreens } from '../../../test/console/screens.fixture.ts'
import { impersonation } from './index.ts'

const LIMIT_MS = 4 * STEP_LIMIT_MS
const OTHER = { name: 'alice', token: 'tok_of_alice_0123456789' }
const READER = { name: 'reader', token: 'rea_f3kR8sQ2xL0v_long', scope: 'read' as const }
const ADMIN = { name: 'admin', token: 'adm_f3kR8sQ2xL0v' }
const REASON = 'Ticket 4711: the exports of the finance department fail with an error since Monday'
let opened: OpenedConsole

beforeAll(async () => {
  opened = await openConsole(inject('postgresUrl'), [impersonation()], { adminTokens: [ADMIN, OTHER, READER] })
  await opened.call('POST', '/tenants', { id: 'acme', name: 'Acme Corp' })
  await startAs(OTHER.token, 'user-7')
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

const startAs = async (token: string, userId: string): Promise<void> => {
  const response = await fetch(`${opened.origin}/admin/multitenancy/tenants/acme/impersonations`, {
    method: 'POST',
    headers: { 'x-admin-token': token, 'content-type': 'application/json' },
    body: JSON.stringify({ userId, reason: REASON }),
  })
  expect(response.status).toBe(201)
}
const activeOf = async (name: string) =>
  (await opened.call('GET', '/impersonations?active=true')).data.filter(
    ({ actor }: { actor: { name: string } }) => actor.name === name,
  )

test('an impersonation needs a reason of 10 characters, shows its token once, and ends by Shift Esc', {
  timeout: 2 * LIMIT_MS,
}, async () => {
  await using console = await opened.open('/tenants/acme/impersonations')
  const { page } = console
  await page.getByRole('button', { name: 'Impersonate a user…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('User').fill('user-42')
  await dialog.getByLabel('Reason').pressSequentially('too short')
  await dialog.getByLabel('Reason').press('Enter')
  expect(await dialog.getByLabel('Reason').getAttribute('aria-invalid')).toBe('true')
  expect(await activeOf('admin')).toEqual([])
  await dialog.getByLabel('Reason').fill('')
  await dialog.getByLabel('Reason').pressSequentially('Ticket 4711: exports fail')
  await dialog.getByLabel('Reason').press('Enter')
  const secret = await dialog.locator('.shown-once code').innerText()
  expect(await activeOf('admin')).toMatchObject([{ userId: 'user-42', reason: 'Ticket 4711: exports fail' }])
  await dialog.getByRole('button', { name: 'Done' }).click()
  expect(await page.content()).not.toContain(secret)

  const bar = page.getByRole('region', { name: 'Active impersonation' })
  await bar.getByText('user-42').waitFor()
  expect(await bar.innerText()).toMatch(/1[45] min left/)
  await page.goto(`${opened.origin}/admin/multitenancy/console/tenants`)
  await bar.getByText('user-42').waitFor()
  await page.keyboard.press('?')
  const help = page.getByRole('dialog', { name: 'Keyboard shortcuts' })
  expect(await help.getByText('End the impersonation').locator('..').innerText()).toContain('Shift Esc')
  await page.keyboard.press('Escape')
  await help.waitFor({ state: 'detached' })
  expect(await activeOf('admin')).toHaveLength(1)
  await page.keyboard.press('Shift+Escape')
  await bar.waitFor({ state: 'detached' })
  expect(await activeOf('admin')).toEqual([])
  expect(await activeOf('alice')).toHaveLength(1)
  expect(console.complaints).toEqual([])
})

test('the bar ends an impersonation, and the tenant shows those of others', { timeout: 2 * LIMIT_MS }, async () => {
  await startAs(ADMIN.token, 'user-9')
  await using console = await opened.open('/tenants/acme')
  const { page } = console
  await page.getByText('alice acts as').waitFor()
  await page.getByRole('region', { name: 'Active impersonation' }).getByRole('button', { name: 'End' }).click()
  await page.getByText('Impersonation of user-9 ended').waitFor()
  expect(await activeOf('admin')).toEqual([])
  await page.goto(`${opened.origin}/admin/multitenancy/console/impersonations?active=true`)
  await page.getByRole('rowheader', { name: 'user-7' }).waitFor()
  expect(await page.getByRole('rowheader', { name: 'user-9' }).count()).toBe(0)
  await page.getByRole('button', { name: 'Past' }).click()
  await page.getByRole('rowheader', { name: 'user-9' }).waitFor()
  expect(new URL(page.url()).search).toBe('?active=false')
  expect(console.complaints).toEqual([])
})

test('a token of scope read sees the list, and starts none', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme/impersonations', { token: READER.token })
  const { page } = console
  await page.getByRole('rowheader', { name: 'user-7' }).waitFor()
  expect(await page.getByRole('button', { name: /Impersonate/ }).count()).toBe(0)
  expect(console.complaints).toEqual([])
})

describeScreens(
  () => opened,
  [
    ['/impersonations', 'user-7'],
    ['/impersonations?active=false&tenantId=none', 'No impersonation matches'],
    ['/tenants/acme/impersonations', 'Ticket 4711'],
  ],
)
