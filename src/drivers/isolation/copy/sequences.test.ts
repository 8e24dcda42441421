import fc from 'fast-check'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { createTestDatabase, type TestDatabase, WAITING_LOCKS } from '../../../testing/base/database.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import type { StoredSequence } from '../catalog/tables.ts'
import { never } from './copy.fixture.ts'
import { advanceSequences, isBeyond } from './sequences.ts'

const WORKERS = 4
let created: TestDatabase
let client: pg.Client
let workers: pg.Client[]

const connected = async () => {
  const one = new pg.Client(created.url)
  await one.connect()
  return one
}

beforeAll(async () => {
  created = await createTestDatabase(inject('postgresUrl'))
  client = await connected()
  workers = await Promise.all(Array.from({ length: WORKERS }, connected))
})
afterAll(async () => {
  for (const one of [client, ...workers]) await one.end()
  await created.drop()
})

const stored = (name: string, more: Partial<StoredSequence> = {}): StoredSequence => ({
  name,
  increment: '1',
  cache: '1',
  column: null,
  ...more,
})
const at = (lastValue: number, isCalled = true, name = 'counter') => ({ name, lastValue: String(lastValue), isCalled })
const advance = (wanted: ReturnType<typeof at>, facts: StoredSequence, signal = never()) =>
  advanceSequences(client, 'public', [wanted], [facts], signal)
const next = async (name: string, by = client) =>
  Number((await by.query('select nextval($1) as next', [name])).rows[0].next)

describe('moving a sequence', () => {
  test.each([
    ['forward, to continue after the last value', '', at(50), 51],
    ['to an unused last value', '', at(50, false), 50],
    ['not backward', 'start 100', at(50), 101],
    ['no change at the same value', 'start 50', at(50), 51],
    ['down with a negative increment', 'increment by -3 minvalue -100 maxvalue 0', at(-50), -53],
    ['not up with a negative increment', 'increment by -3 minvalue -100 maxvalue 0 start -60', at(-50), -63],
    ['with its CYCLE option', 'minvalue 1 maxvalue 50 cycle', at(50), 1],
    [
      'up to its limit',
      'maxvalue 9223372036854775807',
      { ...at(0), lastValue: '9223372036854775806' },
      Number(9223372036854775807n),
    ],
  ])('%s', async (_, options, wanted, expected) => {
    await client.query(`drop sequence if exists counter; create sequence counter ${options}`)
    const { rows } = await client.query(
      `select seqincrement::text as increment from pg_sequence where seqrelid = 'counter'::regclass`,
    )
    if (options.includes('start')) await next('counter')
    await advance(wanted, stored('counter', rows[0]))
    expect(await next('counter')).toBe(expected)
    const { rows: kept } = await client.query(`select seqcycle from pg_sequence where seqrelid = 'counter'::regclass`)
    expect(kept[0].seqcycle).toBe(options.includes('cycle'))
  })

  test('sessions that take values during the move get no value twice', async () => {
    await client.query('drop sequence if exists counter; create sequence counter')
    const given: number[] = []
    let isFinished = false
    const take = async (worker: pg.Client) => {
      while (!isFinished) given.push(await next('counter', worker))
    }
    const taking = workers.map(take)
    for (const target of [1_000, 5_000, 5_001, 20_000, 19_000]) {
      await eventually(async () => expect(given.length).toBeGreaterThan(20))
      await advance(at(target), stored('counter'))
      expect(await next('counter')).toBeGreaterThan(target)
    }
    isFinished = true
    await Promise.all(taking)
    expect(new Set(given).size).toBe(given.length)
  })

  test('a sequence is moved past values that sessions have cached', async () => {
    await client.query('drop sequence if exists counter; create sequence counter cache 100')
    const [worker] = workers as [pg.Client]
    expect(await next('counter', worker)).toBe(1)
    // The sequence is at 100 already, and the worker has cached the rest.
    await advance(at(90), stored('counter', { cache: '100' }))
    expect(await next('counter', worker)).toBe(101)
    for (let n = 0; n < 10; n++) await next('counter', worker)
    await advance(at(105), stored('counter', { cache: '100' }))
    expect(await next('counter', worker)).toBe(201)
  })

  test('a move waits for a transaction that took a value, and does not block other sessions', async () => {
    await client.query('drop sequence if exists counter; create sequence counter')
    const [holder, other] = workers as [pg.Client, pg.Client]
    await holder.query('begin')
    await next('counter', holder)
    let isMoved = false
    const moving = advance(at(50), stored('counter')).then(() => {
      isMoved = true
    })
    for (let n = 0; n < 10; n++) await next('counter', other)
    expect(isMoved).toBe(false)
    await holder.query('commit')
    await moving
    expect(await next('counter', other)).toBe(51)
  })

  test('a cancelled move ends', async () => {
    await client.query('drop sequence if exists counter; create sequence counter')
    const [holder] = workers as [pg.Client]
    await holder.query('begin')
    await next('counter', holder)
    const controller = new AbortController()
    const moving = advance(at(50), stored('counter'), controller.signal)
    await eventually(async () => {
      const { rowCount } = await holder.query(`select from ${WAITING_LOCKS} where relation = 'counter'::regclass`)
      expect(rowCount).toBe(1)
    })
    controller.abort(new Error('not wanted'))
    await expect(moving).rejects.toThrow()
    await holder.query('rollback')
    expect(await next('counter')).toBe(2)
  })
})

test('isBeyond is true for exactly one of two different states', () => {
  const place = fc.record({ lastValue: fc.bigInt(-3n, 3n).map(String), isCalled: fc.boolean() })
  fc.assert(
    fc.property(place, place, fc.constantFrom('1', '-1', '5'), (one, other, increment) => {
      const isSame = one.lastValue === other.lastValue && one.isCalled === other.isCalled
      expect(Number(isBeyond(one, other, increment)) + Number(isBeyond(other, one, increment))).toBe(isSame ? 0 : 1)
    }),
  )
})
