/** Entries that no process has relayed: each driver relays them before it drops storage, and no copy contains them. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { rowscopePg } from '../../drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { sqliteMemory } from '../../drivers/isolation/sqlite/driver.ts'
import { installed, type TestTenancy } from '../../testing/base/tenancy.ts'
import { toLocation } from '../registry/registry.ts'
import { type LedgerSatellites, type LedgerTenancy, NOTES, openLedger } from './outbox.fixture.ts'

let opened: TestTenancy<LedgerSatellites>
let tenancy: LedgerTenancy

/** Without the outbox, entries stay, as after a crash. */
beforeAll(async () => {
  const notes = { ...NOTES, async up() {}, down: undefined }
  opened = await openLedger({
    isolation: [schemaPg(), rowscopePg(), sqliteMemory()],
    migrations: [notes],
  })
  tenancy = opened.tenancy
  await tenancy.tenants.outbox.stop()
})
afterAll(() => opened.end())

const locationOf = async (id: string) => toLocation(await tenancy.tenants.registry.row(id))
const driverOf = (isolation: string) => tenancy.tenants.storage.driver(isolation)

describe.for(['schema-pg', 'rowscope-pg', 'sqlite-memory'])('%s', (isolation) => {
  const id = `of-${isolation}`
  beforeAll(() => installed(tenancy, { id, name: 'Acme', isolation }))

  test('entries of committed transactions are applied before the storage is dropped', async () => {
    const { transaction } = await tenancy.tenant(id)
    await transaction(() => tenancy.ledger.add(id, 1))
    await expect(
      transaction(async () => {
        await tenancy.ledger.add(id, 2)
        throw new Error('rolled back')
      }),
    ).rejects.toThrow('rolled back')
    const location = await locationOf(id)
    await driverOf(isolation).fence(location)
    expect(await tenancy.ledger.numbers(id)).toEqual([])
    await tenancy.tenants.lostPlacements.drop(location)
    expect(await tenancy.ledger.numbers(id)).toEqual([1])
  })

  test('storage that does not exist has no entries', async () => {
    const location = await locationOf(id)
    await tenancy.tenants.lostPlacements.drop(location)
    await tenancy.tenants.lostPlacements.drop({ ...location, locator: `${location.locator}_none` })
    expect(await tenancy.ledger.numbers(id)).toEqual([1])
  })
})

test('an error of the backoffice while entries are applied is not taken for missing storage', async () => {
  const id = 'undefined-table'
  await installed(tenancy, { id, name: 'Acme', isolation: 'schema-pg' })
  await (await tenancy.tenant(id)).transaction(() => tenancy.ledger.add(id, 4))
  const location = await locationOf(id)
  const apply = () => tenancy.kernel.database.sql('select from missing').then(() => undefined)
  await expect(driverOf('schema-pg').outbox.relay(location, { tenantId: id }, apply)).rejects.toMatchObject({
    code: '42P01',
  })
  await tenancy.tenants.lostPlacements.drop(location)
  expect(await tenancy.ledger.numbers(id)).toEqual([4])
})

test('a batch ends with the entry that exceeds 4 MiB', async () => {
  const id = 'large'
  await installed(tenancy, { id, name: 'Large', isolation: 'schema-pg' })
  const { pool } = await tenancy.tenant(id)
  const post = `select tenantry.post(gen_random_uuid(), 'x', to_json(repeat('x', 200 * 1024))::text) from generate_series(1, 25)`
  await pool.query(post)
  const batches: number[] = []
  const count = async (entries: readonly unknown[]) => void batches.push(entries.length)
  await driverOf('schema-pg').outbox.relay(await locationOf(id), { tenantId: id }, count)
  expect(batches).toEqual([21, 4])
})

test.for(['schema-pg', 'rowscope-pg'])('a copy of %s contains no entries', async (isolation) => {
  const id = `copied-${isolation}`
  await installed(tenancy, { id, name: 'Acme', isolation })
  await (await tenancy.tenant(id)).transaction(() => tenancy.ledger.add(id, 3))
  const names = await driverOf(isolation).export(
    await locationOf(id),
    async ({ description }) => description.tables.map(({ name }) => name),
    { signal: new AbortController().signal },
  )
  expect(names).toEqual([])
})
