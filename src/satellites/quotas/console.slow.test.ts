/** Screens of quotas in a browser: use against limit, set, reset, ranking, plan of the selected row. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import {
  axeViolations,
  type OpenedConsole,
  openConsole,
  SETUP_LIMIT_MS,
  STEP_LIMIT_MS,
} from '../../../test/console/console.fixture.ts'
import { describeScreens } from '../../../test/console/screens.fixture.ts'
import { quotas } from './index.ts'

const LIMIT_MS = 4 * STEP_LIMIT_MS
const LONG = 'exports-of-a-quota-with-a-long-name'

let opened: OpenedConsole

beforeAll(async () => {
  const definitions = {
    free: { limits: { exports: 10, seats: 3, mails: 50, [LONG]: 1_000_000 } },
    pro: { limits: { exports: 100, seats: 50 } },
    enterprise: { limits: {} },
  }
  opened = await openConsole(inject('postgresUrl'), [quotas()], {}, { plans: { defaultPlan: 'free', definitions } })
  const { call } = opened
  for (const [id, name] of [
    ['acme', 'Acme'],
    ['globex', 'Globex'],
    ['empty', `A long name ${'of a customer '.repeat(6)}`],
  ] as const) {
    await call('POST', '/tenants', { id, name })
  }
  await call('PUT', '/tenants/acme/plans/pro')
  await use('acme', 'exports', 85)
  await use('acme', 'seats', 12)
  await use('globex', 'exports', 11)
  await use('globex', 'seats', 1)
  await use('globex', 'mails', 40)
  await (opened.tenancy as any).quotas.usageRecords.write()
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

const use = (id: string, quota: string, value: number) =>
  opened.call('PUT', `/tenants/${id}/quotas/usage`, { quota, value })
const read = (id: string) => opened.call('GET', `/tenants/${id}/quotas`)

test('the use of a quota is set, and the toast reverts it', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants/acme/quotas')
  const { page } = console
  await page.getByRole('img', { name: /^seats: 12 of 50, 24%/ }).waitFor()
  await page.getByRole('button', { name: 'Actions for seats' }).click()
  await page.getByRole('menuitem', { name: 'Set use…' }).click()
  await page.getByLabel('Use', { exact: true }).fill('45')
  await page.keyboard.press('Enter')
  await page.getByRole('img', { name: /^seats: 45 of 50, 90%/ }).waitFor()
  expect(await read('acme')).toMatchObject({ usage: { seats: 45, exports: 85 } })
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByRole('img', { name: /^seats: 12 of 50/ }).waitFor()
  expect(await read('acme')).toMatchObject({ usage: { seats: 12 } })
  expect(console.complaints).toEqual([])
})

test('the use of a quota is reset after the id of the tenant is typed', { timeout: LIMIT_MS }, async () => {
  await use('globex', 'seats', 2)
  await using console = await opened.open('/tenants/globex/quotas')
  const { page } = console
  await page.getByRole('button', { name: 'Actions for seats' }).click()
  await page.getByRole('menuitem', { name: 'Reset…' }).click()
  await page.getByRole('alertdialog').getByRole('textbox').fill('globex')
  await page.keyboard.press('Enter')
  await page.getByText('seats is reset').waitFor()
  expect(await read('globex')).toMatchObject({ usage: { seats: 0, exports: 11 } })
  expect(console.complaints).toEqual([])
})

test('the ranking is filtered, and the key p changes the plan of the selected row', { timeout: LIMIT_MS }, async () => {
  await using console = await opened.open('/tenants')
  const { page } = console
  await page.getByRole('link', { name: 'Acme' }).waitFor()
  await page.getByRole('heading', { level: 1 }).focus()
  await page.keyboard.press('g')
  await page.keyboard.press('q')
  await page.getByRole('img', { name: /^exports: 11 of 10, 110%/ }).waitFor()
  await page.keyboard.press('j')
  await page.keyboard.press('p')
  const plan = page.getByLabel('Plan', { exact: true })
  await plan.waitFor()
  expect(await axeViolations(page)).toEqual([])
  await page.keyboard.type('pro')
  await page.keyboard.press('Enter')
  await page.getByText('globex is on the plan pro').waitFor()
  expect(await read('globex')).toMatchObject({ plan: 'pro' })
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByText('globex is on the plan free').waitFor()

  await page.getByLabel('Quota').selectOption('seats')
  await page.getByText('No tenant uses this much of a limit').waitFor()
  expect(new URL(page.url()).search).toBe('?quota=seats')
  await page.getByRole('button', { name: 'Clear all' }).click()
  await page.getByRole('button', { name: '100% and more' }).click()
  await page.getByRole('link', { name: 'Acme' }).waitFor({ state: 'detached' })
  expect(console.complaints).toEqual([])
})

test('a daily counter has a forecast for today', { timeout: LIMIT_MS }, async () => {
  await opened.call('POST', '/tenants/empty/quotas/mails/track', { amount: 40 })
  await using console = await opened.open('/tenants/empty/quotas')
  const { page } = console
  await page.clock.setFixedTime(new Date(`${new Date().toISOString().slice(0, 10)}T12:00:00Z`))
  await page.reload()
  await page.getByText('Used up at about 3:00 PM UTC, at 3.33 an hour since 00:00 UTC.').waitFor()
  expect(await page.locator('.quota-forecast').count()).toBe(1)
  expect(console.complaints).toEqual([])
})

describeScreens(
  () => opened,
  [
    ['/quotas', 'Acme'],
    ['/quotas?quota=seats&above=1', 'No tenant uses this much of a limit'],
    ['/tenants/acme/quotas', '85 of 100'],
    ['/tenants/globex/quotas', LONG],
    ['/tenants/acme', '85 of 100'],
    ['/tenants/empty/quotas', '0 of 10'],
  ],
)
