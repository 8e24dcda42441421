/** Counts of deliveries by hour and day, exact and from a sample. */
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import type { TestTenancy } from '../../../testing/base/tenancy.ts'
import { StatsQuery, stepsOf } from '../model/stats.ts'
import { clockOfToday, openWebhooks, subscriptionRows, type WebhooksSatellites } from '../webhooks.fixture.ts'
import { createdTenant } from '../webhooks-api.fixture.ts'
import { DeliveryStats } from './delivery-stats.ts'

const HOUR_MS = 3_600_000
const clock = clockOfToday()
/** The start of the last full hour. */
const HOUR = Math.floor(clock.now().getTime() / HOUR_MS) * HOUR_MS - HOUR_MS
const isoAt = (hours: number) => new Date(HOUR + hours * HOUR_MS).toISOString()

let opened: TestTenancy<WebhooksSatellites>
let tenantId: string
let webhookId: string
beforeAll(async () => {
  opened = await openWebhooks(inject('postgresUrl'), {}, { role: 'api', clock })
})
afterAll(() => opened?.end())
beforeEach(async () => {
  await sql('truncate multitenancy.webhook_deliveries, multitenancy.webhook_attempts')
  tenantId = await createdTenant(opened.tenancy)
  ;[webhookId = ''] = await subscriptionRows(opened.tenancy, tenantId, 1)
})

const sql = (text: string, values: unknown[] = []) => opened.tenancy.kernel.database.sql(text, values)
/** Inserts deliveries with one attempt each, at equal intervals from a time. The n-th attempt takes n ms. */
const insert = (many: number, state: string, options: { hours?: number; everyMs?: number; of?: string } = {}) =>
  sql(
    `with made as (
       insert into multitenancy.webhook_deliveries
         (id, message_id, webhook_id, tenant_id, partition_key, event, state, is_ready, attempt_count, created_at)
       select (left(multitenancy.webhook_id_floor(at)::text, 14) || '7' || right(gen_random_uuid()::text, 21))::uuid,
         gen_random_uuid(), $5, $6, $6, 'order.paid', $2, false, 1, at
       from (select to_timestamp(($3::float8 + n * $4::float8) / 1000) as at from generate_series(0, $1::int - 1) n) moments
       returning id, tenant_id, created_at)
     insert into multitenancy.webhook_attempts (delivery_id, number, tenant_id, started_at, duration_ms, request_headers)
     select id, 1, tenant_id, created_at, row_number() over (order by id), '{}' from made`,
    [many, state, HOUR + (options.hours ?? 0) * HOUR_MS, options.everyMs ?? 1_000, options.of ?? webhookId, tenantId],
  )
const stats = (request: object = {}) => opened.tenancy.webhooks.stats(request)
const empty = { delivered: 0, failed: 0, waiting: 0, p50Ms: null, p95Ms: null }

describe('the steps of a period', () => {
  const now = new Date('2026-03-10T12:30:00Z')
  const steps = (query: object) => {
    const all = stepsOf(StatsQuery.parse(query), now).map((ms) => new Date(ms).toISOString().slice(0, 13))
    return [all[0], all.at(-1), all.length - 1]
  }

  test.each<[query: object, expected: unknown[]]>([
    [{}, ['2026-03-09T13', '2026-03-10T13', 24]],
    [{ step: 'day' }, ['2026-02-09T00', '2026-03-11T00', 30]],
    [{ from: '2026-03-10T11:59:59Z' }, ['2026-03-10T11', '2026-03-10T13', 2]],
    [{ from: '2026-03-01', to: '2026-03-02' }, ['2026-03-01T00', '2026-03-02T00', 24]],
    [{ from: '2026-03-01', to: '2026-03-02T00:00:01Z', step: 'day' }, ['2026-03-01T00', '2026-03-03T00', 2]],
  ])('%j has full steps', (query, expected) => {
    expect(steps(query)).toEqual(expected)
  })

  test.each([[{ from: '2025-03-01' }], [{ from: '2026-03-11' }]])('%j is rejected', (query) => {
    expect(() => steps(query)).toThrow(expect.objectContaining({ code: 'E_INVALID_REQUEST' }))
  })
})

describe('statistics', () => {
  test('count outcomes by hour and by day, with percentiles of durations', async () => {
    await insert(100, 'delivered')
    await insert(20, 'failed', { hours: 1 })
    await insert(2, 'retry_scheduled', { hours: 1 })
    const period = { from: isoAt(-1), to: isoAt(2) }
    expect(await stats(period)).toEqual({
      step: 'hour',
      isEstimated: false,
      data: [
        { at: isoAt(-1), ...empty },
        { at: isoAt(0), delivered: 100, failed: 0, waiting: 0, p50Ms: 50, p95Ms: 95 },
        { at: isoAt(1), delivered: 0, failed: 20, waiting: 2, p50Ms: 9, p95Ms: 19 },
      ],
    })
    const byDay = (await stats({ ...period, step: 'day' })).data
    expect(byDay.reduce((sum, { delivered, failed, waiting }) => sum + delivered + failed + waiting, 0)).toBe(122)
  })

  test('are of one subscription, or of the subscriptions of a tenant', async () => {
    const [second = ''] = await subscriptionRows(opened.tenancy, tenantId, 1)
    const [ofHost = ''] = await subscriptionRows(opened.tenancy, null, 1)
    await insert(3, 'delivered')
    await insert(4, 'delivered', { of: second })
    await insert(5, 'delivered', { of: ofHost })
    const delivered = async (request: object) =>
      (await stats({ from: isoAt(0), to: isoAt(1), ...request })).data.map((one) => one.delivered)
    expect(await delivered({})).toEqual([12])
    expect(await delivered({ webhookId: second })).toEqual([4])
    expect(await delivered({ webhookId: ofHost })).toEqual([5])
    expect(await delivered({ tenantId })).toEqual([7])
    expect(await delivered({ tenantId, webhookId })).toEqual([3])
    const without = await createdTenant(opened.tenancy)
    expect(await delivered({ tenantId: without })).toEqual([0])
    await expect(stats({ tenantId: without, webhookId })).rejects.toMatchObject({ code: 'E_WEBHOOK_NOT_FOUND' })
  })

  test('of very many deliveries are estimated from a sample', async () => {
    await insert(14_400, 'delivered', { hours: -3, everyMs: 1_000 })
    await insert(3_600, 'failed', { hours: 0, everyMs: 500 })
    const exact = new DeliveryStats(opened.tenancy.kernel)
    const sampled = new DeliveryStats(opened.tenancy.kernel, 4_000)
    for (const scope of [{}, { tenantId }, { webhookId }]) {
      const request = StatsQuery.parse({ from: isoAt(-3), to: isoAt(1), ...scope })
      const real = await exact.of(request)
      expect(real.isEstimated).toBe(false)
      expect(real.data.map(({ delivered }) => delivered)).toEqual([3_600, 3_600, 3_600, 3_600])
      const estimated = await sampled.of(request)
      expect(estimated.isEstimated).toBe(true)
      expect(await sampled.of(request)).toEqual(estimated)
      for (const [index, { delivered, failed }] of real.data.entries()) {
        const found = estimated.data[index]
        expect(Math.abs((found?.delivered ?? 0) - delivered), `${index}`).toBeLessThan(delivered / 4)
        expect(Math.abs((found?.failed ?? 0) - failed), `${index}`).toBeLessThanOrEqual(failed / 4)
      }
    }
  })

  test('of too many steps for the subscriptions of a tenant are rejected', async () => {
    await subscriptionRows(opened.tenancy, tenantId, 50)
    const tooMany = stats({ tenantId, from: isoAt(-500), to: isoAt(0) })
    await expect(tooMany).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
    expect((await stats({ tenantId, from: isoAt(-100), to: isoAt(0) })).data).toHaveLength(100)
  })
})
