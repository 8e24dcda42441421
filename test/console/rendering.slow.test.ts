/**
 * Renders of the list of tenants, measured by React's Profiler in a profiling build: a module of a host adds a column whose cells are
 * profilers. The cell of a row is rendered with its row only.
 */
import { execFileSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { serveBuild } from '../../src/http/console/assets.ts'
import { defineSatellite } from '../../src/tenancy/satellite.ts'
import { type OpenedConsole, openConsole, PREFIX, SETUP_LIMIT_MS, STEP_LIMIT_MS } from './console.fixture.ts'
import { addTenants } from './tenants.fixture.ts'

const PROGRAM = join(import.meta.dirname, '../../src/http/console/build.ts')
const ROWS = 40

const MODULE = `
import { createElement, Profiler } from 'react'
import { defineConsoleModule } from 'tenantry/console'

globalThis.rendered = []
const Cell = ({ tenant }) =>
  createElement(Profiler, { id: tenant.id, onRender: (id) => globalThis.rendered.push(id) }, tenant.status)

export default defineConsoleModule({
  name: 'profiler',
  columns: [{ key: 'profiler', title: 'Profiler', needs: [], view: async () => ({ default: Cell }) }],
})
`

let folder = ''
let opened: OpenedConsole

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenantry-console-'))
  const built = join(folder, 'built')
  execFileSync(process.execPath, ['--conditions=tenantry-source', PROGRAM, built, '--profiling'])
  serveBuild(built)
  const file = join(folder, 'console.js')
  await writeFile(file, MODULE)
  const profiler = defineSatellite({
    name: 'profiler',
    summary: 'Measures renders',
    service: () => ({}),
    console: pathToFileURL(file),
  })
  opened = await openConsole(inject('postgresUrl'), [profiler])
  await addTenants(opened.tenancy, ROWS)
  await opened.call('POST', '/tenants', { id: 'acme', name: 'Acme Corp' })
}, SETUP_LIMIT_MS)
afterAll(async () => {
  await opened?.[Symbol.asyncDispose]()
  await rm(folder, { recursive: true, force: true })
})

/** The list after its last render: layers are loaded, and the stream of changes is open. */
async function openList(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Acme Corp' }).waitFor()
  await page.locator('td[data-title=Profiler]', { hasText: 'active' }).nth(ROWS).waitFor()
  await page.getByRole('button', { name: 'Actions for Acme Corp' }).click()
  await page.getByRole('menu').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('menu').waitFor({ state: 'detached' })
}

/** After React has committed and the browser has painted. */
const painted = (page: Page) =>
  page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestIdleCallback(resolve)))')

/** Rows that an action renders, each as often as it is rendered. */
async function renderedBy(page: Page, act: () => Promise<unknown>): Promise<unknown> {
  await page.evaluate('rendered.length = 0')
  await act()
  await painted(page)
  return page.evaluate('rendered')
}

test('a selection click renders its row, the menu of a row renders no row, and an optimistic change renders its row', {
  timeout: 4 * STEP_LIMIT_MS,
}, async () => {
  await opened.call('PUT', '/tenants/acme/maintenance', {})
  await using console = await opened.open('/tenants?columns=tenant,status,profiler')
  const { page } = console
  await openList(page)

  const select = page.getByLabel('Select Acme Corp')
  expect(await renderedBy(page, () => select.click())).toEqual(['acme'])
  await page.getByText('1 selected').waitFor()
  const others = page.getByLabel('Select Tenant 7', { exact: true })
  expect(await renderedBy(page, () => others.click())).toEqual(['tenant-7'])

  const menu = page.getByRole('menu')
  const openMenu = async () => {
    await page.getByRole('button', { name: 'Actions for Acme Corp' }).click()
    await menu.waitFor()
  }
  expect(await renderedBy(page, openMenu)).toEqual([])

  const response = Promise.withResolvers<void>()
  await page.route(`**${PREFIX}/tenants/acme/maintenance`, async (route) => {
    await response.promise
    await route.continue()
  })
  const row = page.locator('tr[data-id=acme]')
  await row.getByText('in maintenance').waitFor()
  const endMaintenance = async () => {
    await menu.getByRole('menuitem', { name: 'End maintenance' }).click()
    await row.getByText('in maintenance').waitFor({ state: 'detached' })
    await menu.waitFor({ state: 'detached' })
  }
  await page.evaluate('rendered.length = 0')
  await endMaintenance()
  expect(await page.evaluate('rendered')).toEqual(['acme'])

  const answered = async () => {
    const read = page.waitForResponse((one) => new URL(one.url()).pathname === `${PREFIX}/tenants`)
    response.resolve()
    await page.getByText('Maintenance of Acme Corp ended').waitFor()
    await (await read).finished()
  }
  const rows = await renderedBy(page, answered)
  expect(new Set(rows as string[])).toEqual(new Set(['acme']))
  expect(console.complaints).toEqual([])
})
