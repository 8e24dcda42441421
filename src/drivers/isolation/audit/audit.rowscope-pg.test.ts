/** Tests the audit of an installation whose tenants share tables. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { locationOf, provisioned } from '../roles/installation.fixture.ts'
import { rowObjects } from '../row-security/apply.ts'
import { rowscopePg } from '../rowscope-pg.ts'
import { type Audited, openAudited } from './audit.fixture.ts'

const NOTES = {
  name: '0001_notes',
  checksum: '',
  up: `create table notes (tenant_id text not null default tenantry.current_tenant(), id int, primary key (tenant_id, id))`,
}

const open = () => openAudited({ driver: () => rowscopePg(), migrations: [NOTES] })

describe('the audit of shared tables', () => {
  let here: Audited
  beforeAll(async () => {
    here = await open()
    await here.driver.provision(locationOf(here.driver, 'acme'))
  })
  afterAll(() => here.installation.end())

  test('finds no fault in new tables, nor before their creation', async () => {
    const empty = await open()
    expect(await empty.driver.inventory?.('main')).toEqual([])
    expect(await empty.faults()).toEqual([])
    const { db } = await provisioned(empty.driver, 'acme')
    await db.insertInto('notes').values({ id: 1 }).execute()
    expect(await empty.faults()).toEqual([])
    await empty.installation.end()
  })

  const unscoped = 'table tenantry_rows.notes is readable by the role $scope outside of a tenant'
  test.each([
    [
      'without force',
      'alter table tenantry_rows.notes no force row level security',
      ['table "tenantry_rows"."notes": FORCE is missing'],
    ],
    [
      'without row security',
      'alter table tenantry_rows.notes disable row level security',
      ['table "tenantry_rows"."notes": RLS is disabled', unscoped],
    ],
    [
      'with another policy',
      'create policy unscoped on tenantry_rows.notes for select using (true)',
      ['table "tenantry_rows"."notes": the policy "unscoped" extends the rows that a tenant may see', unscoped],
    ],
    [
      'with a policy function that does not raise an error without a tenant',
      `create or replace function tenantry.admitted_tenant() returns text stable language sql
       return current_setting('app.tenant_id', true)`,
      [unscoped],
    ],
  ])('reports shared tables %s', async (_, statement, words) => {
    await here.sql(statement)
    const found = await here.faults()
    await here.sql(`drop policy if exists unscoped on tenantry_rows.notes; ${rowObjects(here.scope)}`)
    await here.driver.migrate(locationOf(here.driver, 'acme'))
    expect(found).toMatchObject(
      words.map((text) => ({
        severity: 'error',
        code: text === unscoped ? 'isolation.unscoped-read' : 'isolation.rows-unprotected',
        message: expect.stringContaining(text.replace('$scope', here.scope)),
      })),
    )
    expect(await here.faults()).toEqual([])
  })

  test('lists fences, which are the only data stored for each tenant, in the inventory', async () => {
    await here.driver.fence(locationOf(here.driver, 'acme'))
    expect(await here.driver.inventory?.('main')).toEqual([{ locator: 'acme', isFenced: true }])
    await here.driver.unfence(locationOf(here.driver, 'acme'))
    expect(await here.driver.inventory?.('main')).toEqual([])
  })
})
