/** The shell and the screens of tenants in a browser: sign-in, navigation, list, panel, settings, dialogs, themes, widths. */
import type { Page, Route } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import {
  type OpenedConsole,
  openConsole,
  PREFIX,
  READER,
  SETUP_LIMIT_MS,
  STEP_LIMIT_MS,
  TOKEN,
} from './console.fixture.ts'
import { describeScreens } from './screens.fixture.ts'

let opened: OpenedConsole

beforeAll(async () => {
  opened = await openConsole(inject('postgresUrl'))
  await opened.call('POST', '/tenants', { id: 'acme', name: 'Acme Corp', domains: ['acme.example'] })
  await opened.call('POST', '/tenants', { id: 'globex', name: 'Globex Corporation' })
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

const LIMIT_MS = 4 * STEP_LIMIT_MS

describe('the page of the console', () => {
  test('is public, has a strict policy, and contains no data', async () => {
    const response = await fetch(`${opened.origin}${PREFIX}/console/tenants/acme`)
    expect(response.status).toBe(200)
    const policy = response.headers.get('content-security-policy')
    expect(policy).not.toMatch(/unsafe|strict-dynamic|\*/)
    expect(policy).toContain("require-trusted-types-for 'script'; trusted-types 'none'")
    expect(await response.text()).not.toContain('Acme')
  })

  test('its files are compressed, immutable, and exist only by their full name', async () => {
    const page = await (await fetch(`${opened.origin}${PREFIX}/console`)).text()
    const [, main = ''] = /src="([^"]+main-[^"]+\.js)"/.exec(page) ?? []
    const texts: string[] = []
    for (const [accepted, encoding] of [
      ['gzip, deflate, br', 'br'],
      ['gzip, deflate', 'gzip'],
      ['identity', null],
    ]) {
      const response = await fetch(`${opened.origin}${main}`, { headers: { 'accept-encoding': accepted ?? '' } })
      expect(response.headers.get('content-encoding')).toBe(encoding)
      expect(response.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
      texts.push(await response.text())
    }
    expect(texts[0]).toContain('import')
    expect(new Set(texts).size).toBe(1)
    for (const wrong of ['index.json', '..%2findex.json', 'main-00000000.js']) {
      expect((await fetch(`${opened.origin}${PREFIX}/console/assets/${wrong}`)).status).toBe(404)
    }
  })

  test('the prefix leads to it', async () => {
    const response = await fetch(`${opened.origin}${PREFIX}`, { headers: { accept: 'text/html' }, redirect: 'manual' })
    expect([response.status, response.headers.get('location')]).toEqual([302, `${PREFIX}/console`])
  })
})

test('the sign-in opens the requested address', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme/settings', { token: null })
  const { page } = console
  await page.getByLabel('Admin token').fill('wrong')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').getByText('This is not an admin token.').waitFor()
  console.expect(/401/)
  await page.getByLabel('Admin token').fill(TOKEN)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Acme Corp', level: 1 }).waitFor()
  expect(page.url()).toBe(`${opened.origin}${PREFIX}/console/tenants/acme/settings`)
  expect(await page.title()).toBe('Acme Corp · Settings · Tenantry')
  expect(await page.evaluate('JSON.stringify([localStorage, sessionStorage, document.cookie])')).not.toContain(TOKEN)
  expect(console.complaints).toEqual([])
})

test('the list searches, filters, and keeps both in the address', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants')
  const { page } = console
  await page.getByRole('link', { name: 'Acme Corp' }).waitFor()
  await page.getByLabel('Search id, name or domain').fill('globex')
  await page.getByRole('link', { name: 'Acme Corp' }).waitFor({ state: 'detached' })
  expect(new URL(page.url()).search).toBe('?q=globex')
  await page.getByRole('button', { name: 'Suspended' }).click()
  await page.getByText('No tenant matches').waitFor()
  await page.reload()
  await page.getByText('No tenant matches').waitFor()
  expect(await page.getByLabel('Search id, name or domain').inputValue()).toBe('globex')
  await page.getByRole('button', { name: 'Clear filters' }).click()
  await page.getByRole('link', { name: 'Acme Corp' }).click()
  await page.getByRole('heading', { name: 'Acme Corp', level: 1 }).waitFor()
  await page.goBack()
  await page.getByRole('heading', { name: 'Tenants', level: 1 }).waitFor()
  expect(console.complaints).toEqual([])
})

test('the session and the list are requested once, while the libraries are being loaded', {
  timeout: LIMIT_MS,
}, async () => {
  await using console = await opened.open('/audit-of-nothing')
  const { page } = console
  const libraries = Promise.withResolvers<void>()
  const requests: string[] = []
  await page.route(/libraries-/, async (route) => {
    await libraries.promise
    await route.continue()
  })
  await page.route(/\/activity$/, () => undefined) // the list is read again once the stream is open
  page.on('request', (request) => requests.push(request.url()))
  const count = (path: string) => requests.filter((url) => url === `${opened.origin}${PREFIX}${path}`).length
  await page.goto(`${opened.origin}${PREFIX}/console/tenants`, { waitUntil: 'commit' })
  await page.waitForRequest((request) => request.url().endsWith(`${PREFIX}/tenants`))
  expect([count('/session'), count('/tenants')]).toEqual([1, 1])
  libraries.resolve()
  await page.getByRole('link', { name: /Globex/ }).waitFor()
  expect([count('/session'), count('/tenants')]).toEqual([1, 1])
  expect(console.complaints).toEqual([])
})

test('a tenant is created in the panel, suspended after its id is typed, and the toast reverts it', {
  timeout: 2 * LIMIT_MS,
}, async () => {
  await using console = await opened.open('/tenants?open=new')
  const { page } = console
  await page.getByLabel('Name', { exact: true }).fill('Initech')
  await page.getByLabel('Id', { exact: true }).fill('Not Valid')
  await page.getByRole('button', { name: 'Create tenant' }).click()
  expect(await page.getByLabel('Id', { exact: true }).getAttribute('aria-invalid')).toBe('true')
  await page.getByLabel('Id', { exact: true }).fill('initech')
  await page.getByRole('button', { name: 'Create tenant' }).click()
  await page.getByRole('heading', { name: 'Initech', level: 1 }).waitFor()
  await page.getByText('active', { exact: true }).waitFor()

  await page.getByRole('button', { name: 'Actions' }).click()
  await page.getByRole('menuitem', { name: 'Suspend…' }).click()
  const dialog = page.getByRole('alertdialog')
  await dialog.getByRole('textbox').press('Enter')
  await dialog.getByRole('textbox').fill('initech')
  await dialog.getByRole('button', { name: 'Suspend' }).click()
  await page.getByText('Initech is suspended').waitFor()
  expect(await opened.call('GET', '/tenants/initech')).toMatchObject({ status: 'suspended' })

  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByText('Initech is activated').waitFor()
  expect(await opened.call('GET', '/tenants/initech')).toMatchObject({ status: 'active' })
  expect(console.complaints).toEqual([])
})

test('the settings of a tenant remove domains and metadata, and keep a name', { timeout: LIMIT_MS }, async () => {
  await opened.call('POST', '/tenants', { id: 'hooli', name: 'Hooli', domains: ['hooli.example'], metadata: { a: 1 } })
  await using console = await opened.open('/tenants/hooli/settings')
  const { page } = console
  await page.getByLabel('Name', { exact: true }).fill('')
  await page.getByLabel('Domains').fill('')
  await page.getByLabel('Metadata').fill('')
  await page.getByRole('button', { name: 'Save' }).first().click()
  expect(await page.getByLabel('Name', { exact: true }).getAttribute('aria-invalid')).toBe('true')
  await page.getByLabel('Name', { exact: true }).fill('Hooli Inc')
  await page.getByRole('button', { name: 'Save' }).first().click()
  await page.getByRole('heading', { name: 'Hooli Inc', level: 1 }).waitFor()
  expect(await opened.call('GET', '/tenants/hooli')).toMatchObject({ name: 'Hooli Inc', domains: [], metadata: {} })
  expect(console.complaints).toEqual([])
})

test('a token of scope read sees screens, and no actions', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants', { token: READER })
  const { page } = console
  await page.getByRole('link', { name: 'Acme Corp' }).click()
  await page.getByRole('heading', { name: 'Acme Corp', level: 1 }).waitFor()
  expect(await page.getByRole('button', { name: 'New tenant' }).count()).toBe(0)
  expect(await page.getByRole('button', { name: 'Actions' }).count()).toBe(0)
  expect(console.complaints).toEqual([])
})

describe('a menu whose widget is not loaded yet', () => {
  /** A page that receives the widget after `load()`. */
  const opening = async () => {
    const console = await opened.open('/tenants/acme')
    const { page } = console
    const address = page.url()
    await page.goto('about:blank')
    const requested = Promise.withResolvers<Route>()
    await page.route(/menu-popup-/, requested.resolve)
    await page.goto(address)
    const button = page.getByRole('button', { name: 'Actions' })
    await button.waitFor()
    const load = async () => {
      const route = await requested.promise
      await route.continue()
      await (await route.request().response())?.finished()
    }
    return { console, page, button, load }
  }
  const isOpen = (page: Page) => page.getByRole('menuitem', { name: 'Suspend…' }).waitFor()

  test('opens after a click', { timeout: LIMIT_MS }, async () => {
    const { console, page, button, load } = await opening()
    await using _ = console
    await button.click()
    await button.click()
    await load()
    await isOpen(page)
    expect(console.complaints).toEqual([])
  })

  test('opens after a press during which the widget is loaded', { timeout: LIMIT_MS }, async () => {
    const { console, page, button, load } = await opening()
    await using _ = console
    await button.hover()
    await page.mouse.down()
    await load()
    await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))')
    await page.mouse.up()
    await isOpen(page)
    expect(console.complaints).toEqual([])
  })
})

/** tenants.slow.test.ts checks the others, with data. */
describeScreens(
  () => opened,
  [
    ['/tenants?open=new', 'Create tenant'],
    ['/tenants/acme/settings', 'Domains'],
    ['/no-such-screen', 'Page not found'],
  ],
)
