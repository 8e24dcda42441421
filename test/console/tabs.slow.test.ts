/** Tabs of one browser: they show the data of one operator, and load their page again only if another operator signs in. */
import type { Page, Route } from 'playwright-core'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type OpenedConsole, openConsole, PREFIX, SETUP_LIMIT_MS, STEP_LIMIT_MS } from './console.fixture.ts'

let opened: OpenedConsole
let limited: string

beforeAll(async () => {
  opened = await openConsole(inject('postgresUrl'))
  await opened.call('POST', '/tenants', { id: 'acme', name: 'Acme Corp' })
  const { token } = await opened.call('POST', '/tokens', { name: 'limited', may: ['plans.list'] })
  limited = token
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

const limit = { timeout: 8 * STEP_LIMIT_MS }
const signInAs = async (page: Page, token: string) => {
  await page.getByLabel('Admin token').fill(token)
  await page.keyboard.press('Enter')
}
const stored = (page: Page) => page.evaluate('JSON.stringify([sessionStorage, localStorage])')
const CART = `sessionStorage.getItem('shop-cart')`
const fillCart = (page: Page) => page.evaluate(`sessionStorage.setItem('shop-cart', '3 apples')`)

/** Number of times that a page is loaded. */
function loadsOf(page: Page): () => number {
  let count = 0
  page.on('request', (request) => {
    if (request.isNavigationRequest()) count++
  })
  return () => count
}

test(
  'a tab shows no data of the previous operator after a sign-out and a sign-in, also in another tab and with "back"',
  limit,
  async () => {
    await using console = await opened.open('/tenants/acme')
    const { page, context } = console
    await page.getByRole('heading', { name: 'Acme Corp', level: 1 }).waitFor()
    expect(await stored(page)).toContain('Acme Corp')
    const other = await context.newPage()
    await other.goto(`${PREFIX}/console/tenants`)
    await other.getByRole('link', { name: 'Acme Corp' }).waitFor()
    for (const one of [page, other]) await fillCart(one)

    await page.getByRole('button', { name: 'admin', exact: true }).click()
    await page.getByRole('menuitem', { name: 'Sign out' }).click()
    await page.getByLabel('Admin token').waitFor()
    expect(await page.evaluate('Object.keys(sessionStorage)')).toEqual(['shop-cart'])
    await other.getByLabel('Admin token').waitFor()
    await signInAs(page, limited)
    await page.getByRole('heading', { name: 'Home', level: 1 }).waitFor()
    await other.getByText('“limited” may not call tenants.list.').waitFor()

    await page.goBack()
    await page.getByText('“limited” may not call tenants.get.').waitFor()
    for (const one of [page, other]) {
      expect(await one.content()).not.toContain('Acme Corp')
      expect(await stored(one)).not.toContain('Acme Corp')
      expect(await one.evaluate(CART), 'data of the host application').toBe('3 apples')
    }
    console.expect(/status of 401/)
    expect(console.complaints).toEqual([])
  },
)

test(
  'a tab shows no data of the previous operator if another one signs in after the end of a session',
  limit,
  async () => {
    await using console = await opened.open('/tenants/acme')
    const { page, context } = console
    await page.getByRole('heading', { name: 'Acme Corp', level: 1 }).waitFor()
    await fillCart(page)
    await context.clearCookies()
    await page.goto(`${PREFIX}/console/tenants`)
    await signInAs(page, limited)
    await page.getByText('“limited” may not call tenants.list.').waitFor()
    expect(await page.content()).not.toContain('Acme Corp')
    expect(await stored(page)).not.toContain('Acme Corp')
    expect(await page.evaluate(CART), 'data of the host application').toBe('3 apples')
    console.expect(/status of 401/)
    expect(console.complaints).toEqual([])
  },
)

test('tabs that start concurrently load their page once', limit, async () => {
  await using console = await opened.open('/')
  const { page: first, context } = console
  await first.getByRole('heading', { name: 'Home', level: 1 }).waitFor()
  const second = await context.newPage()
  const loads = [loadsOf(first), loadsOf(second)]
  const session = Promise.withResolvers<Route>()
  await second.route(/\/session$/, session.resolve)
  await second.goto(`${PREFIX}/console/tenants`, { waitUntil: 'load' })
  const held = await session.promise
  await first.reload()
  await first.getByRole('heading', { name: 'Home', level: 1 }).waitFor()
  await held.continue()
  await second.getByRole('link', { name: 'Acme Corp' }).waitFor()
  await first.getByRole('heading', { name: 'Home', level: 1 }).waitFor()
  expect(loads.map((count) => count())).toEqual([1, 1])
  expect(console.complaints).toEqual([])
})

test('a tab that starts while another operator signs in shows the new operator', limit, async () => {
  await using console = await opened.open('/')
  const { page: first, context } = console
  await first.getByRole('heading', { name: 'Home', level: 1 }).waitFor()
  const second = await context.newPage()
  const module = Promise.withResolvers<Route>()
  await second.route(/assets\/tenants-/, module.resolve, { times: 1 })
  await second.goto(`${PREFIX}/console/tenants`, { waitUntil: 'commit' })
  const held = await module.promise
  await expect.poll(() => second.evaluate(`sessionStorage.getItem('tenantry-owner')`)).toBe('admin')

  await first.getByRole('button', { name: 'admin', exact: true }).click()
  await first.getByRole('menuitem', { name: 'Sign out' }).click()
  await signInAs(first, limited)
  await first.getByRole('button', { name: 'limited', exact: true }).waitFor()
  await held.continue()
  await second.getByText('“limited” may not call tenants.list.').waitFor()
  expect(await second.content()).not.toContain('Acme Corp')
  console.expect(/status of 40[13]/)
  expect(console.complaints).toEqual([])
})
