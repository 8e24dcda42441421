import { beforeAll, describe, expect, inject, test } from 'vitest'
import { currentContext, enterContext } from '../../kernel/base/context.ts'
import { uuidv7 } from '../../kernel/base/ids.ts'
import { Attention } from '../../tenants/overview/attention.ts'
import type { TestTenancy } from '../../testing/base/tenancy.ts'
import { openWebhooks, subscriptionRows, type WebhooksSatellites, type WebhooksTenancy } from './webhooks.fixture.ts'

const HOUR_MS = 3_600_000

let opened: TestTenancy<WebhooksSatellites>
let tenancy: WebhooksTenancy
beforeAll(async () => {
  opened = await openWebhooks(inject('postgresUrl'), {}, { role: 'api' })
  tenancy = opened.tenancy
  return opened.end
})

const sql = (text: string, values: readonly unknown[]) => tenancy.kernel.database.sql(text, values)
const listed = (filter: { tenantId?: string; kind?: string }) => new Attention(tenancy.kernel).list(filter)

/** Inserts failed deliveries, each at its time. */
async function failedAt(webhookId: string, times: readonly Date[]): Promise<void> {
  for (const at of times) {
    await sql(
      `insert into multitenancy.webhook_deliveries
         (id, message_id, webhook_id, partition_key, event, state, is_ready, created_at)
       select id, id, $1, '-', 'order.paid', 'failed', false, $2 from (
         select (left(multitenancy.webhook_id_floor($2)::text, 19) || right(gen_random_uuid()::text, 17))::uuid as id) made`,
      [webhookId, at],
    )
  }
}

describe('the attention list', () => {
  test('has a subscription that has only failed for an hour, and a disabled one', async () => {
    const id = uuidv7()
    const [failing = '', recent = '', disabled = ''] = await subscriptionRows(tenancy, id, 3)
    const since = new Date(Date.now() - 2 * HOUR_MS)
    await sql('update multitenancy.webhook_subscriptions set failing_since = $2 where id = $1', [failing, since])
    await sql('update multitenancy.webhook_subscriptions set failing_since = now() where id = $1', [recent])
    await sql(`update multitenancy.webhook_subscriptions set enabled = false, disabled_reason = 'gone' where id = $1`, [
      disabled,
    ])
    const { data, totals } = await listed({ tenantId: id, kind: 'webhookFailing' })
    expect(data.map(({ params }) => params)).toEqual([
      { id, webhookId: failing },
      { id, webhookId: disabled },
    ])
    expect(data[0]).toMatchObject({ severity: 'high', since: since.toISOString(), operation: 'webhooks.get' })
    expect(totals).toEqual([{ kind: 'webhookFailing', severity: 'high', total: 2 }])
  })

  test('counts subscriptions of tenants and of the host separately, and has up to 50 of each', async () => {
    const id = uuidv7()
    const own = await subscriptionRows(tenancy, id, 60)
    const host = await subscriptionRows(tenancy, null, 55)
    await sql(
      `update multitenancy.webhook_subscriptions set failing_since = now() - interval '2 days' where id = any($1)`,
      [own],
    )
    await sql(
      `update multitenancy.webhook_subscriptions set failing_since = now() - interval '1 day' where id = any($1)`,
      [host],
    )
    const listedWith = (...operations: string[]) => {
      const grant = { bounds: [['*']] as const, operations: new Set(operations), tenants: null, expiresAt: null }
      return enterContext({ ...currentContext(), grant }, () => listed({ kind: 'webhookFailing' }))
    }
    const { data, totals } = await listedWith('hostWebhooks.get')
    expect(data).toHaveLength(50)
    expect(new Set(data.map(({ operation, tenantId }) => [operation, tenantId].join()))).toEqual(
      new Set(['hostWebhooks.get,']),
    )
    expect(totals).toMatchObject([{ total: 55 }])
    const [{ total = 0 } = {}] = (await listedWith('webhooks.get')).totals
    expect(total).toBeGreaterThanOrEqual(60)
    expect((await listedWith('webhooks.get', 'hostWebhooks.get')).totals).toMatchObject([{ total: total + 55 }])
    await sql('delete from multitenancy.webhook_subscriptions where id = any($1)', [[...own, ...host]])
  })

  test('has the number of deliveries that failed in 24 hours', async () => {
    const id = uuidv7()
    await subscriptionRows(tenancy, id, 1)
    const count = (hoursAgo: number, failed: number) =>
      sql('insert into multitenancy.webhook_counters (tenant_id, since, delivered, failed) values ($1, $2, 1, $3)', [
        id,
        new Date(Date.now() - hoursAgo * HOUR_MS),
        failed,
      ])
    await count(1, 2)
    await count(2, 0)
    await count(20, 3)
    await count(30, 70)
    expect((await listed({ tenantId: id })).data).toMatchObject([{ kind: 'deliveriesFailed', count: 5 }])
  })

  test('has overdue deliveries by subscription', async () => {
    const id = uuidv7()
    const [webhookId = ''] = await subscriptionRows(tenancy, id, 1)
    await failedAt(webhookId, [new Date()])
    await sql(
      `update multitenancy.webhook_deliveries set state = 'pending', is_ready = true, due_at = now() - interval '6 minutes'
       where webhook_id = $1`,
      [webhookId],
    )
    expect((await listed({ tenantId: id })).data).toMatchObject([{ kind: 'webhookQueue', tenantId: id, count: 1 }])
    await sql('delete from multitenancy.webhook_deliveries where webhook_id = $1', [webhookId])
  })
})

describe('the timeline', () => {
  const hour = new Date(Math.floor(Date.now() / HOUR_MS) * HOUR_MS)
  const at = (hoursAgo: number, minute: number) => new Date(hour.getTime() - hoursAgo * HOUR_MS + minute * 60_000)

  test('has failed deliveries of all subscriptions of the tenant by hour, page by page', async () => {
    const id = uuidv7()
    const [one = '', two = ''] = await subscriptionRows(tenancy, id, 2)
    const [other = ''] = await subscriptionRows(tenancy, uuidv7(), 1)
    await failedAt(one, [at(1, 5), at(1, 50), at(3, 0), at(7, 59)])
    await failedAt(two, [at(1, 20), at(5, 0)])
    await failedAt(other, [at(2, 0)])
    const { timelines } = tenancy.tenants.overview
    const read = async (limit: number, options = {}) => {
      const all: unknown[] = []
      let cursor: string | undefined
      do {
        const page = await timelines.list(id, { kind: 'deliveries', limit, cursor, ...options })
        expect(page.failed).toEqual([])
        all.push(...page.data.map(({ at, title }) => [at, title]))
        cursor = page.nextCursor ?? undefined
      } while (cursor)
      return all
    }
    const entry = (hoursAgo: number, count: number) => [at(hoursAgo, 0).toISOString(), `Deliveries failed: ${count}`]
    const expected = [entry(1, 3), entry(3, 1), entry(5, 1), entry(7, 1)]
    for (const limit of [1, 2, 50]) expect(await read(limit)).toEqual(expected)
    expect(await read(50, { from: at(5, 0), to: at(1, 0) })).toEqual([entry(3, 1), entry(5, 1)])
  })
})
