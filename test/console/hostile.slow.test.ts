/** Names, payloads, response bodies, metadata and settings with markup, bidirectional text, 1 MiB and 1,000 levels are shown as text. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { z } from 'zod'
import { auditLogs } from '../../src/satellites/audit-logs/index.ts'
import { branding } from '../../src/satellites/branding/index.ts'
import { settings } from '../../src/satellites/settings/index.ts'
import { webhooks } from '../../src/satellites/webhooks/index.ts'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { type OpenedConsole, openConsole, PREFIX, SETUP_LIMIT_MS, STEP_LIMIT_MS } from './console.fixture.ts'

/** Turns the text after it from right to left. */
const OVERRIDE = '\u202e'
const MARKUP = `<img src=x onerror="document.title='hit'"><script>document.title='hit'</script>`
const HOSTILE = `${MARKUP}${OVERRIDE}gnp.exe`
const MIB = 1024 * 1024
/** Below the limit of a request, with the members around it. */
const LONG = `${HOSTILE}${'x'.repeat(MIB - 20_000)}`
const deep = (levels: number): string => `${'{"a":'.repeat(levels)}${JSON.stringify(HOSTILE)}${'}'.repeat(levels)}`
const MAX_SHOWN = 200_000

let opened: OpenedConsole
let receiver: Receiver
let webhookId: string
/** Deliveries of the long and of the deep payload. */
let deliveries: readonly string[]

beforeAll(async () => {
  receiver = await startReceiver(() => ({ status: 500, body: MARKUP.repeat(14_000), headers: { 'x-note': 'a' } }))
  opened = await openConsole(
    inject('postgresUrl'),
    [auditLogs(), branding(), settings({ define: { long: z.string(), deep: z.json() } }), webhooks({ maxAttempts: 1 })],
    {},
    { egress: { allowPrivateNetworks: true, allowHttp: true } },
  )
  const { call } = opened
  await call('POST', '/tenants', { id: 'acme', name: HOSTILE, metadata: { note: HOSTILE } })
  await call('PUT', '/tenants/acme/branding', { displayName: MARKUP.slice(0, 100) })
  await call('PUT', '/tenants/acme/settings/long', { value: LONG.slice(0, 60_000) })
  // The admin API rejects bodies below 64 levels; the code of a host is not limited.
  const host = opened.tenancy as any
  await host.settings.set('acme', 'deep', JSON.parse(deep(1_000)))
  await call('POST', '/tokens', { name: HOSTILE.slice(-100), may: ['read'] })
  const subscription = { url: receiver.url, events: ['order.*'], description: HOSTILE }
  webhookId = (await call('POST', '/tenants/acme/webhooks', subscription)).webhookId
  await call('POST', '/tenants/acme/dispatch', { event: 'order.paid', payload: { text: LONG } })
  await host.webhooks.dispatch('acme', 'order.paid', JSON.parse(deep(1_000)))
  await eventually(async () => {
    const { data } = await call('GET', `/tenants/acme/webhooks/${webhookId}/deliveries?state=failed`)
    expect(data).toHaveLength(2)
    deliveries = data.map(({ id }: { id: string }) => id)
  }, SETUP_LIMIT_MS)
}, SETUP_LIMIT_MS)
afterAll(async () => {
  await opened?.[Symbol.asyncDispose]()
  await receiver?.close()
})

/** Elements that markup would create, the longest text, and texts whose direction has an effect on their neighbours. */
const FACTS = `(() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  let longest = 0
  const leaking = []
  while (walker.nextNode()) {
    const { data, parentElement } = walker.currentNode
    longest = Math.max(longest, data.length)
    const { display, unicodeBidi } = getComputedStyle(parentElement)
    if (data.includes('\u202e') && display === 'inline' && unicodeBidi !== 'isolate') leaking.push(parentElement.outerHTML.slice(0, 200))
  }
  return {
    scripts: document.scripts.length,
    made: [...document.querySelectorAll('main :is(img, iframe, object, embed, script, style, link)')].map(({ outerHTML }) => outerHTML),
    longest,
    leaking,
    isHit: document.title === 'hit',
  }
})()`
interface Facts {
  readonly scripts: number
  readonly made: readonly string[]
  readonly longest: number
  readonly leaking: readonly string[]
  readonly isHit: boolean
}

test('each screen shows hostile data as text, and has a constant number of scripts', {
  timeout: 12 * STEP_LIMIT_MS,
}, async () => {
  const { data } = await opened.call('GET', '/tenants/acme/audit-logs?limit=100')
  const entries = data.map(({ id }: { id: string }) => `/tenants/acme/audit?open=${id}`)
  const at = data[0].createdAt
  const paths = [
    '/',
    '/tenants',
    '/tenants/acme',
    '/tenants/acme/settings',
    '/tenants/acme/configuration',
    '/tenants/acme/branding',
    '/tenants/acme/webhooks',
    `/tenants/acme/webhooks/${webhookId}?open=edit`,
    ...deliveries.map((id) => `/tenants/acme/webhooks/${webhookId}/deliveries/${id}`),
    '/deliveries',
    '/audit',
    ...entries,
    `/tenants/acme?at=${at}`,
    '/tokens',
  ]
  await using console = await opened.open('/plans')
  const { page } = console
  await page.getByRole('heading', { name: 'Plans', level: 1 }).waitFor()
  const { scripts } = (await page.evaluate(FACTS)) as Facts
  let shown = 0
  for (const path of paths) {
    await page.goto(`${PREFIX}/console${path}`)
    await page.locator('h1').first().waitFor()
    await page.locator('.skeleton').first().waitFor({ state: 'detached' })
    await page.waitForLoadState('networkidle')
    if (await page.getByText('document.title').count()) shown++
    const { longest, ...facts } = (await page.evaluate(FACTS)) as Facts
    expect(facts, path).toEqual({ scripts, made: [], leaking: [], isHit: false })
    expect(longest, path).toBeLessThanOrEqual(MAX_SHOWN)
  }
  expect(shown).toBeGreaterThan(paths.length / 2)
  expect(console.complaints).toEqual([])
})

test('the palette and a confirmation show a hostile name as text', { timeout: 4 * STEP_LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme')
  const { page } = console
  await page.getByRole('heading', { name: 'document.title', level: 1 }).waitFor()
  const { scripts } = (await page.evaluate(FACTS)) as Facts
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: 'Search and commands' }).fill('suspend acme')
  await page
    .getByRole('option', { name: /^Suspend/ })
    .first()
    .click()
  await page.getByRole('alertdialog').getByText('document.title').first().waitFor()
  expect(await page.evaluate(FACTS)).toMatchObject({ scripts, made: [], isHit: false })
  expect(console.complaints).toEqual([])
})
