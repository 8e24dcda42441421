/** Branding in the console: form, isolated preview, contrast. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import {
  type OpenedConsole,
  openConsole,
  READER,
  SETUP_LIMIT_MS,
  STEP_LIMIT_MS,
} from '../../../test/console/console.fixture.ts'
import { describeScreens } from '../../../test/console/screens.fixture.ts'
import { branding } from './index.ts'

const LIMIT_MS = 4 * STEP_LIMIT_MS
const HOSTILE =
  '@import "https://evil.example/x.css"; .name { position: fixed; inset: 0; background: url(https://evil.example/y) }'
let opened: OpenedConsole

beforeAll(async () => {
  opened = await openConsole(inject('postgresUrl'), [branding()])
  await opened.call('POST', '/tenants', { id: 'acme', name: 'Acme Corp' })
  await opened.call('PUT', '/tenants/acme/branding', {
    displayName: 'Acme',
    primaryColor: '#0b5cad',
    accentColor: '#f2c14e',
    logoUrl: 'https://acme.example/logo.svg',
    supportEmail: 'help@acme.example',
  })
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

const stored = () => opened.call('GET', '/tenants/acme/branding')

test('the form saves, an empty field removes its value, and the contrast follows the input', {
  timeout: 2 * LIMIT_MS,
}, async () => {
  await using console = await opened.open('/tenants/acme/branding')
  const { page } = console
  const row = page.getByRole('row', { name: /White text on the primary colour/ })
  expect(await row.innerText()).toMatch(/6\.\d[\s\S]*sufficient/)
  await page.getByLabel('Primary colour').fill('#ffee00')
  await row.getByText('too low').waitFor()
  await page.getByRole('img', { name: 'Preview of the branding of Acme' }).waitFor()
  await page.getByLabel('Display name').fill('<b>Acme & Co</b>')
  await page.getByRole('img', { name: 'Preview of the branding of <b>Acme & Co</b>' }).waitFor()
  await page.getByLabel('Support mail address').fill('')
  await page.getByLabel('Accent colour').fill('yellow')
  await page.getByRole('button', { name: 'Save changes' }).click()
  expect(await page.getByLabel('Accent colour').getAttribute('aria-invalid')).toBe('true')
  await page.getByLabel('Accent colour').fill('#123456')
  await page.getByRole('button', { name: 'Save changes' }).click()
  await page.getByText('Branding saved').waitFor()
  expect(await stored()).toMatchObject({
    displayName: '<b>Acme & Co</b>',
    primaryColor: '#ffee00',
    accentColor: '#123456',
    supportEmail: null,
    logoUrl: 'https://acme.example/logo.svg',
  })
  expect(console.complaints).toEqual([])
})

test('a hostile style sheet stays in the box of the preview, and loads nothing', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme/branding')
  const { page } = console
  const failed: unknown[] = []
  page.on('requestfailed', (request) => failed.push([request.url(), request.failure()?.errorText]))
  const heading = page.getByRole('heading', { level: 1 })
  await page.getByLabel('Style sheet').waitFor()
  const before = await heading.boundingBox()
  await page.getByLabel('Style sheet').fill(`${HOSTILE} h1 { display: none } :host { position: fixed; inset: 0 }`)
  const box = page.locator('.branding-preview')
  await box.scrollIntoViewIfNeeded()
  await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))')
  const { x, y, width, height } = (await box.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 }
  const inner = await box.locator('> div').boundingBox()
  expect(inner && inner.x >= x && inner.y >= y && inner.x + inner.width <= x + width + 1).toBe(true)
  expect(inner && inner.y + inner.height <= y + height + 1).toBe(true)
  await page.evaluate('scrollTo(0, 0)')
  expect(await heading.boundingBox()).toEqual(before)
  console.expect(/csp-violation img-src https:\/\/evil\.example|Content Security Policy|Loading the image/)
  console.expect(/@import/)
  // The browser reports the blocked request; the policy ends it before it is sent.
  console.expect(/request to https:\/\/evil\.example\/y/)
  expect(new Set(failed.map(String))).toEqual(new Set(['https://evil.example/y,csp']))
  expect(console.complaints).toEqual([])
  await page.getByRole('button', { name: 'Save changes' }).click()
  await page.locator('.field-error').waitFor()
  expect(await stored()).toMatchObject({ customCss: null })
})

test('a token of scope read sees the branding, and cannot change it', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme/branding', { token: READER })
  const { page } = console
  expect(await page.getByLabel('Display name').isDisabled()).toBe(true)
  expect(await page.getByRole('button', { name: 'Save changes' }).count()).toBe(0)
  expect(console.complaints).toEqual([])
})

describeScreens(() => opened, [['/tenants/acme/branding', 'Contrast']])
