/** A process that takes from a shared counter of a store, and clears it on request. */

import { serveParent } from '../../../test/support/child.ts'
import { systemClock } from '../../kernel/base/clock.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'
import type { Counters, Take } from '../../kernel/store/counters.ts'
import type { StoreDriver } from '../../kernel/store/store.ts'
import { postgresStore } from './postgres.ts'
import { redisStore } from './redis.ts'

await serveParent(async ({ postgresUrl, redisUrl, keyPrefix }) => {
  const log = createLogger({ level: 'error' })
  // Long enough for a busy machine: the test counts admissions and measures no times.
  const timeoutMs = 20_000
  const database = new Database({ url: postgresUrl, max: 1 }, log)
  const driver: StoreDriver = redisUrl
    ? redisStore({ url: redisUrl, keyPrefix, timeoutMs })
    : postgresStore({ timeoutMs })
  const { counters } = driver.open({ database, clock: systemClock, log })
  return async ({ calls, tenants, limit, concurrency }) => {
    const takes = [{ name: 'calls', amount: 1, limit }]
    if (concurrency) return clearing(counters, tenants[0], takes, calls, concurrency)
    const results = await Promise.all(
      Array.from({ length: calls }, (_, n) => counters.take(tenants[n % tenants.length], takes)),
    )
    return results.filter(({ isAllowed }) => isAllowed).length
  }
})

/** Each of `concurrency` workers makes one call after the other; counted values are cleared now and then. */
async function clearing(
  counters: Counters,
  tenant: string,
  takes: readonly Take[],
  calls: number,
  concurrency: number,
): Promise<number> {
  let admitted = 0
  await Promise.all(
    Array.from({ length: concurrency }, async (_, worker) => {
      for (let n = worker; n < calls; n += concurrency) {
        if (n % 17 === 0) await counters.clear(tenant, n % 2 === 0 ? 'calls' : undefined)
        if ((await counters.take(tenant, takes)).isAllowed) admitted += 1
      }
    }),
  )
  return admitted
}
