/**
 * The console makes no call that the service denies. Tokens of each scope open every screen. Tokens that permit only the operations of one
 * screen, tab or card open it, Home, and a tenant.
 */
import { randomUUID } from 'node:crypto'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { builtInSatellites } from '../../src/service/satellites.ts'
import { type OpenedConsole, openConsole, PREFIX, SETUP_LIMIT_MS, STEP_LIMIT_MS } from './console.fixture.ts'

const CONCURRENT = 3
/** Not shown without `tenants.get`. */
const A_TENANT = '/tenants/acme'
const NO_OBJECT = '00000000-0000-4000-8000-000000000000'

interface Element {
  /** Undefined: a card. */
  readonly path?: string
  readonly needs: readonly string[]
}

let opened: OpenedConsole
let elements: readonly Element[]
/** Values of parameters of paths. */
let known: Readonly<Record<string, string>>

beforeAll(async () => {
  opened = await openConsole(inject('postgresUrl'), builtInSatellites(), {}, { egress: { allowPrivateNetworks: true } })
  await opened.call('POST', '/tenants', { id: 'acme', name: 'Acme Corp' })
  await opened.call('PUT', '/tenants/acme/feature-flags/editor', { enabled: true })
  const webhook = { url: 'https://127.0.0.1:9/hooks', events: ['order.*'] }
  const { webhookId } = await opened.call('POST', '/tenants/acme/webhooks', webhook)
  known = { id: 'acme', key: 'editor', webhookId }
  await using console = await opened.open('/', { bypassCSP: true })
  await console.page.getByRole('heading', { name: 'Home', level: 1 }).waitFor()
  elements = await console.page.evaluate(ELEMENTS)
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

/** Screens, tabs and cards of all modules that the page loads. */
const ELEMENTS = `(async () => {
  const { modules } = JSON.parse(document.getElementById('console').dataset.settings)
  const all = await Promise.all(Object.values(modules).map(async (url) => (await import(url)).default))
  const tabPath = ({ path }) => path ? '/tenants/{id}/' + path : '/tenants/{id}'
  return all.flatMap(({ screens = [], tabs = [], cards = [], home = [], header = [], bars = [], columns = [] }) => [
    ...screens.map(({ path, needs }) => ({ path, needs })),
    ...tabs.map((tab) => ({ path: tabPath(tab), needs: tab.needs })),
    ...[...cards, ...home, ...header, ...bars, ...columns].map(({ needs }) => ({ needs })),
  ])
})()`

const filled = (path: string): string => path.replace(/\{(\w+)\}/g, (_, name: string) => known[name] ?? NO_OBJECT)
const distinct = <T>(all: readonly T[]): T[] => [...new Map(all.map((one) => [JSON.stringify(one), one])).values()]

/** Opens paths with a token. Returns the calls that the service denied, screens that are not shown, and complaints of the browser. */
async function deniedTo(may: readonly string[], paths: readonly string[]): Promise<string[]> {
  const { id, token } = await opened.call('POST', '/tokens', { name: randomUUID(), may })
  const denied: string[] = []
  await using console = await opened.open('/', { token })
  const { page } = console
  page.on('response', (response) => {
    const isDenied = [401, 403].includes(response.status())
    if (isDenied) denied.push(`${may}: ${response.request().method()} ${new URL(response.url()).pathname}`)
  })
  const settled = settlingOf(page)
  for (const path of ['/', ...paths]) {
    await page.goto(`${PREFIX}/console${path}`)
    await settled()
    const isHidden = await page.getByText('may not call').count()
    if (isHidden && path !== A_TENANT) denied.push(`${may}: ${path} is not shown`)
  }
  console.expect(/status of (404|400)/)
  await opened.call('DELETE', `/tokens/${id}`)
  return [...denied, ...console.complaints.map((complaint) => `${may}: ${complaint}`)]
}

/** Waits for a heading, data in place of placeholders, and the end of all requests, except the stream of changes. */
function settlingOf(page: Page): () => Promise<void> {
  const running = new Set<unknown>()
  page.on('request', (request) => !request.url().includes(`${PREFIX}/activity`) && running.add(request))
  page.on('requestfinished', (request) => running.delete(request))
  page.on('requestfailed', (request) => running.delete(request))
  return async () => {
    await page.locator('h1').first().waitFor()
    await page.locator('.skeleton').first().waitFor({ state: 'detached' })
    await expect.poll(() => running.size, { timeout: STEP_LIMIT_MS, interval: 20 }).toBe(0)
  }
}

test.each([[['admin']], [['read']], [['reveal', 'read']]])(
  'a token that may %s opens each screen without a denied call',
  { timeout: 8 * STEP_LIMIT_MS },
  async (may) => {
    const paths = distinct(elements.flatMap(({ path }) => (path ? filled(path) : [])))
    expect(paths.length).toBeGreaterThan(25)
    expect(await deniedTo(may, paths)).toEqual([])
  },
)

test('a token of the operations of one screen or card opens it, Home and a tenant without a denied call', {
  timeout: 12 * STEP_LIMIT_MS,
}, async () => {
  const cases = distinct(elements.map(({ path, needs }) => ({ path, needs: needs.toSorted() })))
  expect(cases.length).toBeGreaterThan(30)
  const waiting = [...cases]
  const denied: string[] = []
  const work = async () => {
    for (let one = waiting.shift(); one; one = waiting.shift()) {
      if (one.needs.length === 0) continue
      denied.push(...(await deniedTo(one.needs, [...(one.path ? [filled(one.path)] : []), A_TENANT])))
    }
  }
  await Promise.all(Array.from({ length: CONCURRENT }, work))
  expect(denied).toEqual([])
})
