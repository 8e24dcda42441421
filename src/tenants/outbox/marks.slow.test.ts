/** Marks of databases of tenants: entries of a killed process are found, and idle databases are not read. */
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { databasePg } from '../../drivers/isolation/database-pg.ts'
import { eventually, installed, type TestTenancy } from '../../testing/base/tenancy.ts'
import type { IsolationDriver } from '../isolation/driver.ts'
import { toLocation } from '../registry/registry.ts'
import { type LedgerSatellites, type LedgerTenancy, NOTES, openLedger } from './outbox.fixture.ts'

const id = 'acme'
const UNCHANGED_MS = 30_000

let opened: TestTenancy<LedgerSatellites>
/** Posts, and is killed as far as the outbox is concerned. */
let posting: LedgerTenancy
/** Relays marked databases when a test asks for it. */
let worker: LedgerTenancy
let nowMs = 0
/** Relays of marked databases by all processes. */
let relays = 0

beforeAll(async () => {
  const notes = { ...NOTES, up: 'create table notes (id int primary key)' }
  opened = await openLedger({ isolation: [countedDriver()], migrations: [notes] })
  posting = opened.tenancy
  await installed(posting, { id, name: 'Acme' })
  await installed(posting, { id: 'idle', name: 'Idle' })
  await posting.tenants.outbox.stop()
  worker = await another()
})
afterAll(() => opened.end())

function countedDriver(): IsolationDriver {
  const driver = databasePg()
  const relay: IsolationDriver['outbox']['relay'] = (...options) => {
    relays++
    return driver.outbox.relay(...options)
  }
  return { ...driver, outbox: { ...driver.outbox, relay } }
}
const another = () => opened.open({ role: 'api', isolation: [countedDriver()] })
const marks = async () => {
  const { rows } = await posting.kernel.database.sql(
    'select tenant_id as "tenantId", version from multitenancy.outbox_marks order by tenant_id',
  )
  return rows
}
/** A worker looks at the marks after a time by its own clock. */
async function look(afterMs: number): Promise<void> {
  nowMs += afterMs
  await worker.tenants.outbox.relayMarked(() => nowMs)
}
const numbers = () => posting.ledger.numbers(id)
const post = async (tenancy: LedgerTenancy, ...numbers: number[]) => {
  const { transaction } = await tenancy.tenant(id)
  for (const n of numbers) await transaction(() => tenancy.ledger.add(id, n))
}
/** A process that posts and relays nothing, as after a crash. */
async function killed(): Promise<LedgerTenancy> {
  const tenancy = await another()
  await tenancy.tenants.outbox.stop()
  return tenancy
}

test('entries of a killed process are applied after its mark is unchanged for 30 s; then the mark is deleted', async () => {
  await post(posting, 1)
  expect(await marks()).toMatchObject([{ tenantId: id }])
  await look(0)
  await look(UNCHANGED_MS - 1)
  expect(await numbers()).toEqual([])
  await look(1)
  expect(await numbers()).toEqual([1])
  expect(await marks()).toEqual([])
})

test('a process writes its mark once for several posts', async () => {
  const tenancy = await killed()
  await post(tenancy, 2)
  const [mark] = await marks()
  await post(tenancy, 3)
  expect(await marks()).toEqual([mark])
  await look(0)
  await look(UNCHANGED_MS)
  expect(await numbers()).toEqual([1, 2, 3])
})

test('a mark is not deleted while a transaction that has posted has not ended', async () => {
  const tenancy = await killed()
  const { transaction } = await tenancy.tenant(id)
  await transaction(async () => {
    await tenancy.ledger.add(id, 4)
    await look(0)
    await look(UNCHANGED_MS)
    expect(await marks()).toMatchObject([{ tenantId: id }])
  })
  await look(0)
  await look(UNCHANGED_MS)
  expect(await numbers()).toEqual([1, 2, 3, 4])
  expect(await marks()).toEqual([])
})

test('a rolled back transaction leaves no entry, and its mark is deleted', async () => {
  const tenancy = await killed()
  const { transaction } = await tenancy.tenant(id)
  const failing = transaction(async () => {
    await tenancy.ledger.add(id, 5)
    throw new Error('rolled back')
  })
  await expect(failing).rejects.toThrow('rolled back')
  await look(0)
  await look(UNCHANGED_MS)
  expect(await numbers()).toEqual([1, 2, 3, 4])
  expect(await marks()).toEqual([])
})

test('only one of two workers claims a mark, and another mark of a process lets both wait again', async () => {
  await markAgain()
  const other = await another()
  await look(0)
  await other.tenants.outbox.relayMarked(() => nowMs)
  await markAgain()
  await look(UNCHANGED_MS)
  expect(await marks()).toMatchObject([{ tenantId: id }])
  await other.tenants.outbox.relayMarked(() => nowMs)
  nowMs += UNCHANGED_MS
  relays = 0
  await Promise.all([look(0), other.tenants.outbox.relayMarked(() => nowMs)])
  expect(await marks()).toEqual([])
  expect(relays).toBe(1)
})

test('a mark is unchanged since the response that contained it, not since the request', async () => {
  await markAgain()
  const looking = worker.tenants.outbox.relayMarked(() => nowMs)
  nowMs += UNCHANGED_MS
  await looking
  await look(UNCHANGED_MS - 1)
  expect(await marks()).toMatchObject([{ tenantId: id }])
  await look(1)
  expect(await marks()).toEqual([])
})

test('entries of a database are applied before it is dropped, and its mark is deleted', async () => {
  await installed(posting, { id: 'dropped', name: 'Dropped' })
  const tenancy = await killed()
  await (await tenancy.tenant('dropped')).transaction(() => tenancy.ledger.add('dropped', 1))
  const place = toLocation(await posting.tenants.registry.row('dropped'))
  await driver().fence(place)
  await posting.tenants.lostPlacements.drop(place)
  expect(await posting.ledger.numbers('dropped')).toEqual([1])
  expect(await marks()).toEqual([])
})

test('a process relays its own entries after the commit', async () => {
  const own = await another()
  const tenant = await own.tenant(id)
  await tenant.transaction(() => own.ledger.add(id, 5))
  await eventually(async () => expect(await numbers()).toEqual([1, 2, 3, 4, 5]))
})

test('a database of an earlier version has the objects of the outbox before the first post', async () => {
  const own = await another()
  await inDatabase(
    'drop function tenantry.post(uuid, text, text, text, text), tenantry.post(uuid, text, jsonb, text); drop table tenantry.outbox',
  )
  await (await own.tenant(id)).transaction(() => own.ledger.add(id, 6))
  await eventually(async () => expect(await numbers()).toEqual([1, 2, 3, 4, 5, 6]))
})

test('a database without the function for jsonb has it before the first post', async () => {
  const own = await another()
  await inDatabase('drop function tenantry.post(uuid, text, jsonb, text)')
  await own.tenants.outbox.prepare(driver(), await location())
  const { pool } = await own.tenant(id)
  await pool.query('select tenantry.post(gen_random_uuid(), $1, $2::jsonb)', ['ledger.add', { n: 7 }])
  await eventually(async () => expect(await numbers()).toEqual([1, 2, 3, 4, 5, 6, 7]))
})

test('a database with a former version of the function has the present one before the first post, and keeps a newer one', async () => {
  const body = async () => {
    const rows = await inDatabase(
      "select prosrc as body from pg_proc where oid = 'tenantry.post(uuid, text, text, text, text)'::regprocedure",
    )
    return rows[0].body as string
  }
  const replaced = async (version: string) => {
    const parameters = 'id uuid, kind text, payload text, context text default null, mac text default null'
    await inDatabase(
      `create or replace function tenantry.post(${parameters}) returns uuid language plpgsql as $$ ${version} begin return id; end $$`,
    )
    const own = await another()
    await own.tenants.outbox.prepare(own.tenants.storage.driver('database-pg'), await location())
    return body()
  }
  const present = await body()
  expect(await replaced('')).toBe(present)
  expect(await replaced('-- version 0\n')).toBe(present)
  expect(await replaced('-- version 999\n')).toContain('-- version 999')
  expect(await replaced('')).toBe(present)
})

const driver = () => posting.tenants.storage.driver('database-pg')
const location = async () => toLocation(await posting.tenants.registry.row(id))

/** Another process marks the database. */
async function markAgain(): Promise<void> {
  const other = await another()
  await other.tenants.outbox.prepare(other.tenants.storage.driver('database-pg'), await location())
}

async function inDatabase(text: string): Promise<any[]> {
  const { locator } = await location()
  const url = Object.assign(new URL(opened.url), { pathname: locator }).href
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query(text)
  await client.end()
  return rows
}
