/** Screens of tenants, transfers, Home and System in a browser: access, bulk, backups, dead letters, themes and widths. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { directory } from '../../src/drivers/archives/directory.ts'
import { auditLogs } from '../../src/satellites/audit-logs/index.ts'
import {
  axeViolations,
  type OpenedConsole,
  openConsole,
  PREFIX,
  SETUP_LIMIT_MS,
  STEP_LIMIT_MS,
} from './console.fixture.ts'
import { describeScreens } from './screens.fixture.ts'

let opened: OpenedConsole
let transferId = ''
let archives = ''

const LONG = 'A customer with a remarkably long name that no operator has shortened, Incorporated GmbH & Co. KG'
const addDeadLetter = () =>
  opened.tenancy.kernel.database.sql(
    `insert into multitenancy_jobs.job (name, data, group_id, source_name, source_retry_count, source_output)
     values ('tenantry.dead-letter', '{}', null, 'tenantry.PurgeTenants', 3, '{"message":"E_INTERNAL"}')`,
  )

beforeAll(async () => {
  archives = await mkdtemp(join(tmpdir(), 'tenantry-archives-'))
  const backups = { archives: directory({ path: archives }) }
  opened = await openConsole(inject('postgresUrl'), [auditLogs()], {}, { backups })
  for (const id of ['acme', 'globex', 'bulk-1', 'bulk-2', 'bulk-3', 'stored']) {
    await opened.call('POST', '/tenants', { id, name: `${id[0]?.toUpperCase()}${id.slice(1)} Corp` })
  }
  await opened.call('POST', '/tenants', { id: 'long', name: LONG })
  await opened.call('PUT', '/tenants/globex/suspend')
  const { id } = await opened.call('POST', '/tenants/acme/backup', { note: 'Before the import' })
  transferId = id
  await addDeadLetter()
}, SETUP_LIMIT_MS)
afterAll(async () => {
  await opened?.[Symbol.asyncDispose]()
  await rm(archives, { recursive: true, force: true })
})

const LIMIT_MS = 4 * STEP_LIMIT_MS

test('the overview shows the failed check, its author and its remedy, which ends the failure', {
  timeout: LIMIT_MS,
}, async () => {
  await using console = await opened.open('/tenants/globex')
  const { page } = console
  const access = page.getByRole('region', { name: 'Access' })
  await access.getByText('Requests are rejected with 403 E_TENANT_SUSPENDED.').waitFor()
  await access.getByText('changed by admin (tenants.suspend)').waitFor()
  await access.getByRole('button', { name: 'Activate' }).click()
  await access.getByText('Requests are admitted. No check fails.').waitFor()
  expect(await opened.call('GET', '/tenants/globex')).toMatchObject({ status: 'active' })
  await page.getByRole('listitem').filter({ hasText: 'Activated by admin' }).first().waitFor()
  await access.getByRole('button', { name: /checks/ }).click()
  await access.getByText('Only the host knows whether a caller belongs to the tenant.').waitFor()
  expect(await axeViolations(page)).toEqual([])
  expect(console.complaints).toEqual([])
  await opened.call('PUT', '/tenants/globex/suspend')
})

test('the list filters by counted members, keeps them in the address, and a bulk job runs after the number is typed', {
  timeout: 2 * LIMIT_MS,
}, async () => {
  await using console = await opened.open('/tenants?q=bulk&sort=name')
  const { page } = console
  await page.getByRole('link', { name: 'Bulk-1 Corp' }).waitFor()
  expect(await page.getByRole('button', { name: /^Suspended \d/ }).textContent()).toMatch(/^Suspended \d+$/)
  await page.getByRole('button', { name: 'Filters' }).click()
  await page.getByLabel('Maintenance').selectOption('in maintenance')
  await page.getByText('No tenant matches').waitFor()
  expect(new URL(page.url()).searchParams.get('inMaintenance')).toBe('true')
  await page.reload()
  await page.getByText('No tenant matches').waitFor()
  await page.getByLabel('Maintenance').selectOption('Any')

  await page.getByLabel('Select Bulk-1 Corp').click()
  await page.getByLabel('Select Bulk-3 Corp').click({ modifiers: ['Shift'] })
  const toolbar = page.getByRole('region', { name: 'Selected tenants' })
  await toolbar.getByText('3 selected').waitFor()
  await toolbar.getByRole('button', { name: 'Suspend…' }).click()
  const dialog = page.getByRole('alertdialog')
  await dialog.getByText('3 tenants: 3 will change.').waitFor()
  expect(await axeViolations(page)).toEqual([])
  await dialog.getByRole('textbox').fill('2')
  await dialog.getByRole('textbox').press('Enter')
  await dialog.getByRole('textbox').fill('3')
  await dialog.getByRole('textbox').press('Enter')
  const job = page.getByRole('complementary', { name: 'Bulk job' })
  await job.getByText('completed').waitFor()
  await job.getByText('3 of 3 tenants').waitFor()
  expect(await axeViolations(page)).toEqual([])
  for (const id of ['bulk-1', 'bulk-2', 'bulk-3']) {
    expect(await opened.call('GET', `/tenants/${id}`)).toMatchObject({ status: 'suspended' })
  }
  const { data } = await opened.call('GET', '/bulk')
  expect(data.filter(({ dryRun }: { dryRun: boolean }) => !dryRun)).toHaveLength(1)
  expect(console.complaints).toEqual([])
})

test('with reduced motion the filters are visible before their numbers are read', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/', { reducedMotion: 'reduce' })
  const { page } = console
  const counts = Promise.withResolvers<void>()
  await page.route(/\/tenant-counts$/, async (route) => {
    await counts.promise
    await route.continue()
  })
  await page.goto(`${PREFIX}/console/tenants`)
  await page.getByRole('button', { name: 'Suspended', exact: true }).waitFor()
  counts.resolve()
  await page.getByRole('button', { name: /^Suspended \d/ }).waitFor()
  expect(console.complaints).toEqual([])
})

test('the state of a transfer is as high as the other cells of its row', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/transfers')
  const { page } = console
  await page.getByRole('cell', { name: 'completed' }).first().waitFor()
  const middles = await page
    .locator('tbody tr')
    .first()
    .evaluate((row: any) =>
      ['th a', '.status', 'time'].map((one) => {
        const { top, bottom } = row.querySelector(one).getBoundingClientRect()
        return (top + bottom) / 2
      }),
    )
  expect(Math.max(...middles) - Math.min(...middles)).toBeLessThanOrEqual(1)
  expect(console.complaints).toEqual([])
})

test('a backup is created, restored after the id is typed, and deleted; a clone is created', {
  timeout: 2 * LIMIT_MS,
}, async () => {
  await using console = await opened.open('/tenants/stored/storage')
  const { page } = console
  await page.getByRole('button', { name: 'Back up now' }).click()
  const backups = page.getByRole('table', { name: 'Backups' })
  await backups.getByText('completed').waitFor()
  await backups.getByRole('button', { name: /^Actions for/ }).click()
  await page.getByRole('menuitem', { name: 'Restore…' }).click()
  const dialog = page.getByRole('alertdialog')
  expect(await axeViolations(page)).toEqual([])
  await dialog.getByRole('textbox').fill('stored')
  await dialog.getByRole('textbox').press('Enter')
  const transfers = page.getByRole('table', { name: 'Transfers' })
  await transfers.getByRole('row', { name: /Restore completed/ }).waitFor()
  await transfers.getByRole('link', { name: 'Restore' }).click()
  await page.getByRole('heading', { name: 'Restore', level: 2 }).waitFor()
  await page.getByText('Switching', { exact: false }).first().waitFor()
  await page.goBack()

  await backups.getByRole('button', { name: /^Actions for/ }).click()
  await page.getByRole('menuitem', { name: 'Delete backup…' }).click()
  await dialog.getByRole('textbox').fill('stored')
  await dialog.getByRole('textbox').press('Enter')
  await page.getByText('No backups yet').waitFor()
  expect(await opened.call('GET', '/tenants/stored/backups')).toMatchObject({ data: [] })

  await page.getByRole('button', { name: 'Clone…' }).click()
  await page.getByLabel('Id', { exact: true }).fill('cloned')
  await page.getByRole('button', { name: 'Clone', exact: true }).click()
  await page.getByRole('heading', { name: 'Stored Corp (copy)', level: 1 }).waitFor()
  expect(await opened.call('GET', '/tenants/cloned')).toMatchObject({ name: 'Stored Corp (copy)' })
  expect(console.complaints).toEqual([])
})

test('a dead letter is shown on Home, opened, and retried', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/')
  const { page } = console
  await page
    .getByText(/dead letter/i)
    .first()
    .waitFor()
  await page.goto('/admin/multitenancy/console/system')
  const letters = page.getByRole('table', { name: 'Dead letters' })
  await letters.getByRole('link').click()
  const panel = page.getByRole('complementary', { name: 'Dead letter' })
  await panel.getByText('All attempts failed').waitFor()
  expect(await axeViolations(page)).toEqual([])
  await panel.getByRole('button', { name: 'Close' }).click()
  await letters.getByRole('button', { name: /^Actions for/ }).click()
  await page.getByRole('menuitem', { name: 'Retry' }).click()
  await page.getByText('No job has failed permanently.').waitFor()
  expect(await opened.call('GET', '/dead-letters')).toMatchObject({ data: [] })
  expect(console.complaints).toEqual([])
  await addDeadLetter()
})

describeScreens(
  () => opened,
  [
    ['/', 'Home'],
    ['/tenants?plan=free', 'Tenants'],
    ['/tenants/acme', 'Acme Corp'],
    ['/tenants/globex', 'Globex Corp'],
    ['/tenants/long', LONG],
    ['/tenants/acme/storage', 'Acme Corp'],
    [() => `/tenants/acme/transfers/${transferId}`, 'Acme Corp'],
    ['/transfers', 'Transfers'],
    ['/plans', 'Plans'],
    ['/system', 'System'],
  ],
)
