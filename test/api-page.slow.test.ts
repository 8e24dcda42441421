/**
 * Tests the admin API page in a real browser: sign-in by the printed link, no external resources, and a call from the
 * page.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, BrowserContext } from 'playwright-core'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../src/testing/base/database.ts'
import { TEST_APP_KEY } from '../src/testing/base/tenancy.ts'
import { launchBrowser } from './support/browser.ts'

const PROGRAM = join(import.meta.dirname, '../src/cli/main.ts')
const STEP_LIMIT_MS = 20_000

let database: TestDatabase
let service: ChildProcess
let ready: { url: string; signIn: string; adminApi: string; adminToken: string }
let browser: Browser
const directory = mkdtempSync(join(tmpdir(), 'tenantry-page-'))

beforeAll(async () => {
  database = await createTestDatabase(inject('postgresUrl'))
  service = spawn(process.execPath, [PROGRAM, 'serve', '--json'], {
    env: {
      ...process.env,
      DATABASE_URL: database.url,
      TENANTRY_APP_KEY: TEST_APP_KEY,
      TENANTRY_DATA_DIR: directory,
      PORT: '0',
      NODE_ENV: 'test',
      LOG_LEVEL: 'warn',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  ready = JSON.parse(await printedBy(service))
  browser = await launchBrowser()
}, 150_000)

afterAll(async () => {
  await browser?.close()
  service.kill('SIGTERM')
  await once(service, 'exit')
  await database.drop()
  rmSync(directory, { recursive: true, force: true })
})

test('the printed link signs in once, to the console; the API page works offline and sends its first examples unchanged', async () => {
  const context = await browser.newContext()
  const requested = watched(context)
  const page = await context.newPage()

  await page.goto(ready.signIn)
  await page.getByRole('heading', { name: 'Home', level: 1 }).waitFor()
  expect(page.url()).toBe(`${ready.adminApi}/console`)

  await page.goto(`${ready.adminApi}/openapi`)
  await page.getByRole('heading', { name: 'Tenantry admin API' }).waitFor()
  await page.getByRole('heading', { name: 'List tenants, the newest first' }).first().waitFor()

  await page
    .getByRole('button', { name: /test request.*get/i })
    .first()
    .click()
  const client = page.getByRole('dialog')
  await client.getByRole('button', { name: /^send get request to/i }).click()
  await client.getByText('200 OK').waitFor()
  await client.getByText('"nextCursor"').waitFor()
  await page.keyboard.press('Escape')
  await page
    .getByRole('button', { name: /test request.*post/i })
    .first()
    .click()
  await client.getByRole('button', { name: /^send post request to/i }).click()
  await client.getByText('201 Created').waitFor()
  await client.getByText('"Acme Corp"').first().waitFor()

  expect(requested.filter((url) => !url.startsWith(`${ready.url}/`))).toEqual([])
  expect(requested.filter((url) => url.includes(ready.adminToken))).toEqual([])
  await context.close()

  const later = await browser.newContext()
  watched(later)
  const secondPage = await later.newPage()
  await secondPage.goto(ready.signIn)
  await secondPage.getByText('The code was already used').waitFor()
  const response = await secondPage.goto(`${ready.adminApi}/openapi`)
  expect(response?.status()).toBe(401)
  await later.close()
}, 150_000)

function watched(context: BrowserContext): string[] {
  const requested: string[] = []
  context.setDefaultTimeout(STEP_LIMIT_MS)
  context.on('request', (request) => requested.push(request.url()))
  return requested
}

/** JSON value that the service prints when it is ready. */
async function printedBy(child: ChildProcess): Promise<string> {
  let text = ''
  const ended = once(child, 'exit').then(() => {
    throw new Error(`the service exited: ${text}`)
  })
  ended.catch(() => undefined)
  const printed = (async () => {
    for await (const chunk of child.stdout ?? []) {
      text += chunk
      try {
        JSON.parse(text)
        return text
      } catch {
        // incomplete
      }
    }
    return text
  })()
  return Promise.race([printed, ended])
}
