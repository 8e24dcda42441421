/** Opens the console of a real service in a real browser, and records what no page may do. */
import axe from 'axe-core'
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core'
import { createHttp, type HttpOptions } from '../../src/http/app.ts'
import { serveNode } from '../../src/http/hosts/node.ts'
import type { AdminToken } from '../../src/http/tokens.ts'
import type { Satellite } from '../../src/tenancy/satellite.ts'
import type { Tenancy, TenancyConfig } from '../../src/tenancy/tenancy.ts'
import { testTenancy } from '../../src/testing/base/tenancy.ts'
import { launchBrowser } from '../support/browser.ts'

export const PREFIX = '/admin/multitenancy'
export const TOKEN = 'adm_f3kR8sQ2xL0v'
export const READER = 'rea_f3kR8sQ2xL0v'
export const STEP_LIMIT_MS = 30_000
export const SETUP_LIMIT_MS = 240_000
export const WIDTHS = { 1440: 900, 1024: 768, 390: 844 } as const

export interface ConsolePage extends AsyncDisposable {
  readonly page: Page
  readonly context: BrowserContext
  /** Console messages, errors, reports of the policy, and requests to other origins, except what was `expected`. */
  readonly complaints: readonly string[]
  /** Removes complaints that a test causes, such as a rejected request. */
  expect(pattern: RegExp): void
}

export interface OpenedConsole extends AsyncDisposable {
  readonly tenancy: Tenancy
  readonly origin: string
  readonly browser: Browser
  /** A call of the admin API, without the browser. */
  call(method: string, path: string, body?: unknown): Promise<any>
  /** A page in a new context. @param token null: not signed in */
  open(path: string, options?: OpenOptions): Promise<ConsolePage>
}

export interface OpenOptions extends BrowserContextOptions {
  readonly token?: string | null
  readonly width?: keyof typeof WIDTHS
}

/** @param postgresUrl `inject('postgresUrl')` */
export async function openConsole(
  postgresUrl: string,
  satellites: readonly Satellite[] = [],
  options: Partial<HttpOptions> = {},
  config: Partial<TenancyConfig<readonly Satellite[]>> = {},
): Promise<OpenedConsole> {
  return serveConsole(await testTenancy<readonly Satellite[]>(postgresUrl, { satellites, ...config }), options)
}

/** The console of a tenancy that a fixture has opened. Its end closes the tenancy. */
export async function serveConsole(
  made: { readonly tenancy: Tenancy; readonly end: () => Promise<unknown> },
  options: Partial<HttpOptions> = {},
): Promise<OpenedConsole> {
  const adminTokens: AdminToken[] = [
    { name: 'admin', token: TOKEN },
    { name: 'reader', token: READER, scope: 'read' },
  ]
  const browser = await launchBrowser()
  const http = createHttp(made.tenancy, { adminTokens, ...options })
  const server = await serveNode(http, { port: 0, host: '127.0.0.1' })
  const origin = server.url
  await built(`${origin}${http.prefix}/console`)
  return {
    tenancy: made.tenancy,
    origin,
    browser,
    async call(method, path, body) {
      const response = await fetch(`${origin}${http.prefix}${path}`, {
        method,
        headers: { 'x-admin-token': TOKEN, 'content-type': 'application/json', prefer: 'wait=20' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      const text = await response.text()
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
      return text && JSON.parse(text)
    },
    async open(path, { token = TOKEN, width = 1440, ...own } = {}) {
      const viewport = { width, height: WIDTHS[width] }
      const context = await browser.newContext({ baseURL: origin, locale: 'en-US', viewport, ...own })
      context.setDefaultTimeout(STEP_LIMIT_MS)
      let complaints: string[] = []
      context.on('request', (request) => {
        if (!request.url().startsWith(`${origin}/`)) complaints.push(`request to ${request.url()}`)
      })
      context.on('weberror', (error) => complaints.push(String(error.error())))
      context.on('console', (message) => complaints.push(`${message.type()}: ${message.text()}`))
      await context.addInitScript(`addEventListener('securitypolicyviolation', (violation) => {
        console.warn('csp-violation', violation.effectiveDirective, violation.blockedURI)
      })`)
      const page = await context.newPage()
      if (token !== null) await page.request.post(`${http.prefix}/session`, { data: { token } })
      await page.goto(`${http.prefix}/console${path}`)
      return {
        page,
        context,
        get complaints() {
          return complaints
        },
        expect(pattern) {
          complaints = complaints.filter((complaint) => !pattern.test(complaint))
        },
        [Symbol.asyncDispose]: () => context.close(),
      }
    },
    async [Symbol.asyncDispose]() {
      await browser.close()
      await server.close(1_000)
      await made.end()
    },
  }
}

/** The first request builds the console. */
async function built(url: string): Promise<void> {
  for (;;) {
    const page = await (await fetch(url)).text()
    if (page.includes('id="console"')) return
    if (!page.includes('http-equiv="refresh"')) throw new Error(`the console was not built: ${page}`)
  }
}

/** Violations of accessibility rules, with all rules of axe. */
export async function axeViolations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source)
  const { violations } = (await page.evaluate('axe.run()')) as axe.AxeResults
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`)
}
