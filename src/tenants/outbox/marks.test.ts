/** Marks of databases of tenants: entries of a killed process are found, and idle databases are not read. */
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { databasePg } from '../../drivers/isolation/database-pg.ts'
import { eventually, installed, type TestTenancy } from '../../testing/base/tenancy.ts'
import { toLocation } from '../registry/registry.ts'
import { type LedgerSatellites, type LedgerTenancy, NOTES, openLedger } from './outbox.fixture.ts'

const id = 'acme'
const UNCHANGED_MS = 30_000

let opened: TestTenancy<LedgerSatellites>
/** Posts, and is killed as far as the outbox is concerned. */
let posting: LedgerTenancy
/** Relays marked databases when a test asks for it. */
let worker: LedgerTenancy
let nowMs = performance.now()

beforeAll(async () => {
  const notes = { ...NOTES, up: 'create table notes (id int primary key)' }
  opened = await openLedger({ isolation: [databasePg()], migrations: [notes] })
  posting = opened.tenancy
  await installed(posting, { id, name: 'Acme' })
  await installed(posting, { id: 'idle', name: 'Idle' })
  await posting.tenants.outbox.stop()
  worker = await opened.open({ role: 'api' })
})
afterAll(() => opened.end())

const marks = async () => {
  const { rows } = await posting.kernel.database.sql(
    'select tenant_id as "tenantId", version from multitenancy.outbox_marks order by tenant_id',
  )
  return rows
}
/** A worker looks at the marks after a time by its own clock. */
const look = (afterMs: number) => worker.tenants.outbox.relayMarked((nowMs += afterMs))
const numbers = () => posting.ledger.numbers(id)
const post = async (n: number) => (await posting.tenant(id)).transaction(() => posting.ledger.add(id, n))

test('entries of a killed process are applied after its mark is unchanged for 30 s; then the mark is deleted', async () => {
  await post(1)
  expect(await marks()).toMatchObject([{ tenantId: id }])
  await look(0)
  await look(UNCHANGED_MS - 1)
  expect(await numbers()).toEqual([])
  await look(1)
  expect(await numbers()).toEqual([1])
  expect(await marks()).toEqual([])
})

test('a process that trusts its mark does not write it again', async () => {
  await posting.tenants.outbox.prepare(driver(), await location())
  const before = await marks()
  await post(2)
  expect(await marks()).toEqual(before)
  await look(0)
  await look(UNCHANGED_MS)
  expect(await numbers()).toEqual([1, 2])
})

test('a mark of a transaction that has posted and not ended is not deleted', async () => {
  await markAgain()
  await look(0)
  const committed = (await posting.tenant(id)).transaction(async () => {
    await posting.ledger.add(id, 3)
    await look(UNCHANGED_MS)
    expect(await marks()).toMatchObject([{ tenantId: id }])
  })
  await committed
  await look(0)
  await look(UNCHANGED_MS)
  expect(await numbers()).toEqual([1, 2, 3])
  expect(await marks()).toEqual([])
})

test('only one of two workers claims a mark, and another mark of a process lets both wait again', async () => {
  await markAgain()
  const other = await opened.open({ role: 'api' })
  await look(0)
  await other.tenants.outbox.relayMarked(nowMs)
  await markAgain()
  await look(UNCHANGED_MS)
  expect(await marks()).toMatchObject([{ tenantId: id }])
  await other.tenants.outbox.relayMarked(nowMs)
  nowMs += UNCHANGED_MS
  await Promise.all([look(0), other.tenants.outbox.relayMarked(nowMs)])
  expect(await marks()).toEqual([])
})

test('a process relays its own entries after the commit', async () => {
  const own = await opened.open({ role: 'api' })
  const tenant = await own.tenant(id)
  await tenant.transaction(() => own.ledger.add(id, 4))
  await eventually(async () => expect(await numbers()).toEqual([1, 2, 3, 4]))
})

test('a database of an earlier version has the objects of the outbox before the first post', async () => {
  const { server } = { server: driver() }
  await server.execute(await location(), { text: 'select 1' })
  const own = await opened.open({ role: 'api' })
  await inDatabase('drop function tenantry.post; drop table tenantry.outbox')
  await (await own.tenant(id)).transaction(() => own.ledger.add(id, 5))
  await eventually(async () => expect(await numbers()).toEqual([1, 2, 3, 4, 5]))
})

const driver = () => posting.tenants.storage.driver('database-pg')
const location = async () => toLocation(await posting.tenants.registry.row(id))

/** Another process marks the database. */
async function markAgain(): Promise<void> {
  const other = await opened.open({ role: 'api' })
  await other.tenants.outbox.prepare(other.tenants.storage.driver('database-pg'), await location())
}

async function inDatabase(text: string): Promise<void> {
  const { locator } = await location()
  const url = Object.assign(new URL(opened.url), { pathname: locator }).href
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(text)
  await client.end()
}
