import { expect, test } from 'vitest'
import type { Capabilities } from '../isolation/driver.ts'
import { type ImportStatement, parseStatement } from './rules.ts'
import { type SqlStatement, StatementReader } from './splitter.ts'

function parsed(text: string, engine: Capabilities['engine'] = 'postgres'): ImportStatement[] {
  const reader = new StatementReader({ engine })
  return ([...reader.read(text), ...reader.end()] as SqlStatement[]).map((one) => parseStatement(one, engine))
}

/** The statements of pg_dump 18 and pg_dumpall around the rows. */
const AROUND = String.raw`--
-- PostgreSQL database dump
--

\restrict EiNMa2gXhWnyah2FyMyuBV3hp3UZR8gcYkWPQ7GKTsRRcYDLnZ257eovHgcUBTJ

-- Dumped from database version 18.4
-- Dumped by pg_dump version 18.4

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
SET default_tablespace = '';
SET default_table_access_method = heap;
SET default_with_oids = false;
SET default_transaction_read_only = off;

\unrestrict EiNMa2gXhWnyah2FyMyuBV3hp3UZR8gcYkWPQ7GKTsRRcYDLnZ257eovHgcUBTJ
`

test('skips the statements of a dump around its rows', () => {
  const all = parsed(AROUND)
  expect(all).toHaveLength(17)
  expect(new Set(all.map(({ kind }) => kind))).toEqual(new Set(['setting']))
})

test.each<[string, string | undefined, string]>([
  ['insert into t values (1)', undefined, 't'],
  ['INSERT INTO Notes (a, "B b", c) VALUES (1, 2, 3), (4, 5, 6)', undefined, 'notes'],
  ['insert into public.t values (null, NULL, true, False, default)', 'public', 't'],
  ['insert into "public"."T ""t""" default values', 'public', 'T "t"'],
  ["insert into t values ('it''s', '', 'a;b', 'two\nlines', '\\', E'\\'', e'\\\\')", undefined, 't'],
  ['insert into t values (-1, +1, 1.5, -.5, 1., 1e5, 1.5E-10, - 1)', undefined, 't'],
  ["insert into t values (B'01', b'', X'fF', x'00')", undefined, 't'],
  ['insert into t values (current_date, CURRENT_TIME, current_timestamp)', undefined, 't'],
  ['insert into t (a) overriding system value values (1)', undefined, 't'],
  ['insert into t (a) overriding user value values (1)', undefined, 't'],
  ['insert into t values (1) on conflict do nothing', undefined, 't'],
  ['insert into t values (1) on conflict (a, "b") do nothing', undefined, 't'],
  ['insert into t values (1) on conflict on constraint t_pkey do nothing', undefined, 't'],
  ['/* a; */ insert -- b\n into /* c /* d */ */ s./**/t (a) values (1) -- e', 's', 't'],
  ['insert into été values (1)', undefined, 'été'],
])('accepts %s', (text, schema, name) => {
  expect(parsed(text)).toEqual([{ kind: 'insert', table: expect.objectContaining({ schema, name }) }])
})

test('accepts COPY with its columns, and setval of a name in a string', () => {
  expect(parsed('COPY public.notes (id, "Body ""b""", "select") FROM stdin')).toMatchObject([
    { kind: 'copy', table: { schema: 'public', name: 'notes' }, columns: ['id', 'Body "b"', 'select'] },
  ])
  expect(parsed(`SELECT pg_catalog.setval('public."Notes''_id"', 7, true)`)).toMatchObject([
    { kind: 'setval', sequence: { schema: 'public', name: "Notes'_id" }, lastValue: '7', isCalled: true },
  ])
  expect(parsed(`select setval('a_seq', -1, false); select setval('a_seq', 2)`)).toMatchObject([
    { sequence: { schema: undefined, name: 'a_seq' }, lastValue: '-1', isCalled: false },
    { lastValue: '2', isCalled: true },
  ])
})

test('accepts the names of SQLite', () => {
  const names = parsed(
    'insert into [a b] values (1); insert into `a``b` values (1); insert into "c" values (1)',
    'sqlite',
  )
  expect(names).toMatchObject([{ table: { name: 'a b' } }, { table: { name: 'a`b' } }, { table: { name: 'c' } }])
})

test.each<[RegExp, string[]]>([
  [/^UPDATE is not accepted: an import accepts INSERT .*tenant:exec or tenant:seed$/, ['update t set a = 1']],
  [/^DO is not accepted: /, ['do $$ begin end $$']],
  [/^\\[a-z.!]+ is a command of psql, not SQL; remove it/, ['\\connect other', '\\.', '\\copy t from f', '\\! id']],
  [
    /^[A-Z]+: the whole file is one transaction; remove this statement/,
    ['begin', 'COMMIT', '/* a */ commit /* b */ and chain', 'rollback to a', "prepare transaction 'a'", 'savepoint a'],
  ],
  [/^this is not a setting of pg_dump; remove it$/, ['set search_path = a', 'SET ROLE a', "set app.a = 'b'"]],
  [/: SELECT is accepted only as setval/, ['select 1']],
  [
    /^large objects are not imported; .*--no-blobs/,
    ["select lo_create('1')", "SELECT pg_catalog.lo_open('1', 131072)"],
  ],
  [/^the file must be UTF-8; write the dump with --encoding=UTF8/, ["SET client_encoding = 'LATIN1'", "set names 'a'"]],
  [/^a backslash in a string has no special meaning here/, ['SET standard_conforming_strings = off']],
  [/^now is not accepted: values are strings, /, ['insert into t values (now())']],
  [/^COPY names its columns|^from is not accepted: COPY names its columns/, ['copy t from stdin']],
  [/: COPY takes no options here/, ['copy t (a) from stdin with csv']],
  [/^the statement ends too early: /, ['insert into t', 'insert into t values (1']],
  [/^select is not accepted: an import accepts INSERT/, ['insert into t (a) select 1']],
  [/: an import accepts ON CONFLICT .. DO NOTHING only/, ['insert into t values (1) on conflict do update set a = 1']],
])('rejects with %s', (reason, texts) => {
  for (const text of texts) {
    expect(() => parsed(`\n${text}`)).toThrow(expect.objectContaining({ code: 'E_INVALID_REQUEST' }))
    expect(() => parsed(`\n${text}`)).toThrow(
      new RegExp(
        `^line 2: ${reason.source.startsWith('^') ? reason.source.replaceAll('^', '') : `.*${reason.source}`}`,
      ),
    )
  }
})

test('rejects COPY for SQLite and names the option of pg_dump', () => {
  expect(() => parsed('copy t (a) from stdin', 'sqlite')).toThrow('pg_dump --data-only --inserts')
})

test('a message shows the beginning of a long token', () => {
  expect(() => parsed(`insert into t values ("${'x'.repeat(1_000)}")`)).toThrow(/^line 1: "x{39} \.\. is not accepted/)
})
