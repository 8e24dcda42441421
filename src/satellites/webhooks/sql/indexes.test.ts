/** The indexes of webhooks in an upgrade of tables with rows. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { runOnline } from '../../../kernel/database/migrations.ts'
import type { TestTenancy } from '../../../testing/base/tenancy.ts'
import { openWebhooks, type WebhooksSatellites } from '../webhooks.fixture.ts'
import { createdTenant } from '../webhooks-api.fixture.ts'
import { indexing } from './indexes.ts'

let opened: TestTenancy<WebhooksSatellites>
beforeAll(async () => {
  opened = await openWebhooks(inject('postgresUrl'), {}, { role: 'api' })
})
afterAll(() => opened?.end())

const TABLES = [
  'webhook_deliveries_unsuccessful',
  'webhook_deliveries_waiting_for_retry',
  'webhook_messages_of_tenant',
  'webhook_messages_undelivered',
]
const sql = async (text: string, values: unknown[] = []) =>
  (await opened.tenancy.kernel.database.sql(text, values)).rows
const build = () => opened.tenancy.kernel.database.session((client) => runOnline(client, indexing))
/** Indexes of partitions by the valid index of the table that contains them. */
async function indexes(): Promise<ReadonlyMap<string, readonly string[]>> {
  const rows = await sql(
    `select p.relname as table, c.relname as partition from pg_class p join pg_index of_table on of_table.indexrelid = p.oid
     join pg_inherits on inhparent = p.oid join pg_class c on c.oid = inhrelid join pg_index i on i.indexrelid = c.oid
     where p.relname = any($1) and i.indisvalid and of_table.indisvalid order by 2`,
    [TABLES],
  )
  return new Map(
    [...Map.groupBy(rows, ({ table }) => table)].map(([name, all]) => [name, all.map(({ partition }) => partition)]),
  )
}
const countsOf = (found: Awaited<ReturnType<typeof indexes>>) => TABLES.map((name) => found.get(name)?.length)

test('an upgrade builds the indexes of partitions with rows first, and again after an interruption', async () => {
  const { webhooks } = opened.tenancy
  const tenantId = await createdTenant(opened.tenancy)
  await webhooks.create(tenantId, { url: 'https://receiver.example/', events: ['*'] })
  await webhooks.dispatch(tenantId, 'order.paid', {})
  const counts = countsOf(await indexes())
  expect(counts).toEqual([4, 4, 4, 4])
  for (const name of TABLES) await sql(`drop index multitenancy.${name}`)
  expect((await indexes()).size).toBe(0)
  await build()
  const built = await indexes()
  expect(countsOf(built)).toEqual(counts)
  const index = built.get(TABLES[0] ?? '')?.find((name) => /^webhook_deliveries_\d{8}_unsuccessful$/.test(name)) ?? ''
  expect(index).not.toBe('')

  // As after a crash: an invalid index of a partition, and none of the table.
  await sql(`drop index multitenancy.${TABLES[0]}`)
  await sql(`create index ${index} on multitenancy.${index.replace('_unsuccessful', '')} (webhook_id)`)
  await sql(`update pg_index set indisvalid = false where indexrelid = 'multitenancy.${index}'::regclass`)
  await build()
  expect(await indexes()).toEqual(built)
})
