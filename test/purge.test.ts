/** Checks that a purge deletes the tenant's rows from every table with a column `tenant_id`, in all parts. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { schemaPg } from '../src/drivers/isolation/schema-pg.ts'
import { postgresStore } from '../src/drivers/store/postgres.ts'
import type { Database } from '../src/kernel/database/database.ts'
import { satellites } from '../src/service/main.ts'
import { partsOf } from '../src/tenancy/parts.ts'
import type { Tenancy } from '../src/tenancy/tenancy.ts'
import { installed } from '../src/testing/base/tenancy.ts'
import { type OpenRunner, openRunner } from './contract/runner.ts'

/** Tables that no part names in `tenantTables`, because other code deletes their rows. */
const DELETED_OTHERWISE: Readonly<Record<string, string>> = {
  store_counters: 'deleted by the store',
  store_gauges: 'deleted by the store',
  store_sums: 'deleted by the store',
  storage_locations: 'a row is deleted after the storage that it names',
  webhook_subscriptions: 'their deliveries, attempts and messages are deleted first, in batches',
}

/** Tables whose rows are kept after the purge, or are not found by `tenant_id`, with the reason. */
const KEPT: Readonly<Record<string, string>> = {
  outbox_received: 'ids of applied entries: deleted after 36 days',
  audit_entries: 'the audit log outlives the objects that it describes',
  audit_seals: 'seals of audit entries',
  audit_heads: 'seals of audit entries',
  audit_checkpoints: 'seals of audit entries',
  audit_keys: 'keys of encrypted audit entries: an erasure destroys them',
  webhook_messages: 'deleted with the subscriptions of the tenant; those of the host receive its last events',
  webhook_deliveries: 'deleted with the subscriptions of the tenant; those of the host receive its last events',
  webhook_attempts: 'deleted with the subscriptions of the tenant; those of the host receive its last events',
}

/** The report of an erasure. A purge leaves a tenant with one to it. */
const REPORT = 'erasures'

let stage: OpenRunner
let tenancy: Tenancy
let database: Database

beforeAll(async () => {
  stage = await openRunner(inject('postgresUrl'))
  ;({ tenancy } = await stage.open({ role: 'all', isolation: [schemaPg()], tenants: { retentionDays: 0 } }))
  database = tenancy.kernel.database
})
afterAll(() => stage?.end())

interface Column {
  readonly name: string
  readonly type: string
  readonly isKey: boolean
}

async function tenantTables(): Promise<Map<string, Column[]>> {
  const { rows } = await database.sql(
    `select t.relname as table, json_agg(json_build_object(
       'name', c.attname, 'type', format_type(c.atttypid, null),
       'isKey', exists (select from pg_index i where i.indrelid = t.oid and i.indisprimary and c.attnum = any(i.indkey)))) as columns
     from pg_class t join pg_attribute c on c.attrelid = t.oid and c.attnum > 0 and not c.attisdropped
     where t.relnamespace = 'multitenancy'::regnamespace and t.relkind in ('r', 'p') and not t.relispartition
       and exists (select from pg_attribute a where a.attrelid = t.oid and a.attname = 'tenant_id')
     group by 1 order by 1`,
  )
  return new Map(rows.map(({ table, columns }) => [table, columns]))
}

const VALUES: Readonly<Record<string, string>> = {
  bigint: '1',
  date: 'current_date',
  text: '$1',
  integer: '1',
  uuid: 'gen_random_uuid()',
  'timestamp with time zone': 'now()',
  'timestamp(3) with time zone': 'now()',
}

/** Values of columns that the purge reads. */
const READ: Readonly<Record<string, string>> = { isolation: `'schema-pg'`, placement: `'main'` }

/**
 * Inserts a row with values in its key and its tenant only: constraints of other columns are dropped in this database.
 */
async function plant(table: string, columns: readonly Column[], tenantId: string): Promise<void> {
  for (const { name, isKey } of columns) {
    if (!isKey) await database.sql(`alter table multitenancy.${table} alter ${name} drop not null`)
  }
  const { rows } = await database.sql(
    `select conname from pg_constraint where conrelid = $1::regclass and contype in ('c', 'f') and not conname ~ 'tenant_id'`,
    [`multitenancy.${table}`],
  )
  for (const { conname } of rows) await database.sql(`alter table multitenancy.${table} drop constraint ${conname}`)
  const keys = columns.filter(({ name, isKey }) => isKey && name !== 'tenant_id')
  const missing = keys.filter(({ type }) => !VALUES[type]).map(({ type }) => type)
  expect(missing, `types of the key of ${table}`).toEqual([])
  const names = ['tenant_id', ...keys.map(({ name }) => name)].join(', ')
  const values = ['$1', ...keys.map(({ name, type }) => READ[name] ?? VALUES[type])].join(', ')
  await database.sql(`insert into multitenancy.${table} (${names}) values (${values})`, [tenantId])
}

const countOf = async (table: string, tenantId: string): Promise<number> =>
  Number(
    (await database.sql(`select count(*) from multitenancy.${table} where tenant_id = $1`, [tenantId])).rows[0].count,
  )

test('a purge deletes the rows of the tenant from every table, and no other rows', async () => {
  const { tenants } = tenancy
  for (const id of ['leaving', 'staying']) await installed(tenancy, { id, name: id })
  await tenants.delete('leaving')
  const tables = await tenantTables()
  tables.delete(REPORT)
  expect(tables.size).toBeGreaterThan(10)
  for (const [table, columns] of tables) {
    for (const id of ['leaving', 'staying']) if ((await countOf(table, id)) === 0) await plant(table, columns, id)
  }

  expect(await tenants.installation.purge('leaving')).toBe(true)

  const left = []
  for (const table of tables.keys()) if ((await countOf(table, 'leaving')) > 0) left.push(table)
  const kept = Object.keys(KEPT).filter((table) => tables.has(table))
  expect(left).toEqual(kept.toSorted())
  for (const table of tables.keys()) expect(await countOf(table, 'staying'), table).toBeGreaterThan(0)
})

test('an erasure deletes the rows of the tenant from every table but the audit log, and no other rows', async () => {
  const { erasures } = tenancy.tenants
  await installed(tenancy, { id: 'erased', name: 'erased' })
  await tenancy.tenants.delete('erased') // before rows without a kind are planted, of which a deletion would cancel some
  const tables = await tenantTables()
  tables.delete(REPORT)
  tables.delete('row_adoption_tenants') // a reservation of an adoption in progress rejects the request
  for (const [table, columns] of tables) {
    for (const id of ['erased', 'staying']) if ((await countOf(table, id)) === 0) await plant(table, columns, id)
  }
  const signal = AbortSignal.timeout(60_000)
  await erasures.request('erased', { confirm: 'erased', reason: 'request 4711' })
  const { report, waitingFor } = await erasures.settled('erased', signal, {
    isDone: ({ state, waitingFor }) => state === 'completed' || waitingFor !== null,
  })

  expect(waitingFor).toBeNull()
  const left = []
  for (const table of tables.keys()) if ((await countOf(table, 'erased')) > 0) left.push(table)
  const audit = [...tables.keys()].filter((table) => table.startsWith('audit_'))
  expect(left).toEqual(audit)
  expect(report?.systems.filter(({ foundAfterwards }) => foundAfterwards > 0).map(({ system }) => system)).toEqual(
    expect.arrayContaining(['audit log']),
  )
  for (const table of tables.keys()) expect(await countOf(table, 'staying'), table).toBeGreaterThan(0)
})

test('every table with a column tenant_id is named by one part, or listed here', async () => {
  const named = partsOf(postgresStore(), satellites).flatMap(({ tenantTables: names = [] }) => names)
  expect(named).toEqual([...new Set(named)])
  const expected = [...named, ...Object.keys(KEPT), ...Object.keys(DELETED_OTHERWISE), REPORT]
  const found = [...(await tenantTables()).keys()]
  expect(found.filter((table) => !expected.includes(table))).toEqual([])
  expect(expected.filter((table) => !found.includes(table))).toEqual([])
})
