/** Pages of the stream of sealed entries, with entries of every size. */
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import type { Database } from '../../kernel/database/database.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import { type Audited, openAudited } from './audited.fixture.ts'
import { auditStream } from './stream.ts'

const BATCH_BYTES = 64 * 1024

let audited: Audited
/** Position before the entries of the test. */
let start: number

beforeAll(async () => {
  audited = await openAudited(inject('postgresUrl'))
})
beforeEach(async () => {
  const { rows } = await database().sql('select coalesce(max(position), 0) as position from multitenancy.audit_seals')
  start = rows[0].position
})
afterAll(() => audited?.close())

const database = () => audited.tenancy.kernel.database

/** Entries with states of these sizes as JSON. */
async function seal(...sizes: number[]): Promise<void> {
  for (const [n, size] of sizes.entries()) {
    const text = randomBytes(size / 2).toString('hex')
    await recordChange(audited.tenancy.kernel.events, {
      action: 'crm.sync',
      tenantId: 'acme',
      target: `${n}`,
      after: { text },
    })
  }
  await audited.tenancy.auditLogs.sealer.seal()
}

/** All batches after the start, with the largest result of a query. */
async function batches() {
  const results: { rows: number; bytes: number }[] = []
  const sql: Database['sql'] = async (...statement) => {
    const result = await database().sql(...statement)
    results.push({ rows: result.rows.length, bytes: Buffer.byteLength(JSON.stringify(result.rows)) })
    return result
  }
  const stream = auditStream({ sql } as Database)
  const read: any[][] = []
  for (let position = start; ; ) {
    const batch = await stream.after(position, BATCH_BYTES)
    if (!batch) return { read, results }
    read.push(batch.body.entries as any[])
    position = batch.position
  }
}

test('a query returns at most three batches of large entries, and every entry arrives once, in order', async () => {
  const sizes = [
    ...Array(30).fill(BATCH_BYTES * 0.9),
    ...Array(30).fill(BATCH_BYTES * 0.3),
    ...Array(3).fill(BATCH_BYTES * 20),
  ]
  await seal(...sizes)
  const { read, results } = await batches()
  expect(read.flat().map(({ target }) => Number(target))).toEqual(sizes.map((_, n) => n))
  expect(Math.max(...results.map(({ bytes }) => bytes))).toBeLessThan(3 * BATCH_BYTES)
  for (const entries of read) expect(Buffer.byteLength(JSON.stringify(entries))).toBeLessThan(1.1 * BATCH_BYTES)
  expect(read.slice(30, 35).map(({ length }) => length)).toEqual([3, 3, 3, 3, 3])
})

test('only an entry that is larger than a batch is truncated', async () => {
  await seal(10, BATCH_BYTES - 1_000, BATCH_BYTES + 100, 3 * BATCH_BYTES, 10)
  const { read } = await batches()
  expect(read.flat().map(({ isTruncated, after }) => [isTruncated, after === null])).toEqual([
    [false, false],
    [false, false],
    [true, true],
    [true, true],
    [false, false],
  ])
})

test('a state whose text in PostgreSQL is longer than a batch arrives if its JSON fits', async () => {
  const after = { list: Array(BATCH_BYTES / 2 - 1_000).fill(1) }
  await recordChange(audited.tenancy.kernel.events, { action: 'crm.sync', tenantId: 'acme', target: 'list', after })
  await audited.tenancy.auditLogs.sealer.seal()
  const { read } = await batches()
  expect(read.flat()).toMatchObject([{ after, isTruncated: false }])
})

test('seals of removed entries are skipped, also over whole pages', async () => {
  await seal(...Array(100).fill(10))
  await database().sql(
    `insert into multitenancy.audit_seals (tenant_id, seq, entry_id, created_at, digest, hash)
     select 'gone', n, gen_random_uuid(), now(), '', '' from generate_series(1, 1100) n`,
  )
  await seal(10)
  const { read, results } = await batches()
  expect(read.flat()).toHaveLength(101)
  expect(Math.max(...results.map(({ rows }) => rows))).toBe(500)
})

test('the oldest entry after a position is the next one that exists', async () => {
  const stream = auditStream(database())
  await seal(10)
  const first = audited.clock.now()
  audited.clock.advance(60_000)
  await seal(10)
  const { rows } = await database().sql('select max(position) as position from multitenancy.audit_seals')
  expect(await stream.oldestAfter(start)).toEqual(first)
  expect(await stream.oldestAfter(rows[0].position)).toBeNull()
})
