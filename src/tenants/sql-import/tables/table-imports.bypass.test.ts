/** Files whose code runs during the import, and tries to use the rights of the owner of all tenants, a superuser. */
import { beforeAll, describe, expect, test } from 'vitest'
import { DUMP, type ImportedTenant, useTableImports } from './table-imports.fixture.ts'

const imports = useTableImports()

/** Code in a check, which each row of the file runs. Texts of EXECUTE are not read by the rules. */
const evaluated = (code: string, before = '') => `
  create function public.attack() returns boolean language plpgsql as $a$ begin ${code}; return true; end $a$;
  ${before}
  create table public.notes (id int check (public.attack()));
  insert into public.notes values (1)`
const executed = (text: string, before?: string) => evaluated(`execute ${quoted(text)}`, before)
const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`

/** A statement of plpgsql that the temporary role may not run. */
const CREATES_ROLE = `execute 'create role attacker superuser'`
const ATTACKER = `select rolname from pg_roles where rolname = 'attacker'`

const ROLE = 'cannot set parameter "role" within security-definer function'
const SESSION = 'cannot set parameter "session_authorization" within security-definer function'

describe.each(['schema-pg', 'database-pg'])('%s', (driver) => {
  let tenant: ImportedTenant
  beforeAll(async () => {
    tenant = await imports.tenant(driver)
    await tenant.asOwner('create table public.secrets (id int); insert into public.secrets values (42)').catch(() => [])
  })

  test.each<[string, string, string]>([
    ['leaves the role', executed('reset role'), ROLE],
    ['leaves the role with a dynamic call', executed(`select set_config('ro' || 'le', 'none', true)`), ROLE],
    ['leaves the session user', executed('reset session authorization'), SESSION],
    ['creates a role', executed('create role attacker superuser'), 'permission denied to create role'],
    ['creates a schema', executed('create schema attacker'), 'permission denied for database'],
    ['reads the rows of others', executed('select id from public.secrets'), 'permission denied for table secrets'],
    ['reads a file', executed(`select pg_read_file('/etc/hostname')`), 'permission denied for function pg_read_file'],
    ['runs a program', executed(`copy public.notes from program 'id'`), 'permission denied to COPY'],
    ['writes a file', executed(`copy (select 1) to '/tmp/attacker'`), 'permission denied to COPY'],
    ['ends the transaction', executed('commit'), 'EXECUTE of transaction commands is not implemented'],
    [
      'creates a definer',
      executed('create function definer() returns int language sql security definer return 1'),
      'runs with the rights of its owner (SECURITY DEFINER)',
    ],
    ['grants rights', executed('grant select on notes to public'), 'gives rights to other roles'],
    ['grants rights on a column', executed('grant select (id) on notes to public'), 'gives rights to other roles'],
    [
      'changes default privileges',
      executed('alter default privileges grant select on tables to public'),
      'is not in the schema of the tenant',
    ],
    [
      'creates a rule',
      executed('create rule r as on delete to other do instead nothing', 'create table public.other (id int);'),
      'has a rule',
    ],
    [
      'creates a policy',
      executed('create policy p on other', 'create table public.other (id int);'),
      'has row security or a policy',
    ],
    [
      'enables a trigger in all replication roles',
      executed(
        'create function t() returns trigger language plpgsql as $$ begin return new; end $$; ' +
          'create trigger t before insert on other for each row execute function t(); alter table other enable always trigger t',
        'create table public.other (id int);',
      ),
      'enabled in all replication roles',
    ],
    [
      'creates an aggregate',
      executed('create aggregate total (int) (sfunc = int4pl, stype = int)'),
      'is a kind of object that an import does not create',
    ],
    [
      'replaces the function of the import',
      executed(
        `do $$ declare own text := current_user; begin execute format('alter function %I.run(text) security invoker', own); end $$`,
      ),
      'permission denied for schema tenantry_import',
    ],
    [
      'replaces the function by creating another',
      executed(
        `do $$ declare own text := current_user; begin execute format('create or replace function %I.run(statement text) returns bigint language sql return 1', own); end $$`,
      ),
      'permission denied for schema tenantry_import',
    ],
  ])('rejects code that %s', async (_, text, reason) => {
    await expect(tenant.run(text)).rejects.toThrow(reason)
    expect(await tenant.ask('select * from notes')).toEqual([])
    expect(
      await tenant.asOwner(
        `select rolname from pg_roles where rolname = 'attacker' or rolname like 'tenantry\\_import%'`,
      ),
    ).toEqual([])
  })

  test.each<[string, string, string]>([
    [
      'a routine with the name of one of PostgreSQL',
      `create function public.format_type(oid, integer) returns text language plpgsql as $a$ begin ${CREATES_ROLE}; return ''; end $a$`,
      'format_type(pg_catalog.oid,integer) has the name of a routine of PostgreSQL',
    ],
    [
      'a relation with the name of one of PostgreSQL',
      'create view public.pg_class as select 1 as oid',
      'pg_class has the name of a relation of PostgreSQL',
    ],
    [
      'a cast',
      evaluated(
        `execute 'create type kind as enum (''a'')'; execute 'create function f(kind) returns int language sql return 1'; execute 'create cast (kind as int) with function f(kind) as implicit'`,
      ),
      'is a kind of object that an import does not create',
    ],
  ])('rejects %s', async (_, text, reason) => {
    await expect(tenant.run(text)).rejects.toMatchObject({
      code: 'E_INVALID_REQUEST',
      message: expect.stringContaining(reason),
    })
  })

  test('accepts the casts that PostgreSQL creates for a range', async () => {
    const other = await imports.tenant(driver)
    const text = 'create table public.notes (id int); create type public.span as range (subtype = int)'
    expect(await other.run(text)).toMatchObject({ statements: 2 })
  })

  test('does not call functions of the schema while it reads the catalog', async () => {
    const other = await imports.tenant(driver)
    const body = `language plpgsql as 'begin raise exception ''called''; end'`
    await other.asOwner(`
      create function format_type(oid, integer) returns text ${body};
      create function set_config(text, text, boolean) returns text ${body};
      create function current_setting(text) returns text ${body};
      create function fails() returns boolean ${body};
      create domain regclass as oid check (fails())`)
    expect(await other.run(DUMP)).toMatchObject({ differences: [] })
  })

  test('closes cursors of the file before the commit', async () => {
    const other = await imports.tenant(driver)
    const code = `execute 'create function late() returns int language plpgsql as $x$ begin ${quoted(CREATES_ROLE).slice(1, -1)}; return 1; end $x$';
      execute 'declare c cursor with hold for select late()'`
    expect(await other.run(evaluated(code))).toMatchObject({ rows: 1 })
    expect(await other.asOwner(ATTACKER)).toEqual([])
  })

  test('rejects a deferred trigger that defers its checks again', async () => {
    const late = `begin if new.id = 1 then set constraints all deferred; insert into other values (2); else ${CREATES_ROLE}; end if; return null; end`
    const code = `execute ${quoted(`create function late() returns trigger language plpgsql as $x$ ${late} $x$`)};
      execute 'create constraint trigger late after insert on other initially deferred for each row execute function late()';
      execute 'insert into other values (1)'`
    await expect(tenant.run(evaluated(code, 'create table public.other (id int);'))).rejects.toMatchObject({
      code: 'E_INVALID_REQUEST',
      message: expect.stringContaining('A deferred trigger of the file would run again at the commit'),
    })
    expect(await tenant.asOwner(ATTACKER)).toEqual([])
  })

  test('checks the catalog without temporary views of the file', async () => {
    const late = `create function late() returns boolean language plpgsql as $x$ begin ${CREATES_ROLE}; return true; end $x$`
    const code = `execute ${quoted(late)}; execute 'create temp view pg_shdepend as select s.* from pg_catalog.pg_shdepend s where late()'`
    const onDatabase = (text: string) =>
      tenant.asOwner(`do $$ begin execute format(${quoted(text)}, current_database()); end $$`)
    await onDatabase('grant temporary on database %I to public')
    await expect(tenant.run(evaluated(code))).rejects.toThrow(
      'view pg_temp.pg_shdepend is not in the schema of the tenant',
    )
    await onDatabase('revoke temporary on database %I from public')
  })

  test('runs deferred triggers of code in the file with the rights of the temporary role', async () => {
    const code = `execute 'create function late() returns trigger language plpgsql as $x$ begin execute ''create role attacker superuser''; return null; end $x$';
      execute 'create constraint trigger late after insert on other initially deferred for each row execute function late()';
      execute 'insert into other values (1)'`
    await expect(tenant.run(evaluated(code, 'create table public.other (id int);'))).rejects.toThrow(
      'permission denied to create role',
    )
  })

  test('resets settings of the session and of the transaction before statements of the owner', async () => {
    const code = `execute 'select set_config(''search_path'', ''attacker'', false), set_config(''tenantry.migrating'', ''x'', true), set_config(''statement_timeout'', ''1'', true), set_config(''app.tenant_id'', ''other'', false)'`
    const other = await imports.tenant(driver)
    const text = evaluated(code).replace('(id int check', '(id int primary key, body text, check')
    expect(await other.run(text)).toMatchObject({ rows: 1 })
    expect(await other.ask('select id, done from notes')).toEqual([{ id: 1, done: false }])
  })
})
