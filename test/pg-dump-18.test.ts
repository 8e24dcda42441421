/** Imports the recorded output of pg_dump 18.6 with the constraints and columns that PostgreSQL 17 and 18 have added. */
import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { installed, type TestTenancy, testTenancy } from '../src/testing/base/tenancy.ts'

const FILE = join(import.meta.dirname, 'pg-dump-18.sql')
const CONSTRAINTS = `
  select conrelid::regclass::text as table, conname as name, contype as type, connoinherit as "isLocal", convalidated as "isValid",
    conenforced as "isEnforced"
  from pg_constraint where connamespace = to_regnamespace('t1_acme')
    and conname in ('name_given', 'note_given', 'v_given', 'known', 'old_enough') order by 1, 2`

let opened: TestTenancy<[]>
beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'))
})
afterAll(() => opened?.end())

test('imports the dump of an application with the features of PostgreSQL 18', async () => {
  const { tenancy } = opened
  await installed(tenancy, { id: 'acme', name: 'Acme' })
  const signal = new AbortController().signal
  const totals = await tenancy.tenants.tableImports.run('acme', createReadStream(FILE), { signal })
  expect(totals).toMatchObject({ statements: 68, rows: 13, skipped: { settings: 15, owners: 22 } })

  const { pool } = await tenancy.tenant('acme')
  const ask = async (text: string) => (await pool.query(text)).rows
  const owned = { isLocal: false, isValid: true, isEnforced: true }
  const { rows } = await tenancy.kernel.database.sql(CONSTRAINTS)
  expect(rows.map(({ table, ...one }) => ({ ...one, table: table.replace('t1_acme.', '') }))).toEqual([
    { table: 'children', name: 'known', type: 'f', isLocal: true, isValid: false, isEnforced: false },
    { table: 'children', name: 'note_given', type: 'n', ...owned, isLocal: true },
    { table: 'inherited', name: 'name_given', type: 'n', ...owned },
    { table: 'inherited', name: 'old_enough', type: 'c', ...owned, isValid: false, isEnforced: false },
    { table: 'late', name: 'v_given', type: 'n', ...owned, isValid: false },
    { table: 'parents', name: 'name_given', type: 'n', ...owned },
    { table: 'parents', name: 'old_enough', type: 'c', ...owned, isValid: false, isEnforced: false },
  ])
  expect(await ask('select id::int, upper, stored from only parents order by id')).toEqual([
    { id: 1, upper: 'ADA', stored: 3 },
    { id: 2, upper: 'TAB\t\\.\n\\RESTRICT X', stored: 18 },
  ])
  expect(await ask(`insert into parents (name) values ('new') returning id::int, upper`)).toEqual([
    { id: 3, upper: 'NEW' },
  ])
  expect(await ask(`insert into children (parent, amount) values (98, 1) returning id::int, note`)).toEqual([
    { id: 25, note: 'x' },
  ])
  expect(await ask('select tableoid::regclass::text as part from parts order by id')).toEqual([
    { part: 'parts_2024' },
    { part: 'parts_rest' },
  ])
  expect(await ask('select total::int from sums order by parent')).toEqual([{ total: 5 }, { total: 7 }, { total: 1 }])
  expect(await ask('select span::text, many::text, one::text from odd where "select" = 1')).toEqual([
    { span: '[1,5)', many: '{[1,2),[5,9)}', one: '(1,a)' },
  ])
})
