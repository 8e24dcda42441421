/** The stream of changes in a browser: which queries an event reads again, and one stream for all tabs. */
import type { BrowserContext, Page, Request } from 'playwright-core'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type OpenedConsole, openConsole, PREFIX, SETUP_LIMIT_MS, STEP_LIMIT_MS } from './console.fixture.ts'

let opened: OpenedConsole

beforeAll(async () => {
  opened = await openConsole(inject('postgresUrl'))
  for (const id of ['acme', 'globex']) await opened.call('POST', '/tenants', { id, name: id })
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

const LIMIT_MS = 4 * STEP_LIMIT_MS

const rename = (id: string, name: string) => opened.call('PATCH', `/tenants/${id}`, { name })
const pathOf = (url: string): string => new URL(url).pathname.slice(PREFIX.length)
const heading = (page: Page, name: string) => page.getByRole('heading', { name, level: 1, exact: true }).waitFor()

/** Streams that the browser has started and not ended. */
function streamsOf(context: BrowserContext) {
  const open = new Set<unknown>()
  const events: (() => void)[] = []
  const notify = () => {
    for (const one of events) one()
  }
  context.on('response', (response) => {
    if (pathOf(response.url()) !== '/activity' || !response.ok()) return
    open.add(response.request())
    notify()
  })
  const end = (request: Request) => {
    open.delete(request)
    notify()
  }
  context.on('requestfailed', end).on('requestfinished', end)
  return {
    count: () => open.size,
    async reaches(count: number): Promise<void> {
      if (open.size === count) return
      await new Promise<void>((resolve) => {
        const check = () => {
          if (open.size === count) resolve()
        }
        events.push(check)
      })
    },
  }
}

test('a change by another caller reads the queries of its tenant again, and none of another tenant', {
  timeout: LIMIT_MS,
}, async () => {
  await using console = await opened.open('/', {})
  const { page, context } = console
  const streams = streamsOf(context)
  await page.goto(`${PREFIX}/console/tenants/acme/settings`)
  await heading(page, 'acme')
  await streams.reaches(1)
  await page.getByRole('heading', { name: 'Plan', exact: true }).waitFor()
  await page.waitForLoadState('networkidle') // after the reads that follow the opening of the stream
  const reads: string[] = []
  page.on('request', (request) => reads.push(pathOf(request.url())))

  await rename('globex', 'Globex')
  await rename('acme', 'Acme')
  await heading(page, 'Acme')
  expect(reads).toContain('/tenants/acme')
  expect(reads).not.toContain('/tenants/globex')
  expect(reads).not.toContain('/plans')
  expect(console.complaints).toEqual([])
})

test('the tabs of a browser share one stream, and another tab continues after the first is closed', {
  timeout: LIMIT_MS,
}, async () => {
  await using console = await opened.open('/')
  const { page, context } = console
  const streams = streamsOf(context)
  await page.goto(`${PREFIX}/console/tenants`)
  await page.getByRole('link', { name: 'globex' }).waitFor()
  await streams.reaches(1)
  const second = await context.newPage()
  await second.goto(`${PREFIX}/console/tenants/globex`)
  await second.locator('h1').waitFor()

  await rename('globex', 'Globex One')
  await Promise.all([heading(second, 'Globex One'), page.getByRole('link', { name: 'Globex One' }).waitFor()])
  expect(streams.count()).toBe(1)

  await page.close()
  await streams.reaches(1)
  await rename('globex', 'Globex Two')
  await heading(second, 'Globex Two')
  expect(console.complaints).toEqual([])
})

test('a tab that is hidden for a minute ends its stream, and reads again when it is shown', {
  timeout: LIMIT_MS,
}, async () => {
  await using console = await opened.open('/')
  const { page, context } = console
  const streams = streamsOf(context)
  await page.clock.install()
  await page.goto(`${PREFIX}/console/tenants`)
  await page.getByRole('link', { name: 'acme' }).waitFor()
  await streams.reaches(1)
  await show(page, 'hidden')
  await page.clock.fastForward(61_000)
  await streams.reaches(0)
  await rename('acme', 'Acme Hidden')
  await show(page, 'visible')
  await streams.reaches(1)
  await page.clock.runFor(1_000)
  await page.getByRole('link', { name: 'Acme Hidden' }).waitFor()
  expect(console.complaints).toEqual([])
})

const show = (page: Page, state: 'hidden' | 'visible') =>
  page.evaluate(`Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true })
    document.dispatchEvent(new Event('visibilitychange'))`)
