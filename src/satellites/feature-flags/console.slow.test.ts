/** Screens of flags in a browser: switch, rollout, affected users, tenants of a flag. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import {
  axeViolations,
  type OpenedConsole,
  openConsole,
  READER,
  SETUP_LIMIT_MS,
  STEP_LIMIT_MS,
} from '../../../test/console/console.fixture.ts'
import { describeScreens } from '../../../test/console/screens.fixture.ts'
import { featureFlags } from './index.ts'

const LIMIT_MS = 4 * STEP_LIMIT_MS
const LONG = `a-flag-with-a-very-long-key.${'part-of-the-key.'.repeat(5)}end`

let opened: OpenedConsole

beforeAll(async () => {
  opened = await openConsole(inject('postgresUrl'), [featureFlags()])
  const { call } = opened
  await call('POST', '/tenants', { id: 'acme', name: 'Acme' })
  await call('POST', '/tenants', { id: 'globex', name: 'Globex' })
  await call('PUT', '/tenants/acme/feature-flags/new-editor', { enabled: true, rolloutPercent: 10 })
  await call('PUT', '/tenants/acme/feature-flags/dark-mode', { enabled: true })
  await call('PUT', `/tenants/acme/feature-flags/${LONG}`, { enabled: false, rolloutPercent: 50, bucketKey: 'userId' })
  await call('PUT', '/tenants/globex/feature-flags/new-editor', { enabled: false })
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

const flag = (key: string, tenant = 'acme') => opened.call('GET', `/tenants/${tenant}/feature-flags/${key}`)

test('a switch changes the flag, and the toast reverts it', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme/flags')
  const { page } = console
  await page.getByRole('switch', { name: 'dark-mode is on', checked: true }).click()
  await page.getByText('dark-mode is off').waitFor()
  expect(await flag('dark-mode')).toMatchObject({ enabled: false })
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByText('dark-mode is on', { exact: true }).waitFor()
  expect(await flag('dark-mode')).toMatchObject({ enabled: true })
  expect(console.complaints).toEqual([])
})

test('keys change the rollout by 5 %, evaluate users before it is saved, and save it', {
  timeout: LIMIT_MS,
}, async () => {
  await using console = await opened.open('/tenants/acme/flags/new-editor')
  const { page } = console
  await page.getByText('10 %', { exact: true }).first().waitFor()
  await page.keyboard.press('+')
  await page.keyboard.press('+')
  await page.getByText('Not saved. Present: 10 %').waitFor()
  expect(await flag('new-editor')).toMatchObject({ rolloutPercent: 10 })
  await page.keyboard.press('Enter')
  await page.getByText('new-editor is on for 20 %').waitFor()
  expect(await flag('new-editor')).toMatchObject({ rolloutPercent: 20 })

  await page.getByRole('heading', { level: 1 }).focus()
  await page.keyboard.press('w')
  await page.keyboard.type('42, 43, user-7')
  await page.keyboard.press('Enter')
  const path = '/tenants/acme/feature-flags/new-editor/preview'
  const expected = await opened.call('POST', path, { bucketKeys: ['42', '43', 'user-7'] })
  await page.getByText(`On for ${expected.on} of 3 values`).waitFor()
  const row = page.getByRole('row', { name: /^42 / })
  expect(await row.innerText()).toContain(expected.data[0].enabled ? 'on' : 'off')
  expect(await row.innerText()).toContain(`${expected.data[0].onFromPercent} %`)
  expect(console.complaints).toEqual([])
})

test('a flag is created in the panel, and deleted after its key is typed', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/globex/flags?open=new')
  const { page } = console
  await page.getByLabel('Key').fill('beta search')
  await page.getByRole('button', { name: 'Create flag' }).click()
  await page.locator('input[name=key][aria-invalid=true]').waitFor()
  console.expect(/422|400/)
  await page.getByLabel('Key').fill('beta-search')
  await page.getByLabel('On', { exact: true }).check()
  await page.getByLabel('Rollout in percent').fill('25')
  await page.getByRole('button', { name: 'Create flag' }).click()
  await page.getByRole('heading', { name: 'beta-search', level: 2 }).waitFor()
  expect(await flag('beta-search', 'globex')).toMatchObject({ enabled: true, rolloutPercent: 25, bucketKey: null })

  await page.getByRole('button', { name: 'Flag', exact: true }).click()
  await page.getByRole('menuitem', { name: 'Delete…' }).click()
  await page.getByRole('alertdialog').getByRole('textbox').fill('beta-search')
  await page.getByRole('alertdialog').getByRole('button', { name: 'Delete' }).click()
  await page.getByText('beta-search is deleted').waitFor()
  await expect(flag('beta-search', 'globex')).rejects.toThrow('E_FLAG_NOT_FOUND')
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByText('beta-search is restored').waitFor()
  expect(await flag('beta-search', 'globex')).toMatchObject({ enabled: true, rolloutPercent: 25 })
  console.expect(/404/) // the page can read the deleted flag before the list replaces it
  expect(console.complaints).toEqual([])
  await opened.call('DELETE', '/tenants/globex/feature-flags/beta-search')
})

test('a key that the tenant does not have is found in the palette, created by its rollout, and removed by undo', {
  timeout: LIMIT_MS,
}, async () => {
  await using console = await opened.open('/tenants')
  const { page } = console
  await page.getByRole('link', { name: 'Globex' }).waitFor()
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: 'Search and commands' }).waitFor()
  await page.keyboard.type('dark globex')
  await page.getByRole('option', { name: /^dark-mode Globex/ }).waitFor()
  await page.keyboard.press('Enter')
  await page.getByText('The tenant does not have this flag, so it evaluates to off.').waitFor()
  console.expect(/404/)
  expect(await axeViolations(page)).toEqual([])
  await page.keyboard.press('+')
  await page.keyboard.press('Enter')
  await page.getByText('dark-mode is on for 5 %').waitFor()
  expect(await flag('dark-mode', 'globex')).toMatchObject({ enabled: true, rolloutPercent: 5 })
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByText('dark-mode is removed again').waitFor()
  await expect(flag('dark-mode', 'globex')).rejects.toThrow('E_FLAG_NOT_FOUND')
  await page.getByText('The tenant does not have this flag, so it evaluates to off.').waitFor()
  console.expect(/404/)
  expect(console.complaints).toEqual([])
})

test('the palette finds a flag among more keys than a page has', { timeout: LIMIT_MS }, async () => {
  const { database } = opened.tenancy.kernel
  await database.sql(
    `insert into multitenancy.feature_flags (id, tenant_id, key, enabled, created_at, updated_at)
     select gen_random_uuid(), 'acme', 'a-' || n, true, now(), now() from generate_series(1, 250) n`,
  )
  await using console = await opened.open('/tenants')
  const { page } = console
  await page.getByRole('link', { name: 'Globex' }).waitFor()
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: 'Search and commands' }).waitFor()
  await page.keyboard.type('EDITOR globex')
  await page.getByRole('option', { name: /^new-editor Globex/ }).waitFor()
  expect(console.complaints).toEqual([])
  await database.sql(`delete from multitenancy.feature_flags where key like 'a-%' and key <> $1`, [LONG])
})

test('the flags over tenants lead to the tenants of a flag, filtered by state', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/flags')
  const { page } = console
  await page.getByRole('link', { name: 'new-editor' }).click()
  await page.getByRole('link', { name: 'globex' }).waitFor()
  await page.getByRole('button', { name: 'On', exact: true }).click()
  await page.getByRole('link', { name: 'globex' }).waitFor({ state: 'detached' })
  expect(new URL(page.url()).search).toBe('?enabled=true')
  await page.getByRole('link', { name: 'acme' }).click()
  await page.getByRole('heading', { name: 'new-editor', level: 2 }).waitFor()
  expect(console.complaints).toEqual([])
})

test('a token of scope read sees the state, and changes nothing', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme/flags/dark-mode', { token: READER })
  const { page } = console
  const control = page.getByRole('switch', { name: 'dark-mode is on', checked: true })
  await control.waitFor()
  expect(await control.getAttribute('aria-disabled')).toBe('true')
  await control.click({ force: true })
  expect(await page.getByRole('button', { name: 'Save' }).count()).toBe(0)
  expect(await page.getByRole('heading', { name: 'Affected users' }).count()).toBe(0)
  expect(await flag('dark-mode')).toMatchObject({ enabled: true })
  expect(console.complaints).toEqual([])
})

describeScreens(
  () => opened,
  [
    ['/flags', 'new-editor'],
    ['/flags/new-editor', 'globex'],
    ['/flags/none', 'No tenant has this flag'],
    ['/tenants/acme/flags', 'new-editor'],
    ['/tenants/acme/flags?open=new', 'Create flag'],
    [() => `/tenants/acme/flags/${LONG}`, LONG],
    ['/tenants/acme/flags/new-editor', 'Affected users'],
  ],
)
