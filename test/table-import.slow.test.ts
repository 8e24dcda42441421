/** Imports unchanged `pg_dump` output with tables of three different applications, and compares structures and rows. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { databasePg } from '../src/drivers/isolation/database-pg.ts'
import { withDatabase } from '../src/drivers/isolation/roles/login-clients.ts'
import { schemaPg } from '../src/drivers/isolation/schema-pg.ts'
import type { StorageLocation } from '../src/tenants/isolation/driver.ts'
import { toLocation } from '../src/tenants/registry/registry.ts'
import { installed, type TestTenancy, testTenancy } from '../src/testing/base/tenancy.ts'
import { type Postgres15, query, startPostgres15 } from './postgres-15.fixture.ts'
import { programPath } from './setup/not-run.ts'
import { LEGACY, type LegacyDatabase, RELATIONS, STRUCTURE } from './table-import.fixture.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const PG_DUMP = programPath('pg_dump') ?? ''
const FORMER = {
  name: '0001_former',
  checksum: '1',
  up: 'create table former (id int); create view older as select * from former',
}

let source: Postgres15
let postgres: TestTenancy<[]>
beforeAll(async () => {
  source = await startPostgres15()
  for (const { name, text } of LEGACY) {
    await query(source.url, `create database ${name}`)
    await query(withDatabase(source.url, name), text)
  }
  postgres = await testTenancy(inject('postgresUrl'), { isolation: [schemaPg(), databasePg()], migrations: [FORMER] })
})
afterAll(async () => {
  await postgres?.end()
  await source?.close()
})

async function imported(id: string, { name, options }: LegacyDatabase) {
  const dump = spawn(PG_DUMP, [...options, withDatabase(source.url, name)], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(dump, 'close')
  const text = dump.stdout.pipe(new PassThrough()) // Node.js discards the output of an ended program that nothing reads yet
  const totals = await postgres.tenancy.tenants.tableImports.run(id, text, {
    baseline: FORMER.name,
    signal: new AbortController().signal,
  })
  expect(await ended).toEqual([0, null])
  return totals
}

interface Facts {
  readonly structure: readonly { kind: string; of: string; fact: string }[]
  readonly rows: Readonly<Record<string, readonly unknown[]>>
}

/** Structure and rows of a schema, with its name replaced. */
async function factsOf(url: string, schema: string): Promise<Facts> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(`set search_path = ${pg.escapeIdentifier(schema)}; set timezone = 'UTC'; set lc_monetary = 'C'`)
    const { rows } = await client.query(STRUCTURE)
    const found: Record<string, unknown[]> = {}
    for (const { name } of (await client.query(RELATIONS)).rows) {
      const all = await client.query(`select to_jsonb(t)::text as row from only ${name} t order by 1`)
      found[name] = all.rows.map(({ row }) => row)
    }
    const neutral = (text: string) =>
      text
        .replaceAll(new RegExp(`(?<![\\w']|-- )"?${schema}"?\\.`, 'g'), '')
        .replaceAll(`search_path TO '${schema}'`, 'search_path')
    const structure = rows.map(({ kind, of, fact }) => ({
      kind,
      of: neutral(of),
      fact: (kind === 'comment' ? fact : neutral(fact ?? '')).replaceAll(/\s+/g, ' '),
    }))
    return { structure, rows: found }
  } finally {
    await client.end()
  }
}

/** PUBLIC may connect to the database of the test. */
const OF_THE_TEST_DATABASE = 'isolation.own-login-reaches-rows'

const DRIVERS = ['schema-pg', 'database-pg'] as const
const placeOf = (driver: string, { locator }: StorageLocation): [url: string, schema: string] =>
  driver === 'schema-pg' ? [postgres.url, locator] : [withDatabase(postgres.url, locator), 'tenant']

describe.each(DRIVERS)('%s', (driver) => {
  test.each(LEGACY.map((legacy) => [legacy.name, legacy] as const))('imports the dump of %s', async (name, legacy) => {
    const id = `${driver}-${name}`
    await installed(postgres.tenancy, { id, name: id, isolation: driver })
    const totals = await imported(id, legacy)
    expect(totals.skipped).toMatchObject({ settings: expect.any(Number) })
    const { tenants } = postgres.tenancy
    const [url, schema] = placeOf(driver, toLocation(await tenants.registry.row(id)))
    const [expected, actual] = [
      await factsOf(withDatabase(source.url, name), legacy.schema),
      await factsOf(url, schema),
    ]
    expect(actual.rows).toEqual(expected.rows)
    expect(actual.structure).toEqual(expected.structure)
  })

  test('gives the objects the owner and rights of tables from migrations', async () => {
    const { tenants } = postgres.tenancy
    const isolation = tenants.storage.driver(driver)
    const ids = LEGACY.map(({ name }) => `${driver}-${name}`)
    const locations = async function* () {
      for (const id of ids) yield toLocation(await tenants.registry.row(id))
    }
    const findings = await Array.fromAsync(isolation.audit(locations()))
    expect(findings.filter(({ code }) => code !== OF_THE_TEST_DATABASE)).toEqual([])
    const { pool } = await postgres.tenancy.tenant(`${driver}-shop`)
    await pool.query(`insert into orders (customer, total) values (1, 5000)`)
    const { rows } = await pool.query(
      'select note, id::int, number::int, total_of(1)::int > 5000 as sums from orders where total = 5000',
    )
    expect(rows).toEqual([{ note: 'public.none', id: 1235, number: 13_340, sums: true }])
    expect((await pool.query('select count(*)::int from richest')).rows).toEqual([{ count: 3 }])
  })
})
