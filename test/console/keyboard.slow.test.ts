/** The console by keyboard only: palette, keys, menus, dialogs, toast, focus. */
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import {
  axeViolations,
  type OpenedConsole,
  openConsole,
  PREFIX,
  SETUP_LIMIT_MS,
  STEP_LIMIT_MS,
} from './console.fixture.ts'

let opened: OpenedConsole

beforeAll(async () => {
  opened = await openConsole(inject('postgresUrl'))
  for (const [id, name] of [
    ['acme', 'Acme Corp'],
    ['globex', 'Globex Corporation'],
  ])
    await opened.call('POST', '/tenants', { id, name })
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

const limit = { timeout: 6 * STEP_LIMIT_MS }
const palette = (page: Page) => page.getByRole('combobox', { name: 'Search and commands' })
const heading = (page: Page, name: string) => page.getByRole('heading', { name, level: 1 }).waitFor()
const focused = (page: Page) => page.evaluate('document.activeElement.textContent.trim()')

describe('the palette', () => {
  test('opens a tenant with two keys, and names it as recent afterwards', limit, async () => {
    await using console = await opened.open('/')
    const { page } = console
    await heading(page, 'Home')
    await page.keyboard.press('Control+k')
    await palette(page).waitFor()
    await page.keyboard.type('acme')
    await page.getByRole('option', { name: /Acme Corp/ }).waitFor()
    expect(await axeViolations(page)).toEqual([])
    await page.keyboard.press('Enter')
    await heading(page, 'Acme Corp')
    expect(await focused(page)).toBe('Acme Corp')
    await page.keyboard.press('g')
    await page.keyboard.press('h')
    await heading(page, 'Home')
    await page.keyboard.press('Control+k')
    await page.getByRole('option', { name: /Acme Corp/ }).waitFor()
    await page.keyboard.press('Escape')
    await palette(page).waitFor({ state: 'detached' })
    expect(console.complaints).toEqual([])
  })

  test('suspends the tenant that a command names, after its id is typed, and u undoes it', limit, async () => {
    await using console = await opened.open('/')
    const { page } = console
    await heading(page, 'Home')
    await page.keyboard.press('Control+k')
    await palette(page).waitFor()
    await page.keyboard.type('suspend globex')
    await page.getByRole('option', { name: 'Suspend Globex Corporation' }).waitFor()
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('alertdialog')
    await dialog.getByRole('textbox').waitFor()
    await page.keyboard.press('Enter')
    expect(await axeViolations(page)).toEqual([])
    await page.keyboard.type('globex')
    await page.keyboard.press('Enter')
    await page.getByText('Globex Corporation is suspended').waitFor()
    expect(await opened.call('GET', '/tenants/globex')).toMatchObject({ status: 'suspended' })
    await dialog.waitFor({ state: 'detached' })
    await page.keyboard.press('u')
    await page.getByText('Globex Corporation is activated').waitFor()
    expect(await opened.call('GET', '/tenants/globex')).toMatchObject({ status: 'active' })
    expect(console.complaints).toEqual([])
  })

  test('names the meaning of an error code', limit, async () => {
    await using console = await opened.open('/')
    const { page } = console
    await heading(page, 'Home')
    await page.keyboard.press('Control+k')
    await palette(page).waitFor()
    await page.keyboard.type('E_TENANT_NOT')
    await page.getByRole('option', { name: /E_TENANT_NOT_FOUND/ }).waitFor()
    expect(console.complaints).toEqual([])
  })
})

describe('keys', () => {
  test('open screens, move in a list, and open a row and its menu', limit, async () => {
    await using console = await opened.open('/')
    const { page } = console
    await heading(page, 'Home')
    await page.keyboard.press('g')
    await page.keyboard.press('t')
    await heading(page, 'Tenants')
    await page.getByRole('link', { name: 'Acme Corp' }).waitFor()
    await page.keyboard.press('j')
    await page.keyboard.press('j')
    expect(await focused(page)).toContain('Acme Corp')
    await page.keyboard.press('.')
    await page.getByRole('menu').waitFor()
    expect(await axeViolations(page)).toEqual([])
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Escape')
    await page.getByRole('menu').waitFor({ state: 'detached' })
    expect(await page.evaluate('document.activeElement.getAttribute("aria-label")')).toBe('Actions for Acme Corp')
    await page.keyboard.press('k')
    expect(await focused(page)).toContain('Globex Corporation')
    await page.keyboard.press('Enter')
    await heading(page, 'Globex Corporation')
    expect(console.complaints).toEqual([])
  })

  test('the help lists them, and disables single keys', limit, async () => {
    await using console = await opened.open('/tenants')
    const { page } = console
    await heading(page, 'Tenants')
    await page.keyboard.press('?')
    const help = page.getByRole('dialog', { name: 'Keyboard shortcuts' })
    await help.getByText('Search in the list').waitFor()
    expect(await axeViolations(page)).toEqual([])
    await help.getByRole('checkbox', { name: 'Single-key shortcuts' }).uncheck()
    await page.keyboard.press('Escape')
    await help.waitFor({ state: 'detached' })
    await page.keyboard.press('/')
    expect(await page.evaluate('document.activeElement.matches("[data-search]")')).toBe(false)
    await page.keyboard.press('Control+k')
    await palette(page).waitFor()
    expect(console.complaints).toEqual([])
  })

  test('a key in a field is text', limit, async () => {
    await using console = await opened.open('/tenants')
    const { page } = console
    await heading(page, 'Tenants')
    await page.keyboard.press('/')
    await page.keyboard.type('u?gt')
    expect(await page.getByLabel('Search id, name or domain').inputValue()).toBe('u?gt')
    expect(new URL(page.url()).pathname).toBe(`${PREFIX}/console/tenants`)
  })
})

test('a dialog keeps the focus inside, and returns it', limit, async () => {
  await using console = await opened.open('/tenants/acme')
  const { page } = console
  const actions = page.getByRole('button', { name: 'Actions' })
  await actions.focus()
  await page.keyboard.press('Enter')
  await page.getByRole('menuitem', { name: 'Suspend…' }).waitFor()
  await page.keyboard.type('sus')
  await page.keyboard.press('Enter')
  await page.getByRole('alertdialog').waitFor()
  for (let presses = 0; presses < 8; presses++) {
    await page.keyboard.press('Tab', { delay: 30 })
    expect(await page.evaluate('document.activeElement.closest("[role=alertdialog]") !== null')).toBe(true)
  }
  await page.keyboard.press('Escape')
  await page.getByRole('alertdialog').waitFor({ state: 'detached' })
  expect(await page.evaluate('document.activeElement !== document.body')).toBe(true)
  expect(console.complaints).toEqual([])
})

test('a panel receives the focus, and Esc returns it to the button', limit, async () => {
  await using console = await opened.open('/tenants')
  const { page } = console
  await page.getByRole('button', { name: 'New tenant' }).press('Enter')
  await page.getByRole('complementary', { name: 'New tenant' }).waitFor()
  expect(new URL(page.url()).search).toBe('?open=new')
  await page.keyboard.press('Escape')
  await page.getByRole('complementary', { name: 'New tenant' }).waitFor({ state: 'detached' })
  expect(await focused(page)).toBe('New tenant')
  expect(console.complaints).toEqual([])
})
