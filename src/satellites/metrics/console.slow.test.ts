/** Screens of usage in a browser: chart by day, its table, keys, colors and languages, periods, tenants with the greatest use, export. */
import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import {
  axeViolations,
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
const POSIX = { locale: 'en-US@posix' }
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

const FIRST_BACK = 13
const shown = (page: Page, summary: string) => page.locator('.chart .hidden').getByText(summary).waitFor()
const plotOf = (page: Page) => page.getByRole('slider', { name: 'requests by day (UTC)' })
/** The middle of a day in the chart of 14 days. */
async function middleOf(page: Page, back: number): Promise<[x: number, y: number]> {
  const box = await page.locator('.u-over').boundingBox()
  if (!box) throw new Error('the chart is not drawn')
  return [box.x + (box.width * (FIRST_BACK - back + 0.5)) / 14, box.y + box.height / 2]
}
const periodOf = (first: number, last: number) => `key=requests&from=${dayBack(first)}&to=${dayBack(last - 1)}`

test('a chart has a summary and a table, and the period is in the address', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme/usage')
  const { page } = console
  const { total } = await sums('key=requests&tenantId=acme')
  await shown(page, `requests: ${english(total)} in 14 days.`)
  await plotOf(page).waitFor()
  await page.getByText('As a table').click()
  expect(await page.locator('.chart tbody tr').count()).toBe(14)
  expect(await axeViolations(page)).toEqual([])
  await page.getByRole('button', { name: '30 days' }).click()
  const month = await sums(`key=requests&tenantId=acme&from=${dayBack(29)}`)
  await shown(page, `requests: ${english(month.total)} in 30 days.`)
  expect(new URL(page.url()).search).toBe(`?from=${dayBack(29)}`)
  await page.getByLabel('Metric').selectOption('bytes')
  await page.getByText('bytes by day (UTC)').first().waitFor()
  await page.reload()
  await page.getByText('bytes by day (UTC)').first().waitFor()
  expect(console.complaints).toEqual([])
})

test('a drag over days writes the period into the address, and the chart shows it', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme/usage')
  const { page } = console
  await plotOf(page).waitFor()
  await page.mouse.move(...(await middleOf(page, 9)))
  await page.locator('.chart-legend').getByText('requests 1,611').waitFor()
  await page.mouse.down()
  await page.mouse.move(...(await middleOf(page, 4)), { steps: 4 })
  await page.mouse.up()
  const { total } = await sums(`tenantId=acme&${periodOf(9, 4)}`)
  await shown(page, `requests: ${english(total)} in 6 days.`)
  expect(new URL(page.url()).search).toBe(`?${periodOf(9, 4)}`)
  await page.getByText('As a table').click()
  await page.locator('.chart tbody').getByRole('button').first().click()
  await shown(page, 'requests: 1,116 in 1 day.')
  expect(new URL(page.url()).search).toBe(`?${periodOf(4, 4)}`)
  expect(console.complaints).toEqual([])
})

test('arrow keys read the days, and Shift with arrow keys selects a period', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme/usage')
  const { page } = console
  const plot = plotOf(page)
  await page.locator('.u-over').waitFor()
  await plot.focus()
  await page.keyboard.press('End')
  expect(await plot.getAttribute('aria-valuetext')).toMatch(/, requests 1,000$/)
  await page.keyboard.press('ArrowLeft')
  expect(await plot.getAttribute('aria-valuetext')).toMatch(/, requests 1,379$/)
  await page.evaluate(`document.documentElement.dir = 'rtl'`)
  await page.keyboard.press('Home')
  await page.keyboard.press('ArrowLeft')
  expect(await plot.getAttribute('aria-valuenow')).toBe('1')
  await page.evaluate(`document.documentElement.dir = 'ltr'`)
  await page.keyboard.press('End')
  await page.keyboard.down('Shift')
  await page.keyboard.press('ArrowLeft')
  await page.keyboard.press('Escape')
  await page.keyboard.up('Shift')
  await page.keyboard.press('End')
  expect(new URL(page.url()).search).toBe('')
  await page.keyboard.down('Shift')
  await page.keyboard.press('ArrowLeft')
  await page.keyboard.press('ArrowLeft')
  await page.keyboard.up('Shift')
  const { total } = await sums(`tenantId=acme&${periodOf(2, 0)}`)
  await shown(page, `requests: ${english(total)} in 3 days.`)
  expect(new URL(page.url()).search).toBe(`?${periodOf(2, 0)}`)
  expect(console.complaints).toEqual([])
})

test('a sparkline is mirrored from right to left, as charts are', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme')
  const { page } = console
  const line = page.locator('.sparkline').first()
  const scale = () => line.evaluate((element: any) => element.ownerDocument.defaultView.getComputedStyle(element).scale)
  await line.waitFor()
  expect(await scale()).toBe('none')
  await page.evaluate(`document.documentElement.dir = 'rtl'`)
  expect(await scale()).toBe('-1 1')
  expect(console.complaints).toEqual([])
})

test('the colors of a chart are those of the theme, and change with it', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme/usage')
  const { page } = console
  await page.locator('.u-over').waitFor()
  for (const theme of ['light', 'dark']) {
    await page.evaluate(`document.documentElement.dataset.theme = '${theme}'`)
    await page.waitForFunction(HAS_ACCENT)
  }
  expect(console.complaints).toEqual([])
})

/** Whether the canvas has a point of the color of the accent. */
const HAS_ACCENT = `(() => {
  const dot = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d')
  dot.fillStyle = getComputedStyle(document.querySelector('.chart-legend .chart-color')).color
  dot.fillRect(0, 0, 1, 1)
  const accent = new Uint32Array(dot.getImageData(0, 0, 1, 1).data.buffer)[0]
  const canvas = document.querySelector('.uplot canvas')
  return new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer).includes(accent)
})()`

test('a chart is drawn in a language that Intl rejects, and in a window of 320 px', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme/usage', POSIX)
  const { page } = console
  expect(await page.evaluate('navigator.language')).toBe('en-US@posix')
  await page.locator('.u-over').waitFor()
  await page.setViewportSize({ width: 320, height: 700 })
  await page.waitForFunction(`document.querySelector('.uplot').clientWidth < 320`)
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(320)
  expect(console.complaints).toEqual([])
})

test('the overview of a tenant has its requests and errors of 14 days', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme')
  const { page } = console
  const { total } = await sums('key=requests&tenantId=acme')
  const card = page.locator('.card').filter({ has: page.getByRole('heading', { name: 'Usage' }) })
  await card.getByText(`${english(total)} requests in 14 days`).waitFor()
  await card.getByText('0 errors in 14 days').waitFor()
  expect(await card.locator('.sparkline path').count()).toBe(2)
  expect(console.complaints).toEqual([])
})

test('the tenants with the greatest use lead to their usage', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/usage')
  const { page } = console
  const { total } = await sums('key=requests')
  await shown(page, `requests: ${english(total)} in 14 days.`)
  const rows = page.getByRole('table', { name: 'Tenants with the greatest use' }).locator('tbody tr')
  expect(await rows.locator('th').allInnerTexts()).toEqual(['acme', 'globex'])
  await rows.getByRole('link', { name: 'globex' }).click()
  await page.getByRole('heading', { name: 'Globex', level: 1 }).waitFor()
  await shown(page, 'requests: 2,400 in 14 days.')
  expect(console.complaints).toEqual([])
})

test('the export has the days of the period', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open(`/tenants/globex/usage?from=${dayBack(29)}`)
  const { page } = console
  await plotOf(page).waitFor()
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
  await shown(page, `requests: ${english(total)} in 14 days.`)
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
    ['/tenants/acme', 'requests in 14 days'],
  ],
)
