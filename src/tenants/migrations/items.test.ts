/** Two workers on the items of one run: claims, leases and settlements. */
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { uuidv7 } from '../../kernel/base/ids.ts'
import type { Database } from '../../kernel/database/database.ts'
import { AttemptLost } from '../../kernel/jobs/lease.ts'
import { WAITING_LOCKS } from '../../testing/base/database.ts'
import { eventually, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { type ItemResult, MigrationItems } from './items.ts'
import type { MigrationRun } from './model/run.ts'

const LONG_MS = 60_000
const IDS = ['a', 'b', 'c']

let opened: TestTenancy<[]>
let run: MigrationRun

beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), { role: 'api' })
  for (const id of IDS) {
    await opened.tenancy.tenants.create({ id, name: id })
    await opened.tenancy.tenants.installation.install(id, { isLast: true })
  }
})
afterAll(() => opened.end())

beforeEach(async () => {
  await sql('delete from multitenancy.migration_runs')
  run = {
    id: uuidv7(),
    direction: 'up',
    steps: null,
    scope: 'all',
    target: 'v',
    state: 'running',
    isCancelled: false,
    retries: 0,
    lockTimeoutMs: 1_000,
    stopAfterFailures: null,
    createdAt: new Date(),
    finishedAt: null,
    counts: null,
    isBackground: false,
    actor: null,
    requestId: null,
  }
  await sql(
    `insert into multitenancy.migration_runs (id, direction, scope, target, state, retries, lock_timeout_ms, worked_until, created_at)
     values ($1, 'up', 'all', 'v', 'running', 0, 1000, now(), now())`,
    [run.id],
  )
  await sql(
    `insert into multitenancy.migration_items (run_id, storage, tenant_id, isolation, placement)
     select $1, id, id, isolation, placement from multitenancy.tenants`,
    [run.id],
  )
})

const sql = async (text: string, values?: unknown[]) => (await opened.tenancy.kernel.database.sql(text, values)).rows
const worker = (leaseMs: number) => new MigrationItems(opened.tenancy.kernel.database, run, leaseMs)
const namesOf = (claimed: readonly { storage: string }[]) => claimed.map(({ storage }) => storage)
const done = (storage: string): ItemResult => ({
  storage,
  state: 'done',
  migrations: ['0001_x'],
  error: null,
  durationMs: 1,
  delayMs: 0,
  versioned: null,
})
const lost = async (items: MigrationItems, storages: number): Promise<string[]> =>
  eventually(async () => {
    await items.reclaim()
    const claimed = await items.claim(10)
    if (claimed.length < storages) {
      await items.release(namesOf(claimed))
      throw new Error('the items are still leased')
    }
    return namesOf(claimed)
  })

test('two workers never claim the same item', async () => {
  const [one, other] = [worker(LONG_MS), worker(LONG_MS)]
  const claimed = await Promise.all([one.claim(2), other.claim(2), one.claim(2), other.claim(2)])
  expect(claimed.flatMap(namesOf).sort()).toEqual(IDS)
  await other.reclaim()
  expect(await other.claim(10)).toEqual([])
})

test('an item with an expired lease is taken over, and only the new worker can settle it', async () => {
  const [slow, quick] = [worker(1), worker(LONG_MS)]
  expect(namesOf(await slow.claim(10))).toEqual(IDS)
  expect(await lost(quick, 3)).toEqual(IDS)
  expect(await slow.record(IDS.map(done))).toEqual(new Set())
  await expect(slow.hold('a')).rejects.toThrow(AttemptLost)
  await slow.release(IDS)
  expect(await slow.counts()).toMatchObject({ running: 3, done: 0, pending: 0 })
  expect(await quick.record(IDS.map(done))).toEqual(new Set(IDS))
  expect(await quick.record(IDS.map(done))).toEqual(new Set())
  expect(await quick.finish(new Date())).toBe(true)
  expect(await sql('select state from multitenancy.migration_runs')).toEqual([{ state: 'completed' }])
})

test('a renewed item is not taken over after its first lease', async () => {
  const [one, other] = [worker(1), worker(LONG_MS)]
  await one.claim(1)
  const patient = new MigrationItems(opened.tenancy.kernel.database, run, LONG_MS, await ownerOf())
  await patient.renew()
  await other.reclaim()
  expect(namesOf(await other.claim(10))).toEqual(['b', 'c'])
})

test('an item that kills its process in each attempt fails', async () => {
  const doomed = worker(1)
  for (let attempt = 1; attempt <= 5; attempt++) expect((await lost(doomed, 3)).length).toBe(3)
  await eventually(async () => {
    await doomed.reclaim()
    expect(await doomed.counts()).toMatchObject({ failed: 3 })
  })
  expect((await doomed.all())[0]?.error?.code).toBe('E_MIGRATION_INTERRUPTED')
  expect(await doomed.finish(new Date())).toBe(true)
})

test('a cancelled run has no claimable items', async () => {
  const one = worker(LONG_MS)
  await sql('update multitenancy.migration_runs set is_cancelled = true')
  expect(await one.claim(10)).toEqual([])
  expect(await one.finish(new Date())).toBe(true)
  expect(await one.counts()).toMatchObject({ skipped: 3 })
})

test('a settlement locks tenants by id, in any order of its items', async () => {
  const database: Database = opened.tenancy.kernel.database.apart(2)
  const items = new MigrationItems(database, run, LONG_MS)
  await items.claim(10)
  let settling: Promise<unknown> | undefined
  await opened.tenancy.kernel.database.transaction(async () => {
    await sql(`select from multitenancy.tenants where id = 'a' for share`)
    const versioned = (tenantId: string) => ({ tenantId, epoch: 1, version: 'v' })
    settling = items.record([...IDS].reverse().map((id) => ({ ...done(id), versioned: versioned(id) })))
    await eventually(async () => {
      const { rows } = await database.sql(`select count(*) as count from ${WAITING_LOCKS}`)
      expect(rows[0].count).toBeGreaterThan(0)
    })
    await sql('select from multitenancy.tenants where id = any($1) order by id for share', [IDS])
  })
  expect(await settling).toEqual(new Set(IDS))
  expect(await sql('select distinct schema_version as version from multitenancy.tenants')).toEqual([{ version: 'v' }])
  await database.close()
})

const ownerOf = async (): Promise<string> =>
  (await sql(`select worker from multitenancy.migration_items where state = 'running'`))[0].worker
