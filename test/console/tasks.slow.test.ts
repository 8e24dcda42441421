/**
 * The ten tasks of operators, each with the keyboard only and with the mouse only, on a service with all satellites. The count of keys and of
 * clicks is that of tasks.ts. Effects are read over the API and in the audit log.
 */
import { readFile } from 'node:fs/promises'
import type { Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { SETUP_LIMIT_MS, STEP_LIMIT_MS, TOKEN } from './console.fixture.ts'
import { type Device, Operator } from './operator.fixture.ts'
import { openTasks, type TaskData } from './tasks.fixture.ts'

const LIMIT_MS = 6 * STEP_LIMIT_MS
const SENT_WITHIN_MS = 60_000
const REASON = 'Ticket 4711: exports fail'

let data: TaskData
beforeAll(async () => {
  data = await openTasks(inject('postgresUrl'), ['acme', 'globex'])
}, SETUP_LIMIT_MS)
afterAll(() => data?.[Symbol.asyncDispose]())

type Steps = (operator: Operator, page: Page) => Promise<void>

describe.each([
  ['keyboard', 'acme'],
  ['mouse', 'globex'],
] as const)('with the %s only', (device: Device, id) => {
  const task = (title: string, steps: Steps) =>
    test(title, { timeout: LIMIT_MS }, async () => {
      await using console = await data.open('/plans')
      const { page } = console
      await page.getByRole('heading', { name: 'Plans', level: 1 }).waitFor()
      await steps(new Operator(page, device), page)
      console.expect(/404 \(Not Found\)/) // the page of a flag that the tenant does not have
      expect(console.complaints).toEqual([])
    })
  const heading = (page: Page, name: string | RegExp) => page.getByRole('heading', { name, level: 1 }).waitFor()
  const call = (method: string, path: string, body?: unknown) => data.call(method, path, body)
  const dialog = (page: Page): Locator => page.getByRole('dialog')
  const inNavigation = (page: Page, name: string) =>
    page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name, exact: true })

  test.each(['initech', 'Initech GmbH', 'initech.example', 'crm-4711'])(
    'the blocked tenant is found by "%s", and its page has the reason',
    { timeout: LIMIT_MS },
    async (query) => {
      await using console = await data.open('/deliveries')
      const { page } = console
      await heading(page, 'Deliveries')
      const operator = new Operator(page, device)
      await operator.choose(query, /Initech GmbH/)
      await page.getByText('Requests are rejected with 403 E_TENANT_SUSPENDED.').waitFor()
      await page.getByText('changed by admin (tenants.suspend)').waitFor()
      operator.finish('access')
      const { response } = await call('GET', '/tenants/initech/explain')
      expect(response).toEqual({ status: 403, code: 'E_TENANT_SUSPENDED' })
      expect(console.complaints).toEqual([])
    },
  )

  task('Home lists the conditions that need an operator, the worst first', async (operator, page) => {
    await operator.use(['g', 'h'], inNavigation(page, 'Home'))
    await heading(page, 'Home')
    const entries = page.locator('.attention').first().locator('> li')
    await entries.first().waitFor()
    operator.finish('attention')
    await eventually(async () => {
      const listed = (await call('GET', '/attention')).data as { title: string; severity: string }[]
      const severities = listed.map(({ severity }) => severity)
      expect([...new Set(severities)]).toEqual(['high', 'notice'])
      expect(severities).toEqual(severities.toSorted())
      const shown = (await entries.allInnerTexts()).map((text) => text.split('\n').slice(1, 3))
      expect(shown).toEqual(listed.map(({ title, severity }) => [`${severity}:`, title]))
    }, SENT_WITHIN_MS)
  })

  test('Home is the first screen after signing in', { timeout: LIMIT_MS }, async () => {
    await using console = await data.open('', { token: null })
    const { page } = console
    await page.getByLabel('Admin token').fill(TOKEN)
    await page.getByLabel('Admin token').press('Enter')
    await page.locator('.attention > li').first().waitFor()
    console.expect(/401/)
    expect(console.complaints).toEqual([])
  })

  task('a failed delivery is found by its id, and replayed', async (operator, page) => {
    const [deliveryId = ''] = data.failed.get(`single-${id}`) ?? []
    await operator.choose(deliveryId, /export\.failed_1/)
    await page.getByText('"number": 1').waitFor()
    await page.getByText('"busy"').first().waitFor()
    await operator.use(['r'], page.getByRole('button', { name: 'Replay', exact: true }))
    const confirm = page.getByRole('alertdialog').getByRole('button', { name: 'Replay', exact: true })
    await confirm.and(page.locator(':focus')).waitFor()
    data.recover()
    await operator.use(['Enter'], confirm)
    await page.getByText('export.failed_1 is sent again').waitFor()
    operator.finish('delivery')
    const { target } = await data.audited(id, 'webhookDeliveries.replay')
    const webhookId = target.replace('webhook:', '')
    await eventually(async () => {
      const delivery = await call('GET', `/tenants/${id}/webhooks/${webhookId}/deliveries/${deliveryId}`)
      expect(delivery).toMatchObject({ state: 'delivered', attemptCount: 2 })
    }, SENT_WITHIN_MS)
  })

  task('the failed deliveries of a receiver are counted, and replayed', async (operator, page) => {
    const path = `outage-${id}`
    const failed = data.failed.get(path) ?? []
    await operator.choose(path, new RegExp(path))
    await page.getByRole('heading', { name: new RegExp(path) }).waitFor()
    await operator.use(['Shift+R'], page.getByRole('button', { name: 'Replay failed…' }))
    const confirm = dialog(page).getByRole('button', { name: `Replay ${failed.length} deliveries` })
    await confirm.waitFor()
    data.recover()
    await operator.use(['Enter'], confirm)
    await page.getByText(`${failed.length} deliveries are sent again`).waitFor()
    operator.finish('replay')
    const { target, after } = await data.audited(id, 'webhooks.replayFailed')
    expect(after).toMatchObject({ count: failed.length })
    await eventually(async () => {
      const list = `/tenants/${id}/webhooks/${target.replace('webhook:', '')}/deliveries?state=delivered`
      const delivered = (await call('GET', list)).data.map((one: { id: string }) => one.id)
      expect(delivered.toSorted()).toEqual(failed.toSorted())
    }, SENT_WITHIN_MS)
  })

  task('a tenant is suspended after its id is typed, and the suspension is undone', async (operator, page) => {
    await operator.choose(`suspend ${id}`, new RegExp(`^Suspend ${id} Corp`))
    const confirm = page.getByRole('alertdialog')
    await confirm.getByRole('textbox').waitFor()
    await operator.type(id)
    await operator.use(['Enter'], confirm.getByRole('button', { name: 'Suspend' }))
    await page.getByText(`${id} Corp is suspended`).waitFor()
    operator.finish('suspension')
    expect(await call('GET', `/tenants/${id}`)).toMatchObject({ status: 'suspended' })
    expect(await data.audited(id, 'tenants.suspend')).toMatchObject({ actor: { name: 'admin' } })
    await confirm.waitFor({ state: 'detached' })
    await operator.use(['u'], page.getByRole('button', { name: 'Undo' }))
    await page.getByText(`${id} Corp is activated`).waitFor()
    operator.finish('suspensionUndo')
    expect(await call('GET', `/tenants/${id}`)).toMatchObject({ status: 'active' })
    expect(await data.audited(id, 'tenants.activate')).toMatchObject({ actor: { name: 'admin' } })
  })

  task('a flag is on for 10 % of the users of a tenant, and user 42 has a result', async (operator, page) => {
    await operator.choose(`new-editor ${id}`, /^new-editor/)
    await page.getByRole('heading', { name: 'new-editor', level: 2 }).waitFor()
    const more = page.getByRole('button', { name: 'More: 5 % more' })
    await operator.use(['+'], more)
    await operator.use(['+'], more)
    await page.getByText('Not saved. Present: 0 %').waitFor()
    await operator.use(['Enter'], page.getByRole('button', { name: 'Save' }))
    await page.getByText('new-editor is on for 10 %').waitFor()
    await operator.use(['w'], page.getByLabel('Ids of users'))
    await operator.type('42')
    await operator.use(['Enter'], page.getByRole('button', { name: 'Evaluate' }).first())
    const row = page.getByRole('row', { name: /^42 / })
    await row.waitFor()
    operator.finish('flag')
    const flag = `/tenants/${id}/feature-flags/new-editor`
    expect(await call('GET', flag)).toMatchObject({ enabled: true, rolloutPercent: 10 })
    const { enabled } = await call('POST', `${flag}/evaluate`, { bucketKey: '42' })
    expect(await row.innerText()).toMatch(enabled ? /\bon\b/ : /\boff\b/)
    expect(await data.audited(id, 'featureFlags.edit')).toMatchObject({ after: { rolloutPercent: 10 } })
  })

  task('a tenant that has used a quota is moved to a larger plan', async (operator, page) => {
    await operator.use(['g', 'q'], inNavigation(page, 'Quotas'))
    await page
      .getByRole('img', { name: /^exports: (9|10) of 10/ })
      .first()
      .waitFor()
    await operator.press('j', 'p')
    await operator.click(
      page.getByRole('button', { name: `Actions for ${id} Corp, exports` }),
      page.getByRole('menuitem', { name: 'Change plan…' }),
    )
    const plans = dialog(page).getByRole('listbox', { name: 'Plan' })
    await plans.and(page.locator(':focus')).waitFor()
    if (device === 'keyboard') await operator.type('pro')
    await operator.click(plans.getByRole('option', { name: /^pro/ }))
    await operator.use(['Enter'], dialog(page).getByRole('button', { name: 'Change plan' }))
    await page.getByText(`${id} is on the plan pro`).waitFor()
    operator.finish('quota')
    expect(await call('GET', `/tenants/${id}/quotas`)).toMatchObject({ plan: 'pro', limits: { exports: 100 } })
    expect(await data.audited(id, 'tenants.setPlan')).toMatchObject({ after: { metadata: { plan: 'pro' } } })
  })

  task('the history of an object has the author and the previous value', async (operator, page) => {
    const tenant = `/tenants/${id}`
    const { webhookId } = (await call('GET', `${tenant}/webhooks`)).data[0]
    await call('PATCH', tenant, { name: `${id} Holding` })
    for (const rolloutPercent of [25, 50]) {
      await call('PUT', `${tenant}/feature-flags/old-editor`, { enabled: true, rolloutPercent })
    }
    for (const description of ['Warehouse', 'Accounting']) {
      await call('PUT', `${tenant}/webhooks/${webhookId}`, { description })
    }
    for (const [path, heading, action, previous] of [
      [tenant, `${id} Holding`, 'tenants.update', `${id} Corp`],
      [`${tenant}/flags/old-editor`, 'old-editor', 'featureFlags.set', '25'],
      [`${tenant}/webhooks/${webhookId}`, '127.0.0.1', 'webhooks.update', 'Warehouse'],
    ] as const) {
      await page.goto(`${data.origin}/admin/multitenancy/console${path}`)
      await page.getByRole('heading', { name: heading }).waitFor()
      await operator.use(['h'], page.getByRole('button', { name: 'History' }).last())
      const entry = page.getByRole('complementary', { name: action })
      await entry.locator('del', { hasText: previous }).waitFor()
      await entry.getByText('admin', { exact: true }).waitFor()
      operator.finish('history')
      expect((await data.audited(id, action)).actor).toMatchObject({ name: 'admin' })
    }
    await page.goto(`${data.origin}/admin/multitenancy/console${tenant}`)
    await page.getByRole('link', { name: 'Updated by admin', exact: true }).waitFor()
    await call('PATCH', tenant, { name: `${id} Corp` })
  })

  task('the tenants in dunning are saved as CSV', async (operator, page) => {
    await operator.use(['g', 'b'], inNavigation(page, 'Billing'))
    await page.getByText('Payment retrying').waitFor()
    const downloading = page.waitForEvent('download')
    await operator.use(['e'], page.getByRole('button', { name: 'Export CSV' }))
    const [, ...rows] = (await readFile(await (await downloading).path(), 'utf8')).trim().split('\r\n')
    operator.finish('dunning')
    const { data: owing } = await call('GET', '/billing?dunning=open')
    expect(rows.map((row) => row.split(',')[0])).toEqual(owing.map((one: { tenantId: string }) => one.tenantId))
    expect(rows).toHaveLength(1)
  })

  task('a user is impersonated with a reason, and the impersonation is ended', async (operator, page) => {
    await operator.choose(`impersonate ${id}`, /^Impersonate/)
    await dialog(page).getByLabel('User').waitFor()
    await operator.type('user-42')
    await operator.use(['Tab'], dialog(page).getByLabel('Reason'))
    await operator.type(REASON)
    await operator.use(['Enter'], dialog(page).getByRole('button', { name: 'Start' }))
    await dialog(page).getByText('Token for user-42').waitFor()
    operator.finish('impersonation')
    const read = async () => (await call('GET', `/tenants/${id}/impersonations`)).data
    const [{ createdAt, expiresAt, ...started }] = await read()
    expect(started).toMatchObject({ userId: 'user-42', reason: REASON, endedAt: null })
    expect(Date.parse(expiresAt) - Date.parse(createdAt)).toBe(900_000)
    expect(await data.audited(id, 'impersonations.start')).toMatchObject({ after: { reason: REASON } })
    await page.getByRole('region', { name: 'Active impersonation' }).waitFor({ state: 'attached' })
    await operator.use(['Shift+Escape'], dialog(page).getByRole('button', { name: 'End impersonation' }))
    await page.getByText('Impersonation of user-42 ended').waitFor()
    operator.finish('impersonationEnd')
    expect((await read())[0].endedAt).not.toBeNull()
    expect(await data.audited(id, 'impersonations.end')).toMatchObject({ actor: { name: 'admin' } })
  })
})

test('the help lists the keys of the tasks on their screens', { timeout: LIMIT_MS }, async () => {
  const { webhookId } = (await data.call('GET', '/tenants/acme/webhooks')).data[0]
  const [deliveryId] = (await data.call('GET', `/tenants/acme/webhooks/${webhookId}/deliveries`)).data.map(
    ({ id }: { id: string }) => id,
  )
  await using console = await data.open('/plans')
  const { page } = console
  for (const [path, heading, keys] of [
    ['/plans', 'Plans', ['Ctrl K', 'u', 'j', 'g then h', 'g then q', 'g then b']],
    ['/billing?dunning=open', 'Billing', ['e']],
    ['/tenants/acme/flags/new-editor', 'new-editor', ['+', '-', 'w', 'h']],
    [`/tenants/acme/webhooks/${webhookId}`, '127.0.0.1', ['Shift R', 'h']],
    [`/tenants/acme/webhooks/${webhookId}/deliveries/${deliveryId}`, 'export.failed', ['r']],
  ] as const) {
    await page.goto(`${data.origin}/admin/multitenancy/console${path}`)
    await page.getByRole('heading', { name: heading }).first().waitFor()
    await page.keyboard.press('?')
    const help = page.getByRole('dialog', { name: 'Keyboard shortcuts' })
    await help.waitFor()
    const listed = await help.locator('dd').allInnerTexts()
    expect(listed, path).toEqual(expect.arrayContaining([...keys]))
  }
  expect(console.complaints).toEqual([])
})
