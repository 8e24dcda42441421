/** Processes that are killed (kill -9) at each step of the outbox: an entry is applied once if its row was committed. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { databasePg } from '../../src/drivers/isolation/database-pg.ts'
import { rowscopePg } from '../../src/drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../../src/drivers/isolation/schema-pg.ts'
import type { Tenancy } from '../../src/tenancy/tenancy.ts'
import { NOTES } from '../../src/tenants/outbox/outbox.fixture.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import { type Child, startChild } from '../support/child.ts'
import { COUNTED, type CountedSatellites, countedSatellites } from './counted.fixture.ts'
import type { PostingCommand, Step } from './posting-process.fixture.ts'

const DRIVERS = ['schema-pg', 'rowscope-pg', 'database-pg']
const STEPS: readonly Step[] = ['relayed', 'posted', 'committed', 'applying', 'applied']
const PROCESSES = 4
const LIVES = 3
const LIFE_MS = 300
/** A mark is claimed after 30 s, and looked at every 5 s. */
const RELAYED_WITHIN_MS = 90_000
const WRITTEN_WITHIN_MS = 60_000
const TIMEOUT_MS = 300_000

let opened: TestTenancy<CountedSatellites>
let tenancy: Tenancy<CountedSatellites>

const isolation = () => [schemaPg(), rowscopePg(), databasePg()]

beforeAll(async () => {
  opened = await testTenancy<CountedSatellites>(inject('postgresUrl'), {
    isolation: isolation(),
    migrations: [NOTES],
    satellites: countedSatellites(),
  })
  tenancy = opened.tenancy
})
/** Only killed processes relay, until a test starts a worker. */
beforeAll(async () => {
  for (const name of DRIVERS) {
    await installed(tenancy, { id: `steps-${name}`, name: 'Acme', isolation: name })
    await installed(tenancy, { id: `random-${name}`, name: 'Acme', isolation: name })
  }
  await tenancy.tenants.outbox.stop()
})
afterAll(() => opened.end())

const start = () => startChild(new URL('./posting-process.fixture.ts', import.meta.url), { url: opened.url })
const request = (child: Child, command: PostingCommand) => child.request(command)
const notes = async (id: string): Promise<number[]> => {
  const { db } = await tenancy.tenant(id)
  const rows = await db.selectFrom('notes').select('id').orderBy('id').execute()
  return rows.map((row: { id: number }) => row.id)
}
/** A committed note of a process. */
const highest = async (id: string, from: number) => (await notes(id)).find((n) => n >= from && n < from + 1_000_000)
const counted = async (id: string): Promise<number> => {
  const { data } = await tenancy.metrics.list(id, { key: COUNTED })
  return data.reduce((sum, { value }) => sum + value, 0)
}
const expectOneLineForEachNote = async (id: string) => {
  await eventually(async () => expect(await tenancy.ledger.numbers(id)).toEqual(await notes(id)), RELAYED_WITHIN_MS)
  await eventually(async () => expect(await counted(id)).toBe((await notes(id)).length))
}

test('killed after each step, exactly the committed entries are applied, each once', {
  timeout: TIMEOUT_MS,
}, async () => {
  const ids = DRIVERS.map((name) => `steps-${name}`)
  const killAtEachStep = async (post: string) => {
    for (const [n, killAfter] of STEPS.entries()) {
      const child = await start()
      await expect(request(child, { post, n, killAfter })).rejects.toThrow('the child process has exited')
    }
  }
  // Processes on one outbox would relay the entries of each other.
  const onSharedOutbox = async () => {
    await killAtEachStep('steps-schema-pg')
    await killAtEachStep('steps-rowscope-pg')
  }
  await Promise.all([onSharedOutbox(), killAtEachStep('steps-database-pg')])
  const worker = await opened.open({ isolation: isolation(), role: 'worker' })
  for (const id of ids) {
    await expectOneLineForEachNote(id)
    expect(await tenancy.ledger.numbers(id)).toEqual([0, 2, 3, 4])
  }
  await worker.tenants.outbox.stop()
})

test('four processes that post and are killed at random: exactly the committed entries are applied, each once', {
  timeout: TIMEOUT_MS,
}, async () => {
  const ids = DRIVERS.map((name) => `random-${name}`)
  const worker = await opened.open({ isolation: isolation(), role: 'worker' })
  let started = 0
  const lives = async () => {
    for (let life = 0; life < LIVES; life++) {
      const child = await start()
      const from = ++started * 1_000_000
      const ended = expect(request(child, { write: ids, from })).rejects.toThrow('the child process has exited')
      for (const id of ids)
        await eventually(async () => expect(await highest(id, from)).toBeDefined(), WRITTEN_WITHIN_MS)
      await sleep(LIFE_MS)
      await child.kill('SIGKILL')
      await ended
    }
  }
  await Promise.all(Array.from({ length: PROCESSES }, lives))
  for (const id of ids) {
    await expectOneLineForEachNote(id)
    expect((await tenancy.ledger.numbers(id)).filter((n) => n % 3 === 0)).toEqual([])
  }
  const { data } = await worker.tenants.outbox.failed.list()
  expect(data).toEqual([])
})
