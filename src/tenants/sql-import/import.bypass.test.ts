/** Attempts to leave a tenant by the file of an import, on every driver. */
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { databasePg } from '../../drivers/isolation/database-pg.ts'
import { rowscopePg } from '../../drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { sqliteMemory } from '../../drivers/isolation/sqlite/driver.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'
import { installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { importSql } from './import.ts'

/** The trigger executes the body of its row, as a faulty function of the host might do. */
const TABLES = `
  create table notes (tenant_id text not null default tenantry.current_tenant(), id int, body text, primary key (tenant_id, id));
  create table jumps (tenant_id text not null default tenantry.current_tenant(), id int, setting text, value text, primary key (tenant_id, id));
  create function jump() returns trigger language plpgsql as $$ begin
    perform set_config(new.setting, new.value, true); return new; end $$;
  create trigger jump after insert on jumps for each row execute function jump();
  create function loosen() returns text language sql as $$ select set_config('standard_conforming_strings', 'off', false) $$;
  create view mine as select id, body from notes;`

const POSTGRES = { 'schema-pg': schemaPg, 'rowscope-pg': rowscopePg, 'database-pg': databasePg }

let postgres: TestTenancy<[]>
let sqlite: TestTenancy<[]>
beforeAll(async () => {
  const isolation = Object.values(POSTGRES).map((driver) => driver())
  const up = TABLES.replace('create view mine as', 'create view mine with (security_invoker) as')
  postgres = await testTenancy(inject('postgresUrl'), { isolation, migrations: [{ name: '0001', checksum: '1', up }] })
  sqlite = await testTenancy(inject('postgresUrl'), {
    isolation: [sqliteMemory()],
    migrations: [
      {
        name: '0001',
        checksum: '1',
        up: async (db) => void (await sql`create table notes (id integer primary key, body text)`.execute(db)),
      },
    ],
  })
  for (const { name } of isolation) {
    for (const id of [name, `other-${name}`]) await installed(postgres.tenancy, { id, name: id, isolation: name })
  }
  for (const id of ['sqlite-memory', 'other-sqlite-memory']) await installed(sqlite.tenancy, { id, name: id })
})
afterAll(async () => {
  await postgres?.end()
  await sqlite?.end()
})

const SETTING = "set_config('app.tenant_id', 'OTHER', true)"

/** For PostgreSQL; SCHEMA is the schema of the other tenant, OTHER its id. */
const STATEMENTS = String.raw`
insert into "SCHEMA".notes (id) values (1)
insert into SCHEMA.notes (id) values (1)
insert into "SCHEMA" . /* */ "notes" (id) values (1)
insert into database.public.notes (id) values (1)
insert into pg_temp.notes (id) values (1)
insert into pg_catalog.pg_class (relname) values ('a')
insert into tenantry.fenced values ('OTHER')
insert into information_schema.tables values (1)
insert into tenantry_rows.missing (id) values (1)
insert into "PUBLIC".notes (id) values (1)
insert into "Notes" (id) values (1)
insert into mine (id) values (1)
insert into only notes (id) values (1)
insert into notes as n (id) values (1)
insert into notes n values (1)
insert into notes@other (id) values (1)
insert into U&"not\0065s" (id) values (1)
insert into u&"SCHEMA".notes (id) values (1)
insert into notes (id) select 1
insert into notes (id) (select 1)
insert into notes (select)
insert into notes (id) table notes
insert into notes (id, body) select 1, SETTING
insert into notes (id) values ((select 1))
insert into notes (id) values (1), ((select count(*) from "SCHEMA".notes))
insert into notes (id, body) values (1, SETTING)
insert into notes (id, body) values (1, pg_catalog.SETTING)
insert into notes (id, body) values (1, "set_config"('app.tenant_id', 'OTHER', true))
insert into notes (id, body) values (1, query_to_xml('select SETTING', true, true, ''))
insert into notes (id, body) values (1, now())
insert into notes (id, body) values (1, current_user)
insert into notes (id, body) values (1, current_setting('search_path'))
insert into notes (id, body) values (1, case when true then SETTING end)
insert into notes (id, body) values (1, array[SETTING])
insert into notes (id, body) values (1, row(1))
insert into notes (id, body) values (1, 'a' || SETTING)
insert into notes (id, body) values (1, 'a' 'b')
insert into notes (id, body) values (1, body)
insert into notes (id, body) values (1, "body")
insert into notes (id, body) values (1, $1)
insert into notes (id, body) values (1, $$a$$)
insert into notes (id, body) values (1, $x$ '); set role none; $x$)
insert into notes (id, body) values (1, U&'\0027')
insert into notes (id, body) values (1, U&'!0027' uescape '!')
insert into notes (id, body) values (1, n'a')
insert into notes (id, body) values (1, b'01''')
insert into notes (id, body) values (1, x 'ff')
insert into notes (id, body) values (1, '"SCHEMA".notes'::regclass)
insert into notes (id, body) values (1, regclass '"SCHEMA".notes')
insert into notes (id, body) values (1, cast('"SCHEMA".notes' as regclass))
insert into notes (id, body) values (1, 'a'::text)
insert into notes (id, body) values (1, 'a' collate "C")
insert into notes (id) values (1 + 1)
insert into notes (id) values (- -1)
insert into notes (id) values (1), (0x1f)
insert into notes (id) values (1_000)
insert into notes (id) values (1a)
insert into notes (id) values (1; set role none)
insert into notes (id) values (1))
insert into notes (id) values ()
insert into notes (id) values (1,)
insert into notes (id[1]) values (1)
insert into notes (id.x) values (1)
insert into notes ((id)) values (1)
insert into notes (id) values (1) returning SETTING
insert into notes (id) values (1) returning (select SETTING)
insert into notes (id) values (1) returning *
insert into notes (id) values (1) on conflict (tenant_id, id) do update set body = SETTING
insert into notes (id) values (1) on conflict (tenant_id, id) do update set body = (select 'x')
insert into notes (id) values (1) on conflict (tenant_id, id) do update set body = excluded.body
insert into notes (id) values (1) on conflict ((SETTING)) do nothing
insert into notes (id) values (1) on conflict (tenant_id, id) where SETTING = '' do nothing
insert into notes default values returning SETTING
insert into notes (id) overriding SETTING values (1)
with x as (select SETTING) insert into notes (id) values (1)
with x as (insert into "SCHEMA".notes (id) values (1)) insert into notes (id) values (1)
select 1, SETTING
select SETTING
select/**/pg_catalog.SETTING
select pg_catalog.set_config('search_path', '"SCHEMA"', false)
select pg_catalog.set_config('search_path', '', false), SETTING
select pg_catalog.set_config('search_path', '', false) where SETTING <> ''
select setval('"SCHEMA".some_seq', 1)
select setval('"SCHEMA".some_seq', (select 1))
select setval('some_seq'::regclass, 1)
select setval('some_seq', 1), SETTING
select setval((SETTING), 1)
select setval('notes', 1)
select setval('notes; set role none', 1)
select other.setval('some_seq', 1)
select nextval('"SCHEMA".some_seq')
select lo_create(0)
select * from "SCHEMA".notes
values (SETTING)
table "SCHEMA".notes
(select SETTING)
do $$ begin perform SETTING; end $$
do language plpgsql 'begin end'
call x()
explain analyze select SETTING
explain insert into notes (id) values (1)
create function pg_temp.f() returns text language sql as $$ select SETTING $$
create temp table t as select SETTING
prepare p as select SETTING
execute p
deallocate all
declare c cursor for select SETTING
fetch c
listen x
notify x, 'y'
lock table notes
analyze notes
refresh materialized view notes
update notes set body = SETTING
delete from "SCHEMA".notes
merge into notes using notes n on true when matched then delete
truncate notes
alter table notes disable trigger all
grant select on notes to public
reset role
reset all
discard all
set app.tenant_id = 'OTHER'
set "app"."tenant_id" = 'OTHER'
set app . tenant_id to 'OTHER'
set local app.tenant_id = 'OTHER'
set session app.tenant_id = 'OTHER'
set search_path = "SCHEMA"
set "search_path" = "SCHEMA"
set schema 'SCHEMA'
set role none
set local role none
set session authorization default
set session characteristics as transaction read only
set constraints all deferred
set standard_conforming_strings = off
set client_encoding = 'SJIS'
set names 'SJIS'
set row_security = off, on
set time zone 'UTC'
begin
commit
commit and chain
rollback to savepoint a
savepoint a
start transaction
prepare transaction 'a'
copy notes from stdin
copy "SCHEMA".notes (id) from stdin
copy notes (id) from '/etc/passwd'
copy notes (id) from program 'id'
copy notes (id) to stdout
copy (select SETTING) to stdout
copy notes (id) from stdin with (format csv)
copy notes (id) from stdin (header)
copy notes (id) from stdin where SETTING <> ''
copy notes (id) from stdin delimiter ','
copy binary notes (id) from stdin
copy notes (id, (SETTING)) from stdin
copy mine (id) from stdin
\copy notes from '/etc/passwd'
\! id
\i other.sql
\connect other
\set x 1
\gexec
\.
insert into notes (id) values (:id)
insert into notes (id) values (?)
insert into notes (id) values (1) \gexec
insert into notes (id, body) values (1, 'a
insert into notes (id, body) values (1, E'\'
insert into notes (id, body) values (1, "a
insert into notes (id) values (1) /* open
/* nested /* */ ; insert into notes (id) values (1)
‘insert into notes (id) values (1)
insert into notes (id) values (１)`

const ON_SQLITE = `
insert into other.notes (id) values (1)
insert into sqlite_schema (name) values ('a')
insert into main.sqlite_sequence values ('a', 1)
insert into temp.notes (id) values (1)
insert into notes (id, body) values (1, load_extension('a'))
insert into notes (id, body) values (1, "body")
insert into notes (id, body) values (1, [body])
insert into notes (id, body) values (1, (select 1))
insert into notes (id) select 1
insert or replace into notes (id) values (1)
replace into notes (id) values (1)
insert into notes (id) values (1) returning id
insert into notes (id) values (1) on conflict (id) do update set body = 'a'
insert into notes (id, body) values (1, ?)
insert into notes (id, body) values (1, 'a' || 'b')
insert into notes (id) values (1 /* /* */ ; */)
copy notes (id) from stdin
attach 'file' as other
pragma foreign_keys = off
vacuum into 'file'
create table t (a)
select load_extension('a')
with x as (select 1) insert into notes (id) values (1)
begin immediate
detach main
explain select 1`

/** If a backslash escaped a quote, the second string would be SQL. */
const TWO_STRINGS = String.raw`insert into notes (id, body) values (90, '\'), (91, ', (select 1)); --')`

const bypasses = (text: string, other: string, schema: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => line.replaceAll('SETTING', SETTING).replaceAll('SCHEMA', schema).replaceAll('OTHER', other))

describe.each(['schema-pg', 'rowscope-pg', 'database-pg', 'sqlite-memory'])('%s', (driver) => {
  const engine = driver === 'sqlite-memory' ? 'sqlite' : 'postgres'
  const tenancy = () => (engine === 'sqlite' ? sqlite : postgres).tenancy
  const options = { engine, signal: new AbortController().signal } as const
  const importing = (text: string) =>
    importSql(tenancy().tenants.handles.source(driver), [Buffer.from(text)] as never, options)
  const notesOf = async (id: string) => (await tenancy().tenant(id)).db.selectFrom('notes').select('id').execute()

  const texts = bypasses(engine === 'sqlite' ? ON_SQLITE : STATEMENTS, `other-${driver}`, `t1_other-${driver}`)

  test(`rejects ${texts.length} statements with their line, and rolls back`, async () => {
    const accepted: unknown[] = []
    for (const text of texts) {
      const failure = await importing(`\n${text}`).then(
        () => 'the statement was accepted',
        ({ code, message }) =>
          code === 'E_INVALID_REQUEST' && /^line 2: .*\nEverything was/.test(message) ? '' : message,
      )
      if (failure) accepted.push([text, failure])
    }
    expect(accepted).toEqual([])
    expect(await notesOf(driver)).toEqual([])
    expect(await notesOf(`other-${driver}`)).toEqual([])
  })

  test('runs no text after a rejected statement', async () => {
    await expect(importing(`select 1;\ninsert into notes (id) values (78);`)).rejects.toThrow(/^line 1: /)
    expect(await notesOf(driver)).toEqual([])
  })

  if (engine === 'sqlite') return

  test.each<[string, string, string]>([
    ['tenant', 'app.tenant_id', `other-${driver}`],
    ['search path', 'search_path', `"t1_other-${driver}", tenantry_rows`],
    ['role', 'role', 'none'],
    ['parsing of strings', 'standard_conforming_strings', 'off'],
  ])('rolls back after a trigger has changed the %s', async (_, setting, value) => {
    const insert = `insert into jumps (id, setting, value) values (1, '${setting}', '${value}');\n`
    const copy = `copy jumps (id, setting, value) from stdin;\n1\t${setting}\t${value}\n\\.\n`
    for (const [text, line] of [
      [insert, 2],
      [copy, 3],
    ]) {
      const failure = importing(`insert into notes (id) values (79);\n${text}insert into notes (id) values (80);`)
      await expect(failure).rejects.toMatchObject({
        code: 'E_INVALID_REQUEST',
        message: expect.stringMatching(
          new RegExp(`^line ${line}: The statement changed role, search_path or tenant.*\nEverything was rolled back`),
        ),
      })
    }
    expect(await notesOf(driver)).toEqual([])
    expect(await notesOf(`other-${driver}`)).toEqual([])
  })

  test('accepts a trigger that leaves the scope unchanged, and reuses the connection for the next import', async () => {
    const same = `insert into jumps (id, setting, value) values (2, 'app.other', 'a');\n`
    expect(await importing(`${same}insert into notes (id) values (81);`)).toMatchObject({ statements: 2, rows: 2 })
    expect(await notesOf(driver)).toEqual([{ id: 81 }])
    const { db } = await tenancy().tenant(driver)
    await db.deleteFrom('notes').execute()
  })

  test('parses strings like the server after a function has changed the session', async () => {
    const { db } = await tenancy().tenant(driver)
    await sql`select loosen()`.execute(db)
    const { rows } = await sql`select current_setting('standard_conforming_strings') as strings`.execute(db)
    expect(rows).toEqual([{ strings: 'off' }]) // of the connection that has served the tenant last, as it serves the tenant next
    expect(await importing(TWO_STRINGS)).toMatchObject({ rows: 2 })
    const bodies = await db.selectFrom('notes').select('body').orderBy('id').execute()
    expect(bodies).toEqual([{ body: '\\' }, { body: ', (select 1)); --' }])
    await db.deleteFrom('notes').execute()
  })
})

test('parses strings like the server with any settings of its login', async () => {
  const database = new Database({ url: postgres.url, max: 1 }, createLogger({ level: 'silent' }))
  const { rows } = await database.sql('select quote_ident(current_database()) as name')
  await database.sql(`alter database ${rows[0].name} set standard_conforming_strings = off`)
  try {
    const other = await postgres.open({ isolation: [schemaPg(), rowscopePg(), databasePg()] }) // with its own connections
    const id = 'schema-pg'
    const options = { engine: 'postgres', signal: new AbortController().signal } as const
    const imported = await importSql(other.tenants.handles.source(id), [Buffer.from(TWO_STRINGS)] as never, options)
    expect(imported).toMatchObject({ rows: 2 })
    const { db } = await other.tenant(id)
    const bodies = await db.selectFrom('notes').select('body').orderBy('id').execute()
    expect(bodies).toEqual([{ body: '\\' }, { body: ', (select 1)); --' }])
    await db.deleteFrom('notes').execute()
  } finally {
    await database.sql(`alter database ${rows[0].name} reset standard_conforming_strings`)
    await database.close()
  }
})

test('rolls back behind a pooler after a trigger has changed the tenant', async () => {
  const behind = await postgres.open({
    isolation: [schemaPg(), rowscopePg(), databasePg()],
    placements: { main: { pooler: true } },
  })
  const options = { engine: 'postgres', signal: new AbortController().signal } as const
  const importing = (text: string) =>
    importSql(behind.tenants.handles.source('rowscope-pg'), [Buffer.from(text)] as never, options)
  const jump = (value: string) => `insert into jumps (id, setting, value) values (3, 'app.tenant_id', '${value}');\n`
  const copy = 'copy notes (id) from stdin;\n92\n\\.\n'
  await expect(importing(`${jump('other-rowscope-pg')}${copy}`)).rejects.toThrow(/^line 1: The statement changed role/)
  expect(await importing(`${jump('rowscope-pg')}${copy}`)).toMatchObject({ statements: 2, rows: 2 })
  const { db } = await behind.tenant('rowscope-pg')
  expect(await db.selectFrom('notes').select('id').execute()).toEqual([{ id: 92 }])
  for (const table of ['notes', 'jumps']) await db.deleteFrom(table).execute()
})
