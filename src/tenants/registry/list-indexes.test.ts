/** Lists over all tenants read an index, in the order of the list. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { keysetQuery, NEWEST_FIRST, type Order } from '../../kernel/api/page.ts'
import type { Database } from '../../kernel/database/database.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { TenantTables } from '../tenant/tables.ts'
import type { TransferFilter } from '../transfers/transfers.ts'
import { type PlanCondition, type TenantSearch, tenantsMatching } from './search.ts'

const TENANTS = 5_000
const BY_NAME = { columns: ['name', 'id'], direction: 'asc' } as const
const LAST_CHANGED = { columns: ['updatedAt', 'id'], direction: 'desc' } as const

let opened: TestTenancy<[]>
let database: Database

beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), { role: 'api' })
  database = opened.tenancy.kernel.database
  await database.sql(
    `insert into multitenancy.tenants
       (id, name, status, metadata, domains, isolation, placement, locator, maintenance, created_at, updated_at)
     select 'customer-' || i, md5(i::text), 'active',
       jsonb_build_object('crmId', 'crm-' || i, 'plan', case when i % 1000 = 0 then 'gold' else 'pro' end),
       '{}', case when i % 1000 = 0 then 'database-pg' else 'schema-pg' end, case when i % 1000 = 0 then 'eu-1' else 'main' end,
       't1_' || i, case when i % 1000 = 0 then '{}'::jsonb end, timestamptz '2026-01-01 00:00Z' + i * interval '1 second',
       timestamptz '2026-01-01 00:00Z' - i * interval '1 second'
     from generate_series(1, $1) i`,
    [TENANTS],
  )
  await database.sql(
    `insert into multitenancy.transfers (id, kind, tenant_id, backup_id, isolation, placement, state, created_at)
     select gen_random_uuid(), case when i % 1000 = 0 then 'move' else 'backup' end, 'customer-' || i,
       case when i % 1000 > 0 then gen_random_uuid() end, 'schema-pg', case when i % 1000 = 0 then 'eu-1' else 'main' end,
       case when i % 1000 = 1 then 'failed' else 'completed' end, timestamptz '2026-01-01 00:00Z' + i * interval '1 second'
     from generate_series(1, $1) i`,
    [TENANTS],
  )
  await database.sql('vacuum analyze multitenancy.tenants')
  await database.sql('vacuum analyze multitenancy.transfers')
})
afterAll(() => opened?.end())

describe('tenants', () => {
  const planOf = async (search: TenantSearch, plan?: PlanCondition, order: Order = NEWEST_FIRST) =>
    JSON.stringify(await keysetQuery(tenantsMatching(database, search, plan), order, undefined, 51).explain('json'))

  test.each<[string, string, TenantSearch, PlanCondition?, Order?]>([
    ['by name', 'tenants_name_page', {}, undefined, BY_NAME],
    ['by their last change', 'tenants_updated_page', {}, undefined, LAST_CHANGED],
    ['of a plan', 'tenants_plan_page', {}, { is: 'gold' }],
    ['of an isolation driver', 'tenants_isolation_page', { isolation: 'database-pg' }],
    ['on a placement', 'tenants_placement_page', { placement: 'eu-1' }],
    ['in maintenance', 'tenants_maintenance_page', { inMaintenance: true }],
    ['with a member of the metadata', 'tenants_metadata', { metadata: { crmId: 'crm-7' } }],
  ])('%s are read with the index %s', async (_, index, ...given) => {
    const plan = await planOf(...given)
    expect(plan).toContain(`"Index Name":"${index}"`)
    expect(plan).not.toContain('Seq Scan')
  })

  test('with a value anywhere in the metadata are read with the index tenants_metadata', async () => {
    const { rows } = await database.sql(
      `explain (format json) select * from multitenancy.tenants where purged_at is null and metadata @? '$.** ? (@ == "crm-7")'`,
    )
    expect(JSON.stringify(rows)).toContain('"Index Name":"tenants_metadata"')
  })
})

test.each<[TransferFilter, string]>([
  [{}, 'transfers_newest'],
  [{ state: 'failed' }, 'transfers_state_page'],
  [{ kind: 'move' }, 'transfers_kind_page'],
  [{ placement: 'eu-1' }, 'transfers_placement_page'],
])('transfers with the filter %j are read with the index %s', async (filter, index) => {
  let query = database.query<TenantTables>().selectFrom('transfers').selectAll()
  for (const [column, value] of Object.entries(filter)) query = query.where(column as 'state', '=', value)
  const plan = JSON.stringify(await keysetQuery(query, NEWEST_FIRST, undefined, 51).explain('json'))
  expect(plan).toContain(`"Index Name":"${index}"`)
  expect(plan).not.toContain('Seq Scan')
})
