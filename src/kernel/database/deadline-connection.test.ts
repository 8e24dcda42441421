/** Statements and transactions of work with a deadline: cancelled at the server, and never committed after it. */
import { afterAll, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test } from 'vitest'
import { createTestDatabase, type TestDatabase, WAITING_LOCKS } from '../../testing/base/database.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { currentDeadline, Deadline } from '../base/deadline.ts'
import { createLogger } from '../base/logger.ts'
import { Database, SCHEMA } from './database.ts'

interface Tables {
  notes: { title: string }
}

const SHORT_MS = 200
const log = createLogger({ level: 'silent' })
let created: TestDatabase
let database: Database
let onlooker: Database

beforeAll(async () => {
  created = await createTestDatabase(inject('postgresUrl'))
  database = new Database({ url: created.url, max: 3 }, log)
  onlooker = new Database({ url: `${created.url}?application_name=onlooker`, max: 2 }, log)
  await database.sql(`create schema ${SCHEMA}`)
  await database.sql(`create table ${SCHEMA}.notes (title text not null)`)
})
beforeEach(async () => {
  await onlooker.sql(`truncate ${SCHEMA}.notes`)
})
afterAll(async () => {
  await database.close()
  await onlooker.close()
  await created.drop()
})

const deadlineOf = (ms: number): Deadline => {
  const deadline = new Deadline(ms, () => new Error('too late'))
  onTestFinished(() => deadline.close())
  return deadline
}
const write = (title: string): Promise<unknown> =>
  database.sql(`insert into ${SCHEMA}.notes (title) values ($1)`, [title])
const writeByKysely = (title: string): Promise<unknown> =>
  database.query<Tables>().insertInto('notes').values({ title }).execute()
const titles = async () =>
  (await onlooker.sql(`select title from ${SCHEMA}.notes order by title`)).rows.map(({ title }) => title)
const waiting = async () => (await onlooker.sql(`select pid from ${WAITING_LOCKS}`)).rows
/** Statements and transactions in progress. */
const busy = async () =>
  (
    await onlooker.sql(
      `select query from pg_stat_activity
       where datname = current_database() and application_name = 'tenantry' and state <> 'idle'`,
    )
  ).rows
/** All connections of the pool work. */
const expectPoolUsable = async () =>
  expect(await Promise.all([1, 2, 3].map(async (n) => (await database.sql(`select ${n} as n`)).rows[0].n))).toEqual([
    1, 2, 3,
  ])
/** Holds a lock that other sessions wait for, while `work` runs. */
const whileLocked = (work: () => Promise<void>): Promise<void> =>
  onlooker.transaction(async () => {
    await onlooker.sql(`lock table ${SCHEMA}.notes in exclusive mode`)
    await work()
  })

describe('a statement', () => {
  test('of work in time has its result, and its connection is used again', async () => {
    const deadline = deadlineOf(60_000)
    const pids = await deadline.run(async () => {
      const pid = async () => (await database.sql('select pg_backend_pid() as pid')).rows[0].pid
      return [await pid(), await pid()]
    })
    expect(pids[0]).toBe(pids[1])
    await expect(deadline.run(() => database.sql('select 1 / 0'))).rejects.toThrow('division by zero')
  })

  test.each([
    ['plain SQL', write],
    ['Kysely', writeByKysely],
  ])('of %s that waits at the deadline is cancelled at the server', async (_, writing) => {
    await whileLocked(async () => {
      const deadline = deadlineOf(SHORT_MS)
      await expect(deadline.run(() => writing('late'))).rejects.toThrow('too late')
      await eventually(async () => expect(await onlooker.outside(waiting)).toEqual([]))
    })
    expect(await titles()).toEqual([])
    await expectPoolUsable()
  })

  test('that starts after the deadline is rejected', async () => {
    const deadline = deadlineOf(SHORT_MS)
    const gate = Promise.withResolvers<void>()
    const later = Promise.withResolvers<unknown>()
    const work = deadline.run(async () => {
      await gate.promise
      later.resolve(
        Promise.allSettled([write('late'), writeByKysely('late'), database.transaction(() => write('late'))]),
      )
    })
    await expect(work).rejects.toThrow('too late')
    gate.resolve()
    const rejected = { status: 'rejected', reason: new Error('too late') }
    expect(await later.promise).toEqual([rejected, rejected, rejected])
    expect(await titles()).toEqual([])
  })

  test('that waits for a connection at the deadline is not sent', async () => {
    const gate = Promise.withResolvers<void>()
    const holders = [1, 2, 3].map(() => database.transaction(() => gate.promise))
    const deadline = deadlineOf(SHORT_MS)
    await expect(deadline.run(() => write('late'))).rejects.toThrow('too late')
    gate.resolve()
    await Promise.all(holders)
    await expectPoolUsable()
    expect(await titles()).toEqual([])
  })
})

describe('a transaction', () => {
  test('in time commits, and its hooks have no deadline', async () => {
    const deadline = deadlineOf(60_000)
    let hook: Deadline | undefined = deadline
    await deadline.run(() =>
      database.transaction(async () => {
        await write('in time')
        database.afterCommit(() => {
          hook = currentDeadline()
        })
      }),
    )
    expect(await titles()).toEqual(['in time'])
    expect(hook).toBeUndefined()
  })

  test('that waits between two statements at the deadline is rolled back immediately', async () => {
    const deadline = deadlineOf(SHORT_MS)
    const work = deadline.run(() =>
      database.transaction(async () => {
        await write('late')
        await new Promise(() => undefined)
      }),
    )
    await expect(work).rejects.toThrow('too late')
    await eventually(async () => expect(await busy()).toEqual([]))
    expect(await titles()).toEqual([])
  })

  test('of a process that was too busy for its timer is not committed', async () => {
    const deadline = deadlineOf(SHORT_MS)
    const work = deadline.run(() =>
      database.transaction(async () => {
        await write('late')
        for (const until = performance.now() + 2 * SHORT_MS; performance.now() < until; );
      }),
    )
    await expect(work).rejects.toThrow('too late')
    expect(deadline.mayHaveCommitted).toBe(false)
    await eventually(async () => expect(await busy()).toEqual([]))
    expect(await titles()).toEqual([])
    await expectPoolUsable()
  })
})

describe('a deadline records whether a change may be committed', () => {
  test.each<[string, boolean, () => Promise<unknown>]>([
    ['no statement', false, async () => undefined],
    ['reads', false, () => database.sql('select 1')],
    ['reads of Kysely', false, () => database.query<Tables>().selectFrom('notes').selectAll().execute()],
    ['a change', true, () => write('a')],
    ['a change of Kysely', true, () => writeByKysely('a')],
    ['a committed transaction', true, () => database.transaction(() => write('a'))],
    [
      'a transaction that was rolled back',
      false,
      () =>
        database
          .transaction(async () => {
            await write('a')
            throw new Error('no')
          })
          .catch(() => undefined),
    ],
  ])('after %s: %s', async (_, expected, work) => {
    const deadline = deadlineOf(60_000)
    await deadline.run(work)
    expect(deadline.mayHaveCommitted).toBe(expected)
  })
})
