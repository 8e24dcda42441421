/** A process that takes from a counter of a store which others take from too. */
import { systemClock } from '../../kernel/clock.ts'
import { Database } from '../../kernel/database.ts'
import { createLogger } from '../../kernel/logger.ts'
import type { StoreDriver } from '../../kernel/store.ts'
import { serveParent } from '../../testing/child.ts'
import { postgresStore } from './postgres.ts'
import { redisStore } from './redis.ts'

await serveParent(async ({ postgresUrl, redisUrl, keyPrefix }) => {
  const log = createLogger({ level: 'error' })
  // Longer than a busy machine may need: what is counted is admissions, not moments.
  const timeoutMs = 20_000
  const database = new Database({ url: postgresUrl, max: 1 }, log)
  const driver: StoreDriver = redisUrl
    ? redisStore({ url: redisUrl, keyPrefix, timeoutMs })
    : postgresStore({ timeoutMs })
  const { counters } = driver.open({ database, clock: systemClock, log })
  return async ({ calls, tenants, limit }) => {
    const takes = [{ name: 'calls', amount: 1, limit }]
    const answers = await Promise.all(
      Array.from({ length: calls }, (_, n) => counters.take(tenants[n % tenants.length], takes)),
    )
    return answers.filter(({ isAllowed }) => isAllowed).length
  }
})
