/** The proof where tenants share tables: its rules beside those of every server. */
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

describe('tables that tenants share', () => {
  let here: Audited
  beforeAll(async () => {
    here = await open()
    await here.driver.provision(locationOf(here.driver, 'acme'))
  })
  afterAll(() => here.installation.end())

  test('are found without fault as they are made, and before there is one', async () => {
    const empty = await open()
    expect(await empty.driver.inventory?.('main')).toEqual([])
    expect(await empty.faults()).toEqual([])
    const { db } = await provisioned(empty.driver, 'acme')
    await db.insertInto('notes').values({ id: 1 }).execute()
    expect(await empty.faults()).toEqual([])
    await empty.installation.end()
  })

  const answered = 'table tenantry_rows.notes answers the role $scope outside of a tenant'
  test.each([
    [
      'without force',
      'alter table tenantry_rows.notes no force row level security',
      ['table "tenantry_rows"."notes": not forced'],
    ],
    [
      'without row security',
      'alter table tenantry_rows.notes disable row level security',
      ['table "tenantry_rows"."notes": no row security', answered],
    ],
    [
      'with another policy',
      'create policy anybody on tenantry_rows.notes for select using (true)',
      ['table "tenantry_rows"."notes": the policy "anybody" adds to what a tenant may see', answered],
    ],
    [
      'whose policies ask what raises no more',
      `create or replace function tenantry.admitted_tenant() returns text stable language sql
       return current_setting('app.tenant_id', true)`,
      [answered],
    ],
  ])('%s', async (_, statement, words) => {
    await here.sql(statement)
    const found = await here.faults()
    await here.sql(`drop policy if exists anybody on tenantry_rows.notes; ${rowObjects(here.scope)}`)
    await here.driver.migrate(locationOf(here.driver, 'acme'))
    expect(found).toMatchObject(
      words.map((text) => ({
        severity: 'error',
        code: text === answered ? 'isolation.unscoped-read' : 'isolation.rows-unprotected',
        message: expect.stringContaining(text.replace('$scope', here.scope)),
      })),
    )
    expect(await here.faults()).toEqual([])
  })

  test('have fences, which are all that is stored for one tenant', async () => {
    await here.driver.fence(locationOf(here.driver, 'acme'))
    expect(await here.driver.inventory?.('main')).toEqual([{ locator: 'acme', isFenced: true }])
    await here.driver.unfence(locationOf(here.driver, 'acme'))
    expect(await here.driver.inventory?.('main')).toEqual([])
  })
})
