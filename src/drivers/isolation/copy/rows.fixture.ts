/**
 * Creates shared tables of all kinds of owners with tenants, and lists objects that an import must not leave behind.
 */
import { expect, inject } from 'vitest'
import type { TenantCopy } from '../../../tenants/isolation/copy.ts'
import type { Imported, IsolationDriver } from '../../../tenants/isolation/driver.ts'
import type { TenantMigration } from '../../../tenants/isolation/migrations.ts'
import { directHandle } from '../../../testing/base/direct-handle.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { rowscopePg } from '../rowscope-pg.ts'
import { schemaPg } from '../schema-pg.ts'
import { never } from './copy.fixture.ts'
import { type CopyFixture, type Kind, locationFor, openCopyFixture, withOwner } from './copy-storage.fixture.ts'

export const TENANT = 'tenant_id text not null default tenantry.current_tenant()'
export const TABLES = {
  name: '0001_tables',
  checksum: 'a',
  up: `create type mood as enum ('sad', 'happy');
    create table countries (code text primary key, lower text generated always as (lower(code)) stored); comment on table countries is 'tenantry: shared';
    create table colors (id int generated always as identity primary key, name text not null, mood mood); comment on table colors is 'tenantry: shared';
    create table cities (id int primary key, country text references countries, color int not null default 1 references colors); comment on table cities is 'tenantry: shared';
    create table notes (${TENANT}, id int generated always as identity (increment by 2 cache 3), country text references countries,
      parent int, body text not null, color int references colors, city int references cities, mood mood, moods mood[], twice int generated always as (id * 2) stored,
      primary key (tenant_id, id), foreign key (tenant_id, parent) references notes);
    create table hens (${TENANT}, id int, egg int not null, primary key (tenant_id, id));
    create table eggs (${TENANT}, id int, hen int not null, primary key (tenant_id, id), foreign key (tenant_id, hen) references hens);
    alter table hens add foreign key (tenant_id, egg) references eggs deferrable`,
}
export const COUNTRIES = {
  name: '0002_countries',
  checksum: 'b',
  up: `insert into countries values ('de'), ('fr'); insert into colors (name) values ('RED')`,
}
export const LATER = {
  name: '0003_later',
  checksum: 'c',
  up: `insert into colors (name) values ('GREEN'); insert into cities values (7, 'de'); alter table countries rename code to id; alter table notes rename body to text; alter table notes add column shout text;
    update notes set shout = upper(text) || coalesce((select name from colors where colors.id = color), '');
    create table shouts (${TENANT}, id int generated always as identity (start with 100), shout text, primary key (tenant_id, id));
    insert into shouts (tenant_id, shout) select tenant_id, shout from notes`,
}
export const BEFORE = [TABLES, COUNTRIES]
export const AFTER = [...BEFORE, LATER]

export const OWNERS = ['a superuser', 'a non-superuser owner', 'an owner whom no policy binds'] as const

export type Owner = (typeof OWNERS)[number]
/** The owner of the fast tests; the slow tests have the others. */
export const FAST_OWNERS: readonly Owner[] = ['a non-superuser owner']
export const SLOW_OWNERS = OWNERS.filter((owner) => !FAST_OWNERS.includes(owner))

/** Creates an installation of such an owner, with drivers for the first migrations, and a factory for others. */
export async function withFixture(
  owner: Owner,
  work: (
    fixture: CopyFixture,
    newer: (kind: 'schema-pg' | 'rowscope-pg') => Promise<IsolationDriver>,
    role: string,
  ) => Promise<void>,
  migrations: readonly TenantMigration[] = BEFORE,
): Promise<void> {
  const open = async (ownerUrl?: (url: string) => string, role = '') => {
    const fixture = await openCopyFixture(inject('postgresUrl'), { migrations, ...(ownerUrl ? { ownerUrl } : {}) })
    const makers = { 'schema-pg': schemaPg, 'rowscope-pg': rowscopePg }
    try {
      const placement = await fixture.installation.prepare()
      if (owner === 'an owner whom no policy binds') await unbind(fixture, role, placement.scopeRole)
      await work(
        fixture,
        (kind) => fixture.installation.open(placement, { driver: () => makers[kind](), migrations: AFTER }),
        role,
      )
    } finally {
      await fixture.end()
    }
  }
  if (owner === 'a superuser') await open()
  else await withOwner(inject('postgresUrl'), open)
}

/** Since version 16, the creator of a role needs the SET option to take it. */
const unbind = (fixture: CopyFixture, role: string, scopeRole: string) =>
  fixture.installation.database.sql(`do $$ begin
    alter role ${role} bypassrls;
    grant ${scopeRole} to ${role};
    if current_setting('server_version_num')::int >= 160000 then execute 'grant ${scopeRole} to ${role} with set true'; end if; end $$`)

export const take = (driver: IsolationDriver, tenantId: string, copy: TenantCopy): Promise<Imported> =>
  driver.import(
    { tenantId, isolation: driver.name, placement: 'main', locator: driver.locator(tenantId, 1), epoch: 1 },
    copy,
    {
      signal: never(),
    },
  )

/** Runs in the tenant's scope. */
export const query = async (fixture: CopyFixture, kind: Kind, tenantId: string, text: string) =>
  (
    await directHandle(fixture.drivers[kind], locationFor(fixture, kind, tenantId)).pool.query({
      text,
      rowMode: 'array',
    })
  ).rows

export const FILL = [
  `with one as (insert into notes (country, body, mood, moods) values ('de', 'one', 'sad', '{sad,happy}') returning id)
    insert into notes (parent, body) select id, 'two' from one`,
  `with h as (insert into hens values (default, 1, 1)) insert into eggs values (default, 1, 1)`,
]

export async function fill(fixture: CopyFixture, kind: Kind, tenantId: string): Promise<void> {
  await fixture.drivers[kind].provision(locationFor(fixture, kind, tenantId))
  for (const text of FILL) await query(fixture, kind, tenantId, text)
}

/** All rows of shared tables, of all tenants. */
export const everything = async (fixture: CopyFixture) => {
  const { rows: tables } = await fixture.installation.database.sql(
    `select relname from pg_class where relnamespace = 'tenantry_rows'::regnamespace and relkind = 'r' order by 1`,
  )
  const all: Record<string, string[]> = {}
  for (const { relname } of tables) {
    const { rows } = await fixture.installation.database.sql(
      `select t::text as row from tenantry_rows.${relname} t order by 1`,
    )
    all[relname] = rows.map(({ row }) => row)
  }
  return all
}

/** Checks that an import, successful or not, leaves no temporary objects. */
export async function expectNoTrace(fixture: CopyFixture): Promise<void> {
  await eventually(async () => {
    const { rows } = await fixture.installation.database.sql(
      `select (select count(*)::int from pg_namespace where nspname like 'tenantry_scratch%') as schemas,
        (select count(*)::int from tenantry.migrations where locator like 'tenantry_scratch%') as records,
        (select count(*)::int from pg_stat_activity where application_name = 'tenantry ddl' and state <> 'idle'
          and datname = current_database()) as busy,
        (select count(*)::int from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())) as locks`,
    )
    expect(rows).toEqual([{ schemas: 0, records: 0, busy: 0, locks: 0 }])
  })
}
