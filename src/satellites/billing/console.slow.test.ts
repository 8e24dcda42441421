/** Billing in the console, with a provider: list in dunning, export, checkout, portal, cancel. */
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import {
  type OpenedConsole,
  PREFIX,
  READER,
  SETUP_LIMIT_MS,
  STEP_LIMIT_MS,
  serveConsole,
} from '../../../test/console/console.fixture.ts'
import { describeScreens, type ScreenCase } from '../../../test/console/screens.fixture.ts'
import { type OpenBilling, openBilling, type Subscriber } from './billing.fixture.ts'
import { debtorsOf } from './dunning/dunning.fixture.ts'

const LIMIT_MS = 4 * STEP_LIMIT_MS
let billing: OpenBilling
let opened: OpenedConsole
let owing: Subscriber
let paying: Subscriber
let without: string

beforeAll(async () => {
  billing = await openBilling(inject('postgresUrl'), {
    options: { dunning: { maxAttempts: 2, graceDays: 7, action: 'downgrade' } },
  })
  owing = await debtorsOf(billing).debtor()
  paying = await billing.subscriber('scale')
  without = await billing.tenant()
  opened = await serveConsole(billing)
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

test('the navigation opens the tenants in dunning, and the key e saves them as CSV', {
  timeout: 2 * LIMIT_MS,
}, async () => {
  await using console = await opened.open('/tenants')
  const { page } = console
  await page.getByRole('heading', { name: 'Tenants', level: 1 }).waitFor()
  await page.keyboard.press('g')
  await page.keyboard.press('b')
  await page.getByText('Payment retrying').waitFor()
  expect(new URL(page.url()).search).toBe('?dunning=open')
  expect(await page.locator('tbody tr').count()).toBe(1)
  const downloading = page.waitForEvent('download')
  await page.keyboard.press('e')
  const download = await downloading
  expect(download.suggestedFilename()).toBe('billing.csv')
  const [, row = '', ...more] = (await readFile(await download.path(), 'utf8')).trim().split('\r\n')
  expect([row.split(',')[0], more]).toEqual([owing.tenantId, []])

  await page.getByRole('button', { name: 'All', exact: true }).click()
  await page.locator(`tr[data-id="${paying.tenantId}"]`).waitFor()
  await page.reload()
  await page.locator(`tr[data-id="${paying.tenantId}"]`).waitFor()
  expect(console.complaints).toEqual([])
})

test('the list of tenants has a column of dunning, with one read for all rows', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/')
  const { page } = console
  const reads: string[] = []
  page.on('request', (request) => request.url().includes('/billing?dunning=open') && reads.push(request.url()))
  await page.goto(`${PREFIX}/console/tenants?columns=tenant,dunning`)
  await page.locator(`tr[data-id="${owing.tenantId}"]`).getByText('Payment retrying').waitFor()
  expect(await page.locator(`tr[data-id="${paying.tenantId}"] td[data-title=Dunning]`).innerText()).toBe('–')
  expect(reads).toHaveLength(1)
  expect(console.complaints).toEqual([])
})

test('a checkout and a portal are links that are shown once', { timeout: 2 * LIMIT_MS }, async () => {
  await using console = await opened.open(`/tenants/${without}/billing`)
  const { page } = console
  const dialog = page.getByRole('dialog')
  await page.getByRole('button', { name: 'Start checkout…' }).click()
  await dialog.getByLabel('Price').fill(billing.prices.pro)
  await dialog.getByLabel('Address after the payment').fill('https://app.example/paid')
  await dialog.getByLabel('Address after a canceled checkout').fill('https://app.example/plans')
  await dialog.getByRole('button', { name: 'Create link' }).click()
  expect(await dialog.locator('.shown-once code').innerText()).toMatch(/^https?:\/\//)
  await dialog.getByRole('button', { name: 'Done' }).click()

  await page.goto(`${opened.origin}/admin/multitenancy/console/tenants/${paying.tenantId}/billing`)
  await page.getByRole('button', { name: 'Open portal…' }).click()
  await dialog.getByLabel('Address after the portal').fill('https://app.example/account')
  await dialog.getByRole('button', { name: 'Create link' }).click()
  await dialog.getByRole('link', { name: 'Open in a new tab' }).waitFor()
  expect(console.complaints).toEqual([])
})

test('a subscription is canceled at the end of the paid period', { timeout: 2 * LIMIT_MS }, async () => {
  const { tenantId } = await billing.subscriber('pro')
  await using console = await opened.open(`/tenants/${tenantId}/billing`)
  const { page } = console
  await page.getByRole('button', { name: 'Cancel subscription…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel subscription' }).click()
  await page.getByText(`Subscription of ${tenantId} canceled`).waitFor()
  expect(await opened.call('GET', `/tenants/${tenantId}/billing`)).toMatchObject({
    subscription: { status: 'active', cancelAtPeriodEnd: true },
  })
  expect(console.complaints).toEqual([])
})

test('a token of scope read sees billing, and no actions', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open(`/tenants/${owing.tenantId}/billing`, { token: READER })
  const { page } = console
  await page.getByText('Payment retrying').waitFor()
  expect(await page.getByRole('button', { name: /checkout|portal|Cancel/ }).count()).toBe(0)
  expect(console.complaints).toEqual([])
})

const of = (id: () => string, shown: string): ScreenCase => [() => `/tenants/${id()}/billing`, shown]

describeScreens(
  () => opened,
  [
    ['/billing?dunning=open', 'Payment retrying'],
    ['/billing?dunning=suspended', 'No tenant matches'],
    of(() => owing.tenantId, 'Past due'),
    of(() => without, 'No subscription'),
  ],
)
