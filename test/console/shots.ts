/**
 * `npm run shots`: pictures of every screen of the console, in both themes and three widths, in console-shots/. A service with the demo
 * runs in a temporary directory. The screens are those of its modules and of the navigation; parameters of paths come from the API.
 */
import { once } from 'node:events'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BrowserContext, Page } from 'playwright-core'
import { programWith } from '../../src/cli/program.fixture.ts'
import { launchBrowser } from '../support/browser.ts'

const WIDTHS = { 1440: 900, 1024: 768, 390: 844 }
const THEMES = ['light', 'dark'] as const
const TENANT = 'globex'
const TARGET = join(import.meta.dirname, '../../console-shots')
const NAVIGATION_LIMIT_MS = 60_000

const directory = await mkdtemp(join(tmpdir(), 'tenantry-shots-'))
const program = programWith({ PORT: '0', LOG_LEVEL: 'warn' })
try {
  const child = program.start(['serve', '--demo'], { cwd: directory, stdin: '' })
  const [ready] = await child.says(/Tenantry[\s\S]*Stop with Ctrl-C\./)
  const [, api = ''] = ready.match(/Admin API +(\S+)/) ?? []
  const [, token = ''] = ready.match(/Admin token (\S+)/) ?? []
  await rm(TARGET, { recursive: true, force: true })
  await mkdir(TARGET, { recursive: true })
  await takeAll(api, token)
  child.process.kill('SIGTERM')
  if (child.process.exitCode === null) await once(child.process, 'close')
} finally {
  await program.killAll()
  await rm(directory, { recursive: true, force: true, maxRetries: 10 })
}

async function takeAll(api: string, token: string): Promise<void> {
  await using browser = await launchBrowser()
  const contextOf = async (options = {}): Promise<BrowserContext> => {
    // Without the policy, this script can import the modules of the page.
    const context = await browser.newContext({ locale: 'en-US', bypassCSP: true, ...options })
    context.setDefaultTimeout(NAVIGATION_LIMIT_MS)
    await context.request.post(`${api}/session`, { data: { token } })
    return context
  }
  const first = await contextOf()
  const page = await first.newPage()
  await page.goto(`${api}/console`)
  await page.locator('h1').waitFor()
  const paths = await filled(page, api, await pathsOf(page, api))
  await first.close()
  for (const colorScheme of THEMES) {
    for (const [width, height] of Object.entries(WIDTHS)) {
      const context = await contextOf({ colorScheme, viewport: { width: Number(width), height } })
      const shown = await context.newPage()
      for (const path of paths)
        await take(shown, `${api}/console${path}`, `${nameOf(path)}.${colorScheme}.${width}.png`)
      await context.close()
    }
  }
  console.log(`${paths.length} screens, ${paths.length * 6} pictures in ${TARGET}`)
}

async function take(page: Page, url: string, file: string): Promise<void> {
  await page.goto(url)
  await page.locator('h1').first().waitFor()
  if (await page.getByRole('heading', { name: 'Page not found', level: 1 }).isVisible()) return // of a disabled satellite
  await page.waitForLoadState('networkidle', { timeout: 5_000 }).catch(() => undefined) // the stream of changes stays open
  await page.screenshot({ path: join(TARGET, file), animations: 'disabled' })
}

/** Paths of the navigation, and of screens and tabs of the page's modules. */
async function pathsOf(page: Page, api: string): Promise<string[]> {
  const base = `${new URL(api).pathname}/console`
  const found = (await page.evaluate(`(async () => {
    const { modules } = JSON.parse(document.getElementById('console').dataset.settings)
    const loaded = await Promise.all(Object.values(modules).map((url) => import(url)))
    const all = loaded.map((module) => module.default)
    const links = [...document.querySelectorAll('nav a[href]')].map(({ pathname }) => pathname)
    return [
      '/',
      ...links.filter((path) => path.startsWith('${base}/')).map((path) => path.slice('${base}'.length)),
      ...all.flatMap(({ screens = [] }) => screens.map(({ path }) => path)),
      ...all.flatMap(({ tabs = [] }) => tabs.map(({ path }) => path ? '/tenants/{id}/' + path : '/tenants/{id}')),
    ]
  })()`)) as string[]
  return [...new Set(found)].sort()
}

/** A path with the ids of the first objects in the lists of the API. Paths of objects that do not exist are omitted, with a message. */
async function filled(page: Page, api: string, paths: readonly string[]): Promise<string[]> {
  const complete: string[] = []
  for (const template of paths) {
    let path: string | undefined = template.replace('/tenants/{id}', `/tenants/${TENANT}`)
    for (let parameter = parameterOf(path); path && parameter; parameter = parameterOf(path)) {
      const list = path.slice(0, path.indexOf(parameter) - 1).replace(/\/flags$/, '/feature-flags')
      const [first] = await firstOf(page, api + list)
      const id: string | undefined = first?.[parameter.slice(1, -1)] ?? first?.id
      path = id && path.replace(parameter, id)
    }
    if (path) complete.push(path)
    else console.warn(`no object for ${template}`)
  }
  return complete
}

function parameterOf(path: string | undefined): string | undefined {
  return path?.match(/\{\w+\}/)?.[0]
}

async function firstOf(page: Page, url: string): Promise<readonly Record<string, string>[]> {
  const response = await page.request.get(url)
  return response.ok() ? (((await response.json()) as { data?: Record<string, string>[] }).data ?? []) : []
}

function nameOf(path: string): string {
  return path.slice(1).replaceAll('/', '.') || 'home'
}
