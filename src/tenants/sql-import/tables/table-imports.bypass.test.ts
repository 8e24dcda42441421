/** Files whose code runs during the import, and tries to use the rights of the owner of all tenants, a superuser. */
import { beforeAll, describe, expect, test } from 'vitest'
import { type ImportedTenant, useTableImports } from './table-imports.fixture.ts'

const imports = useTableImports()

/** Code in a check, which each row of the file runs. Texts of EXECUTE are not read by the rules. */
const evaluated = (code: string, before = '') => `
  create function public.attack() returns boolean language plpgsql as $a$ begin ${code}; return true; end $a$;
  ${before}
  create table public.notes (id int check (public.attack()));
  insert into public.notes values (1)`
const executed = (text: string, before?: string) => evaluated(`execute ${quoted(text)}`, before)
const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`

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
