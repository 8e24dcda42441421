/** The outbox of a tenant's own database: slow posts, hung processes, closed databases and many relays. */
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { databasePg } from '../../drivers/isolation/database-pg.ts'
import { eventually, installed, type TestTenancy } from '../../testing/base/tenancy.ts'
import { toLocation } from '../registry/registry.ts'
import { outboxDiagnosis } from './doctor.ts'
import { type LedgerSatellites, type LedgerTenancy, NOTES, openLedger } from './outbox.fixture.ts'

const id = 'acme'
const UNCHANGED_MS = 30_000
const TRUSTED_MS = 20_000
const now = performance.now.bind(performance)

let opened: TestTenancy<LedgerSatellites>
/** Posts, and relays nothing. */
let posting: LedgerTenancy
/** Relays marked databases when a test asks for it. */
let worker: LedgerTenancy
let nowMs = 0
let skippedMs = 0

beforeAll(async () => {
  const notes = { ...NOTES, up: 'create table notes (id int primary key)' }
  opened = await openLedger({ isolation: [databasePg()], migrations: [notes] })
  posting = opened.tenancy
  await installed(posting, { id, name: 'Acme' })
  await posting.tenants.outbox.stop()
  worker = await opened.open({ role: 'api', isolation: [databasePg()] })
})
beforeEach(() => vi.spyOn(performance, 'now').mockImplementation(() => now() + skippedMs))
afterEach(() => inDatabase('delete from tenantry.outbox'))
afterAll(() => opened.end())

const location = async (of = id) => toLocation(await posting.tenants.registry.row(of))
const driver = () => posting.tenants.storage.driver('database-pg')
const sql = (text: string, values?: unknown[]) => posting.kernel.database.sql(text, values)
const mark = async () => (await sql('select version from multitenancy.outbox_marks where tenant_id = $1', [id])).rows
const post = async (n: number) => (await posting.tenant(id)).transaction(() => posting.ledger.add(id, n))

async function look(afterMs: number): Promise<void> {
  nowMs += afterMs
  await worker.tenants.outbox.relayMarked(() => nowMs)
}

async function connected<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
  const url = Object.assign(new URL(opened.url), { pathname: (await location()).locator }).href
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
const inDatabase = (text: string) => connected((client) => client.query(text))
const entries = async () => (await inDatabase('select from tenantry.outbox')).rowCount

/** Advances the monotonic clock of the process. */
const advance = (ms: number) => {
  skippedMs += ms
}

/** Runs `work`, whose post takes longer than 30 s. */
async function withSlowPost<T>(work: () => Promise<T>): Promise<T> {
  return connected(async (client) => {
    await client.query('begin; lock table tenantry.outbox in access exclusive mode')
    const working = work()
    working.catch(() => undefined) // it may reject before it is returned
    const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    await eventually(async () => expect((await client.query(waiting)).rowCount).toBe(1))
    advance(UNCHANGED_MS + 1)
    await client.query('commit')
    return working
  })
}

test('a process trusts its mark for 20 s', async () => {
  await post(1)
  const first = await mark()
  advance(TRUSTED_MS / 2)
  await post(2)
  expect(await mark()).toEqual(first)
  advance(TRUSTED_MS / 2)
  await post(3)
  expect(await mark()).not.toEqual(first)
})

test('a post that takes longer than 30 s marks again before its transaction commits', async () => {
  await post(1)
  const first = await mark()
  const inside = await withSlowPost(async () =>
    (await posting.tenant(id)).transaction(async () => {
      await posting.ledger.add(id, 2)
      return mark()
    }),
  )
  expect(inside).not.toEqual(first)
})

test('a transaction whose post is slow and cannot mark again does not commit, also if the error is caught', async () => {
  const { transaction, db } = await posting.tenant(id)
  await post(1)
  await sql('alter table multitenancy.outbox_marks add constraint unmarkable check (false) not valid')
  const caught: unknown[] = []
  const committing = withSlowPost(() =>
    transaction(async (inside) => {
      await inside.insertInto('notes').values({ id: 1 }).execute()
      await posting.ledger.add(id, 2).catch((error) => caught.push(error))
    }),
  )
  await committing.catch(() => undefined)
  await sql('alter table multitenancy.outbox_marks drop constraint unmarkable')
  expect(caught).toMatchObject([{ code: '23514' }])
  expect(await db.selectFrom('notes').selectAll().execute()).toEqual([])
  expect(await entries()).toBe(1)
})

test.for(['select "tenantry"."post"', 'SELECT TENANTRY.POST', 'select tenantry . post'])(
  'a process marks the database before it posts with %s',
  async (call) => {
    const { pool } = await posting.tenant(id)
    await post(1)
    const first = await mark()
    advance(TRUSTED_MS)
    await pool.query(`${call}(gen_random_uuid(), 'x', '{}')`)
    expect(await mark()).not.toEqual(first)
  },
)

test('entries of a program with its own connection are applied: by a worker, or by a relay on request', async () => {
  await sql('delete from multitenancy.outbox_marks')
  const insert = (n: number) =>
    inDatabase(
      `insert into tenantry.outbox (id, tenant, kind, payload) values (gen_random_uuid(), '', 'ledger.add', '{"n": ${n}}')`,
    )
  await worker.tenants.outbox.mark(id)
  await insert(5)
  await look(0)
  await look(UNCHANGED_MS)
  expect(await posting.ledger.numbers(id)).toEqual([5])
  await insert(6)
  await worker.tenants.outbox.relay(id)
  await eventually(async () => expect(await posting.ledger.numbers(id)).toEqual([5, 6]))
})

test('the oldest entry of a marked database is in the gauge, and a finding after ten minutes', async () => {
  const { outbox } = posting.tenants
  const late = async () =>
    (await Array.fromAsync(outboxDiagnosis.examine(outbox, undefined as never))).map(({ code }) => code)
  expect(await outbox.oldestSeconds()).toEqual(new Map([['main', 0]]))
  advance(TRUSTED_MS)
  await post(7)
  expect((await outbox.oldestSeconds()).get('main')).toBeGreaterThan(0)
  expect(await late()).toEqual([])
  await inDatabase("update tenantry.outbox set posted_at = now() - interval '11 minutes'")
  expect(await late()).toEqual(['outbox.waiting'])
})

test('a database that accepts no connections keeps its mark, and its entries are applied later', async () => {
  const { locator } = await location()
  advance(TRUSTED_MS)
  await post(10)
  const connections = (mode: boolean) =>
    sql(`alter database ${pg.escapeIdentifier(locator)} with allow_connections ${mode}`)
  await connections(false)
  expect(await posting.tenants.outbox.oldestSeconds()).toEqual(new Map())
  await look(0)
  await look(UNCHANGED_MS)
  await expect(driver().outbox.relay(await location(), {}, async () => undefined)).rejects.toMatchObject({
    code: '55000',
  })
  await connections(true)
  expect(await mark()).toHaveLength(1)
  await look(0)
  await look(UNCHANGED_MS)
  expect(await posting.ledger.numbers(id)).toContain(10)
})

test('a database whose drop was interrupted has no entries', async () => {
  await installed(posting, { id: 'dropped', name: 'Dropped' })
  const place = await location('dropped')
  await sql('update pg_database set datconnlimit = -2 where datname = $1', [place.locator])
  const applied: unknown[] = []
  await driver().outbox.relay(place, {}, async (batch) => void applied.push(batch))
  expect(applied).toEqual([])
  expect(await driver().outbox.whileEmpty?.(place, async () => undefined)).toBe(true)
})

test('a relay of all entries fails while another relay holds one of them', async () => {
  await post(20)
  await connected(async (client) => {
    await client.query('begin; select from tenantry.outbox for update')
    const relaying = driver().outbox.relay(await location(), {}, async () => undefined)
    await expect(relaying).rejects.toMatchObject({ code: '55P03' })
    await client.query('rollback')
  })
})

test('a worker that hangs while it deletes a mark does not block posts', async () => {
  const { promise: hanging, resolve: wake } = Promise.withResolvers<void>()
  const { promise: locked, resolve: enter } = Promise.withResolvers<void>()
  const deleting = driver().outbox.whileEmpty?.(await location(), () => {
    enter()
    return hanging
  })
  await locked
  await post(30)
  expect(await entries()).toBe(1)
  wake()
  await expect(deleting).rejects.toThrow()
})

test('a process relays four databases concurrently', async () => {
  const place = await location()
  const kinds = ['a', 'b', 'c', 'd', 'e', 'f']
  await inDatabase(
    `insert into tenantry.outbox (id, tenant, kind, payload)
     select gen_random_uuid(), '', kind, '{}' from unnest('{${kinds}}'::text[]) as kind`,
  )
  let active = 0
  let max = 0
  let applied = 0
  const apply = async () => {
    max = Math.max(max, ++active)
    await inDatabase('select') // Other relays have the time to connect.
    await inDatabase('select')
    active--
    applied++
    return undefined
  }
  await Promise.all(kinds.map((kind) => driver().outbox.relay(place, { kinds: [kind] }, apply)))
  expect({ max, applied }).toEqual({ max: 4, applied: kinds.length })
})
