/** Tests that counters are exact with several processes. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Child, startChild } from '../../../test/support/child.ts'
import { systemClock } from '../../kernel/base/clock.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'
import { migrate } from '../../kernel/database/migrations.ts'
import type { Store, StoreDriver } from '../../kernel/store/store.ts'
import { createTestDatabase, type TestDatabase } from '../../testing/base/database.ts'
import { postgresStore } from './postgres.ts'
import { redisStore } from './redis.ts'

const PROCESSES = 4
const CALLS = 5_000
const LIMIT = 1_000
const PROGRAM = new URL('./store-process.fixture.ts', import.meta.url)

describe.each(['redis', 'postgres'])('counters of %s with four processes', (name) => {
  const log = createLogger({ level: 'silent' })
  let testDatabase: TestDatabase
  let database: Database
  let store: Store
  let children: Child[]

  beforeAll(async () => {
    testDatabase = await createTestDatabase(inject('postgresUrl'))
    database = new Database({ url: testDatabase.url, max: 2 }, log)
    const address = { url: inject('redisUrl'), keyPrefix: `test-${randomUUID()}:` }
    const driver: StoreDriver = name === 'redis' ? redisStore(address) : postgresStore()
    await migrate(database, [{ part: 'store', migrations: postgresStore().tables ?? [] }])
    store = driver.open({ database, clock: systemClock, log })
    const options = {
      postgresUrl: testDatabase.url,
      ...(name === 'redis' ? { redisUrl: address.url, keyPrefix: address.keyPrefix } : {}),
    }
    children = await Promise.all(Array.from({ length: PROCESSES }, () => startChild(PROGRAM, options)))
  })
  afterAll(async () => {
    await Promise.all(children.map((child) => child.kill('SIGKILL')))
    for (const tenant of ['acme', 'cleared', 'spread-0', 'spread-1', 'spread-2']) await store.purge(tenant)
    await store.close()
    await database.close()
    await testDatabase.drop()
  })

  const takenBy = async (tenants: readonly string[], more: object = {}): Promise<number> => {
    const question = { calls: CALLS / PROCESSES, tenants, limit: LIMIT, ...more }
    const admitted: number[] = await Promise.all(children.map((child) => child.request(question)))
    return admitted.reduce((sum, count) => sum + count, 0)
  }

  test(`admit exactly ${LIMIT} of ${CALLS} concurrent calls, and store ${LIMIT}`, async () => {
    expect(await takenBy(['acme'])).toBe(LIMIT)
    expect((await store.counters.read('acme', 'calls')).today).toBe(LIMIT)
  })

  test('keep the limits of several counters', async () => {
    const tenants = ['spread-0', 'spread-1', 'spread-2']
    expect(await takenBy(tenants)).toBe(LIMIT * tenants.length)
    for (const tenant of tenants) expect((await store.counters.read(tenant, 'calls')).today).toBe(LIMIT)
  })

  test('with concurrent take and clear count exactly the admitted calls, and exceed no limit', async () => {
    const limit = 50
    const admitted = await takenBy(['cleared'], { limit, concurrency: 8 })
    expect(admitted).toBeGreaterThan(limit)
    expect((await store.counters.counted('cleared', ['calls'])).today).toEqual(new Map([['calls', admitted]]))
    expect((await store.counters.read('cleared', 'calls')).today ?? 0).toBeLessThanOrEqual(limit)
  })
})
