/**
 * Checks, after every operation of the contract, that each row, store key and job names one tenant or is declared to
 * belong to none; and that the scan reports violations.
 */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { rowscopePg } from '../src/drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../src/drivers/isolation/schema-pg.ts'
import type { Tenancy } from '../src/tenancy/tenancy.ts'
import { toLocation } from '../src/tenants/registry/registry.ts'
import { eventually, installed } from '../src/testing/base/tenancy.ts'
import { TOKENS } from './contract/calls.ts'
import { type Described, described } from './contract/document.ts'
import { merged } from './contract/parts.ts'
import { type OpenRunner, openRunner, play } from './contract/runner.ts'
import { unowned } from './ownership/scan.ts'

let runner: OpenRunner
let tenancy: Tenancy
beforeAll(async () => {
  runner = await openRunner(inject('postgresUrl'))
  ;({ tenancy } = await runner.open({ role: 'all', isolation: [schemaPg(), rowscopePg()], migrations: [SHARED] }))
  await doEverything()
}, 120_000)
afterAll(() => runner.end())

/** Concurrent operations, each with its own tenant. */
const WORKERS = 4

const SHARED = {
  name: '0003_shared',
  checksum: '3',
  up: 'create table shared (tenant_id text not null default tenantry.current_tenant(), id int, primary key (tenant_id, id))',
}

const sql = (text: string) => tenancy.kernel.database.sql(text)

async function openCircuitOf(id: string): Promise<void> {
  const { registry, circuits } = tenancy.tenants
  const location = toLocation(await registry.row(id))
  const dead = () => Promise.reject(Object.assign(new Error('no such file'), { code: '58P01' }))
  for (let call = 0; call < 20; call++) await circuits.run(location, dead).catch(() => undefined)
  await eventually(async () => {
    const { rows } = await sql(`select owner from multitenancy.store where key like 'circuit%'`)
    expect(rows).not.toEqual([])
  })
}

/** Operations on shared tables: their cases use the same schemas. A release leaves only a lookup table, so it runs first. */
const ofTables = ['tenants.releaseTables', 'tenants.planTableAdoption', 'tenants.adoptTables']

async function doEverything(): Promise<void> {
  const { true: last = [], false: first = [] } = Object.groupBy(described, ({ name }) => `${ofTables.includes(name)}`)
  await runAll(first, WORKERS)
  await runAll(
    last.toSorted((a, b) => ofTables.indexOf(a.name) - ofTables.indexOf(b.name)),
    1,
  )
  // The tables below are in another schema.
  await sql('drop schema if exists shared_rows, released_rows cascade')
  for (const table of ['adoptions', 'migrations']) {
    await sql(`delete from tenantry.${table} where locator in ('shared_rows', 'released_rows')`)
  }
  await doMore()
}

async function runAll(operations: readonly Described[], workers: number): Promise<void> {
  const left = [...operations]
  const worker = async () => {
    for (let operation = left.shift(); operation; operation = left.shift()) {
      const { success } = merged('operations')[operation.name] ?? expect.fail(operation.name)
      const names = await (operation.method === 'GET' ? runner.prepareUnchanged(success) : runner.prepare(success))
      await play(runner.api, operation, success, names)
    }
  }
  await Promise.all(Array.from({ length: workers }, worker))
}

async function doMore(): Promise<void> {
  await runner.api.call('POST', '/session', { who: 'anonymous', body: { token: TOKENS.admin } })
  await runner.api.http.signInLink()
  const { id } = await installed(tenancy, { name: 'Shared', isolation: 'rowscope-pg' })
  const { db } = await tenancy.tenant(id)
  await db.insertInto('shared').values({ id: 1 }).execute()
  await tenancy.tenants.suspend((await installed(tenancy, { name: 'Closed', isolation: 'rowscope-pg' })).id)
  await tenancy.tenants.migrations.cancel() // the run of an operation
  await tenancy.tenants.migrations.run({ verify: true })
  const { id: dead } = await installed(tenancy, { name: 'Dead' })
  await openCircuitOf(dead)
}

test('every row, store key and job names its tenant after all operations of the contract', async () => {
  const { rows } = await sql(`select distinct owner <> '' as "isTenants" from multitenancy.store order by 1`)
  expect(rows).toEqual([{ isTenants: false }, { isTenants: true }])
  expect(await unowned(tenancy.kernel.database)).toEqual([])
})

const NOTES_OF_NOBODY = 'create table multitenancy.notes_of_nobody (tenant_id text)'

test.each([
  [
    'a row of tenant_domains belongs to "unknown"',
    `insert into multitenancy.tenant_domains values ('x.example', 'unknown')`,
  ],
  ['a row of notes_of_nobody belongs to null', 'insert into multitenancy.notes_of_nobody values (null)'],
  ['the table no_tenants does not name its tenant', 'create table multitenancy.no_tenants (id int)'],
  [
    'the table two_tenants also names a tenant in other_tenant',
    'create table multitenancy.two_tenants (tenant_id text, other_tenant text)',
  ],
  [
    'the table schema_versions is declared without a tenant, and has tenant_id',
    'alter table multitenancy.schema_versions add tenant_id text',
  ],
  ['a row of store belongs to "unknown"', `insert into multitenancy.store values ('unknown', 'cache', '1')`],
  [
    'the key cache:acme of the store belongs to no tenant',
    `insert into multitenancy.store values ('', 'cache:acme', '1')`,
  ],
  [
    'a job of tenantry.InstallTenant belongs to no tenant',
    `update multitenancy_jobs.job set group_id = null where name = 'tenantry.InstallTenant'`,
  ],
  [
    'a job of tenantry.InstallTenant belongs to "unknown"',
    `update multitenancy_jobs.job set group_id = 'unknown' where name = 'tenantry.InstallTenant'`,
  ],
  [
    'a job of tenantry.InstallTenant belongs to case',
    `update multitenancy_jobs.job set data = '{"tenantId":"other"}' where name = 'tenantry.InstallTenant'`,
  ],
  [
    'a job of tenantry.InstallTenant belongs to no tenant',
    `update multitenancy_jobs.schedule set name = 'tenantry.InstallTenant' where name = 'tenantry.RunBackups'`,
  ],
  ['a row of tenantry.fenced belongs to "unknown"', `insert into tenantry.fenced values ('unknown')`],
  [
    'a row of tenantry.migrations belongs to "t1_nobody"',
    `insert into tenantry.migrations values ('t1_nobody', '1', '')`,
  ],
  ['a row of tenantry_rows.shared belongs to "unknown"', `insert into tenantry_rows.shared values ('unknown', 1)`],
  ['the table tenantry_rows.silent does not name its tenant', 'create table tenantry_rows.silent (id int)'],
])('the ownership scan reports: %s', async (words, change) => {
  const { database } = tenancy.kernel
  const found = Promise.withResolvers<string[]>()
  const looking = database.transaction(async () => {
    await database.sql('set local session_replication_role = replica') // allows keys without a referenced row
    if (change.includes('notes_of_nobody')) await database.sql(NOTES_OF_NOBODY)
    await database.sql(change)
    found.resolve(await unowned(database))
    throw new Error('rolled back')
  })
  await expect(looking).rejects.toThrow('rolled back')
  expect((await found.promise).filter((one) => one.startsWith(words))).not.toEqual([])
})
