import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../testing/base/database.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { createLogger } from '../base/logger.ts'
import { Database, isDatabaseUnavailable } from './database.ts'

const log = createLogger({ level: 'silent' })
let created: TestDatabase
let database: Database
let sender: Database
let received: string[]
let gaps: number

beforeAll(async () => {
  created = await createTestDatabase(inject('postgresUrl'))
  sender = new Database({ url: created.url, max: 2 }, log)
})
afterAll(async () => {
  await sender.close()
  await created.drop()
})
beforeEach(() => {
  database = new Database({ url: created.url, max: 2 }, log)
  received = []
  gaps = 0
})
afterEach(async () => {
  await database.close()
})

const listen = (channel = 'news') =>
  database.listen(
    channel,
    (payload) => received.push(payload),
    () => {
      gaps += 1
    },
  )

const LISTENERS = `from pg_stat_activity where datname = current_database() and application_name = 'tenantry listener'`
const connections = async (): Promise<number> =>
  (await sender.sql(`select count(*) as count ${LISTENERS}`)).rows[0].count
const loseConnection = () => sender.sql(`select pg_terminate_backend(pid) ${LISTENERS}`)

/** PostgreSQL delivers in the order of commits: earlier notifications arrive before this one. */
const nothingMore = async (channel = 'news') => {
  await sender.notify(channel, 'the end')
  await eventually(() => expect(received).toContain('the end'))
  return received.filter((payload) => payload !== 'the end')
}

describe('a notification', () => {
  test('reaches a listener in another process', async () => {
    await listen()
    await sender.notify('news', 'hello')
    expect(await nothingMore()).toEqual(['hello'])
  })

  test('of a transaction arrives after its commit, and not after a rollback', async () => {
    await listen()
    await sender.transaction(async () => {
      await sender.notify('news', 'with the commit')
      await database.notify('news', 'at once')
      await eventually(() => expect(received).toEqual(['at once']))
    })
    const failing = sender.transaction(async () => {
      await sender.notify('news', 'never')
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect(await nothingMore()).toEqual(['at once', 'with the commit'])
  })

  test('reaches every listener of its channel, and no other', async () => {
    const other: string[] = []
    await listen('Weird "channel"')
    await listen('Weird "channel"')
    await database.listen(
      'news',
      (payload) => other.push(payload),
      () => undefined,
    )
    await sender.notify('Weird "channel"', 'hello')
    expect(await nothingMore('Weird "channel"')).toEqual(['hello', 'hello'])
    expect(other).toEqual([])
  })

  test('does not reach a closed listener, and reaches others despite a failed listener', async () => {
    const closing = await listen()
    await database.listen(
      'news',
      () => {
        throw new Error('no')
      },
      () => undefined,
    )
    await closing.close()
    await listen('news')
    await sender.notify('news', 'hello')
    expect(await nothingMore()).toEqual(['hello'])
  })
})

describe('the connection', () => {
  test('is one for all concurrent listeners', async () => {
    await Promise.all(Array.from({ length: 10 }, (_, n) => listen(`channel ${n}`)))
    expect(await connections()).toBe(1)
    expect(database.isListening).toBe(true)
  })

  test('is replaced after a loss, and `onGap` is called', async () => {
    await listen()
    expect(gaps).toBe(1)
    await loseConnection()
    await eventually(() => expect(database.isListening).toBe(false))
    await eventually(() => expect(gaps).toBe(2))
    expect(database.isListening).toBe(true)
    await sender.notify('news', 'hello again')
    expect(await nothingMore()).toEqual(['hello again'])
  })

  test('stays one when a listener is added during a reconnection', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      await listen()
      await loseConnection()
      await eventually(() => expect(database.isListening).toBe(false))
      await listen('more news')
      // A timer that still reconnects fires now.
      await vi.advanceTimersByTimeAsync(10_000)
      await sender.notify('news', 'hello')
      expect(await nothingMore()).toEqual(['hello'])
      expect(await connections()).toBe(1)
    } finally {
      vi.useRealTimers()
    }
  })

  test('is replaced although `onGap` of a listener fails', async () => {
    await database.listen(
      'news',
      () => undefined,
      () => {
        throw new Error('no')
      },
    )
    await listen()
    await loseConnection()
    await eventually(() => expect(gaps).toBe(1))
    expect(await nothingMore()).toEqual([])
    expect(await connections()).toBe(1)
  })

  test('that fails rejects its caller, whose listener receives no later notification', async () => {
    const role = `listener_${randomBytes(4).toString('hex')}`
    await sender.sql(`create role ${role} login password 'p' connection limit 0`)
    const url = new URL(created.url)
    Object.assign(url, { username: role, password: 'p' })
    const limited = new Database({ url: url.href }, log)
    onTestFinished(async () => {
      await limited.close()
      await sender.sql(`drop role ${role}`)
    })
    const failing = limited.listen(
      'news',
      (payload) => received.push(`too early: ${payload}`),
      () => undefined,
    )
    await expect(failing).rejects.toSatisfy(isDatabaseUnavailable)
    expect(limited.isListening).toBe(false)
    await sender.sql(`alter role ${role} connection limit -1`)
    await limited.listen(
      'news',
      (payload) => received.push(payload),
      () => undefined,
    )
    expect(await nothingMore()).toEqual([])
  })

  test('ends with the database, also while it opens', async () => {
    const started = listen()
    await database.close()
    await started.catch(() => undefined)
    await eventually(async () => expect(await connections()).toBe(0))
  })
})
