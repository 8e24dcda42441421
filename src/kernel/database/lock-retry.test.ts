import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../testing/base/database.ts'
import { createLogger } from '../base/logger.ts'
import { Database, type Session } from './database.ts'
import { retryOnLock } from './lock-retry.ts'

const EVENTUALLY = { timeout: 20_000 }
const LOCK_TIMEOUT_MS = 20
const NEVER_MS = 3_600_000

let created: TestDatabase
let database: Database
let attempts: number

beforeAll(async () => {
  created = await createTestDatabase(inject('postgresUrl'))
  database = new Database({ url: created.url }, createLogger({ level: 'silent' }))
  await database.sql('create table busy (n int)')
})
afterAll(async () => {
  await database.close()
  await created.drop()
})
beforeEach(() => {
  attempts = 0
})

const work = () =>
  database.transaction(async () => {
    attempts += 1
    await database.sql(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`)
    await database.sql('lock table busy')
    return 'done'
  })

/** Until `use` is over, or has let it go. */
const locked = (use: (release: () => Promise<unknown>) => Promise<void>) =>
  database.session(async (client: Session) => {
    await client.query('begin; lock table busy')
    await use(() => client.query('commit'))
  })

test('work without a locked table runs once', async () => {
  expect(await retryOnLock(work)).toBe('done')
  expect(attempts).toBe(1)
})

describe('a table locked by another session', () => {
  test('is abandoned after one attempt', () =>
    locked(async () => {
      expect(await retryOnLock(work)).toBeUndefined()
      expect(attempts).toBe(1)
    }))

  test('causes another attempt from the beginning', () =>
    locked(async (release) => {
      const done = retryOnLock(work, { maxAttempts: 1_000, retryDelayMs: 10 })
      await expect.poll(() => attempts, EVENTUALLY).toBeGreaterThanOrEqual(2)
      await release()
      expect(await done).toBe('done')
    }))

  test('is abandoned when the signal aborts, without waiting for the next attempt', () =>
    locked(async () => {
      const stop = new AbortController()
      const done = retryOnLock(work, { maxAttempts: 1_000, retryDelayMs: NEVER_MS, signal: stop.signal })
      await expect.poll(() => attempts, EVENTUALLY).toBe(1)
      stop.abort()
      expect(await done).toBeUndefined()
      expect(attempts).toBeLessThanOrEqual(2)
    }))
})

test('another failure is thrown immediately', async () => {
  const failing = async () => {
    attempts += 1
    await database.sql('select 1 / 0')
  }
  await expect(retryOnLock(failing, { maxAttempts: 5 })).rejects.toThrow('division by zero')
  expect(attempts).toBe(1)
})
