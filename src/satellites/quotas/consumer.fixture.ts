/** A process that consumes one quota of a tenant in many concurrent calls, and reports the number of allowed calls. */

import { serveParent } from '../../../test/support/child.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { postgresStore } from '../../drivers/store/postgres.ts'
import { redisStore } from '../../drivers/store/redis.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { createTenancy } from '../../tenancy/tenancy.ts'
import { TEST_APP_KEY } from '../../testing/base/tenancy.ts'
import { quotas } from './index.ts'

await serveParent(async ({ url, redisUrl, keyPrefix, plans, timeoutMs }) => {
  const tenancy = await createTenancy({
    database: { url },
    appKey: TEST_APP_KEY,
    isolation: [schemaPg()],
    satellites: [quotas()],
    role: 'api',
    plans,
    logger: createLogger({ level: 'silent' }),
    store: redisUrl ? redisStore({ url: redisUrl, keyPrefix, timeoutMs }) : postgresStore({ timeoutMs }),
  })
  return async ({ tenant, quota, calls }) => {
    const decided = await Promise.all(Array.from({ length: calls }, () => tenancy.quotas.decide(tenant, quota)))
    const usages = decided.filter(({ allowed }) => allowed).map(({ usage }) => usage)
    return { admitted: usages, degraded: decided.filter(({ degraded }) => degraded).length }
  }
})
