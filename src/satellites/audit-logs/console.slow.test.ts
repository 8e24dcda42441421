/** Screens of the audit log in a browser: filters, differences, history of an object, verification, export. */
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import {
  type OpenedConsole,
  openConsole,
  READER,
  SETUP_LIMIT_MS,
  STEP_LIMIT_MS,
} from '../../../test/console/console.fixture.ts'
import { describeScreens } from '../../../test/console/screens.fixture.ts'
import { auditLogs } from './index.ts'

const LIMIT_MS = 4 * STEP_LIMIT_MS
const LONG = `a-tenant-with-a-long-id-${'x'.repeat(20)}`

let opened: OpenedConsole
let renamed: string

beforeAll(async () => {
  opened = await openConsole(inject('postgresUrl'), [auditLogs()])
  const { call } = opened
  await call('POST', '/tenants', { id: 'acme', name: 'Acme', domains: ['acme.example'] })
  await call('POST', '/tenants', { id: LONG, name: `A long name ${'of a customer '.repeat(6)}` })
  await call('PATCH', '/tenants/acme', { name: 'Acme Corporation', metadata: { region: 'eu', seats: 12 } })
  await call('PUT', '/tenants/acme/suspend')
  await call('PUT', '/tenants/acme/activate')
  const { data } = await call('GET', '/tenants/acme/audit-logs?action=tenants.update')
  renamed = data[0].id
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

test('an entry shows the difference that the change made', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/audit')
  const { page } = console
  await page.getByRole('link', { name: 'tenants.update' }).click()
  const panel = page.getByRole('complementary', { name: 'tenants.update' })
  const name = panel.locator('.diff > div', { hasText: /^name/ })
  await name.waitFor()
  expect(await name.locator('del').innerText()).toBe('Acme')
  expect(await name.locator('ins').innerText()).toBe('Acme Corporation')
  expect(new URL(page.url()).searchParams.get('open')).toBe(renamed)
  await page.keyboard.press('Escape')
  await panel.waitFor({ state: 'detached' })
  expect(console.complaints).toEqual([])
})

test('an entry leads to the state of its tenant before the change', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open(`/audit?open=${renamed}`)
  const { page } = console
  await page.getByRole('link', { name: 'State before this change' }).click()
  await page.getByRole('heading', { level: 1, name: 'Acme', exact: true }).waitFor()
  await page.getByRole('region', { name: 'State at another time' }).waitFor()
  expect(console.complaints).toEqual([])
})

test('Home lists the last five entries of the operator, with links, or that there is none', {
  timeout: LIMIT_MS,
}, async () => {
  await using console = await opened.open('/')
  const { page } = console
  const card = page.locator('.card', { has: page.getByRole('heading', { name: 'My last actions' }) })
  const { data } = await opened.call('GET', '/audit-logs?actor=admin&limit=5')
  await card.getByRole('link', { name: data[0].action }).waitFor()
  const links = await card.getByRole('listitem').getByRole('link').all()
  const opens = await Promise.all(links.map(async (link) => (await link.getAttribute('href'))?.split('open=')[1]))
  expect(opens).toEqual(data.map(({ id }: { id: string }) => id))
  await card.getByRole('link', { name: 'tenants.update' }).click()
  await page.getByRole('complementary', { name: 'tenants.update' }).waitFor()

  await using other = await opened.open('/', { token: READER })
  await other.page.getByText('No action yet').waitFor()
  expect([...console.complaints, ...other.complaints]).toEqual([])
})

test('filters have the existing values, are in the address, and each can be removed', {
  timeout: LIMIT_MS,
}, async () => {
  await using console = await opened.open('/audit?target=tenant:acme')
  const { page } = console
  await page.getByLabel('Action').selectOption('tenants.suspend')
  await page.getByText('1 entry', { exact: true }).waitFor()
  expect(new URL(page.url()).search).toBe('?target=tenant%3Aacme&action=tenants.suspend')
  await page.reload()
  await page.getByText('1 entry', { exact: true }).waitFor()
  await page.getByLabel('Before').pressSequentially('01022020')
  expect(await page.getByLabel('Before').inputValue()).toBe('2020-01-02')
  expect(new URL(page.url()).searchParams.get('to')).toBeNull()
  await page.getByLabel('Before').blur()
  await page.getByText('No entry matches').waitFor()
  await page.getByRole('button', { name: 'Remove Before' }).click()
  await page.getByRole('link', { name: 'tenants.suspend' }).waitFor()
  expect(console.complaints).toEqual([])
})

test('the key h shows the history of a tenant, and opens its newest entry', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme')
  const { page } = console
  await page.getByText('acme.example').waitFor()
  await page.keyboard.press('h')
  await page.getByRole('link', { name: 'tenants.suspend' }).waitFor()
  await page.getByRole('complementary', { name: 'tenants.activate' }).getByText('suspended', { exact: true }).waitFor()
  const [newest] = (await opened.call('GET', '/tenants/acme/audit-logs?limit=1')).data
  expect(new URL(page.url()).search).toBe(`?target=tenant%3Aacme&open=${newest.id}`)
  expect(await page.getByRole('link', { name: LONG }).count()).toBe(0)
  expect(console.complaints).toEqual([])
})

test('a verification shows its result on the page', { timeout: LIMIT_MS }, async () => {
  const { auditLogs: logs } = opened.tenancy as any
  await logs.sealer.seal(new AbortController().signal)
  await using console = await opened.open('/tenants/acme/audit')
  const { page } = console
  await page.getByRole('button', { name: 'Verify' }).click()
  await page.getByText(/^The audit log is intact: \d+ entries match their seals/).waitFor()
  expect(await opened.call('GET', '/audit-logs/verify?tenantId=acme')).toMatchObject({ ok: true })
  expect(console.complaints).toEqual([])
})

test('the export has the filtered entries', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme/audit?action=tenants.suspend')
  const { page } = console
  await page.getByRole('link', { name: 'tenants.suspend' }).waitFor()
  const download = page.waitForEvent('download')
  await page.getByRole('heading', { level: 1 }).focus()
  await page.keyboard.press('e')
  const file = await download
  expect(file.suggestedFilename()).toBe('audit-logs-acme.csv')
  const lines = (await readFile(await file.path(), 'utf8')).trim().split(/\r?\n/)
  expect(lines).toHaveLength(2)
  expect(lines[1]).toContain('tenants.suspend')
  expect(console.complaints).toEqual([])
})

describeScreens(
  () => opened,
  [
    ['/', 'My last actions'],
    ['/audit', 'tenants.suspend'],
    [() => `/audit?open=${renamed}`, 'Acme Corporation'],
    ['/audit?action=none', 'No entry matches'],
    ['/tenants/acme/audit', 'tenants.suspend'],
    [() => `/tenants/${LONG}/audit`, 'tenants.create'],
  ],
)
