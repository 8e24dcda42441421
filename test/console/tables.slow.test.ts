/** Tables in a browser: the choice of columns by pointer and by keys, the height of rows, and rows that leave the document. */
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import {
  axeViolations,
  type ConsolePage,
  type OpenedConsole,
  openConsole,
  PREFIX,
  SETUP_LIMIT_MS,
  STEP_LIMIT_MS,
} from './console.fixture.ts'
import { describeScreens } from './screens.fixture.ts'
import { addTenants } from './tenants.fixture.ts'

const MAX_ROWS = 600
const PAGE = 50
const TENANTS = MAX_ROWS + 2 * PAGE
const ALL =
  'tenant,created,updated,deleted,suspended,activated,failure,maintenance,domains,placement,isolation,plan,status'

let opened: OpenedConsole

beforeAll(async () => {
  opened = await openConsole(inject('postgresUrl'))
  await addTenants(opened.tenancy, TENANTS)
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

const limit = { timeout: 4 * STEP_LIMIT_MS }
const DEFAULT = ['Tenant', 'Status', 'Plan', 'Placement', 'Created']

const titles = async (page: Page): Promise<string[]> => {
  const all = await page.locator('thead th:not(.cell-select, .cell-menu)').allInnerTexts()
  return all.map((title) => title.trim())
}
const shownColumns = (page: Page) => new URL(page.url()).searchParams.get('columns')
const menuOf = (page: Page) => page.getByRole('dialog', { name: 'Columns' })
const focusedLabel = (page: Page) =>
  page.evaluate(
    `document.activeElement.getAttribute('aria-label') ?? document.activeElement.closest('label')?.innerText.trim()`,
  )

async function openList(console: ConsolePage): Promise<Page> {
  await console.page.getByRole('link', { name: 'Tenant 700' }).waitFor()
  return console.page
}

async function openColumns(page: Page) {
  await page.getByRole('button', { name: 'Columns' }).click()
  const menu = menuOf(page)
  await menu.getByRole('checkbox', { name: 'Status' }).waitFor()
  return menu
}

describe('the columns of a table', () => {
  test(
    'are chosen and moved by pointer, are in the address, and become the usual ones of the browser',
    limit,
    async () => {
      await using console = await opened.open('/tenants')
      const page = await openList(console)
      expect(await titles(page)).toEqual(DEFAULT)
      const menu = await openColumns(page)
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme })
        expect(await axeViolations(page), colorScheme).toEqual([])
      }
      await menu.getByRole('checkbox', { name: 'Plan' }).uncheck()
      await menu.getByRole('checkbox', { name: 'Domains' }).check()
      await menu.getByRole('button', { name: 'Move Domains up' }).click()
      const chosen = ['Tenant', 'Status', 'Domains', 'Placement', 'Created']
      expect(await titles(page)).toEqual(chosen)
      await expect.poll(() => shownColumns(page)).toBe('tenant,status,domains,placement,created')
      await page.getByRole('cell', { name: '700.example' }).waitFor()
      await page.keyboard.press('Escape')
      await menu.waitFor({ state: 'hidden' })

      await page.goto(`${PREFIX}/console/tenants`)
      await openList(console)
      expect(await titles(page)).toEqual(chosen)
      await page.goto(`${PREFIX}/console/tenants?columns=created`)
      await openList(console)
      expect(await titles(page)).toEqual(['Tenant', 'Created'])

      await page.goto(`${PREFIX}/console/tenants`)
      await openList(console)
      await openColumns(page)
      await menu.getByRole('button', { name: 'Reset' }).click()
      expect(await titles(page)).toEqual(DEFAULT)
      await expect.poll(() => shownColumns(page)).toBeNull()
      await page.reload()
      await openList(console)
      expect(await titles(page)).toEqual(DEFAULT)
      expect(console.complaints).toEqual([])
    },
  )

  test(
    'of an address are shown to another operator; unknown names are ignored, and the first column stays first',
    limit,
    async () => {
      await using console = await opened.open('/tenants?columns=unknown,isolation,tenant,,status')
      const page = await openList(console)
      expect(await titles(page)).toEqual(['Tenant', 'Isolation', 'Status'])
      await page.goto(`${PREFIX}/console/tenants?columns=unknown`)
      await openList(console)
      expect(await titles(page)).toEqual(DEFAULT)
      expect(console.complaints).toEqual([])
    },
  )

  test('are chosen and moved by keys, and the focus returns to the button', limit, async () => {
    await using console = await opened.open('/tenants')
    const page = await openList(console)
    await page.getByRole('button', { name: 'Columns' }).focus()
    await page.keyboard.press('Enter')
    await menuOf(page).getByRole('checkbox', { name: 'Status' }).waitFor()
    await expect.poll(() => focusedLabel(page)).toBe('Status')
    await page.keyboard.press('Alt+ArrowDown')
    expect(await titles(page)).toEqual(['Tenant', 'Plan', 'Status', 'Placement', 'Created'])
    await menuOf(page).getByText('Status is column 3').waitFor()
    expect(await focusedLabel(page)).toBe('Status')
    await page.keyboard.press('Space')
    expect(await titles(page)).toEqual(['Tenant', 'Plan', 'Placement', 'Created'])
    await page.keyboard.press('Space')
    expect(await focusedLabel(page)).toBe('Status')
    await page.keyboard.press('Tab')
    expect(await focusedLabel(page)).toBe('Move Status up')
    await page.keyboard.press('Enter')
    expect(await titles(page)).toEqual(DEFAULT)
    expect(await focusedLabel(page)).toBe('Move Status up')
    // The first position: nothing moves. Keys of the console have no effect here.
    await page.keyboard.press('Enter')
    await page.keyboard.press('j')
    expect(await focusedLabel(page)).toBe('Move Status up')
    expect(await titles(page)).toEqual(DEFAULT)
    await page.keyboard.press('Escape')
    await menuOf(page).waitFor({ state: 'hidden' })
    expect(await focusedLabel(page)).toBe('Columns')
    expect(console.complaints).toEqual([])
  })

  test('that are wider than the page scroll sideways, and the first one stays', limit, async () => {
    await using console = await opened.open(`/tenants?columns=${ALL}`, { width: 1024 })
    const page = await openList(console)
    const start = async (role: 'rowheader' | 'columnheader', name: string) =>
      (await page.getByRole(role, { name }).first().boundingBox())?.x ?? Number.NaN
    const [first, second] = [await start('rowheader', 'Tenant 700'), await start('columnheader', 'Created')]
    const header = await start('columnheader', 'Tenant')
    await page.locator('.table-scroll[data-wide]').evaluate((region: any) => region.scrollTo({ left: 10_000 }))
    expect(await start('columnheader', 'Created')).toBeLessThan(second - 100)
    expect(await start('rowheader', 'Tenant 700')).toBeGreaterThan(first - 60) // the cell with the checkbox leaves
    expect(await start('columnheader', 'Tenant')).toBeGreaterThan(header - 60)
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
    await page.goto(`${PREFIX}/console/tenants`)
    await openList(console)
    expect(await page.locator('.table-scroll[data-wide]').count()).toBe(0)
    expect(console.complaints).toEqual([])
  })
})

test('a table that becomes wider does not widen the page before its width is measured', limit, async () => {
  await using console = await opened.open('/tenants', { width: 1024 })
  const page = await openList(console)
  const isWide = await page.locator('.table-scroll table').evaluate((table: any) => {
    table.style.minWidth = '3000px'
    const { scrollWidth } = table.ownerDocument.documentElement
    return scrollWidth > table.ownerDocument.defaultView.innerWidth
  })
  expect(isWide).toBe(false)
  await page.locator('.table-scroll[data-wide]').waitFor()
  expect(console.complaints).toEqual([])
})

describe('rows', () => {
  const heightOf = async (page: Page) => (await page.locator('tbody tr').first().boundingBox())?.height

  test('have 32 px, or 40 px by choice of the user, which the browser keeps', limit, async () => {
    await using console = await opened.open('/tenants')
    const page = await openList(console)
    expect(await heightOf(page)).toBe(32)
    await page.getByRole('navigation').getByRole('button', { name: 'admin' }).click()
    await page.getByRole('menuitem', { name: 'Rows: Comfortable' }).click()
    expect(await heightOf(page)).toBe(40)
    await page.reload()
    await openList(console)
    expect(await heightOf(page)).toBe(40)
    await page.getByRole('navigation').getByRole('button', { name: 'admin' }).click()
    await page.getByRole('menuitem', { name: 'Rows: Comfortable ✓' }).waitFor()
    await page.getByRole('menuitem', { name: 'Rows: Compact' }).click()
    expect(await heightOf(page)).toBe(32)
    expect(console.complaints).toEqual([])
  })

  test('have 44 px for a finger', limit, async () => {
    await using console = await opened.open('/tenants', { hasTouch: true, isMobile: true })
    const page = await openList(console)
    expect(await page.evaluate(`matchMedia('(pointer: coarse)').matches`)).toBe(true)
    expect(await heightOf(page)).toBe(44)
  })

  test('in the document are at most 600: earlier ones are shown by a button', {
    timeout: 8 * STEP_LIMIT_MS,
  }, async () => {
    await using console = await opened.open('/tenants')
    const page = await openList(console)
    const rows = page.locator('tbody tr')
    const rowOf = (number: number) => page.locator(`tr[data-id=tenant-${number}]`)
    const earlier = page.getByRole('button', { name: 'Show earlier rows' })
    for (let last = TENANTS - PAGE; last > 0; last -= PAGE) {
      await page.getByRole('button', { name: 'Load more' }).click()
      await rowOf(last).waitFor()
      expect(await rows.count()).toBe(Math.min(TENANTS - last + PAGE, MAX_ROWS))
      expect(await earlier.count()).toBe(TENANTS - last + PAGE > MAX_ROWS ? 1 : 0)
    }
    await rowOf(TENANTS).waitFor({ state: 'detached' })
    await earlier.click()
    await earlier.click()
    await rowOf(TENANTS).waitFor()
    expect(await rows.count()).toBe(MAX_ROWS)
    await earlier.waitFor({ state: 'detached' })
    expect(console.complaints).toEqual([])
  })
})

describeScreens(
  () => opened,
  [
    [`/tenants?columns=${ALL}`, 'Tenant 700'],
    ['/tenants?columns=domains,isolation', 'Tenant 700'],
  ],
)
