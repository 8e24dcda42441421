/**
 * Tests the pages in a real browser. After each test, a check rejects requests to other servers, violations of the
 * Content-Security-Policy, and failed scripts.
 */
import axe from 'axe-core'
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { launchBrowser } from '../../../test/support/browser.ts'
import { type AdminApi, CODE, PREFIX, startAdminApi, TOKEN } from './admin-api.fixture.ts'

const STEP_LIMIT_MS = 15_000
const UNPACK_LIMIT_MS = 150_000
vi.setConfig({ testTimeout: 3 * STEP_LIMIT_MS })

let browser: Browser
let admin: AdminApi
let context: BrowserContext
let requested: string[]
let complaints: string[]

beforeAll(async () => {
  browser = await launchBrowser()
}, UNPACK_LIMIT_MS)
afterAll(() => browser?.close())

beforeEach(async () => {
  admin = await startAdminApi()
  requested = []
  complaints = []
})
afterEach(async () => {
  await context?.close()
  await admin[Symbol.asyncDispose]()
  expect(requested.filter((url) => !url.startsWith(`${admin.origin}/`))).toEqual([])
  expect(complaints).toEqual([])
})

async function open(path: string, options: BrowserContextOptions = {}): Promise<Page> {
  context = await browser.newContext({ baseURL: admin.origin, ...options })
  context.setDefaultTimeout(STEP_LIMIT_MS)
  context.on('request', (request) => requested.push(request.url()))
  context.on('weberror', (error) => complaints.push(String(error.error())))
  context.on('console', (message) => {
    if (/^csp-violation|Content Security Policy/.test(message.text())) complaints.push(message.text())
  })
  await context.route('**', (route) =>
    route.request().url().startsWith(`${admin.origin}/`) ? route.continue() : route.abort(),
  )
  await context.addInitScript(`addEventListener('securitypolicyviolation', (violation) => {
    console.warn('csp-violation', violation.effectiveDirective, violation.blockedURI)
  })`)
  const page = await context.newPage()
  await page.goto(path)
  return page
}

/** Signed in without the page, for the tests of what comes after it. */
async function openSignedIn(path: string): Promise<Page> {
  const page = await open(`${PREFIX}/sign-in`)
  await page.request.post(`${PREFIX}/session`, { data: { token: TOKEN } })
  await page.goto(path)
  return page
}

/** By keyboard: the field has the focus as soon as the page is drawn, and again after an error. */
async function typeToken(page: Page, token: string, key = 'Enter'): Promise<void> {
  await page.locator('#token:focus-visible').waitFor()
  await page.keyboard.type(token)
  await page.keyboard.press(key)
}

const sessionCalls = () => admin.seen.filter(({ url }) => url === `${PREFIX}/session`).map(({ body }) => body)

describe('the API page', () => {
  test('shows the operations, their samples, and no field for a token', async () => {
    const page = await openSignedIn(`${PREFIX}/openapi`)

    await page.getByRole('heading', { name: 'Tenantry admin API' }).waitFor()
    await page.getByRole('heading', { name: 'List tenants' }).waitFor()
    await page.getByRole('heading', { name: 'Create a tenant' }).waitFor()
    expect(await page.title()).toBe('Tenantry <admin>')
    await page.getByText(`${admin.origin}${PREFIX}/tenants?limit=50`).first().waitFor()
    await page.getByText('x-admin-token: YOUR_SECRET_TOKEN').first().waitFor()
    expect(await page.getByText('Authentication', { exact: true }).filter({ visible: true }).count()).toBe(0)
    expect(await page.evaluate('localStorage.length + sessionStorage.length')).toBe(0)
  })

  test('sends a GET to the own server with the cookie and without a token, and shows the response', async () => {
    const page = await openSignedIn(`${PREFIX}/openapi`)

    await page.getByRole('button', { name: /test request.*get/i }).click()
    const client = page.getByRole('dialog')
    expect(await client.getByText('Authentication', { exact: true }).filter({ visible: true }).count()).toBe(0)
    await client.getByRole('button', { name: /^send (get|post) request to/i }).click()

    await client.getByText('200 OK').waitFor()
    await client.getByText('"Acme & Söhne"').waitFor()
    const call = admin.seen.find(({ url }) => url.startsWith(`${PREFIX}/tenants`))
    expect(call).toMatchObject({ method: 'GET', url: `${PREFIX}/tenants?limit=50` })
    expect(call?.headers.cookie).toBe('tenantry_session=sealed')
    expect(call?.headers).not.toHaveProperty('x-admin-token')
  })

  test('sends a POST with its body and its origin', async () => {
    const page = await openSignedIn(`${PREFIX}/openapi`)

    await page.getByRole('button', { name: /test request.*post/i }).click()
    const client = page.getByRole('dialog')
    await client.getByRole('button', { name: /^send (get|post) request to/i }).click()

    await client.getByText('201 Created').waitFor()
    expect(admin.tenants.at(-1)).toMatchObject({ id: 'globex', name: 'Globex' })
  })

  test('requires a sign-in, which redirects back to the page', async () => {
    const page = await open(`${PREFIX}/openapi?from=docs`)

    await page.getByRole('heading', { name: 'Sign in to Tenantry <admin>' }).waitFor()
    await typeToken(page, TOKEN)

    await page.getByRole('heading', { name: 'List tenants' }).waitFor()
    expect(page.url()).toBe(`${admin.origin}${PREFIX}/openapi?from=docs`)
  })
})

describe('the sign-in page', () => {
  test('signs in by keyboard only and stores no token', async () => {
    const page = await open(`${PREFIX}/sign-in`)

    await typeToken(page, `  ${TOKEN} `, 'Tab')
    await page.locator('button:focus-visible').getByText('Sign in').waitFor()
    await page.keyboard.press('Enter')

    await page.waitForURL(`**${PREFIX}/openapi`)
    await page.getByRole('heading', { name: 'List tenants' }).waitFor()
    expect(sessionCalls()).toEqual([{ token: TOKEN }])
    expect(requested.join()).not.toContain(TOKEN)
    expect(await page.content()).not.toContain(TOKEN)
    expect(await page.evaluate('localStorage.length + sessionStorage.length')).toBe(0)
  })

  test('removes the code of a link from the address bar, then redeems it', async () => {
    const page = await open(`${PREFIX}/sign-in#code=${CODE}`)

    await page.getByRole('heading', { name: 'List tenants' }).waitFor()
    expect(page.url()).toBe(`${admin.origin}${PREFIX}/openapi`)
    expect(sessionCalls()).toEqual([{ code: CODE }])
    // The page replaced itself, so there is nothing of the link to go back to.
    expect(await page.evaluate('history.length')).toBe(2)
  })

  test('shows an error for a used code, and still accepts a token', async () => {
    const page = await open(`${PREFIX}/sign-in#code=spent`)

    await page.getByRole('alert').getByText('This sign-in link was used or is too old.').waitFor()
    expect(page.url()).toBe(`${admin.origin}${PREFIX}/sign-in`)
    await typeToken(page, TOKEN)
    await page.waitForURL(`**${PREFIX}/openapi`)
  })

  test('redeems a link that is opened in a tab with the sign-in page', async () => {
    const page = await open(`${PREFIX}/sign-in`)
    await page.goto(`${PREFIX}/sign-in#code=${CODE}`)
    await page.waitForURL(`**${PREFIX}/openapi`)
  })

  test('announces a wrong token as an alert and selects it in the input', async () => {
    const page = await open(`${PREFIX}/sign-in`)

    await typeToken(page, '')
    await page.getByRole('alert').getByText('Enter an admin token.').waitFor()
    expect(sessionCalls()).toEqual([])

    await typeToken(page, 'wrong')
    await page.getByRole('alert').getByText('This token is <not> known.').waitFor()
    expect(await page.getByLabel('Admin token').getAttribute('aria-invalid')).toBe('true')

    await typeToken(page, TOKEN)
    await page.waitForURL(`**${PREFIX}/openapi`)
  })

  test('shows an error if the service does not respond', async () => {
    const page = await open(`${PREFIX}/sign-in`)
    await context.route('**/session', (route) => route.abort())
    await typeToken(page, TOKEN)
    await page.getByRole('alert').getByText('The service did not respond. Try again.').waitFor()
  })

  test.each(['light', 'dark'] as const)('has no accessibility violation, %s', async (colorScheme) => {
    const page = await open(`${PREFIX}/sign-in`, { colorScheme })
    expect(await axeViolations(page)).toEqual([])
    await typeToken(page, 'wrong')
    await page.getByRole('alert').getByText('This token is').waitFor()
    expect(await axeViolations(page)).toEqual([])
  })
})

async function axeViolations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source)
  const { violations } = (await page.evaluate('axe.run()')) as axe.AxeResults
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' ')}`)
}
