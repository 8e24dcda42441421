import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../testing/base/database.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { createLogger } from '../base/logger.ts'
import { Database } from './database.ts'

const log = createLogger({ level: 'silent' })
let created: TestDatabase
let database: Database
let onlooker: Database
let seen: unknown[]

beforeAll(async () => {
  created = await createTestDatabase(inject('postgresUrl'))
  database = new Database({ url: created.url, max: 3 }, log)
  onlooker = database.apart(1)
  await database.sql('create table notes (title text)')
})
beforeEach(() => {
  seen = []
})
afterAll(async () => {
  await database.close()
  await onlooker.close()
  await created.drop()
})

const failWith = (message: string) => {
  throw new Error(message)
}

test('hooks run in order, outside of the transaction, and see what it wrote', async () => {
  await database.transaction(async () => {
    await database.sql(`insert into notes values ('a')`)
    database.afterCommit(() => seen.push('first', database.inTransaction))
    database.afterCommit(async () => seen.push((await onlooker.sql('select title from notes')).rows))
    expect(seen).toEqual([])
  })
  await eventually(() => expect(seen).toEqual(['first', false, [{ title: 'a' }]]))
})

test('hooks of a failed transaction do not run', async () => {
  await database
    .transaction(async () => {
      database.afterCommit(() => seen.push('outer'))
      await database.transaction(async () => database.afterCommit(() => seen.push('inner')))
      failWith('no')
    })
    .catch(() => undefined)
  expect(seen).toEqual([])
})

test('hooks of a nested transaction run with the outermost, unless the nested one was rolled back', async () => {
  await database.transaction(async () => {
    await database.transaction(async () => {
      database.afterCommit(() => seen.push('kept'))
      await database.transaction(async () => database.afterCommit(() => seen.push('kept too')))
    })
    await database
      .transaction(async () => {
        database.afterCommit(() => seen.push('taken back'))
        failWith('no')
      })
      .catch(() => undefined)
    database.afterCommit(() => seen.push('outermost'))
    expect(seen).toEqual([])
  })
  expect(seen).toEqual(['kept', 'kept too', 'outermost'])
})

test('hooks run immediately without a transaction', () => {
  database.afterCommit(() => seen.push('now'))
  expect(seen).toEqual(['now'])
})

test('a failed hook stops neither other hooks nor the caller', async () => {
  await database.transaction(async () => {
    database.afterCommit(() => failWith('thrown'))
    database.afterCommit(async () => failWith('rejected'))
    database.afterCommit(() => seen.push('last'))
  })
  expect(seen).toEqual(['last'])
})

test('a notification that a transaction did not await is received', async () => {
  const isCommitted = Promise.withResolvers<void>()
  let late: Promise<void> = Promise.resolve()
  await database.transaction(async () => {
    late = isCommitted.promise.then(() => database.afterCommit(() => seen.push('late')))
  })
  isCommitted.resolve()
  await late
  expect(seen).toEqual(['late'])
})

test('closing waits for hooks in progress', async () => {
  const own = database.apart(2)
  let isDone = false
  await own.transaction(async () => {
    own.afterCommit(async () => {
      await own.sql('select 1')
      isDone = true
    })
  })
  await own.close()
  expect(isDone).toBe(true)
})

test('items before a commit are collected together, also those of work that outlives its nested transaction', async () => {
  const nestedEnd = Promise.withResolvers<void>()
  const end = Promise.withResolvers<void>()
  const collect = async (items: readonly string[]) => {
    seen.push([...items, database.inTransaction])
    if (items.includes('a')) await database.beforeCommit(collect, 'of a collector')
  }
  let late: Promise<void> | undefined
  await database.transaction(async () => {
    const afterNested = await database.transaction(async () => {
      await database.beforeCommit(collect, 'a')
      late = end.promise.then(() => database.beforeCommit(collect, 'late'))
      return {
        ended: nestedEnd.promise.then(() => {
          database.afterCommit(() => seen.push('hook'))
          return database.beforeCommit(collect, 'b')
        }),
      }
    })
    nestedEnd.resolve()
    await afterNested.ended
  })
  const ofCommit = [['a', 'b', true], ['of a collector', true], 'hook']
  expect(seen).toEqual(ofCommit)
  end.resolve()
  await late
  await eventually(() => expect(seen).toEqual([...ofCommit, ['late', false]]))
})

test('items of a rolled back transaction are not collected, also late ones', async () => {
  const end = Promise.withResolvers<void>()
  const collect = async (items: readonly string[]) => seen.push(...items)
  let late: Promise<void> | undefined
  const failing = database.transaction(async () => {
    await database.beforeCommit(collect, 'a')
    late = end.promise.then(() => database.beforeCommit(collect, 'late'))
    failWith('no')
  })
  await expect(failing).rejects.toThrow('no')
  end.resolve()
  await late
  expect(seen).toEqual([])
})
