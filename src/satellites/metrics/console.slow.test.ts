/** Screens of usage in a browser: bars by day, their table, periods, tenants with the greatest use, export. */
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import {
  type OpenedConsole,
  openConsole,
  PREFIX,
  SETUP_LIMIT_MS,
  STEP_LIMIT_MS,
} from '../../../test/console/console.fixture.ts'
import { describeScreens } from '../../../test/console/screens.fixture.ts'
import { metrics } from './index.ts'

const LIMIT_MS = 4 * STEP_LIMIT_MS
const DAY_MS = 86_400_000
const dayBack = (back: number) => new Date(Date.now() - back * DAY_MS).toISOString().slice(0, 10)

let opened: OpenedConsole

const add = (back: number, tenantId: string, key: string, value: number) =>
  opened.tenancy.kernel.database.sql(
    'insert into multitenancy.metric_sums (day, tenant_id, key, incarnation, value) values ($1, $2, $3, gen_random_uuid(), $4)',
    [dayBack(back), tenantId, key, value],
  )

beforeAll(async () => {
  opened = await openConsole(inject('postgresUrl'), [metrics()])
  for (const [id, name] of [
    ['acme', 'Acme'],
    ['globex', 'Globex'],
    ['quiet', 'Quiet'],
  ] as const) {
    await opened.call('POST', '/tenants', { id, name })
  }
  for (let back = 0; back < 40; back++) {
    if (back % 7 === 3) continue
    await add(back, 'acme', 'requests', 1_000 + ((back * 379) % 700))
    await add(back, 'acme', 'bytes', 50_000_000 + back * 1_000_000)
    await add(back, 'globex', 'requests', 200)
  }
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

const sums = (query: string) => opened.call('GET', `/tenant-metrics/sums?${query}`)
const english = (value: number) => value.toLocaleString('en')

test('bars have a summary and a table, and the period is in the address', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme/usage')
  const { page } = console
  const { total } = await sums('key=requests&tenantId=acme')
  await page.getByRole('img', { name: `requests: ${english(total)} in 14 days.` }).waitFor()
  expect(await page.locator('.chart rect.day').count()).toBe(14)
  await page.getByText('As a table').click()
  expect(await page.locator('.chart tbody tr').count()).toBe(14)
  await page.getByRole('button', { name: '30 days' }).click()
  const month = await sums(`key=requests&tenantId=acme&from=${dayBack(29)}`)
  await page.getByRole('img', { name: `requests: ${english(month.total)} in 30 days.` }).waitFor()
  expect(new URL(page.url()).search).toBe(`?from=${dayBack(29)}`)
  await page.getByLabel('Metric').selectOption('bytes')
  await page.getByText('bytes by day (UTC)').first().waitFor()
  await page.reload()
  await page.getByText('bytes by day (UTC)').first().waitFor()
  expect(console.complaints).toEqual([])
})

test('the tenants with the greatest use lead to their usage', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/usage')
  const { page } = console
  const { total } = await sums('key=requests')
  await page.getByRole('img', { name: `requests: ${english(total)} in 14 days.` }).waitFor()
  const rows = page.getByRole('table', { name: 'Tenants with the greatest use' }).locator('tbody tr')
  expect(await rows.locator('th').allInnerTexts()).toEqual(['acme', 'globex'])
  await rows.getByRole('link', { name: 'globex' }).click()
  await page.getByRole('heading', { name: 'Globex', level: 1 }).waitFor()
  await page.getByRole('img', { name: /^requests: 2,400 in 14 days/ }).waitFor()
  expect(console.complaints).toEqual([])
})

test('the export has the days of the period', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open(`/tenants/globex/usage?from=${dayBack(29)}`)
  const { page } = console
  await page.getByRole('img', { name: /^requests:/ }).waitFor()
  const download = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Export CSV' }).click()
  const file = await download
  expect(file.suggestedFilename()).toBe('metrics-globex.csv')
  const { data } = await opened.call('GET', `/tenants/globex/metrics?from=${dayBack(29)}&limit=100`)
  expect((await readFile(await file.path(), 'utf8')).trim().split(/\r?\n/)).toHaveLength(data.length + 1)
  expect(console.complaints).toEqual([])
})

test('a browser with the locale en-US@posix shows tables, numbers, times and the palette', {
  timeout: LIMIT_MS,
}, async () => {
  await using console = await opened.open('/tenants/acme/usage', { locale: 'en-US@posix' })
  const { page } = console
  expect(await page.evaluate('navigator.language')).toBe('en-US@posix')
  const { total } = await sums('key=requests&tenantId=acme')
  await page.getByRole('img', { name: `requests: ${english(total)} in 14 days.` }).waitFor()
  await page.getByText('As a table').click()
  expect(await page.locator('.chart tbody tr').count()).toBe(14)
  await page.goto(`${PREFIX}/console/tenants`)
  await page.getByRole('rowheader', { name: 'Globex' }).waitFor()
  expect(await page.locator('tbody time').first().innerText()).toMatch(/ago|now/)
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: 'Search and commands' }).fill('suspend acme')
  await page
    .getByRole('option', { name: /^Suspend/ })
    .first()
    .waitFor()
  await page.keyboard.press('Escape')
  await page.goto(`${PREFIX}/console/tenants/acme`)
  await page.locator('.facts time').first().waitFor()
  await page.goto(`${PREFIX}/console/system`)
  await page.getByRole('heading', { name: 'System', level: 1 }).waitFor()
  expect(console.complaints).toEqual([])
})

describeScreens(
  () => opened,
  [
    ['/usage', 'globex'],
    ['/usage?key=none', 'No usage in this period'],
    ['/tenants/acme/usage', 'by day (UTC)'],
    [() => `/tenants/acme/usage?key=bytes&from=${dayBack(29)}`, 'bytes by day (UTC)'],
    ['/tenants/quiet/usage', 'No usage yet'],
  ],
)
