/** Simulates outages of a store behind a proxy. */
import { postgresStore } from '../../src/drivers/store/postgres.ts'
import { redisStore } from '../../src/drivers/store/redis.ts'
import { uuidv7 } from '../../src/kernel/base/ids.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import { Database } from '../../src/kernel/database/database.ts'
import type { StoreDriver } from '../../src/kernel/store/store.ts'
import type { Proxy as Way } from './proxy.ts'

/** Timeout of a store. */
export const TIMEOUT_MS = 500

export const FAULTS = {
  'is cut off': (way: Way) => way.close(),
  'is unresponsive': (way: Way) => way.blackhole(),
  'is slower than the timeout': (way: Way) => way.slow(4 * TIMEOUT_MS),
}

/** Opens a closed proxy; closes a slow or unresponsive one first. */
export async function repair(way: Way): Promise<void> {
  way.slow(0)
  await way.close()
  await way.open()
}

/** The postgres store is in the tenancy's database, through the host of this URL. */
export const storeBehind = {
  redis: (url: string, timeoutMs = TIMEOUT_MS): StoreDriver => ({
    ...redisStore({ url, keyPrefix: `${uuidv7()}:`, timeoutMs }),
    identity: undefined, // processes of a test have different ones
  }),
  postgres: (url: string, timeoutMs = TIMEOUT_MS): StoreDriver => {
    const driver = postgresStore({ timeoutMs })
    const byProxy = (database: Database) => {
      const way = new URL(database.url)
      way.host = new URL(url).host
      return new Database({ url: way.href, max: 2 }, createLogger({ level: 'silent' }))
    }
    return { ...driver, open: ({ database, ...base }) => driver.open({ database: byProxy(database), ...base }) }
  },
}
