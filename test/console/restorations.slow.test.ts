/** Restorations of objects of satellites at a past time, and links from conditions to the changes in the hour before them. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { z } from 'zod'
import { recordChange } from '../../src/kernel/events/changes.ts'
import { auditLogs } from '../../src/satellites/audit-logs/index.ts'
import { billing } from '../../src/satellites/billing/index.ts'
import { secret, settings } from '../../src/satellites/settings/index.ts'
import { sso } from '../../src/satellites/sso/index.ts'
import { webhooks } from '../../src/satellites/webhooks/index.ts'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { type OpenedConsole, openConsole, SETUP_LIMIT_MS, STEP_LIMIT_MS, TOKEN } from './console.fixture.ts'
import { describeScreens } from './screens.fixture.ts'

const LIMIT_MS = 4 * STEP_LIMIT_MS
const WITHOUT_LOG = 'wit_f3kR8sQ2xL0v'
const WITHOUT_CREATION = 'woc_f3kR8sQ2xL0v'
const CLOSED_PORT = 'http://127.0.0.1:9/hooks'
const PASSWORD = 'hunter2-and-more'
const HOUR_MS = 3_600_000
const OIDC = {
  issuer: 'https://login.acme.example',
  clientId: 'tenantry',
  redirectUri: 'https://app.example/sso/acme',
  allowedDomains: ['acme.example'],
  enabled: true,
}

let opened: OpenedConsole
let time: string
let changed: string
let deleted: string

const call = (method: string, path: string, body?: unknown) => opened.call(method, `/tenants/acme${path}`, body)

beforeAll(async () => {
  const define = { 'upload.mb': z.int().default(10), 'mail.from': z.string(), 'mail.password': secret(z.string()) }
  const stripe = { apiKey: 'sk_test_0123456789', webhookSecret: 'whsec_0123456789', endpoint: 'http://127.0.0.1:9' }
  opened = await openConsole(
    inject('postgresUrl'),
    [auditLogs(), settings({ define }), webhooks({ maxAttempts: 1 }), sso(), billing({ stripe, products: {} })],
    {
      adminTokens: [
        { name: 'admin', token: TOKEN },
        { name: 'without-log', token: WITHOUT_LOG, may: ['read', '!auditLogs.listAll'] },
        { name: 'without-creation', token: WITHOUT_CREATION, may: ['read', 'webhooks.update'] },
      ],
    },
    { egress: { allowPrivateNetworks: true, allowHttp: true } },
  )
  await opened.call('POST', '/tenants', { id: 'acme', name: 'Acme' })
  await call('PUT', '/settings/upload.mb', { value: 20 })
  await call('PUT', '/settings/mail.from', { value: 'old@acme.example' })
  await call('PUT', '/settings/mail.password', { value: PASSWORD })
  const subscribe = async (events: string[]) =>
    (await call('POST', '/webhooks', { url: CLOSED_PORT, events, description: 'Accounting' })).webhookId
  changed = await subscribe(['order.paid'])
  deleted = await subscribe(['invoice.*'])
  await call('PUT', '/sso', { ...OIDC, clientSecret: PASSWORD })
  const { events } = opened.tenancy.kernel
  const ofProvider = { tenantId: 'acme', target: 'subscription:sub_1', action: 'billing.dunning' }
  await recordChange(events, { ...ofProvider, before: { state: 'retrying' }, after: { state: 'grace' } })
  time = (await call('GET', '/audit-logs?limit=1')).data[0].createdAt

  await call('PUT', '/settings/upload.mb', { value: 30 })
  await call('DELETE', '/settings/mail.from')
  await call('PUT', '/settings/mail.password', { value: 'another' })
  await call('POST', '/dispatch', { event: 'order.paid', payload: {} })
  await eventually(async () => {
    expect((await opened.call('GET', '/webhook-deliveries?state=failed')).data).toHaveLength(1)
  }, 2 * STEP_LIMIT_MS)
  await call('PUT', `/webhooks/${changed}`, { events: ['order.*'], description: null, envelope: true })
  await call('DELETE', `/webhooks/${deleted}`)
  await call('PUT', '/sso', { ...OIDC, allowedDomains: ['other.example'] })
  await recordChange(events, { ...ofProvider, before: { state: 'grace' }, after: { state: 'recovered' } })
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

/** Restores an object, and waits for the message. @param expected text of the confirmation */
async function restore(name: string, expected = ''): Promise<void> {
  await using console = await opened.open(`/tenants/acme?at=${time}`)
  const { page } = console
  await page.getByRole('button', { name: `Restore this state: ${name}` }).click()
  const dialog = page.getByRole('alertdialog')
  await dialog.locator('ins').first().waitFor()
  expect(await dialog.innerText()).toContain(expected)
  await dialog.getByRole('button', { name: 'Restore', exact: true }).click()
  await page.getByText(/ has the state of /).waitFor()
  if (name === deleted) expect(await page.locator('.shown-once code').innerText()).toMatch(/^whsec_/)
  console.expect(/status of 404/)
  expect(console.complaints).toEqual([])
}

describe('a restoration', () => {
  test('of a setting sets the former value, also of a deleted one', { timeout: LIMIT_MS }, async () => {
    await restore('upload.mb')
    expect(await call('GET', '/settings/upload.mb')).toMatchObject({ value: 20, source: 'tenant' })
    await restore('mail.from')
    expect(await call('GET', '/settings/mail.from')).toMatchObject({ value: 'old@acme.example', source: 'tenant' })
  })

  test('of a subscription sets its members', { timeout: LIMIT_MS }, async () => {
    await restore(changed)
    const expected = { url: CLOSED_PORT, events: ['order.paid'], description: 'Accounting', envelope: false }
    expect(await call('GET', `/webhooks/${changed}`)).toMatchObject(expected)
  })

  test('of a deleted subscription creates one with another id, and shows its secret once', {
    timeout: LIMIT_MS,
  }, async () => {
    await restore(deleted, 'created with another id')
    const { data } = await call('GET', '/webhooks')
    const made = data.find(({ events }: { events: string[] }) => events.includes('invoice.*'))
    expect(made).toMatchObject({ url: CLOSED_PORT, description: 'Accounting', enabled: true })
    expect(made.webhookId).not.toBe(deleted)
  })

  test('of a deleted subscription shows no difference to a token that may not create one', {
    timeout: LIMIT_MS,
  }, async () => {
    await using console = await opened.open(`/tenants/acme?at=${time}`, { token: WITHOUT_CREATION })
    const { page } = console
    await page.getByRole('button', { name: `Restore this state: ${deleted}` }).click()
    const dialog = page.getByRole('alertdialog')
    await dialog.getByText('The object no longer exists. Your token may not call webhooks.create.').first().waitFor()
    expect(await dialog.getByText('becomes the present one').count()).toBe(0)
    expect(await dialog.locator('.diff').count()).toBe(0)
    console.expect(/status of 404/)
    expect(console.complaints).toEqual([])
  })

  test('of single sign-on keeps the secret of the same client', { timeout: LIMIT_MS }, async () => {
    await restore('Single sign-on')
    expect(await call('GET', '/sso')).toMatchObject({ ...OIDC, clientSecretSet: true })
  })

  test('of single sign-on with another client removes the secret and stays disabled', {
    timeout: LIMIT_MS,
  }, async () => {
    await call('PUT', '/sso', { ...OIDC, clientId: 'other', clientSecret: 'of-other' })
    await restore('Single sign-on')
    expect(await call('GET', '/sso')).toMatchObject({ ...OIDC, enabled: false, clientSecretSet: false })
  })

  test('is not offered for secrets and billing, and the page states why', { timeout: LIMIT_MS }, async () => {
    await using console = await opened.open(`/tenants/acme?at=${time}`)
    const { page } = console
    await page.getByText('Values of secrets are not in the audit log').waitFor()
    await page.getByText('Client secrets are not in the audit log.').waitFor()
    await page.getByText('no operation restores them').waitFor()
    await page.locator('.card', { has: page.getByRole('heading', { name: 'sub_1' }) }).waitFor()
    expect(await page.getByRole('button', { name: /Restore this state: (mail\.password|sub_1)/ }).count()).toBe(0)
    expect(await page.content()).not.toContain(PASSWORD)
    expect(console.complaints).toEqual([])
  })
})

describe('the changes in the hour before', () => {
  /** Follows the link of a screen; returns the hour of the address. */
  async function hourOf(path: string): Promise<{ from: number; to: number }> {
    await using console = await opened.open(path)
    const { page } = console
    await page
      .getByRole('link', { name: /^Changes in the hour before/ })
      .first()
      .click()
    await page.getByRole('heading', { name: 'Audit log', level: 1 }).waitFor()
    const { pathname, searchParams } = new URL(page.url())
    expect(pathname).toMatch(/\/console\/audit$/)
    const [from, to] = ['from', 'to'].map((key) => Date.parse(searchParams.get(key) ?? ''))
    expect(await page.getByRole('textbox', { name: 'From' }).getAttribute('type')).toBe('datetime-local')
    expect(console.complaints).toEqual([])
    return { from: from ?? 0, to: to ?? 0 }
  }

  test('are linked from a condition that needs attention', { timeout: LIMIT_MS }, async () => {
    const { data } = await opened.call('GET', '/attention?tenantId=acme')
    const { since } = data.find(({ tenantId }: { tenantId: string | null }) => tenantId === 'acme')
    const { from, to } = await hourOf('/tenants/acme')
    expect([from, to]).toEqual([Date.parse(since) - HOUR_MS, Date.parse(since)])
  })

  test('are linked from a list of deliveries with failures', { timeout: LIMIT_MS }, async () => {
    const [{ createdAt }] = (await opened.call('GET', '/webhook-deliveries?state=failed')).data
    const { to } = await hourOf('/deliveries')
    expect(to).toBe(Date.parse(createdAt))
  })

  test('are not linked for a token that may not read the audit log of all tenants', { timeout: LIMIT_MS }, async () => {
    await using console = await opened.open('/deliveries', { token: WITHOUT_LOG })
    const { page } = console
    await page.getByText('Oldest failure of the shown deliveries').waitFor({ state: 'detached' })
    await page
      .getByRole('cell', { name: 'order.paid' })
      .or(page.getByRole('rowheader', { name: 'order.paid' }))
      .waitFor()
    expect(await page.getByRole('link', { name: 'Changes in the hour before' }).count()).toBe(0)
    expect(console.complaints).toEqual([])
  })
})

describeScreens(
  () => opened,
  [
    [() => `/tenants/acme?at=${time}`, 'no operation restores them'],
    ['/tenants/acme', 'Changes in the hour before'],
    ['/deliveries', 'Oldest failure'],
  ],
)
