/** Addresses with filters in a browser: values that the service would reject are ignored and named, all others are applied. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { auditLogs } from '../../src/satellites/audit-logs/index.ts'
import { axeViolations, type OpenedConsole, openConsole, SETUP_LIMIT_MS, STEP_LIMIT_MS } from './console.fixture.ts'

let opened: OpenedConsole
beforeAll(async () => {
  opened = await openConsole(inject('postgresUrl'), [auditLogs()])
  await opened.call('POST', '/tenants', { id: 'acme', name: 'Acme', metadata: { crmId: 4711 } })
  await opened.call('POST', '/tenants', { id: 'globex', name: 'Globex' })
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

const LIMIT_MS = 4 * STEP_LIMIT_MS
const IGNORED = 'The address has values that do not apply here.'

test('an invalid value is not sent, is named above the list, and a button removes it from the address', {
  timeout: LIMIT_MS,
}, async () => {
  await using console = await opened.open('/tenants?status=gone&sort=name&crmId=4711&constructor=x')
  const { page } = console
  await page.getByRole('link', { name: 'Globex' }).waitFor()
  const message = page.getByRole('status').filter({ hasText: IGNORED })
  const buttons = message.getByRole('listitem').getByRole('button')
  expect(await buttons.allInnerTexts()).toEqual([
    expect.stringContaining('status: gone'),
    expect.stringContaining('crmId: 4711'),
    expect.stringContaining('constructor: x'),
  ])
  const [request] = await Promise.all([page.waitForRequest(/multitenancy\/tenants\?/), page.reload()])
  expect(new URL(request.url()).search).toBe('?sort=name')
  await buttons.first().waitFor()
  expect(await axeViolations(page)).toEqual([])
  for (const name of ['constructor', 'crmId', 'status']) {
    await message.getByRole('button', { name: `Remove ${name}` }).click()
    await page.waitForURL((url) => !url.searchParams.has(name))
  }
  await page.getByText(IGNORED).waitFor({ state: 'detached' })
  expect(new URL(page.url()).search).toBe('?sort=name')
  expect(console.complaints).toEqual([])
})

test('a filter by metadata in the address is applied, shown, and removed by its button', {
  timeout: LIMIT_MS,
}, async () => {
  await using console = await opened.open('/tenants?metadata.crmId=4711')
  const { page } = console
  await page.getByRole('link', { name: 'Acme' }).waitFor()
  expect(await page.getByRole('link', { name: 'Globex' }).count()).toBe(0)
  expect(await page.getByText(IGNORED).count()).toBe(0)
  await page.getByRole('button', { name: 'Remove metadata.crmId' }).click()
  await page.getByRole('link', { name: 'Globex' }).waitFor()
  expect(console.complaints).toEqual([])
})

test('pages of a list are not in its address, and deleted tenants are a filter', { timeout: LIMIT_MS }, async () => {
  await opened.call('POST', '/tenants', { id: 'gone', name: 'Gone' })
  await opened.call('DELETE', '/tenants/gone')
  await using console = await opened.open('/tenants?limit=1&cursor=x&includeDeleted=true')
  const { page } = console
  for (const name of ['Acme', 'Globex', 'Gone']) await page.getByRole('link', { name }).waitFor()
  const message = page.getByRole('status').filter({ hasText: IGNORED })
  expect(await message.getByRole('listitem').allInnerTexts()).toEqual([
    expect.stringContaining('limit: 1'),
    expect.stringContaining('cursor: x'),
  ])
  await page.getByLabel('Deleted tenants').selectOption('left out')
  await page.getByRole('link', { name: 'Gone' }).waitFor({ state: 'detached' })
  expect(new URL(page.url()).search).toBe('?limit=1&cursor=x')
  await message.getByRole('button', { name: 'Remove all' }).click()
  await page.waitForURL((url) => url.search === '')
  expect(console.complaints).toEqual([])
})

test('20 of many ignored values are named, and one button removes all of them', { timeout: LIMIT_MS }, async () => {
  const search = Array.from({ length: 1_023 }, (_, index) => `x${index}=${index}`).join('&')
  await using console = await opened.open(`/tenants?q=acme&${search}`)
  const { page } = console
  const message = page.getByRole('status').filter({ hasText: IGNORED })
  await message.getByText('1,003 more').waitFor()
  expect(await message.getByRole('listitem').count()).toBe(20)
  await message.getByRole('button', { name: 'Remove all' }).click()
  await page.getByText(IGNORED).waitFor({ state: 'detached' })
  expect(new URL(page.url()).search).toBe('?q=acme')
  expect(console.complaints).toEqual([])
})

test('a date and a time are applied; a text that is neither is ignored', { timeout: LIMIT_MS }, async () => {
  const search = 'from=2020-01-01&to=tomorrow&action=tenants.create&target=tenant%3Aacme'
  await using console = await opened.open(`/audit?${search}`)
  const { page } = console
  const rows = page.locator('tbody tr')
  await rows.first().waitFor()
  expect(await rows.allInnerTexts()).toEqual([expect.stringContaining('tenant:acme')])
  const message = page.getByRole('status').filter({ hasText: IGNORED })
  expect(await message.getByRole('button').allInnerTexts()).toEqual([expect.stringContaining('to: tomorrow')])
  await page.goto(page.url().replace('2020-01-01', '2099-01-01T00%3A00%3A00%2B02%3A00').replace('&to=tomorrow', ''))
  await page.getByText('No entry matches').waitFor()
  expect(await page.getByText(IGNORED).count()).toBe(0)
  expect(console.complaints).toEqual([])
})

test('a filter of another screen is named on the page of a tenant', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme/audit?tenantId=globex')
  const { page } = console
  const message = page.getByRole('status').filter({ hasText: IGNORED })
  await message.getByRole('button', { name: 'Remove tenantId' }).click()
  await page.getByText(IGNORED).waitFor({ state: 'detached' })
  await page.locator('tbody tr').first().waitFor()
  expect(console.complaints).toEqual([])
})
