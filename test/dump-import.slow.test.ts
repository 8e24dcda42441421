/** Imports unchanged `pg_dump` output of an application's database into tenants with the same tables. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { promisify } from 'node:util'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { databasePg } from '../src/drivers/isolation/database-pg.ts'
import { rowscopePg } from '../src/drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../src/drivers/isolation/schema-pg.ts'
import { sqliteMemory } from '../src/drivers/isolation/sqlite/driver.ts'
import { importSql } from '../src/tenants/sql-import/import.ts'
import { installed, type TestTenancy, testTenancy } from '../src/testing/base/tenancy.ts'
import { type Postgres15, query, startPostgres15 } from './postgres-15.fixture.ts'
import { programPath } from './setup/not-run.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const PG_DUMP = programPath('pg_dump') ?? ''

/**
 * `$KEY` and `$TENANT` stand for additions in tenants' tables: the tenant id, as the last column and as the first
 * column of each key.
 */
const TABLES = `
  create type mood as enum ('sad', 'it''s ok');
  create table authors (id int generated always as identity, name text not null, mood mood, primary key ($KEY id)$TENANT);
  create table "Notes; --" (
    id serial, "Body ""quoted""" text, author int, small smallint, big bigint, exact numeric(30, 10), approximate float8,
    single real, done bool, data bytea, doc jsonb, plain json, key uuid, at timestamptz, day date, clock time, span interval,
    bits bit(4), more varbit, numbers int[], texts text[], letter char(3), address inet,
    twice int generated always as (small * 2) stored,
    primary key ($KEY id)$TENANT);
  create table measured (id bigint, at date not null, primary key ($KEY id, at)$TENANT) partition by range (at);
  create table measured_2024 partition of measured for values from ('2024-01-01') to ('2025-01-01');
  create table measured_later partition of measured default;`

const tables = (key: string, column: string) => TABLES.replaceAll('$KEY', key).replaceAll('$TENANT', column)
const IN_A_TENANT = tables('tenant_id, ', ', tenant_id text not null default tenantry.current_tenant()')

const ROWS = String.raw`
  insert into authors (name, mood) values ('Ada', 'sad'), ('O''Hara \ "x"', 'it''s ok'), ('é💥', null);
  insert into "Notes; --" ("Body ""quoted""", author, small, big, exact, approximate, single, done, data, doc, plain, key, at, day,
    clock, span, bits, more, numbers, texts, letter, address) values
    (E'tab\t line\n return\r \\ back\\N \\. ''quoted'' ; -- /* \u0001 \b\f\v', 1, -32768, -9223372036854775808, -0.0000000001, 1e-300,
      'NaN', true, '\x00ff27', '{"a": "it''s \\ \n"}', '{"b" :  1}', '00000000-0000-0000-0000-000000000001',
      '2024-02-29 12:34:56.789+02', '-infinity', '23:59:59.999', '1 year -2 days 03:00', b'0101', b'', '{1,NULL,-3}',
      array['a,b', 'c"d', 'e\f', null, '', 'NULL'], 'a', '10.0.0.0/8'),
    (E'\n\\.\n', null, 7, 9223372036854775807, 'NaN', '-Infinity', 1.5, false, '', '[]', 'null', null, 'infinity', '2024-01-01',
      null, null, null, b'101', '{}', '{}', null, null),
    ('', 2, null, null, null, 0.1, null, null, null, 'null', null, null, null, null, null, null, null, null, null, null, null, null);
  insert into "Notes; --" ("Body ""quoted""", small) select repeat('long ', n), n from generate_series(1, 1200) n;
  insert into measured select n, date '2024-01-01' + n * 30 from generate_series(1, 40) n;
  select nextval('"Notes; --_id_seq"')`

const STORED = ['authors', '"Notes; --"', 'measured'].map(
  (table) => `select '${table}' as of, (to_jsonb(t) - 'tenant_id')::text as row from ${table} t`,
)
const ALL_ROWS = `${STORED.join(' union all ')} order by 1, 2`

let source: Postgres15
let postgres: TestTenancy<[]>
beforeAll(async () => {
  source = await startPostgres15()
  await query(source.url, `${tables('', '')}${ROWS}`)
  const migrations = [{ name: '0001', checksum: '1', up: IN_A_TENANT }]
  postgres = await testTenancy(inject('postgresUrl'), {
    isolation: [schemaPg(), rowscopePg(), databasePg()],
    migrations,
  })
})
afterAll(async () => {
  await postgres?.end()
  await source?.close()
})

/** Imports through a pipe, as in a shell. */
async function imported({ tenancy }: TestTenancy<[]>, id: string, url: string, ...options: string[]) {
  const dump = spawn(PG_DUMP, ['--data-only', ...options, url], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(dump, 'close')
  const engine = id.startsWith('sqlite') ? 'sqlite' : 'postgres'
  const text = dump.stdout.pipe(new PassThrough()) // Node.js discards the output of an ended program that nothing reads yet
  const totals = await importSql(tenancy.tenants.handles.source(id), text, {
    engine,
    signal: new AbortController().signal,
  })
  expect(await ended).toEqual([0, null])
  return totals
}

test('the dumps come from the oldest supported pg_dump', async () => {
  const { stdout } = await promisify(execFile)(PG_DUMP, ['--version'])
  expect(Number(/ (\d+)/.exec(stdout)?.[1])).toBeGreaterThanOrEqual(15)
  expect((await query(source.url, 'show server_version_num'))[0].server_version_num).toMatch(/^15/)
})

describe.each(['schema-pg', 'rowscope-pg', 'database-pg'])('%s', (driver) => {
  test.each<[string, string[]]>([
    ['copy', []],
    ['inserts', ['--inserts']],
    ['columns', ['--column-inserts', '--rows-per-insert=100', '--quote-all-identifiers']],
    ['conflicts', ['--inserts', '--on-conflict-do-nothing', '--load-via-partition-root']],
  ])('a dump in the form of %s', async (form, options) => {
    const id = `${driver}-${form}`
    await installed(postgres.tenancy, { id, name: id, isolation: driver })
    const totals = await imported(postgres, id, source.url, ...options)
    expect(totals).toMatchObject({ rows: 1_246 })
    const { pool } = await postgres.tenancy.tenant(id)
    await expect(pool.query(ALL_ROWS).then(({ rows }) => rows)).resolves.toEqual(await query(source.url, ALL_ROWS))
    const { rows } = await pool.query(`insert into "Notes; --" (small) values (1) returning id`)
    expect(rows[0].id).toBeGreaterThan(1_204)
  })
})

test('sqlite-memory imports a dump with INSERTs into existing tables', async () => {
  const url = source.url
  await query(
    url,
    `create table simple (id serial primary key, body text, done bool); insert into simple (body, done) values ('it''s', true), (null, false)`,
  )
  const up = async (db: any) =>
    void (await sql`create table simple (id integer primary key, body text, done boolean)`.execute(db))
  const memory = await testTenancy(inject('postgresUrl'), {
    isolation: [sqliteMemory()],
    migrations: [{ name: '1', checksum: '1', up }],
  })
  try {
    await installed(memory.tenancy, { id: 'sqlite', name: 's' })
    expect(await imported(memory, 'sqlite', url, '--inserts', '-t', 'simple')).toMatchObject({ rows: 2 })
    const { db } = await memory.tenancy.tenant('sqlite')
    expect(await db.selectFrom('simple').selectAll().orderBy('id').execute()).toEqual([
      { id: 1, body: "it's", done: 1 },
      { id: 2, body: null, done: 0 },
    ])
  } finally {
    await memory.end()
    await query(url, 'drop table simple')
  }
})
