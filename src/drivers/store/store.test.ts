import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { systemClock } from '../../kernel/clock.ts'
import { Database, isDatabaseUnavailable } from '../../kernel/database.ts'
import { DependencyUnavailable } from '../../kernel/errors.ts'
import { createLogger } from '../../kernel/logger.ts'
import { migrate } from '../../kernel/migrations.ts'
import type { Store } from '../../kernel/store.ts'
import { fakeClock } from '../../testing/clock.ts'
import { createTestDatabase } from '../../testing/database.ts'
import { storeSuite } from '../../testing/store-suite.ts'
import { memoryStore } from './memory.ts'
import { type PostgresStoreOptions, postgresStore } from './postgres.ts'

const log = createLogger({ level: 'silent' })

interface StoreInPostgres {
  readonly database: Database
  readonly store: Store
  close(): Promise<void>
}

async function openInPostgres(options: PostgresStoreOptions): Promise<StoreInPostgres> {
  const { url, drop } = await createTestDatabase(inject('postgresUrl'))
  const database = new Database({ url, max: 2 }, log)
  const driver = postgresStore(options)
  await migrate(database, [{ part: 'store', migrations: driver.tables ?? [] }])
  const store = driver.open({ database, clock: systemClock, log })
  return {
    database,
    store,
    async close() {
      await database.close()
      await drop()
    },
  }
}

await storeSuite('memory', async () => {
  const clock = fakeClock()
  return { store: memoryStore().open({ clock }), advance: clock.advance }
})

await storeSuite('postgres', async () => {
  let offsetMs = 0
  const { store, close } = await openInPostgres({ clockOffsetMs: () => offsetMs })
  return {
    store,
    advance: (ms) => {
      offsetMs += ms
    },
    cleanUp: close,
  }
})

describe('the store postgres, beside what all do', () => {
  let opened: StoreInPostgres
  let database: Database
  let store: Store
  let offsetMs = 0

  beforeAll(async () => {
    opened = await openInPostgres({ max: 2, clockOffsetMs: () => offsetMs })
    database = opened.database
    store = opened.store
  })
  afterAll(async () => {
    await store.close()
    await opened.close()
  })

  const rowsOf = async (owner: string): Promise<number> =>
    (await database.sql('select count(*) as count from multitenancy.store where owner = $1', [owner])).rows[0].count

  test('takes no part in a transaction of the caller', async () => {
    const refused = database.transaction(async () => {
      await store.set('acme', 'code', 'abc')
      throw new Error('the change is refused')
    })
    await expect(refused).rejects.toThrow('the change is refused')
    expect(await store.get('acme', 'code')).toBe('abc')
  })

  test('does not wait for connections that transactions hold, however many ask it', async () => {
    const askers = Array.from({ length: 20 }, (_, n) => database.transaction(() => store.increment('acme', 'asked', n)))
    await Promise.all(askers)
    expect(await store.get('acme', 'asked')).toBe('190')
  })

  test('removes what has expired, a hundred writes later at most', async () => {
    for (let n = 0; n < 30; n++) await store.set('globex', `session ${n}`, 'x', 60)
    offsetMs += 61_000
    for (let n = 0; n < 100; n++) await store.set('initech', 'key', String(n))
    expect(await rowsOf('globex')).toBe(0)
    expect(await store.get('initech', 'key')).toBe('99')
  })

  test('is written to the log of PostgreSQL, so that it survives a restart', async () => {
    const { rows } = await database.sql(
      `select relpersistence from pg_class where oid = 'multitenancy.store'::regclass`,
    )
    expect(rows).toEqual([{ relpersistence: 'p' }])
  })

  test('says that it cannot be reached', async () => {
    const nowhere = new Database({ url: 'postgres://tenantry@127.0.0.1:1/tenantry' }, log)
    const nobodyListens = postgresStore().open({ database: nowhere, clock: systemClock, log })
    const failure = await nobodyListens.ping().catch((error: unknown) => error)
    expect(DependencyUnavailable.matches(failure)).toBe(true)
    expect(isDatabaseUnavailable((failure as Error).cause)).toBe(true)
    await expect(nobodyListens.get('acme', 'key')).rejects.toSatisfy(DependencyUnavailable.matches)
    await nobodyListens.close()
    await nowhere.close()
  })
})
