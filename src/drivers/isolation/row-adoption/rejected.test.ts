/** Tests the reasons against the adoption of shared tables, and that nothing of the former owner is executed. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openRows, type Rows } from './row-adoption.fixture.ts'

let rows: Rows
beforeAll(async () => {
  rows = await openRows('integer')
})
afterAll(() => rows.end())
beforeEach(() => rows.create())

test.each<readonly [string, string, RegExp]>([
  ['a row without a tenant', 'insert into tasks (body) values (null)', /app\.tasks has rows without a tenant/],
  [
    'a row of no tenant',
    `insert into tasks (org_id) values (999)`,
    /1 values of "org_id" in the table app\.tasks are no tenant: "999"/,
  ],
  [
    'a reference to a row of another tenant',
    'update tasks set project_id = 1',
    /refers from rows of app\.tasks to rows of app\.projects/,
  ],
  ['a table without the column', 'create table log (line text)', /"app"."log": has no column "org_id"/],
  ['a column of another type', 'alter table tasks alter org_id type bigint', /"app"."tasks": "org_id" is bigint/],
  [
    'a policy that all roles have',
    'create policy everyone on tasks using (true)',
    /the policy "everyone" extends the rows/,
  ],
  [
    'a policy with a reserved name',
    'create policy tenantry_former_x on tasks as restrictive using (true)',
    /has a reserved name/,
  ],
  [
    'a view with the rights of its owner',
    'create view every as select * from tasks',
    /view "app"."every": reads with the rights of its owner/,
  ],
  [
    'a materialized view',
    'create materialized view every as select * from tasks',
    /materialized view "app"."every": row level security does not apply/,
  ],
  [
    'a SECURITY DEFINER function',
    'create function all_of() returns bigint language sql security definer as $$select 1::bigint$$',
    /SECURITY DEFINER/,
  ],
  ['a forced table', 'alter table tasks force row level security', /app\.tasks has FORCE ROW LEVEL SECURITY/],
  ['a negative id', `insert into internal.orgs values (-1, 'Negative')`, /1 values are no id of a tenant.*"-1"/],
  [
    'a name of 201 characters',
    `insert into internal.orgs values (3, repeat('x', 201))`,
    /1 names have no text, or more than 200/,
  ],
  ['no tenants', 'truncate internal.orgs, tasks, projects, countries', /there are no tenants/],
  [
    'a difference from the migrations',
    'alter table tasks add column extra int',
    /column tasks.extra: the migrations do not create it/,
  ],
])('%s is a reason against the adoption', async (_, statement, reason) => {
  await rows.asApplication(statement)
  const before = await rows.catalog()
  const { reasons, digest } = await rows.plan()
  expect(reasons).toContainEqual(expect.stringMatching(reason))
  const adopting = rows.adoption.adopt(
    {
      placement: 'main',
      baseline: ['0001_app'],
      acceptDifferences: [],
      from: { table: 'internal.orgs', id: 'id', name: 'name' },
    },
    { adoptionId: randomUUID(), digest, assertNotAbandoned: async () => undefined },
  )
  await expect(adopting).rejects.toMatchObject({ code: 'E_NOT_ADOPTABLE' })
  expect(await rows.catalog()).toEqual(before)
})

test('a membership of the scope role in a role of the former application is a reason', async () => {
  const { scopeRole } = await rows.installation.prepare()
  await rows.sql(`grant ${rows.role} to ${scopeRole}`)
  const { reasons } = await rows.plan()
  await rows.sql(`revoke ${rows.role} from ${scopeRole}`)
  expect(reasons).toEqual([
    `the scope role of all tenants is a member of the role "${rows.role}": revoke "${rows.role}" from it`,
  ])
  expect((await rows.plan()).reasons).toEqual([])
})

test('the plan warns of keys and foreign keys without the tenant column, and of missing indexes', async () => {
  await rows.asApplication('drop index tasks_org')
  const { warnings } = await rows.plan({ acceptDifferences: ['index tasks_org'] })
  expect(warnings).toEqual(
    expect.arrayContaining([
      expect.stringContaining(
        'the table "app"."tasks": the key "tasks_pkey" reveals whether another tenant has a value',
      ),
      expect.stringContaining('the foreign key "tasks_project_id_fkey" reveals'),
      expect.stringContaining('no index of app.tasks begins with "org_id"'),
      expect.stringContaining(`the role "${rows.role}" keeps its rights on rows`),
    ]),
  )
})

test.each([
  ['an unknown table', { table: 'internal.nowhere', id: 'id' }],
  ['an unknown column', { table: 'internal.orgs', id: 'none' }],
  ['SQL', { table: '(select 1 as id) t', id: 'id' }],
  ['a table of the server', { table: 'pg_catalog.pg_authid', id: 'rolname', name: 'rolpassword' }],
  ['a table of the backoffice', { table: 'multitenancy.tenants', id: 'id' }],
  ['a table of another owner', { table: 'public.others', id: 'id' }],
  ['a view', { table: 'titles', id: 'title' }],
  ['a generated column', { table: 'internal.computed', id: 'id' }],
])('tenants from %s are rejected', async (_, from) => {
  await rows.sql('create table if not exists public.others (id int)')
  await rows.asApplication('create table internal.computed (n int, id int generated always as (n) stored)')
  await expect(rows.plan({ from })).rejects.toMatchObject({ code: 'E_NOT_ADOPTABLE' })
})

test('without a table of tenants, each value is a tenant', async () => {
  expect((await rows.plan({ from: undefined })).tenants).toEqual([
    { id: '1', name: '1' },
    { id: '20', name: '20' },
  ])
})

test('policies of the former owner are not executed by a plan', async () => {
  await rows.asApplication(`create table internal.runs (by text); grant insert on internal.runs to public;
    create function internal.spy() returns boolean language plpgsql as $$
      begin insert into internal.runs values (session_user); return true; end $$;
    create policy spy on tasks as restrictive using (internal.spy());
    alter table tasks enable row level security`)
  const { reasons } = await rows.plan()
  expect(reasons).not.toEqual([])
  expect(await rows.asApplication('select * from internal.runs')).toEqual([])
})

const SPY = `
  create function internal.spy(n int) returns int language plpgsql immutable as $$
    begin if session_user <> 'ROLE' then raise 'ran as %', session_user; end if; return n; end $$;
  create operator internal.@@@ (function = internal.spy, rightarg = int);`

test.each([
  ['an index', 'create index spied on tasks ((id + internal.spy(1)))', 'app.tasks'],
  ['the predicate of an index', 'create index spied on tasks (id) where internal.spy(1) = 1', 'app.tasks'],
  ['an operator', 'create index spied on tasks ((id + (operator(internal.@@@) 1)))', 'app.tasks'],
  ['statistics', 'create statistics spied on (id + internal.spy(1)), body from tasks', 'app.tasks'],
  ['an index of the table of tenants', 'create index spied on internal.orgs ((internal.spy(1)))', 'internal.orgs'],
])('code of the former owner in %s is not executed, and is a reason', async (_, statement, table) => {
  await rows.asApplication(SPY.replace('ROLE', rows.role) + statement)
  expect((await rows.plan({ baseline: [] })).reasons).toContainEqual(
    expect.stringContaining(`an expression of the table ${table} calls internal.spy(integer)`),
  )
})

test.each([
  [
    'domain',
    'create domain internal.code as int; alter table tasks add column code internal.code',
    'type internal.code',
  ],
  [
    'view',
    'create view internal.one as select 1 as one; create view ones with (security_invoker = true) as select * from internal.one',
    'view internal.one',
  ],
])('a %s outside of the schema that its owner could change is a reason', async (_, statement, object) => {
  await rows.asApplication(statement)
  expect((await rows.plan({ baseline: [] })).reasons).toEqual([
    `the schema uses the ${object}, whose owner could change it: it runs with the rights of the role of \`url\``,
  ])
})

test('a release of an earlier adoption changes nothing', async () => {
  await rows.adopt()
  const adopted = await rows.catalog()
  expect(await rows.release(randomUUID())).toEqual([])
  expect(await rows.catalog()).toEqual(adopted)
  await rows.release()
})

test('the drop of a tenant deletes no rows of released tables that PUBLIC may use', async () => {
  await rows.asApplication('grant usage on schema app to public')
  await rows.adopt()
  await rows.driver.migrate(rows.location(rows.ids[0])) // a process that has used the tables
  await rows.release()
  expect(await Array.fromAsync((await rows.driver.orphanedRows?.('main', async () => [])) ?? [])).toEqual([])
  await rows.driver.drop(rows.location(rows.ids[0]))
  expect(await rows.asApplication('select from tasks')).toHaveLength(3)
})

test('a schema that only PUBLIC may use is not used before its adoption', async () => {
  await rows.asApplication('grant usage on schema app to public')
  const other = await rows.installation.open(await rows.installation.prepare())
  await expect(other.provision(rows.location(rows.ids[0]))).rejects.toMatchObject({ code: 'E_NOT_ADOPTABLE' })
})

test('a plan of an earlier catalog is rejected', async () => {
  const { digest } = await rows.plan()
  await rows.asApplication('create index later on tasks (body)')
  const request = { placement: 'main', baseline: ['0001_app'], acceptDifferences: ['index later'] }
  const from = { table: 'internal.orgs', id: 'id', name: 'name' }
  await expect(
    rows.adoption.adopt(
      { ...request, from },
      { adoptionId: randomUUID(), digest, assertNotAbandoned: async () => undefined },
    ),
  ).rejects.toMatchObject({ code: 'E_NOT_ADOPTABLE', message: expect.stringContaining('make the plan again') })
})
