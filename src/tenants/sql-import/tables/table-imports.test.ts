import { beforeAll, describe, expect, inject, test } from 'vitest'
import { ChangeRecorded } from '../../../kernel/events/changes.ts'
import { installed, testTenancy } from '../../../testing/base/tenancy.ts'
import { toLocation } from '../../registry/registry.ts'
import { BASELINE, DUMP, type ImportedTenant, useTableImports } from './table-imports.fixture.ts'

const imports = useTableImports()

/** Owner, rights and options of each object in the schema. */
const OBJECTS = `
  select relname as name, pg_get_userbyid(relowner) = session_user as "isOwned", relacl::text as rights, reloptions as options
  from pg_class where relnamespace = to_regnamespace(current_schema()) and relkind in ('r', 'v', 'S')
  union all select proname, pg_get_userbyid(proowner) = session_user, proacl::text, null from pg_proc where pronamespace = to_regnamespace(current_schema())
  union all select typname, pg_get_userbyid(typowner) = session_user, typacl::text, null from pg_type where typnamespace = to_regnamespace(current_schema()) and typtype = 'e'
  order by 1`
const LEFT = `select nspname as name from pg_namespace where nspname like 'tenantry\\_import%' union all select rolname from pg_roles where rolname like 'tenantry\\_import%'`

describe.each(['schema-pg', 'database-pg'])('%s', (driver) => {
  /** Its imports fail. */
  let tenant: ImportedTenant
  beforeAll(async () => {
    tenant = await imports.tenant(driver)
  })

  test('replaces empty tables, records the baseline, and runs later migrations', async () => {
    const { tenancy } = imports.postgres
    const { id, run, ask, asOwner } = await imports.tenant(driver)
    const totals = await run(DUMP)
    expect(totals).toEqual({
      ...{ statements: 4, rows: 2, bytes: Buffer.byteLength(DUMP), unchangedTexts: 0, differences: [] },
      skipped: { settings: 1, owners: 1, grants: 1 },
    })
    expect(await ask('select * from notes order by id')).toEqual([
      { id: 1, body: 'one', done: false },
      { id: 2, body: null, done: false },
    ])
    expect(await asOwner(`select to_regtype('kind') as type, to_regclass('s') as sequence`)).toEqual([
      { type: null, sequence: null },
    ])
    const { storage, registry } = tenancy.tenants
    const location = toLocation(await registry.row(id))
    expect(await storage.driver(driver).applied(location)).toEqual(['0001_notes', '0002_done'])
    expect(await storage.driver(driver).migrate(location)).toEqual([])
    expect(await asOwner(LEFT)).toEqual([])
  })

  test('gives objects the owner and rights of objects from migrations, and views the rights of their caller', async () => {
    const [migrated, { run, asOwner, ask }] = [await imports.tenant(driver), await imports.tenant(driver)]
    const routine =
      'create function f() returns int language sql return 1; create sequence s; create type kind as enum ()'
    await migrated.asOwner('create function f() returns int language sql return 1')
    await run(`${DUMP}; ${routine}`)
    const expected = (await migrated.asOwner(OBJECTS)).map((object) =>
      object.name === 'short' ? { ...object, options: ['security_invoker=true'] } : object,
    )
    expect(await asOwner(OBJECTS)).toEqual(expected)
    expect(expected.map(({ name }) => name)).toEqual(['f', 'kind', 'notes', 's', 'short'])
    expect(await ask('insert into notes (id) values (3) returning f(), (select count(*)::int from short)')).toEqual([
      { f: 1, count: 2 },
    ])
  })

  test('rejects a tenant whose tables have rows, and changes nothing', async () => {
    const { run, ask } = tenant
    await ask(`insert into notes values (7, 'kept')`)
    await expect(run(DUMP)).rejects.toMatchObject({
      code: 'E_STORAGE_EXISTS',
      message: expect.stringContaining('These tables of the tenant have rows: "notes"'),
    })
    expect(await ask('delete from notes returning id, body')).toEqual([{ id: 7, body: 'kept' }])
  })

  test('rejects a tenant if objects of another schema depend on its tables, and drops none of them', async () => {
    const { run, asOwner } = await imports.tenant(driver)
    const [row] = await asOwner('select current_schema() as schema')
    const schema = `"other ${row.schema}"`
    const [view, type, key] = [`${schema}.read`, `${schema}.typed`, `${schema}.referring`]
    await asOwner(`create schema ${schema};
      create view ${view} as select id from notes; create table ${type} (k kind); create table ${key} (id int references notes)`)
    await expect(run(DUMP)).rejects.toMatchObject({
      code: 'E_STORAGE_EXISTS',
      message: expect.stringContaining(
        `depend on objects of the tenant: table ${type}, table constraint referring_id_fkey on ${key}, view ${view}. An`,
      ),
    })
    await asOwner(`drop view ${view}; drop table ${type}, ${key}`)
    expect(await run(DUMP)).toMatchObject({ rows: 2 })
  })

  test('replaces objects of all kinds, also after a table was moved', async () => {
    const { run, ask, asOwner } = await imports.tenant(driver)
    const [row] = await asOwner('select current_schema() as schema')
    await asOwner(`
      create statistics counted on id, body from notes; create type pair as (a int, b text);
      create type span as range (subtype = int); create materialized view kept as select * from notes;
      create function f(pair) returns int language sql return 1; create cast (pair as int) with function f(pair);
      create table parts (id int) partition by range (id); create table part partition of parts default;
      create table numbers (id int generated always as identity primary key);
      create schema "moved ${row.schema}"; alter table notes set schema "moved ${row.schema}";
      alter table "moved ${row.schema}".notes set schema "${row.schema}"`)
    expect(await run(DUMP)).toMatchObject({ rows: 2 })
    expect((await asOwner(OBJECTS)).map(({ name }) => name)).toEqual(['notes', 'short'])
    expect(await ask('select count(*)::int from notes')).toEqual([{ count: 2 }])
  })

  test.each<[string, string, RegExp]>([
    [
      'a statement outside of the rules',
      `${DUMP}create extension hstore`,
      /^line 15: CREATE EXTENSION is not accepted/,
    ],
    [
      'an error of a statement',
      `${DUMP}\ncreate view\n public.x as\n select nowhere from public.notes`,
      /^line 18: CREATE VIEW: column "nowhere" does not exist/,
    ],
    ['an invalid row', DUMP.replace('2\t', 'x\t'), /^line 10: invalid input syntax for type integer: "x"/],
    [
      'a violated constraint',
      DUMP.replace('2\t', '1\t'),
      /^line 13: ALTER TABLE: could not create unique index "notes_pkey": Key \(id\)=\(1\) is duplicated/,
    ],
    ['an incomplete file', DUMP.slice(0, DUMP.indexOf('\\.')), /a line with \\\. is missing/],
    [
      'a failed later migration',
      DUMP.replace('public.notes (\n', 'public.notes (\n done int,\n'),
      /0002_done \(up\) failed/,
    ],
    [
      'rows after a trigger',
      `${DUMP}create function public.f() returns trigger language plpgsql as 'begin return new; end';
      create trigger t before insert on public.notes for each row execute function public.f();
      insert into public.notes values (3)`,
      /^line 17: rows are not accepted after a trigger/,
    ],
  ])('rolls everything back after %s', async (_, text, reason) => {
    const { run, ask, asOwner } = tenant
    const message = await run(text).then(String, (error) => error.message)
    expect(message).toMatch(reason)
    expect(message).toMatch(/nothing was imported\.$/)
    expect(await ask('select * from notes')).toEqual([])
    expect(await asOwner(`select to_regtype('kind')::text as type`)).toEqual([{ type: 'kind' }])
    expect(await asOwner(LEFT)).toEqual([])
  })

  test('a dry run and an aborted import change nothing', async () => {
    const { run, ask } = tenant
    expect(await run(DUMP, { isDryRun: true })).toMatchObject({ rows: 2 })
    expect(await ask('select * from notes')).toEqual([])
    const controller = new AbortController()
    const running = run(DUMP, { signal: controller.signal, onProgress: () => controller.abort(new Error('stopped')) })
    await expect(running).rejects.toThrow('stopped')
    expect(await ask('select * from notes')).toEqual([])
  })

  test('rejects the commit if a move of the tenant has begun', async () => {
    const { database } = imports.postgres.tenancy.kernel
    const { id, run, ask } = tenant
    const onProgress = () =>
      void database.sql(`update multitenancy.tenants set held_by = gen_random_uuid() where id = $1`, [id])
    await expect(run(DUMP, { onProgress })).rejects.toMatchObject({ code: 'E_TENANT_STATE' })
    await database.sql('update multitenancy.tenants set held_by = null where id = $1', [id])
    expect(await ask('select * from notes')).toEqual([])
  })
})

test('imports the form of pg_dump 18', async () => {
  const { run, ask } = await imports.tenant('schema-pg')
  const text = `--
-- PostgreSQL database dump
--

\\restrict dYq2hC0bJ9

-- Dumped from database version 18.0
-- Dumped by pg_dump version 18.0

SET statement_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SELECT pg_catalog.set_config('search_path', '', false);
SET default_table_access_method = heap;

CREATE TABLE public.notes (
    id integer NOT NULL,
    body text CONSTRAINT notes_body_given NOT NULL,
    twice integer GENERATED ALWAYS AS ((id * 2)),
    CONSTRAINT notes_body CHECK ((body <> ''::text)) NOT ENFORCED
);


ALTER TABLE public.notes OWNER TO app;

ALTER TABLE public.notes ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.notes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

COPY public.notes (id, body) FROM stdin;
1\tone
\\.

SELECT pg_catalog.setval('public.notes_id_seq', 41, true);
SELECT * FROM pg_catalog.pg_restore_relation_stats(
	'version', '180000'::integer,
	'schemaname', 'public',
	'relname', 'notes'
);

ALTER TABLE ONLY public.notes
    ADD CONSTRAINT notes_pkey PRIMARY KEY (id);

ALTER DEFAULT PRIVILEGES FOR ROLE app IN SCHEMA public GRANT SELECT ON TABLES TO reader;

\\unrestrict dYq2hC0bJ9
`
  expect(await run(text)).toMatchObject({ rows: 1, skipped: { settings: 7, owners: 1, grants: 1, statistics: 1 } })
  expect(await ask(`insert into notes (body) values ('two') returning id, twice`)).toEqual([{ id: 42, twice: 84 }])
})

test('publishes the change with the commit', async () => {
  const { events } = imports.postgres.tenancy.kernel
  const { id, run } = await imports.tenant('schema-pg')
  const changes: unknown[] = []
  const end = events.subscribe(ChangeRecorded, 'within', (change) => {
    if (change.tenantId === id) changes.push(change)
  })
  await run(DUMP, { isDryRun: true })
  expect(changes).toEqual([])
  await run(DUMP)
  end()
  expect(changes).toMatchObject([
    { action: 'tenants.importTables', after: { baseline: BASELINE, statements: 4, rows: 2 } },
  ])
})

test('reports differences from the tables of the migrations', async () => {
  const { run } = await imports.tenant('schema-pg')
  const text = DUMP.replace('body text', 'body character varying(9), more int').concat('create table public.extra ()')
  expect((await run(text)).differences).toEqual([
    'the migrations have no table "extra"',
    'the column "body" of the table "notes" is character varying(9) in the file, and text in the migrations',
    'the migrations have no column "more" in the table "notes"',
  ])
})

test('rejects an unknown or missing baseline, and a suspended tenant', async () => {
  const { id, run } = await imports.tenant('schema-pg')
  for (const baseline of [undefined, '0003_missing']) {
    await expect(run(DUMP, { baseline })).rejects.toThrow(
      'Name the last migration whose tables the file contains: one of 0001_notes, 0002_done.',
    )
  }
  await imports.postgres.tenancy.tenants.suspend(id)
  await expect(run(DUMP)).rejects.toMatchObject({ code: 'E_TENANT_STATE' })
})

test.each(['rowscope-pg', 'sqlite-memory'])('rejects the driver %s', async (isolation) => {
  const { run } = await imports.tenant(isolation)
  await expect(run(DUMP)).rejects.toMatchObject({
    code: 'E_NOT_SUPPORTED',
    message: expect.stringContaining('pg_dump --data-only without --with-tables'),
  })
})

test('imports into storage without migrations, and rejects a baseline there', async () => {
  const { tenancy, end } = await testTenancy(inject('postgresUrl'))
  try {
    await installed(tenancy, { id: 'acme', name: 'Acme' })
    const signal = new AbortController().signal
    const run = (baseline?: string) =>
      tenancy.tenants.tableImports.run('acme', [Buffer.from(DUMP)] as never, { signal, baseline })
    await expect(run('0001_notes')).rejects.toThrow('The host has no migrations.')
    expect(await run()).toMatchObject({ rows: 2 })
    await expect(run()).rejects.toMatchObject({ code: 'E_STORAGE_EXISTS' })
  } finally {
    await end()
  }
})
