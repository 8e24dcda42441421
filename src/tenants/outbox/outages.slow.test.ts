/** Entries during an outage of the backoffice, and during moves of their tenant. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest'
import { type Line, startLine } from '../../../test/outage.fixture.ts'
import { databasePg } from '../../drivers/isolation/database-pg.ts'
import { rowscopePg } from '../../drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { createTestDatabase, type TestDatabase } from '../../testing/base/database.ts'
import { eventually, installed, type TestTenancy } from '../../testing/base/tenancy.ts'
import { type LedgerSatellites, type LedgerTenancy, openLedger } from './outbox.fixture.ts'

const OTHER = 'other'
const MOVED_WITHIN_MS = 60_000
const WRITERS = 4
const PAUSE_MS = 2

let opened: TestTenancy<LedgerSatellites>
let elsewhere: TestDatabase
let line: Line
/** Reaches the backoffice through the line, and the placement directly. */
let tenancy: LedgerTenancy

const isolation = () => [schemaPg(), rowscopePg(), databasePg()]

beforeAll(async () => {
  elsewhere = await createTestDatabase(inject('postgresUrl'))
  const connections = { max: 8, perTenant: 8 }
  const placements = { main: { connections }, [OTHER]: { url: elsewhere.url, connections } }
  opened = await openLedger({ isolation: isolation(), placements })
  line = await startLine(opened.url, () => expect(tenancy.kernel.database.isListening).toBe(true))
  await opened.tenancy.tenants.outbox.stop()
  tenancy = await opened.open({ isolation: isolation(), database: { url: line.url }, role: 'worker' })
})
afterEach(() => line.bringBack())
afterAll(async () => {
  await opened?.end()
  await line?.close()
  await elsewhere?.drop()
})

/** Resolves when the tenancy has processed all changes so far: a later one would remove a tenant from its cache. */
async function changesProcessed(): Promise<void> {
  const processed = Promise.withResolvers<void>()
  const listening = await tenancy.kernel.database.listen(
    'changes_processed',
    () => processed.resolve(),
    () => undefined,
  )
  await opened.tenancy.kernel.database.notify('changes_processed', '')
  await processed.promise
  await listening.close()
}

test('entries are posted during an outage of the backoffice, and applied after it', async () => {
  const id = 'waiting'
  await installed(opened.tenancy, { id, name: 'Acme', isolation: 'schema-pg', placement: OTHER })
  await changesProcessed()
  const { transaction } = await tenancy.tenant(id)
  await transaction(() => tenancy.ledger.add(id, 1))
  await line.disconnect()
  for (const n of [2, 3]) await transaction(() => tenancy.ledger.add(id, n))
  await line.bringBack()
  await transaction(() => tenancy.ledger.add(id, 4))
  await eventually(async () => expect(await opened.tenancy.ledger.numbers(id)).toEqual([1, 2, 3, 4]))
})

test('with an own database, a post without a mark fails during an outage, and its transaction is rolled back', async () => {
  const id = 'unmarked'
  await installed(opened.tenancy, { id, name: 'Acme', isolation: 'database-pg', placement: OTHER })
  await changesProcessed()
  const { transaction, db } = await tenancy.tenant(id)
  await line.disconnect()
  const failing = transaction(async (inside) => {
    await inside.insertInto('notes').values({ id: 1 }).execute()
    await tenancy.ledger.add(id, 1)
  })
  await expect(failing).rejects.toThrow()
  await line.bringBack()
  expect(await db.selectFrom('notes').selectAll().execute()).toEqual([])
  await transaction(() => tenancy.ledger.add(id, 2))
  await eventually(async () => expect(await opened.tenancy.ledger.numbers(id)).toEqual([2]))
})

test.for([
  ['schema-pg', 'database-pg'],
  ['database-pg', 'rowscope-pg'],
] as const)('a move from %s to %s under writes keeps each entry of a committed row, once', async ([from, to]) => {
  const id = `moved-from-${from}`
  await installed(opened.tenancy, { id, name: 'Acme', isolation: from, placement: OTHER })
  const { transaction, db } = await tenancy.tenant(id)
  let isMoving = true
  let next = 0
  const committed: number[] = []
  const write = async () => {
    while (isMoving) {
      const n = next++
      await sleep(PAUSE_MS) // In maintenance, a rejection needs no response of a server.
      await transaction(async (inside) => {
        await inside.insertInto('notes').values({ id: n }).execute()
        await tenancy.ledger.add(id, n)
      }).then(
        () => committed.push(n),
        () => undefined, // rejected by the fence or the maintenance, with an unknown outcome if its session was ended
      )
    }
  }
  const writing = Promise.all(Array.from({ length: WRITERS }, write))
  const { transfer } = await tenancy.tenants.transfers.move(id, { isolation: to })
  const signal = AbortSignal.timeout(MOVED_WITHIN_MS)
  expect(await tenancy.tenants.transfers.settled(id, transfer.id, signal)).toMatchObject({ state: 'completed' })
  const atTheSwitch = committed.length
  await eventually(() => expect(committed.length).toBeGreaterThan(atTheSwitch))
  isMoving = false
  await writing
  const rows = await db.selectFrom('notes').select('id').orderBy('id').execute()
  const notes = rows.map((row: { id: number }) => row.id)
  expect(notes).toEqual(expect.arrayContaining(committed))
  await eventually(async () => expect(await opened.tenancy.ledger.numbers(id)).toEqual(notes), MOVED_WITHIN_MS)
})

test('a process that posted during an outage applies its entries after it, without another post or a worker', async () => {
  const id = 'retried'
  await installed(opened.tenancy, { id, name: 'Acme', isolation: 'schema-pg', placement: OTHER })
  await tenancy.tenants.outbox.stop()
  const lines: string[] = []
  const logger = createLogger({ level: 'debug', write: (text) => void lines.push(text) })
  const api = await opened.open({ isolation: isolation(), database: { url: line.url }, role: 'api', logger })
  const { transaction } = await api.tenant(id)
  await transaction(() => api.ledger.add(id, 1))
  await eventually(async () => expect(await opened.tenancy.ledger.numbers(id)).toEqual([1]))
  await line.disconnect()
  for (const n of [2, 3]) await transaction(() => api.ledger.add(id, n))
  await eventually(() => expect(lines.join()).toContain('entries of the outbox could not be relayed'))
  expect(await opened.tenancy.ledger.numbers(id)).toEqual([1])
  await line.bringBack()
  await eventually(async () => expect(await opened.tenancy.ledger.numbers(id)).toEqual([1, 2, 3]))
})
