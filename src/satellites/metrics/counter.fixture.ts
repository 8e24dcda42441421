/** A process that counts metrics of some tenants, flushes while it does, or ends as a service does. */

import { serveParent } from '../../../test/support/child.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { postgresStore } from '../../drivers/store/postgres.ts'
import { redisStore } from '../../drivers/store/redis.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { createTenancy } from '../../tenancy/tenancy.ts'
import { TEST_APP_KEY } from '../../testing/base/tenancy.ts'
import { metrics } from './index.ts'

await serveParent(async ({ url, redisUrl, keyPrefix, timeoutMs }) => {
  const tenancy = await createTenancy({
    database: { url, max: 3 },
    appKey: TEST_APP_KEY,
    isolation: [schemaPg()],
    satellites: [metrics()],
    role: 'api',
    logger: createLogger({ level: 'silent' }),
    store: redisUrl ? redisStore({ url: redisUrl, keyPrefix, timeoutMs }) : postgresStore({ timeoutMs }),
  })
  return async ({ tenants = [], calls = 0, flushEvery = 0, stop = false, list }) => {
    for (let call = 1; call <= calls; call++) {
      for (const tenant of tenants) {
        await tenancy.metrics.increment(tenant, 'calls', call)
        tenancy.metrics.traffic.requestEnded(tenant, call % 10 === 0 ? 500 : 200, 1_000)
      }
      if (flushEvery > 0 && call % flushEvery === 0) await tenancy.metrics.flush()
    }
    if (stop) await tenancy.stop()
    return list && (await tenancy.metrics.list(list)).data
  }
})
