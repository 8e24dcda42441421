/** Screens of webhooks in a browser: every screen in both themes and three widths, and the actions with their effect over the API. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { axeViolations, PREFIX, READER, SETUP_LIMIT_MS, STEP_LIMIT_MS } from '../../../test/console/console.fixture.ts'
import { describeScreens } from '../../../test/console/screens.fixture.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { type ConsoleData, openConsoleData } from './console-data.fixture.ts'

const LIMIT_MS = 4 * STEP_LIMIT_MS
const HOUR_MS = 3_600_000
const SENT_WITHIN_MS = 60_000

let data: ConsoleData

beforeAll(async () => {
  data = await openConsoleData(inject('postgresUrl'))
}, SETUP_LIMIT_MS)
afterAll(() => data?.[Symbol.asyncDispose]())

const call = (method: string, path: string, body?: unknown) => data.console.call(method, path, body)
const acme = (path = '') => `/tenants/acme/webhooks${path}`
/** Replaces `:failing` by the id of the subscription. */
const filled = (path: string) => path.replace(/:(\w+)/g, (_, key: keyof ConsoleData['ids']) => data.ids[key])

const at = (path: string, shown: string) => [() => filled(path), shown] as const

describeScreens(
  () => data.console,
  [
    ['/tenants/acme', 'Deliveries'],
    ['/tenants/acme/webhooks', 'Warehouse'],
    ['/tenants/acme/webhooks?open=new', 'Create subscription'],
    ['/tenants/acme/webhooks?open=event', 'Payload'],
    ['/tenants/globex/webhooks', 'No subscription'],
    at('/tenants/acme/webhooks/:healthy', 'Warehouse'),
    at('/tenants/acme/webhooks/:disabled?open=edit', 'Save changes'),
    at('/tenants/acme/webhooks/:healthy?state=failed', 'No delivery matches'),
    at('/tenants/acme/webhooks/:failing/deliveries/:failed', 'order.paid'),
    // The delivery is one of another subscription.
    [() => filled('/tenants/acme/webhooks/:disabled/deliveries/:failed'), 'not found', /404/],
    ['/deliveries', 'order.paid'],
    ['/webhooks', '/hooks'],
    at('/webhooks/:host/deliveries/:ofHost', 'order.paid'),
  ],
)

test('charts show outcomes and response times by hour, and a selection of hours filters the deliveries', {
  timeout: LIMIT_MS,
}, async () => {
  await using console = await data.console.open('/deliveries')
  const { page } = console
  const outcomes = page.locator('.chart').first()
  const plot = outcomes.getByRole('slider', { name: 'Deliveries of the last 24 hours' })
  await outcomes.locator('.u-over').waitFor()
  await page.getByRole('slider', { name: 'Response times of receivers' }).waitFor()
  const { data: hours } = await call('GET', '/webhook-stats')
  const sum = (outcome: string) => hours.reduce((total: number, hour: any) => total + hour[outcome], 0)
  await outcomes
    .getByText(`${sum('delivered')} delivered, ${sum('failed')} failed, ${sum('waiting')} waiting.`)
    .waitFor()
  const styles = await outcomes
    .locator('.chart-legend line')
    .evaluateAll((lines) =>
      lines.map((line: any) => `${line.getAttribute('stroke-dasharray')} ${line.closest('svg').dataset.color}`),
    )
  expect(styles).toEqual([' good', '7 3 bad', '2 3 neutral'])
  await page.getByText('As a table').last().click()
  expect(await page.locator('.chart').last().locator('thead th').allInnerTexts()).toEqual(['Hour', 'p50', 'p95'])
  expect(await axeViolations(page)).toEqual([])

  await plot.focus()
  await page.keyboard.press('Home')
  await page.keyboard.down('Shift')
  await page.keyboard.press('ArrowRight')
  await page.keyboard.up('Shift')
  await page.getByText('No delivery matches').waitFor()
  const { from = '', to = '', ...others } = Object.fromEntries(new URL(page.url()).searchParams)
  expect([Date.parse(from) % HOUR_MS, Date.parse(to) - Date.parse(from), others]).toEqual([0, 2 * HOUR_MS, {}])
  await page.getByRole('button', { name: 'Clear filters' }).first().click()
  await plot.waitFor()
  expect(console.complaints).toEqual([])
})

test('the caption of the chart names the period if the address has only its end', {
  timeout: LIMIT_MS,
}, async () => {
  const to = new Date(Math.ceil(Date.now() / HOUR_MS) * HOUR_MS).toISOString()
  const { data: hours } = await call('GET', `/webhook-stats?to=${to}&step=hour`)
  await using console = await data.console.open(`/deliveries?to=${to}`)
  const { page } = console
  const [start, end] = [hours[0].at, to].map((at) =>
    new Date(at).toLocaleString('en', { dateStyle: 'medium', timeStyle: 'medium' }),
  )
  await page.getByRole('slider', { name: `Deliveries, ${start} to ${end}` }).waitFor()
  expect(console.complaints).toEqual([])
})

test('a delivered delivery shows its time as other times', { timeout: LIMIT_MS }, async () => {
  const path = acme(`/${data.ids.healthy}/deliveries/${data.ids.delivered}`)
  const { deliveredAt } = await call('GET', path)
  await using console = await data.console.open(path)
  const { page } = console
  const time = new Date(deliveredAt).toLocaleString('en', { dateStyle: 'medium', timeStyle: 'medium' })
  await page.getByText(`Delivered at ${time} after one attempt with status 200.`).waitFor()
  expect(await page.locator('.notice time').getAttribute('datetime')).toBe(deliveredAt)
  expect(console.complaints).toEqual([])
})

test('a subscription is created, and its secret is shown once', { timeout: LIMIT_MS }, async () => {
  await using console = await data.console.open('/tenants/globex/webhooks')
  const { page } = console
  await page.getByRole('button', { name: 'New subscription' }).click()
  await page.getByLabel('URL').fill('not a url')
  await page.getByRole('button', { name: 'Create subscription' }).click()
  expect(await page.getByLabel('URL').getAttribute('aria-invalid')).toBe('true')
  await page.getByLabel('URL').fill('http://127.0.0.1:9/hooks')
  await page.getByLabel('Events', { exact: true }).fill('order.*')
  await page.getByLabel('Add an event of Tenantry').selectOption('tenant.suspended')
  await page.getByRole('button', { name: 'Create subscription' }).click()
  const dialog = page.getByRole('dialog', { name: 'Secret of the subscription' })
  const secret = await dialog.locator('code').innerText()
  expect(secret).toMatch(/^whsec_/)
  await dialog.getByRole('button', { name: 'Done' }).click()
  await page.getByRole('link', { name: 'http://127.0.0.1:9/hooks' }).waitFor()
  expect(await page.content()).not.toContain(secret)
  const [created] = (await call('GET', '/tenants/globex/webhooks')).data
  expect(created).toMatchObject({ url: 'http://127.0.0.1:9/hooks', events: ['order.*', 'tenant.suspended'] })
  expect(new URL(page.url()).search).toBe('')
  expect(console.complaints).toEqual([])
})

test('a subscription is changed, disabled and enabled again by undo', { timeout: LIMIT_MS }, async () => {
  await using console = await data.console.open(`${acme()}/${data.ids.healthy}`)
  const { page } = console
  await page.getByRole('heading', { name: /hooks$/ }).waitFor()
  const actions = page.locator('.page-actions').last().getByRole('button', { name: 'Actions' })
  await actions.click()
  await page.getByRole('menuitem', { name: 'Edit' }).click()
  expect(await page.getByLabel('Description').inputValue()).toBe('Warehouse')
  await page.getByLabel('Description').fill('')
  await page.getByRole('button', { name: 'Save changes' }).click()
  await page.getByText(/^Subscription .* saved$/).waitFor()
  expect(await call('GET', acme(`/${data.ids.healthy}`))).toMatchObject({ description: null, enabled: true })

  await actions.click()
  await page.getByRole('menuitem', { name: 'Disable' }).click()
  await page.getByText(/^Subscription .* disabled$/).waitFor()
  expect(await call('GET', acme(`/${data.ids.healthy}`))).toMatchObject({ enabled: false })
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByText(/^Subscription .* enabled$/).waitFor()
  expect(await call('GET', acme(`/${data.ids.healthy}`))).toMatchObject({ enabled: true })
  expect(console.complaints).toEqual([])
})

test('a secret is rotated, and a subscription is deleted after its host is typed', { timeout: LIMIT_MS }, async () => {
  const { webhookId } = await call('POST', acme(), { url: 'http://127.0.0.1:9/removed', events: ['none.*'] })
  await using console = await data.console.open(`${acme()}/${webhookId}`)
  const { page } = console
  await page.getByRole('heading', { name: /removed$/ }).waitFor()
  const actions = page.locator('.page-actions').last().getByRole('button', { name: 'Actions' })
  await actions.click()
  await page.getByRole('menuitem', { name: 'Rotate secret…' }).click()
  await page.getByLabel('Former secret signs for (seconds)').fill('0')
  await page.keyboard.press('Enter')
  const dialog = page.getByRole('dialog', { name: 'Secret of the subscription' })
  expect(await dialog.locator('code').innerText()).toMatch(/^whsec_/)
  await dialog.getByRole('button', { name: 'Done' }).click()

  await actions.click()
  await page.getByRole('menuitem', { name: 'Delete…' }).click()
  await page.getByRole('alertdialog').getByRole('textbox').press('Enter')
  await page.getByRole('alertdialog').getByRole('textbox').fill('127.0.0.1:9')
  await page.keyboard.press('Enter')
  await page.getByText(/^Subscription .* deleted$/).waitFor()
  await expect(call('GET', acme(`/${webhookId}`))).rejects.toThrow('404')
  expect(new URL(page.url()).pathname).toBe(`${PREFIX}/console${acme()}`)
  console.expect(/404/)
  expect(console.complaints).toEqual([])
})

test('filters are in the address, and survive a reload and "back"', { timeout: LIMIT_MS }, async () => {
  await using console = await data.console.open('/deliveries')
  const { page } = console
  const rows = page.locator('.table-scroll tbody tr')
  await page.getByRole('link', { name: 'order.paid' }).first().waitFor()
  await page.getByRole('button', { name: 'Failed', exact: true }).click()
  await page.getByLabel('Response', { exact: true }).selectOption('5xx')
  await page.getByLabel('Event', { exact: true }).fill('order.paid')
  await page.keyboard.press('Enter')
  await page.getByText('6 deliveries', { exact: true }).waitFor()
  expect(new URL(page.url()).search).toBe('?state=failed&status=5xx&event=order.paid')
  await page.reload()
  await page.getByText('6 deliveries', { exact: true }).waitFor()
  await rows.first().getByRole('link').click()
  await page.getByRole('heading', { name: 'order.paid', level: 2 }).waitFor()
  await page.goBack()
  await page.getByText('6 deliveries', { exact: true }).waitFor()
  await page.getByLabel('Tenant id').fill('globex')
  await page.keyboard.press('Enter')
  await page.getByText('No delivery matches').waitFor()
  await page.getByRole('button', { name: 'Clear filters' }).first().click()
  await page.getByRole('link', { name: 'order.created' }).first().waitFor()
  expect(new URL(page.url()).search).toBe('')
  expect(console.complaints).toEqual([])
})

test('a delivery shows attempts on the schedule, their difference, and those with the same failure', {
  timeout: LIMIT_MS,
}, async () => {
  const path = `${acme()}/${data.ids.failing}/deliveries/${data.ids.failed}`
  await using console = await data.console.open(path)
  const { page } = console
  await page.getByText('2 attempts were made, the last with status 503.').waitFor()
  expect(await page.getByRole('img').getAttribute('aria-label')).toMatch(/^Attempt 1: planned .*Attempt 2: planned /)
  const difference = page.locator('.diff').first()
  expect(await difference.locator('del, ins').allInnerTexts()).toEqual(['500', '503'])
  await page.getByRole('link', { name: 'Attempt 1' }).click()
  await page.getByRole('region', { name: 'Attempt 1' }).waitFor()
  expect(new URL(page.url()).search).toBe('?open=1')
  await page.getByRole('link', { name: 'Same failure' }).click()
  await page.getByText('6 deliveries', { exact: true }).waitFor()
  await page.getByRole('button', { name: /^Remove the filter: Same response as/ }).click()
  expect(new URL(page.url()).search).toBe('')
  expect(console.complaints).toEqual([])
})

test('the attempts of a delivery fit the page from 1024 px on, and are a list at 390 px', {
  timeout: LIMIT_MS,
}, async () => {
  await using console = await data.console.open(acme(`/${data.ids.failing}/deliveries/${data.ids.failed}`))
  const { page } = console
  const attempts = page.getByRole('table', { name: 'Attempts' })
  await attempts.getByRole('link', { name: 'Attempt 1' }).waitFor()
  for (const width of [1440, 1280, 1024]) {
    await page.setViewportSize({ width, height: 800 })
    expect(await attempts.getByRole('columnheader').allInnerTexts()).toEqual([
      'Attempt',
      'Response',
      'Started',
      'Duration',
    ])
    const { isCut, isAligned } = await attempts.evaluate((table: any) => {
      const endOf = (cell: string): number => table.querySelector(cell).getBoundingClientRect().right
      const { scrollWidth, clientWidth } = table.parentElement
      return {
        isCut: scrollWidth > clientWidth,
        isAligned: endOf('thead th:last-child') === endOf('tbody td:last-child'),
      }
    })
    expect({ width, isCut, isAligned }).toEqual({ width, isCut: false, isAligned: true })
  }
  await page.setViewportSize({ width: 390, height: 844 })
  expect(await attempts.getByRole('columnheader').count()).toBe(0)
  await attempts.getByRole('link', { name: 'Attempt 2' }).click()
  await page.getByRole('region', { name: 'Attempt 2' }).getByText('127.0.0.1', { exact: false }).first().waitFor()
  expect(console.complaints).toEqual([])
})

test('the list of tenants has a column of failing subscriptions, with one read for all rows', {
  timeout: LIMIT_MS,
}, async () => {
  await data.console.tenancy.kernel.database.sql(
    `update multitenancy.webhook_subscriptions set failing_since = now() - interval '2 hours' where id = $1`,
    [data.ids.failing],
  )
  await using console = await data.console.open('/')
  const { page } = console
  const reads: string[] = []
  page.on('request', (request) => request.url().includes('/attention?kind=webhookFailing') && reads.push(request.url()))
  await page.goto(`${PREFIX}/console/tenants?columns=tenant,webhooks`)
  await page.locator('tr[data-id=acme]').getByText('1 subscription').waitFor()
  expect(await page.locator('tr[data-id=globex] td[data-title="Failing webhooks"]').innerText()).toBe('–')
  expect(reads).toHaveLength(1)
  expect(console.complaints).toEqual([])
})

test('markup and bidirectional text of a receiver and a payload are shown as text', { timeout: LIMIT_MS }, async () => {
  const [delivery] = (await call('GET', acme(`/${data.ids.disabled}/deliveries`))).data
  await using console = await data.console.open(`${acme()}/${data.ids.disabled}/deliveries/${delivery.id}`)
  const { page } = console
  const scripts = await page.locator('script').count()
  await page.getByText('<script>alert(1)</script><h1>Internal error</h1>').first().waitFor()
  await page.getByText('<b>bold</b>').waitFor()
  expect(await page.locator('script').count()).toBe(scripts)
  expect(console.complaints).toEqual([])
})

test('the key r and Enter replay a delivery', { timeout: LIMIT_MS }, async () => {
  const path = acme(`/${data.ids.failing}/deliveries/${data.ids.failed}`)
  await using console = await data.console.open(path)
  const { page } = console
  await page.getByRole('button', { name: 'Replay', exact: true }).waitFor()
  await page.keyboard.press('r')
  await page.getByRole('alertdialog', { name: 'Replay the delivery?' }).waitFor()
  await page.keyboard.press('Enter')
  await page.getByText('order.paid is sent again').waitFor()
  await page.getByRole('link', { name: 'Attempt 3' }).waitFor()
  expect((await call('GET', path)).attempts.length).toBeGreaterThanOrEqual(3)
  expect(console.complaints).toEqual([])
})

test('Shift R counts failed deliveries, and Enter replays them', { timeout: 2 * LIMIT_MS }, async () => {
  const path = acme(`/${data.ids.failing}`)
  await eventually(async () => {
    expect((await call('GET', `${path}/deliveries?state=failed`)).data).toHaveLength(6)
  }, SENT_WITHIN_MS)
  data.recover()
  await using console = await data.console.open(path)
  const { page } = console
  await page.getByRole('button', { name: 'Replay failed…' }).waitFor()
  await page.keyboard.press('Shift+R')
  const dialog = page.getByRole('dialog', { name: 'Replay failed' })
  await dialog.getByText('6 deliveries in this time.').waitFor()
  await page.keyboard.press('Enter')
  await page.getByText('6 deliveries are sent again').waitFor()
  await eventually(async () => {
    expect((await call('GET', `${path}/deliveries?state=delivered`)).data).toHaveLength(6)
  }, SENT_WITHIN_MS)
  await page.getByText('healthy', { exact: true }).waitFor()
  expect(console.complaints).toEqual([])
})

test('missing deliveries of a new subscription are counted, then sent', { timeout: LIMIT_MS }, async () => {
  const { url } = await call('GET', acme(`/${data.ids.healthy}`))
  const { webhookId } = await call('POST', acme(), { url, events: ['order.created'] })
  await using console = await data.console.open(acme())
  const { page } = console
  await page.locator(`tr[data-id="${webhookId}"]`).getByRole('button').click()
  await page.getByRole('menuitem', { name: 'Replay missing…' }).click()
  await page.getByRole('button', { name: 'Replay 6 deliveries' }).click()
  await page.getByText('6 deliveries are sent again').waitFor()
  expect((await call('GET', acme(`/${webhookId}/deliveries`))).data).toHaveLength(6)
  expect(console.complaints).toEqual([])
})

test('an event and a test event are sent', { timeout: LIMIT_MS }, async () => {
  await using console = await data.console.open(acme())
  const { page } = console
  await page.getByRole('button', { name: 'Send an event' }).click()
  await page.getByLabel('Event', { exact: true }).fill('user.invited')
  await page.getByLabel('Payload').fill('{"userId":"42"}')
  await page.getByRole('button', { name: 'Dispatch event' }).click()
  await page.getByText('Event dispatched: 1 delivery').waitFor()
  const [sent] = (await call('GET', acme(`/${data.ids.healthy}/deliveries?event=user.invited`))).data
  expect(await call('GET', acme(`/${data.ids.healthy}/deliveries/${sent.id}`))).toMatchObject({
    payload: { userId: '42' },
  })

  await page.locator(`tr[data-id="${data.ids.healthy}"]`).getByRole('button').click()
  await page.getByRole('menuitem', { name: 'Send a test…' }).click()
  await page.getByRole('dialog').getByLabel('Event').press('Enter')
  await page.getByRole('heading', { name: 'webhook.test' }).waitFor()
  await page.getByText('Delivered', { exact: true }).first().waitFor()
  expect(console.complaints).toEqual([])
})

test('a token of scope read sees subscriptions and deliveries, and no actions', { timeout: LIMIT_MS }, async () => {
  await using console = await data.console.open(`${acme()}/${data.ids.failing}`, { token: READER })
  const { page } = console
  await page.getByRole('link', { name: 'order.paid' }).first().waitFor()
  expect(await page.getByRole('button', { name: /Actions|Replay|Edit/ }).count()).toBe(0)
  expect(console.complaints).toEqual([])
})
