/** The page of a tenant at a time in a browser: former states, changes with authors, restorations by ordinary operations. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { auditLogs } from '../../src/satellites/audit-logs/index.ts'
import { branding } from '../../src/satellites/branding/index.ts'
import { featureFlags } from '../../src/satellites/feature-flags/index.ts'
import { type OpenedConsole, openConsole, READER, SETUP_LIMIT_MS, STEP_LIMIT_MS, TOKEN } from './console.fixture.ts'
import { describeScreens, selectInMenu } from './screens.fixture.ts'

const LIMIT_MS = 4 * STEP_LIMIT_MS
const WITHOUT_LOG = 'wit_f3kR8sQ2xL0v'
const LONG = `a-flag-with-a-very-long-key.${'part-of-the-key.'.repeat(5)}end`
const FRAME = 'State at another time'

let opened: OpenedConsole
/** Before the changes of all tenants. */
let time: string

beforeAll(async () => {
  const definitions = { free: { limits: {} }, pro: { limits: {} } }
  const adminTokens = [
    { name: 'admin', token: TOKEN },
    { name: 'reader', token: READER, scope: 'read' as const },
    { name: 'without-log', token: WITHOUT_LOG, may: ['tenants.get', 'tenants.list'] },
  ]
  opened = await openConsole(
    inject('postgresUrl'),
    [auditLogs(), featureFlags(), branding()],
    { adminTokens },
    { plans: { defaultPlan: 'free', definitions } },
  )
  const { call } = opened
  for (const id of ['acme', 'globex']) {
    const metadata = { plan: 'free', region: 'eu' }
    await call('POST', '/tenants', { id, name: `Old ${id}`, domains: [`${id}.example`], metadata })
    await call('PUT', `/tenants/${id}/feature-flags/new-editor`, { enabled: true, rolloutPercent: 10 })
    await call('PUT', `/tenants/${id}/feature-flags/removed`, { enabled: true })
    await call('PUT', `/tenants/${id}/feature-flags/${LONG}`, { enabled: true })
    await call('PUT', `/tenants/${id}/branding`, { displayName: 'Old brand', supportEmail: 'help@acme.example' })
  }
  const { data } = await call('GET', '/audit-logs?limit=1')
  time = data[0].createdAt
  for (const id of ['acme', 'globex']) {
    const metadata = { region: null, seats: 12 }
    await call('PATCH', `/tenants/${id}`, { name: `New ${id}`, domains: [`new-${id}.example`], metadata })
    await call('PUT', `/tenants/${id}/plans/pro`)
    await call('PUT', `/tenants/${id}/feature-flags/new-editor`, { enabled: false })
    await call('PUT', `/tenants/${id}/feature-flags/later`, { enabled: true })
    await call('DELETE', `/tenants/${id}/feature-flags/removed`)
    await call('PUT', `/tenants/${id}/branding`, { displayName: 'New brand', supportEmail: 'help@acme.example' })
  }
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

const at = (id: string) => `/tenants/${id}?at=${time}`

test('the page at a time has the former states, the changes since then and no action, and leads back to the present', {
  timeout: LIMIT_MS,
}, async () => {
  await using console = await opened.open(at('acme'))
  const { page } = console
  const heading = page.getByRole('heading', { level: 1 })
  await page.getByRole('heading', { name: '6 changes' }).waitFor()
  expect(await heading.innerText()).toBe('Old acme')
  await page.getByRole('region', { name: FRAME }).waitFor()
  const fact = (name: string) =>
    page.locator('.facts > div', { has: page.getByText(name, { exact: true }) }).locator('dd')
  expect(await fact('Plan').innerText()).toBe('free')
  expect(await fact('Domains').innerText()).toBe('acme.example')
  expect(await fact('Maintenance').innerText()).toBe('none')
  const flag = page.locator('.card', { has: page.getByRole('heading', { name: 'new-editor' }) })
  expect(await flag.locator('dd').allInnerTexts()).toContain('10')
  expect(await page.getByRole('button', { name: `Restore this state: ${LONG}` }).count()).toBe(0)
  expect(await fact('displayName').innerText()).toBe('Old brand')
  await page.getByText('Did not exist: later').waitFor()
  await page.getByText('This page is as complete as the audit log.').waitFor()
  const renamed = page.getByRole('row', { name: 'tenants.update' })
  expect(await renamed.innerText()).toContain('admin')
  expect(await renamed.locator('del').first().innerText()).toBe('Old acme')

  expect(await page.getByRole('button', { name: 'Actions', exact: true }).count()).toBe(0)
  expect(await page.getByRole('navigation', { name: 'Tenant', exact: true }).count()).toBe(0)

  await page.getByRole('link', { name: 'Back to now' }).click()
  await page.getByRole('heading', { level: 1, name: 'New acme' }).waitFor()
  await page.getByRole('button', { name: 'Actions', exact: true }).waitFor()
  await page.locator('h1:focus').waitFor()
  expect(await page.getByRole('region', { name: FRAME }).count()).toBe(0)
  expect(console.complaints).toEqual([])
})

test('the action of a tenant opens the page at two times, in either order', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme')
  const { page } = console
  await page.getByRole('heading', { level: 1, name: 'New acme' }).waitFor()
  const dialog = page.getByRole('dialog', { name: 'Show New acme at a time' })
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: 'Search and commands' }).fill('show at')
  await page.getByRole('option', { name: 'Show at a time New acme' }).click()
  await dialog.waitFor()
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })

  await selectInMenu(page, 'Actions', 'Show at a time…')
  await dialog.getByLabel('Time').fill('2021-01-01T00:00')
  await dialog.getByLabel('Changes until').fill('2020-01-01T00:00')
  await dialog.getByRole('button', { name: 'Show' }).click()
  await page.getByText('The tenant did not exist').waitFor()
  await page.getByText('No changes.').waitFor()
  await page.locator('h1:focus').waitFor()
  const { searchParams } = new URL(page.url())
  const years = ['at', 'until'].map((name) => new Date(searchParams.get(name) ?? '').getFullYear())
  expect(years).toEqual([2020, 2021])
  expect(console.complaints).toEqual([])
})

describe('a restoration', () => {
  test.each([
    [
      'name, domains and metadata',
      'Restore name, domains and metadata: Old globex',
      'tenants.update',
      '',
      { name: 'Old globex', domains: ['globex.example'], metadata: { region: 'eu' } },
    ],
    ['the plan', 'Restore the plan: Old globex', 'tenants.setPlan', '', { metadata: { plan: 'free' } }],
    [
      'a flag',
      'Restore this state: new-editor',
      'featureFlags.set',
      '/feature-flags/new-editor',
      { enabled: true, rolloutPercent: 10 },
    ],
    ['a deleted flag', 'Restore this state: removed', 'featureFlags.set', '/feature-flags/removed', { enabled: true }],
    [
      'the branding',
      'Restore this state: Branding',
      'branding.update',
      '/branding',
      { displayName: 'Old brand', supportEmail: 'help@acme.example' },
    ],
  ])(
    'of %s shows the change, and runs the ordinary operation',
    {
      timeout: LIMIT_MS,
    },
    async (_, button, action, path, expected) => {
      const changes = async () => (await opened.call('GET', `/tenants/globex/audit-logs?action=${action}`)).data
      const former = await changes()
      await using console = await opened.open(at('globex'))
      const { page } = console
      await page.getByRole('button', { name: button }).click()
      const dialog = page.getByRole('alertdialog')
      await dialog.locator('ins').first().waitFor()
      await dialog.getByRole('button', { name: 'Restore', exact: true }).click()
      await page.getByText(/ has the state of /).waitFor()
      expect(await changes()).toHaveLength(former.length + 1)
      expect(await opened.call('GET', `/tenants/globex${path}`)).toMatchObject(expected)

      await page.getByRole('button', { name: button }).click()
      await dialog.getByText('The present state is the same.').waitFor()
      console.expect(/status of 404/)
      expect(await dialog.getByRole('button', { name: 'Restore', exact: true }).getAttribute('aria-disabled')).toBe(
        'true',
      )
      expect(console.complaints).toEqual([])
    },
  )

  test('removes metadata that did not exist at the time', async () => {
    const { metadata } = await opened.call('GET', '/tenants/globex')
    expect(metadata).toEqual({ plan: 'free', region: 'eu' })
  })

  test('is not offered without the permission to change', { timeout: LIMIT_MS }, async () => {
    await using console = await opened.open(at('acme'), { token: READER })
    const { page } = console
    await page.getByRole('heading', { name: '6 changes' }).waitFor()
    expect(await page.getByRole('button', { name: /^Restore/ }).count()).toBe(0)
    expect(console.complaints).toEqual([])
  })
})

test('without the permission, an address with a time shows no present state', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open(at('acme'), { token: WITHOUT_LOG })
  const { page } = console
  await page.getByText('“without-log” may not call tenants.at and auditLogs.list.').waitFor()
  expect(await page.getByText('New acme').count()).toBe(0)
  expect(console.complaints).toEqual([])
})

describeScreens(
  () => opened,
  [
    [() => at('acme'), 'Old brand'],
    ['/tenants/acme?at=2020-01-01', 'The tenant did not exist'],
    ['/tenants/acme?at=yesterday', 'The address has no valid time'],
  ],
)
