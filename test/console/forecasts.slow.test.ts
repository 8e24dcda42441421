/** Forecasts of gauges, whose rates are those of metrics. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { builtInSatellites } from '../../src/service/satellites.ts'
import { type OpenedConsole, openConsole, SETUP_LIMIT_MS, STEP_LIMIT_MS } from './console.fixture.ts'

const DAY_MS = 86_400_000

let opened: OpenedConsole

beforeAll(async () => {
  const plans = { defaultPlan: 'free', definitions: { free: { limits: { seats: 50, projects: 10 } } } }
  opened = await openConsole(inject('postgresUrl'), builtInSatellites(), {}, { plans })
  await opened.call('POST', '/tenants', { id: 'acme', name: 'Acme Corp' })
  for (const [quota, value] of [
    ['seats', 40],
    ['projects', 5],
  ] as const) {
    await opened.call('PUT', '/tenants/acme/quotas/usage', { quota, value })
  }
  await opened.tenancy.kernel.database.sql(
    `insert into multitenancy.metric_sums (day, tenant_id, key, incarnation, value)
     values ((now() at time zone 'UTC')::date - 3, 'acme', 'seats', gen_random_uuid(), 6)`,
  )
}, SETUP_LIMIT_MS)
afterAll(() => opened?.[Symbol.asyncDispose]())

test.each(['/tenants/acme/quotas', '/tenants/acme'])(
  'on %s a gauge with a metric of its name has a forecast, and a gauge without one has none',
  { timeout: 4 * STEP_LIMIT_MS },
  async (path) => {
    await using console = await opened.open(path)
    const { page } = console
    await page.getByRole('img', { name: /^projects: 5 of 10/ }).waitFor()
    const day = new Date(Date.now() + 5 * DAY_MS).toLocaleDateString('en', { dateStyle: 'medium', timeZone: 'UTC' })
    const forecast = `Used up on about ${day}, at 2 a day: the average of the metric seats in the last 3 full days.`
    await page.getByText(forecast).waitFor()
    expect(await page.locator('.quota-forecast').allInnerTexts()).toEqual([forecast])
    expect(console.complaints).toEqual([])
  },
)
