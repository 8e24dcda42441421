/** Failing calls: every screen shows the problem of a call that is rejected or fails. interruptions.slow.test.ts has calls without a response. */
import type { Page, Route } from 'playwright-core'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { builtInSatellites } from '../../src/service/satellites.ts'
import { type OpenedConsole, openConsole, PREFIX, SETUP_LIMIT_MS, STEP_LIMIT_MS } from './console.fixture.ts'

const SHOWN_WITHIN_MS = 10_000

let opened: OpenedConsole

beforeAll(async () => {
  opened = await openConsole(inject('postgresUrl'), builtInSatellites())
  await opened.call('POST', '/tenants', { id: 'acme', name: 'Acme Corp' })
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

/** Reads of the API, except those that start the page. */
const isRead = (url: URL): boolean =>
  url.pathname.startsWith(`${PREFIX}/`) &&
  !url.pathname.startsWith(`${PREFIX}/console`) &&
  url.pathname !== `${PREFIX}/session` &&
  url.pathname !== `${PREFIX}/activity`

const rejected = (status: number, code: string) => (route: Route) =>
  route.fulfill({
    status,
    contentType: 'application/problem+json',
    body: JSON.stringify({
      type: `urn:tenantry:problem:${code}`,
      title: code,
      status,
      code,
      detail: `Rejected: ${code}.`,
    }),
  })

const FAILURES: Readonly<Record<string, (route: Route) => Promise<unknown>>> = {
  'a 403': rejected(403, 'E_FORBIDDEN'),
  'a 404': rejected(404, 'E_NOT_FOUND'),
  'a 500': rejected(500, 'E_INTERNAL'),
  'a response that is no JSON': (route) =>
    route.fulfill({ status: 502, contentType: 'text/html', body: '<h1>Bad gateway' }),
}

async function screensOf(page: Page): Promise<readonly string[]> {
  const paths = (await page.evaluate(
    `[...document.querySelectorAll('nav a[href]')].map(({ pathname }) => pathname)`,
  )) as string[]
  expect(paths.length).toBeGreaterThan(10)
  return [...new Set(paths)]
}

test.each(Object.keys(FAILURES))(
  'each screen shows %s of its calls, and its content after a retry',
  {
    timeout: 12 * STEP_LIMIT_MS,
  },
  async (name) => {
    const fail = FAILURES[name] ?? expect.fail(name)
    await using console = await opened.open('/')
    const { page } = console
    await page.getByRole('heading', { name: 'Home', level: 1 }).waitFor()
    const silent: string[] = []
    for (const path of [...(await screensOf(page)), `${PREFIX}/console/tenants/acme`]) {
      await page.route(isRead, (route) => (route.request().method() === 'GET' ? fail(route) : route.continue()))
      await page.goto(path)
      await page.locator('h1').first().waitFor()
      const problem = page.locator('main').getByRole('alert').first()
      await problem.waitFor({ timeout: SHOWN_WITHIN_MS }).catch(() => silent.push(path))
      expect(await page.locator('h1').count(), path).toBe(1)
      await page.unrouteAll({ behavior: 'ignoreErrors' })
    }
    expect(silent).toEqual([])
    await page.goto(`${PREFIX}/console/tenants`)
    await page.getByRole('link', { name: 'Acme Corp' }).waitFor()
    // The browser reports each failed response; an error of the console itself is none of them.
    console.expect(/Failed to load resource/)
    expect(console.complaints).toEqual([])
  },
)
