import { describe, expect, test } from 'vitest'
import { verdictOn } from './sql-import-rules.ts'
import { StatementReader } from './sql-statements.ts'

function verdicts(text: string) {
  const reader = new StatementReader()
  return [...reader.read(text), ...reader.end()].map(verdictOn)
}

/** What pg_dump 18 and pg_dumpall write around the rows. */
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

test('what a dump has around its rows is passed over', () => {
  const all = verdicts(AROUND)
  expect(all).toHaveLength(17)
  expect(new Set(all)).toEqual(new Set(['pass over']))
})

describe('run', () => {
  test.each([
    'insert into t values (1)',
    'savepoint a; release a',
    'rollback to a; rollback work to savepoint a; ROLLBACK TRANSACTION TO a',
    'prepare a as select 1; deallocate a',
    "set statement_timeout = '5min'; set local work_mem = '1GB'; reset work_mem",
    'set constraints all deferred',
    "set client_encoding to utf8; SET NAMES 'UTF-8'; reset client_encoding",
    'set standard_conforming_strings to on',
    "set app.mode = 'a'; select set_config('app.mode', 'a', true)",
    'select \'set role x\', copy, "commit" from t',
    "select pg_catalog.setval('t_id_seq', 3, true)",
  ])('%s', (text) => {
    expect(new Set(verdicts(text))).toEqual(new Set(['run']))
  })
})

describe('refused', () => {
  test.each<[RegExp, string[]]>([
    [
      /^COPY needs a connection of its own: write a dump with .*--column-inserts/,
      ['copy t from stdin', 'COPY t to stdout'],
    ],
    [
      /^\\[a-z.]+ is a command of psql and no SQL; take it out/,
      ['\\connect other', '\\.', '\\copy t from f', '\\i f.sql'],
    ],
    [
      /^[A-Z]+: all of the file is one transaction/,
      [
        ...['begin', 'BEGIN WORK', 'start transaction read only', 'commit', '/* a */ commit /* b */ and chain', 'end'],
        ...['rollback', 'rollback and chain', 'abort', "prepare transaction 'a'", "commit prepared 'a'"],
      ],
    ],
    [
      /^this would change where the statements after it find their tables/,
      [
        ...[
          'set search_path = public, pg_catalog',
          'set local search_path to a',
          "SET SCHEMA 'a'",
          'reset search_path',
        ],
        ...['set role a', 'set session role none', 'reset role', "set session authorization 'a'", 'reset all'],
        ...["set app.tenant_id = 'b'", "select set_config('role', 'a', true)", 'reset session authorization'],
        ...[
          "SELECT pg_catalog.set_config( 'search_path', 'a', false)",
          "select set_config('app.tenant_id', 'b', true)",
        ],
      ],
    ],
    [/^the file is read as UTF-8/, ["SET client_encoding = 'LATIN1'", "set names 'sjis'"]],
    [/^a backslash in a string means nothing here/, ['SET standard_conforming_strings = off']],
  ])('%s', (reason, texts) => {
    for (const text of texts)
      expect([text, verdicts(text)]).toEqual([text, [{ refusal: expect.stringMatching(reason) }]])
  })
})
