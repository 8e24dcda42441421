/** The proof where tenants share tables, and where each has a database: what is theirs beside what every server is asked. */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { Finding } from '../../kernel/doctor.ts'
import type { IsolationDriver } from '../../tenants/isolation.ts'
import { databasePg } from './database-pg.ts'
import { createInstallation, type Installation, placeOf, provisioned } from './installation.fixture.ts'
import { withDatabase } from './postgres-server.ts'
import { rowObjects } from './row-policies.ts'
import { rowscopePg } from './rowscope-pg.ts'

const NOTES = {
  name: '0001_notes',
  checksum: '',
  up: `create table notes (tenant_id text not null default tenantry.current_tenant(), id int, primary key (tenant_id, id))`,
}

interface Stage {
  readonly installation: Installation
  readonly driver: IsolationDriver
  readonly login: string
  readonly scope: string
  sql(text: string): Promise<void>
  /** All but what is told of every database. */
  faults(): Promise<Finding[]>
}

async function stage(make: () => IsolationDriver): Promise<Stage> {
  const installation = await createInstallation(inject('postgresUrl'), { driver: make, migrations: [NOTES] })
  const placement = await installation.prepare()
  const driver = await installation.open(placement)
  const audit = async () =>
    Array.fromAsync(
      driver.audit(
        (async function* () {
          yield placeOf(driver, 'acme')
          yield placeOf(driver, 'globex')
        })(),
      ),
    )
  return {
    installation,
    driver,
    login: new URL(placement.tenantUrl).username,
    scope: placement.scopeRole,
    sql: (text) => installation.database.session(async (client) => void (await client.query(text))),
    faults: async () => (await audit()).filter(({ severity }) => severity !== 'info'),
  }
}

describe('tables that tenants share', () => {
  let here: Stage
  beforeAll(async () => {
    here = await stage(() => rowscopePg())
  })
  afterAll(() => here.installation.end())

  test('are found without fault as they are made, and before there is one', async () => {
    expect(await here.driver.inventory?.('main')).toEqual([])
    expect(await here.faults()).toEqual([])
    const { db } = await provisioned(here.driver, 'acme')
    await db.insertInto('notes').values({ id: 1 }).execute()
    expect(await here.faults()).toEqual([])
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
    await here.driver.migrate(placeOf(here.driver, 'acme'))
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
    await here.driver.fence(placeOf(here.driver, 'acme'))
    expect(await here.driver.inventory?.('main')).toEqual([{ locator: 'acme', isFenced: true }])
    await here.driver.unfence(placeOf(here.driver, 'acme'))
    expect(await here.driver.inventory?.('main')).toEqual([])
  })
})

describe('a database for each tenant', () => {
  let here: Stage
  let acme: string
  beforeAll(async () => {
    here = await stage(() => databasePg())
    for (const id of ['acme', 'globex']) await provisioned(here.driver, id)
    acme = placeOf(here.driver, 'acme').locator
  })
  afterAll(async () => {
    for (const id of ['acme', 'globex']) await here.driver.drop(placeOf(here.driver, id))
    await here.installation.end()
  })

  test('is found without fault as it is made, fenced or not, and is in the inventory', async () => {
    expect(await here.faults()).toEqual([])
    await here.driver.fence(placeOf(here.driver, 'acme'))
    expect(await here.faults()).toEqual([])
    expect(await here.driver.inventory?.('main')).toEqual([
      { locator: acme, isFenced: true },
      { locator: placeOf(here.driver, 'globex').locator, isFenced: false },
    ])
    await here.driver.unfence(placeOf(here.driver, 'acme'))
  })

  test.each([
    [
      'isolation.database-public',
      'right to connect',
      'grant connect on',
      'to public',
      'revoke connect on',
      'from public',
    ],
    [
      'isolation.database-public',
      'right to temporary',
      'grant temporary on',
      'to public',
      'revoke temporary on',
      'from public',
    ],
    ['isolation.database-template', 'is a template', 'alter', 'is_template true', 'alter', 'is_template false'],
    [
      'isolation.login-rights',
      'has rights of its own',
      'grant create on',
      'to $login',
      'revoke create on',
      'from $login',
    ],
  ])('%s: %s', async (code, words, breaks, by, mends, again) => {
    const statement = (before: string, after: string) =>
      `${before} database ${pg.escapeIdentifier(acme)} ${after}`.replace('$login', here.login)
    await here.sql(statement(breaks, by))
    const found = await here.faults()
    await here.sql(statement(mends, again))
    expect(found).toMatchObject([{ code, severity: 'error', message: expect.stringContaining(words) }])
    expect(found[0]?.message).toContain(acme)
    expect(await here.faults()).toEqual([])
  })

  test('answers nobody outside of a scope', async () => {
    const inside = new pg.Client({ connectionString: withDatabase(here.installation.url, acme) })
    await inside.connect()
    await inside.query('grant usage on schema tenant to public; grant select on tenant.notes to public')
    const found = await here.faults()
    await inside.query('revoke usage on schema tenant from public; revoke select on tenant.notes from public')
    await inside.end()
    expect(found).toMatchObject([{ code: 'isolation.unscoped-read', message: expect.stringContaining('tenant.notes') }])
  })
})
