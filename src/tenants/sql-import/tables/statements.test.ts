import { describe, expect, test } from 'vitest'
import { type SqlStatement, StatementReader } from '../splitter.ts'
import { SchemaNames } from './schema-names.ts'
import { dumpStatement } from './statements.ts'

/** Parses a file, with the schema `t1_acme` as target. */
function parse(text: string, names = new SchemaNames('t1_acme')) {
  const reader = new StatementReader()
  const statements = [...reader.read(text), ...reader.end()] as SqlStatement[]
  return statements.map((statement) => dumpStatement(statement, names))
}

const texts = (text: string, names?: SchemaNames) =>
  parse(text, names).map((parsed) => (parsed.action === 'run' ? parsed.text : parsed.action))

describe('names', () => {
  test.each<[string, string]>([
    [
      'create table public.a (b public.mood, c int references public.x(y))',
      'create table "t1_acme".a (b "t1_acme".mood, c int references "t1_acme".x(y))',
    ],
    ['create table "public"."a b" ("public" text)', 'create table "t1_acme"."a b" ("public" text)'],
    [
      `create table public.a (b text default 'public.x', c int default nextval('public.s'::regclass))`,
      `create table "t1_acme".a (b text default 'public.x', c int default nextval('"t1_acme".s'::regclass))`,
    ],
    [
      `create table public.a (b oid default '"public"."S ''x"'::"pg_catalog"."regclass")`,
      `create table "t1_acme".a (b oid default '"t1_acme"."S ''x"'::"pg_catalog"."regclass")`,
    ],
    [
      'create view public.v as select p.public.x, public.f(y) from public.p /* public.q */',
      'create view "t1_acme".v as select p.public.x, "t1_acme".f(y) from "t1_acme".p /* public.q */',
    ],
    ['create table app.a (b public.c)', 'create table "t1_acme".a (b public.c)'],
    ['create table a (b int)', 'create table a (b int)'],
  ])('replaces the schema in %j', (text, expected) => {
    expect(texts(text)).toEqual([expected])
  })

  test('does not change comments on objects, and keeps the lines of the file', () => {
    const [table, comment] = texts(`create table public.a (\n b int);\ncomment on table\npublic.a is 'public.b'`)
    expect([table, comment]).toEqual([
      'create table "t1_acme".a (\n b int)',
      `comment on table\n"t1_acme".a is 'public.b'`,
    ])
  })

  test('replaces the schema in bodies of functions, but not in their strings', () => {
    const names = new SchemaNames('t1_acme')
    const body = `begin execute 'select public.x'; perform public.g(1..2); -- public.c\n return new.public.x; end`
    expect(texts(`create function public.f() returns trigger language plpgsql as $_$${body}$_$`, names)).toEqual([
      `create function "t1_acme".f() returns trigger language plpgsql as $_$${body.replace('public.g', '"t1_acme".g')}$_$`,
    ])
    expect(names.unchangedTexts).toBe(1)
    expect(
      texts(`create function public.f() returns text language sql as 'select ''public.x'' from public.a'`),
    ).toEqual([`create function "t1_acme".f() returns text language sql as 'select ''public.x'' from "t1_acme".a'`])
    expect(
      texts(
        'create function public.f() returns int begin atomic select x from public.a; end; create table public.b ()',
      ),
    ).toEqual([
      'create function "t1_acme".f() returns int begin atomic select x from "t1_acme".a; end',
      'create table "t1_acme".b ()',
    ])
    expect(
      texts(`create function public.f() returns int language sql set search_path to 'public', 'pg_temp' return 1`),
    ).toEqual([
      'create function "t1_acme".f() returns int language sql set search_path to "t1_acme", "pg_temp" return 1',
    ])
  })
})

test.each<[string, string]>([
  ['alter table public.a owner to app', 'owners'],
  ['alter function public.f(a integer, b text) owner to "App owner"', 'owners'],
  ['alter schema public owner to x', 'owners'],
  ['alter table if exists only public."owner" owner to owner', 'owners'],
  ['alter materialized view public.a owner to app', 'owners'],
  ["set session authorization 'app'", 'owners'],
  ['reset session authorization', 'owners'],
  ['grant select on table public.a to public', 'grants'],
  ['revoke all on schema public from public', 'grants'],
  ['alter default privileges for role a in schema public grant select on tables to b', 'grants'],
  ['create schema app', 'schemas'],
  ["comment on schema public is 'x'", 'schemas'],
  ["set default_tablespace = 'fast'", 'settings'],
  ['set default_table_access_method = heap', 'settings'],
  ['create extension if not exists plpgsql with schema pg_catalog', 'settings'],
  ["select * from pg_catalog.pg_restore_relation_stats('relation', 'public.a')", 'statistics'],
])('skips %j', (text, what) => {
  expect(parse(text)).toEqual([{ action: 'skip', what }])
})

const FUNCTION = 'create function f() returns int language'

test.each<[string, RegExp]>([
  ['create extension pgcrypto', /^line 2: CREATE EXTENSION is not accepted: create the extension on the server/],
  ['create extension if not exists dblink with schema public', /^line 2: CREATE EXTENSION is not accepted/],
  [
    'create event trigger t on ddl_command_end execute function f()',
    /^line 2: CREATE EVENT is not accepted: event triggers affect/,
  ],
  ['create rule r as on insert to a do instead nothing', /^line 2: CREATE RULE is not accepted: .* use a trigger/],
  ['create policy p on a using (true)', /^line 2: CREATE POLICY is not accepted: row security/],
  ['create role admin superuser', /^line 2: CREATE ROLE is not accepted: .*pg_dumpall/],
  ['create foreign table a () server b', /^line 2: CREATE FOREIGN is not accepted/],
  ['create aggregate a (int) (sfunc = f, stype = int)', /^line 2: CREATE AGGREGATE is not accepted/],
  ['create operator === (function = f)', /^line 2: CREATE OPERATOR is not accepted/],
  ['create cast (a as b) with function f', /^line 2: CREATE CAST is not accepted/],
  ['create language plperlu', /^line 2: CREATE LANGUAGE is not accepted/],
  ['create temp table a ()', /^line 2: CREATE TEMP is not accepted/],
  ['create schema other authorization x', /^line 2: CREATE SCHEMA is not accepted/],
  ['drop table a', /^line 2: DROP TABLE is not accepted: .*without --clean/],
  ['do $$ begin end $$', /^line 2: DO is not accepted/],
  ['call f()', /^line 2: CALL F is not accepted/],
  ['truncate a', /^line 2: TRUNCATE A is not accepted/],
  ['update a set b = 1', /^line 2: UPDATE A is not accepted/],
  ['with a as (select 1) select 1', /^line 2: WITH A is not accepted/],
  ['vacuum', /^line 2: VACUUM is not accepted/],
  ['commit', /^line 2: COMMIT is not accepted: the whole file is one transaction/],
  ['security label on table a is $$x$$', /^line 2: SECURITY LABEL is not accepted/],
  ['create table a as select 1', /^line 2: CREATE TABLE: CREATE TABLE .. AS is not accepted/],
  ['create type a (input = b)', /^line 2: CREATE TYPE: only enumerations/],
  ['create index concurrently on a (b)', /^line 2: CREATE INDEX: an import is one transaction/],
  ['create table pg_catalog.a ()', /^line 2: CREATE TABLE: the file has objects of/],
  ['create table public.public ()', /^line 2: CREATE TABLE: an object with the name of its schema/],
  ['create table a (b text default $$x)', /^line 2: CREATE TABLE: an unclosed quote/],
  ['alter table a enable row level security', /^line 2: ALTER TABLE: row security of a dump/],
  ['alter table only a force row level security', /^line 2: ALTER TABLE: row security of a dump/],
  ['alter table a add b int, no force row level security', /^line 2: ALTER TABLE: row security of a dump/],
  ['alter table a enable always trigger t', /^line 2: ALTER TABLE: ENABLE ALWAYS is not accepted/],
  ['alter table a disable rule r', /^line 2: ALTER TABLE: DISABLE RULE is not accepted/],
  ['alter table public.a add column b text, owner to app', /^line 2: ALTER TABLE: OWNER TO is not accepted/],
  ['alter table a owner to app, add b int', /^line 2: ALTER TABLE: OWNER TO is not accepted/],
  ['alter table a rename owner to app', /^line 2: ALTER TABLE: RENAME OWNER is not accepted/],
  ['alter table a set schema b', /^line 2: ALTER TABLE: SET SCHEMA is not accepted/],
  ['alter table a rename to b', /^line 2: ALTER TABLE: RENAME TO is not accepted/],
  ['alter role app superuser', /^line 2: ALTER ROLE is not accepted/],
  ['alter system set x = 1', /^line 2: ALTER SYSTEM is not accepted/],
  ['alter function f() security definer', /^line 2: ALTER FUNCTION is not accepted/],
  ['alter view v set (security_invoker = false)', /^line 2: ALTER VIEW is not accepted/],
  [`${FUNCTION} plperlu as 'x'`, /^line 2: CREATE FUNCTION: functions may be written in sql and plpgsql only/],
  [`${FUNCTION} "c" as 'lib', 'symbol'`, /^line 2: CREATE FUNCTION: functions may be written/],
  [`${FUNCTION} sql security definer as 'select 1'`, /^line 2: CREATE FUNCTION: SECURITY DEFINER runs/],
  [`${FUNCTION} sql external security definer as 'select 1'`, /^line 2: CREATE FUNCTION: SECURITY DEFINER runs/],
  [`${FUNCTION} sql set role to postgres as 'select 1'`, /^line 2: CREATE FUNCTION: of the settings of a function/],
  [`${FUNCTION} sql set search_path to other as 'select 1'`, /^line 2: CREATE FUNCTION: of the settings of a function/],
  [`${FUNCTION} sql as E'select 1'`, /^line 2: CREATE FUNCTION: write the body/],
  [
    `${FUNCTION} plpgsql as $$ begin\n set role postgres; end $$`,
    /^line 3: CREATE FUNCTION: in the body of the function: a statement of a tenant/,
  ],
  [`${FUNCTION} plpgsql as $$ begin reset session authorization; end $$`, /^line 2: CREATE FUNCTION: in the body/],
  [
    `${FUNCTION} sql as 'copy a from program ''id'''`,
    /^line 2: CREATE FUNCTION: in the body of the function: COPY with PROGRAM/,
  ],
  [
    `${FUNCTION} sql as $$ select * from dblink('x', 'y') $$`,
    /^line 2: CREATE FUNCTION: in the body of the function: dblink reaches/,
  ],
  [
    `${FUNCTION} sql as $$ select pg_catalog."set_config"('role', 'x', true) $$`,
    /^line 2: CREATE FUNCTION: in the body of the function: set_config reaches/,
  ],
  [
    `${FUNCTION} sql as $$ create role x $$`,
    /^line 2: CREATE FUNCTION: in the body of the function: CREATE ROLE is not accepted/,
  ],
  [`create view v as select lo_import('/etc/passwd')`, /^line 2: CREATE VIEW: lo_import reaches/],
])('rejects %j with line and kind', (text, reason) => {
  expect(() => parse(`\n${text}`)).toThrow(reason)
})

test('accepts words of rejected phrases as names', () => {
  const update = 'begin update users set role = new.role; if a then set_x := 1; end if; end'
  for (const text of [
    `create function f() returns trigger language plpgsql as $$ ${update} $$`,
    'create table roles (role text, program text, security text, definer text)',
    'create view v as select role from program',
  ]) {
    expect(texts(text)).toEqual([text])
  }
})

test.each([
  'create view public.v as select public.x from public.a public',
  'create view public.v as select public.x from public.b join (select 1 as x) as public on true',
  'create view public.v as with "public" as (select 1 as x) select public.x from "public"',
  'create view public.v as with b as (select 1), public as (select 1 as x) select public.x from public',
  `create function public.f() returns int language sql as 'select public.x from public.a as public'`,
  'create function public.f() returns int begin atomic select public.x from public.a as public; end',
])('rejects the name of the schema as an alias in %j', (text) => {
  expect(() => parse(`\n${text}`)).toThrow(/^line 2: CREATE .*an object with the name of its schema is ambiguous/)
})

test.each([
  'create view x.v as select a.is_x as x, (a.b is distinct from c) as x from x.a where x group by x order by x',
  'create table x.a (b int, x int check (x > 0), unique (b, x))',
  'create index i on x.a using btree (b, x)',
  'create view x.v as select extract(epoch from x) as x, case when b is distinct from c then x end from only x.a',
  'create function x.f() returns int language plpgsql as $$ begin select a into x from b; x := 1; return x; end $$',
])('accepts a column with the name of the schema in %j', (text) => {
  expect(parse(`create table x.a ();${text}`)).toMatchObject([{ action: 'run' }, { action: 'run' }])
})

test('rejects objects of a second schema', () => {
  expect(() => parse('create table public.a ();\ncreate table billing.b ()')).toThrow(
    /^line 2: CREATE TABLE: the file has objects of public and of billing; write the dump with pg_dump --schema=NAME/,
  )
})
