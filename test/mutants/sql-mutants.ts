/** Mutants of a database in use: mistakes of an administrator that the proof and `doctor --prove` must detect. */
import type { SqlMutant } from './mutant.ts'

const on = {
  schema: ['schema-pg, batch'],
  rows: ['rowscope-pg, batch'],
  database: ['database-pg, batch'],
}

export const SQL_MUTANTS: readonly SqlMutant[] = [
  {
    name: 'SQL: the login inherits',
    story: 'GRANT .. WITH INHERIT TRUE: the login may read rows without a scope.',
    sql: ({ login, scopeRole }) => `grant ${scopeRole} to ${login} with inherit true`,
  },
  {
    name: 'SQL: the login bypasses row security',
    story: 'ALTER ROLE .. BYPASSRLS',
    sql: ({ login }) => `alter role ${login} bypassrls`,
  },
  {
    name: 'SQL: the scope role bypasses row security',
    story: 'ALTER ROLE .. BYPASSRLS of the scope role.',
    sql: ({ scopeRole }) => `alter role ${scopeRole} bypassrls`,
  },
  {
    name: 'SQL: the login is a superuser',
    story: 'ALTER ROLE .. SUPERUSER',
    sql: ({ login }) => `alter role ${login} superuser`,
  },
  {
    name: 'SQL: the login may read everything',
    story: 'GRANT pg_read_all_data',
    sql: ({ login }) => `grant pg_read_all_data to ${login}`,
  },
  {
    name: 'SQL: the login may make roles',
    story: 'ALTER ROLE .. CREATEROLE',
    sql: ({ login }) => `alter role ${login} createrole`,
  },
  {
    name: 'SQL: the login has rights',
    story: 'GRANT .. TO the login, in addition to the scope role.',
    sql: ({ schema, login }) =>
      `grant usage on schema ${schema} to ${login}; grant select on ${schema}.items to ${login}`,
  },
  {
    name: 'SQL: everybody may read',
    story: 'GRANT .. TO PUBLIC',
    sql: ({ schema }) => `grant usage on schema ${schema} to public; grant select on ${schema}.items to public`,
  },
  {
    name: 'SQL: tenants may TRUNCATE',
    story: 'GRANT TRUNCATE to the scope role.',
    sql: ({ schema, scopeRole }) => `grant truncate on ${schema}.items to ${scopeRole}`,
  },
  {
    name: 'SQL: tenants own a table',
    story: 'ALTER TABLE .. OWNER TO the scope role: its owner turns row security off.',
    sql: ({ schema, scopeRole }) => `alter table ${schema}.items owner to ${scopeRole}`,
  },
  {
    name: 'SQL: tenants may make tables',
    story: 'GRANT CREATE on the schema to the scope role.',
    sql: ({ schema, scopeRole }) => `grant create on schema ${schema} to ${scopeRole}`,
  },
  {
    name: 'SQL: no tenant is ""',
    story: 'current_tenant() was replaced by one that does not raise.',
    sql: () => `create or replace function tenantry.current_tenant() returns text stable language sql
      as $$ select coalesce(current_setting('app.tenant_id', true), '') $$`,
  },
  {
    name: 'SQL: everybody may connect',
    story: 'GRANT CONNECT on a tenant’s database to PUBLIC: a fence does not reject new connections.',
    sql: ({ database }) => `grant connect on database ${database} to public`,
    on: on.database,
  },
  {
    name: 'SQL: FORCE removed',
    story: 'ALTER TABLE .. NO FORCE ROW LEVEL SECURITY',
    sql: ({ schema }) => `alter table ${schema}.items no force row level security`,
    on: on.rows,
  },
  {
    name: 'SQL: row security disabled',
    story: 'ALTER TABLE .. DISABLE ROW LEVEL SECURITY',
    sql: ({ schema }) => `alter table ${schema}.items disable row level security`,
    on: on.rows,
  },
  {
    name: 'SQL: a policy that admits all',
    story: 'CREATE POLICY .. USING (true) in addition to the others.',
    sql: ({ schema }) =>
      `drop policy if exists support on ${schema}.items; create policy support on ${schema}.items using (true)`,
    on: on.rows,
  },
  {
    name: 'SQL: WITH CHECK removed',
    story: 'ALTER POLICY .. WITH CHECK (true)',
    sql: ({ schema }) => alterPolicies(schema, 'with check (true)'),
    on: on.rows,
  },
  {
    name: 'SQL: USING (true)',
    story: 'ALTER POLICY .. USING (true)',
    sql: ({ schema }) => alterPolicies(schema, 'using (true)'),
    on: on.rows,
  },
  {
    name: 'SQL: policies dropped',
    story: 'A table with FORCE and without a policy returns no rows.',
    sql: ({ schema }) => `do $$ declare name text; begin
      for name in select polname from pg_policy where polrelid = '${schema}.items'::regclass loop
        execute format('drop policy %I on ${schema}.items', name);
      end loop; end $$`,
    on: on.rows,
  },
  {
    name: 'SQL: a view of its owner',
    story: 'ALTER VIEW .. RESET (security_invoker)',
    sql: ({ schema }) => `alter view ${schema}.owners reset (security_invoker)`,
    on: on.rows,
  },
  {
    name: 'SQL: a materialised view',
    story: 'A materialized view has the rows of all tenants.',
    sql: ({
      schema,
      scopeRole,
    }) => `create materialized view if not exists ${schema}.report as select * from ${schema}.items;
      grant select on ${schema}.report to ${scopeRole}`,
    on: on.rows,
  },
  {
    name: 'SQL: a unique key without tenant_id',
    story: 'Two tenants cannot have the same value.',
    sql: ({ schema }) => `create unique index if not exists one_note on ${schema}.items (note) where note <> ''`,
    on: on.rows,
  },
  {
    name: 'SQL: another default',
    story: 'Rows without a tenant become rows of one tenant.',
    sql: ({ schema }) => `alter table ${schema}.items alter column tenant_id set default 'a'`,
    on: on.rows,
  },
  {
    name: 'SQL: fences not checked',
    story: 'admitted_tenant() was replaced by one that admits every tenant.',
    sql: () => `create or replace function tenantry.admitted_tenant() returns text stable parallel safe language plpgsql
      as $$ begin return tenantry.current_tenant(); end $$`,
    on: on.rows,
  },
  {
    name: 'SQL: usage for everybody',
    story: 'GRANT USAGE .. TO PUBLIC: the fence revokes it only from the scope role.',
    sql: ({ schema }) => `grant usage on schema ${schema} to public`,
    on: on.schema,
  },
]

const alterPolicies = (schema: string, clause: string): string => `do $$ declare name text; begin
  for name in select polname from pg_policy where polrelid = '${schema}.items'::regclass and polname like 'tenantry_tenant%' loop
    execute format('alter policy %I on ${schema}.items ${clause}', name);
  end loop; end $$`
