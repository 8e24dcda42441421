/** Tests the audit of an installation with a database for each tenant. */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Finding } from '../../../kernel/doctor/doctor.ts'
import { databasePg } from '../database-pg.ts'
import { locationOf, provisioned } from '../roles/installation.fixture.ts'
import { withDatabase } from '../roles/login-clients.ts'
import { type Audited, openAudited } from './audit.fixture.ts'

const NOTES = {
  name: '0001_notes',
  checksum: '',
  up: `create table notes (tenant_id text not null default tenantry.current_tenant(), id int, primary key (tenant_id, id))`,
}

describe('the audit of a database for each tenant', () => {
  let here: Audited
  let acme: string
  /** Connected to the tenant's database as the superuser. */
  let client: pg.Client
  beforeAll(async () => {
    here = await openAudited({ driver: () => databasePg(), migrations: [NOTES] })
    for (const id of ['acme', 'globex']) await provisioned(here.driver, id)
    acme = locationOf(here.driver, 'acme').locator
    client = new pg.Client({ connectionString: withDatabase(here.installation.url, acme) })
    await client.connect()
  })
  afterAll(async () => {
    await client.end()
    const left = await here.faults()
    for (const id of ['acme', 'globex']) await here.driver.drop(locationOf(here.driver, id))
    await here.installation.end()
    expect(left).toEqual([]) // each test has fixed its faults
  })

  test('finds no fault in a new database, fenced or not, and lists it in the inventory', async () => {
    expect(await here.faults()).toEqual([])
    await here.driver.fence(locationOf(here.driver, 'acme'))
    expect(await here.faults()).toEqual([])
    expect(await here.driver.inventory?.('main')).toEqual([
      { locator: acme, isFenced: true },
      { locator: locationOf(here.driver, 'globex').locator, isFenced: false },
    ])
    await here.driver.unfence(locationOf(here.driver, 'acme'))
  })

  test('finds foreign rights on a database, and a database that is a template', async () => {
    const globex = locationOf(here.driver, 'globex').locator
    const [first, second] = [acme, globex].map((name) => `database ${pg.escapeIdentifier(name)}`)
    await here.sql(`grant connect on ${first} to public; grant temporary on ${second} to public;
      alter ${first} is_template true; grant create on ${first} to ${here.login}`)
    const found = await here.faults().finally(() =>
      here.sql(`revoke connect on ${first} from public; revoke temporary on ${second} from public;
        alter ${first} is_template false; revoke create on ${first} from ${here.login}`),
    )
    expect(found.map(({ severity, code, message }) => `${severity} ${code} ${message}`).sort()).toEqual([
      expect.stringMatching(`error isolation.database-public .*${acme} .*right to connect$`),
      expect.stringMatching(`error isolation.database-public .*${globex} .*right to temporary$`),
      expect.stringMatching(`error isolation.database-template .*${acme} is a template`),
      expect.stringMatching(`error isolation.login-rights .* has its own rights on database ${acme}$`),
    ])
  })

  const inside = (text: string) =>
    client.query(
      text
        .replaceAll('$login', here.login)
        .replaceAll('$scope', here.scope)
        .replaceAll('$acme', pg.escapeIdentifier(acme)),
    )

  interface Planted {
    readonly code: string
    readonly severity?: Finding['severity']
    /** Part of the message, after the database's name. */
    readonly words: string
    /** Missing for a fault that follows from another one. */
    readonly by?: string
    readonly fixedBy?: string
  }

  /** Faults that do not hide each other are examined together. */
  const planted: Readonly<Record<string, readonly Planted[]>> = {
    'rights on tables, schemas, functions and the database': [
      {
        code: 'isolation.public-rights',
        words: 'table tenant.notes gives PUBLIC the right to select',
        by: 'grant select on tenant.notes to public',
        fixedBy: 'revoke select on tenant.notes from public',
      },
      {
        code: 'isolation.scope-rights',
        words: 'table tenant.notes gives the scope role the right to truncate',
        by: 'grant truncate on tenant.notes to $scope',
        fixedBy: 'revoke truncate on tenant.notes from $scope',
      },
      {
        code: 'isolation.scope-rights',
        words: 'schema tenant gives the scope role the right to create',
        by: 'grant create on schema tenant to $scope',
        fixedBy: 'revoke create on schema tenant from $scope',
      },
      {
        code: 'isolation.scope-rights-elsewhere',
        words: 'table tenantry.migrations belongs to no tenant',
        by: 'grant delete on tenantry.migrations to $scope',
        fixedBy: 'revoke delete on tenantry.migrations from $scope',
      },
      {
        code: 'isolation.public-rights-elsewhere',
        severity: 'warn',
        words: 'table public.prices gives PUBLIC, including tenants, the right to update',
        by: 'create table public.prices (); grant update on public.prices to public',
        fixedBy: 'drop table public.prices',
      },
      {
        code: 'isolation.public-may-create',
        severity: 'warn',
        words: 'schema public allows PUBLIC, including tenants, to create objects',
        by: 'grant create on schema public to public',
        fixedBy: 'revoke create on schema public from public',
      },
      {
        code: 'isolation.public-creates-schemas',
        words: "allows tenants' statements to create schemas",
        by: 'grant create on database $acme to $scope',
        fixedBy: 'revoke create on database $acme from $scope',
      },
      {
        code: 'isolation.public-functions',
        severity: 'warn',
        words: 'allows PUBLIC to use large objects',
        by: 'grant execute on function lo_create(oid) to public',
        fixedBy: 'revoke execute on function lo_create(oid) from public',
      },
    ],
    'a right on the schema, owners, and settings': [
      {
        code: 'isolation.public-rights',
        words: 'schema tenant gives PUBLIC the right to usage',
        by: 'grant usage on schema tenant to public',
        fixedBy: 'revoke usage on schema tenant from public',
      },
      {
        code: 'isolation.foreign-owner',
        words: 'table tenant.notes belongs to pg_monitor',
        by: 'alter table tenant.notes owner to pg_monitor',
        fixedBy: 'alter table tenant.notes owner to current_user',
      },
      {
        code: 'isolation.security-definer',
        severity: 'warn',
        words: 'function tenant.whoami() runs with the rights of',
        by: 'create function tenant.whoami() returns text security definer language sql return current_user',
        fixedBy: 'drop function tenant.whoami',
      },
      {
        code: 'isolation.scope-owns',
        words: 'role $scope owns schema mine',
        by: 'create schema mine authorization $scope',
        fixedBy: 'drop schema mine',
      },
      {
        code: 'isolation.login-setting',
        words: 'starts every session with app.tenant_id=globex',
        by: "alter database $acme set app.tenant_id = 'globex'",
        fixedBy: 'alter database $acme reset app.tenant_id',
      },
      {
        code: 'isolation.login-search-path',
        severity: 'warn',
        words: 'gives the login search_path=tenant',
        by: 'alter role $login in database $acme set search_path = tenant',
        fixedBy: 'alter role $login in database $acme reset search_path',
      },
    ],
    'rights that make rows readable without a scope': [
      {
        code: 'isolation.unscoped-read',
        words: 'table tenant.notes is readable by the role $login',
        by: 'grant usage on schema tenant to public; grant select on tenant.notes to public',
        fixedBy: 'revoke usage on schema tenant from public; revoke select on tenant.notes from public',
      },
      { code: 'isolation.public-rights', words: 'schema tenant gives PUBLIC the right to usage' },
      { code: 'isolation.public-rights', words: 'table tenant.notes gives PUBLIC the right to select' },
    ],
  }

  test.each(Object.entries(planted))('finds exactly these faults inside of the database: %s', async (_, faults) => {
    for (const { by } of faults) if (by) await inside(by)
    const found = await here.faults(['acme']).finally(async () => {
      for (const { fixedBy } of faults) if (fixedBy) await inside(fixedBy)
    })
    const expected = faults.map(({ code, severity = 'error', words }) => ({
      severity,
      code,
      tenantId: 'acme',
      message: words.replace('$login', acme).replace('$scope', here.scope),
      remedy: expect.stringMatching(/./),
    }))
    expect(found.map(({ code }) => code).sort()).toEqual(expected.map(({ code }) => code).sort())
    for (const { message, ...rest } of expected) {
      expect(found.filter((one) => one.message.includes(message))).toMatchObject([rest])
    }
    for (const one of found) expect(one.message).toContain(acme)
  })

  test('examines a fenced database inside, too, without connecting as the login', async () => {
    await here.driver.fence(locationOf(here.driver, 'acme'))
    await inside('grant usage on schema tenant to public; grant select on tenant.notes to public')
    const found = await here.faults()
    await inside('revoke usage on schema tenant from public; revoke select on tenant.notes from public')
    await here.driver.unfence(locationOf(here.driver, 'acme'))
    const rights = { code: 'isolation.public-rights', tenantId: 'acme' }
    expect(found).toMatchObject([rights, rights])
  })

  test('reports a missing database and examines the others', async () => {
    await here.driver.drop(locationOf(here.driver, 'globex'))
    await inside('grant truncate on tenant.notes to $scope')
    const found = await here.audit()
    await inside('revoke truncate on tenant.notes from $scope')
    await provisioned(here.driver, 'globex')
    expect(found).toMatchObject([
      { code: 'isolation.scope-rights', tenantId: 'acme' },
      { severity: 'info', code: 'isolation.database-missing', tenantId: 'globex' },
    ])
  })

  test('reports a database that cannot be examined and examines the others', async () => {
    await here.sql(`alter database ${pg.escapeIdentifier(acme)} allow_connections false`)
    const found = await here.faults()
    await here.sql(`alter database ${pg.escapeIdentifier(acme)} allow_connections true`)
    expect(found).toMatchObject([
      {
        severity: 'error',
        code: 'doctor.not-examined',
        tenantId: 'acme',
        message: `The database "${acme}" on "main" could not be examined: unavailable`,
      },
    ])
  })
})
