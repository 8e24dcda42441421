/** Many navigations keep neither memory, nodes, listeners nor streams. */
import type { CDPSession, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { builtInSatellites } from '../../src/service/satellites.ts'
import { type OpenedConsole, openConsole, SETUP_LIMIT_MS, STEP_LIMIT_MS } from './console.fixture.ts'

/** Rounds in which caches and compiled code grow to their size. */
const WARM_UP = 10
const ROUNDS = 20
/** Of the start, for caches that grow to a limit. */
const TOLERANCE = 1.1

let opened: OpenedConsole

beforeAll(async () => {
  opened = await openConsole(inject('postgresUrl'), builtInSatellites())
  for (const id of ['acme', 'globex']) await opened.call('POST', '/tenants', { id, name: id })
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

/** Visits ten screens by links, without loading the page again. */
async function visitAll(page: Page): Promise<void> {
  const open = async (link: string, heading: string) => {
    await page.locator('nav').getByRole('link', { name: link, exact: true }).click()
    await page.getByRole('heading', { name: heading, level: 1, exact: true }).waitFor()
  }
  for (const [link, heading = link] of [
    ['Home'],
    ['Deliveries'],
    ['Flags'],
    ['Quotas'],
    ['Usage'],
    ['Transfers'],
    ['Plans'],
  ] as const) {
    await open(link as string, heading as string)
    if (link === 'Deliveries') await page.locator('.chart .u-over').waitFor()
  }
  await open('Tenants', 'Tenants')
  await page.getByRole('link', { name: /^acme/ }).click()
  await page.getByRole('heading', { name: 'acme', level: 1, exact: true }).waitFor()
  await page.getByRole('link', { name: 'Storage', exact: true }).click()
  await page.getByRole('heading', { name: 'Backups' }).waitFor()
}

async function measured(client: CDPSession) {
  await client.send('HeapProfiler.collectGarbage')
  const { metrics } = await client.send('Performance.getMetrics')
  const of = (name: string) => metrics.find((metric) => metric.name === name)?.value ?? Number.NaN
  return { heap: of('JSHeapUsedSize'), nodes: of('Nodes'), listeners: of('JSEventListeners') }
}

test('200 navigations keep at most 10 % more than the first ones', { timeout: 12 * STEP_LIMIT_MS }, async () => {
  await using console = await opened.open('/')
  const { page, context } = console
  const client = await context.newCDPSession(page)
  await client.send('Performance.enable')
  let streams = 0
  page.on('request', (request) => {
    if (request.url().endsWith('/activity')) streams++
  })
  for (let round = 0; round < WARM_UP; round++) await visitAll(page)
  const before = await measured(client)
  for (let round = 0; round < ROUNDS; round++) await visitAll(page)
  const after = await measured(client)
  expect(after.heap / before.heap).toBeLessThan(TOLERANCE)
  expect(after.nodes / before.nodes).toBeLessThan(TOLERANCE)
  expect(after.listeners / before.listeners).toBeLessThan(TOLERANCE)
  expect(streams).toBeLessThanOrEqual(1)
  expect(console.complaints).toEqual([])
})
