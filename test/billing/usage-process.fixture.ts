/** A process that counts usage, closes usage windows and sends batches on request. */
import { schemaPg } from '../../src/drivers/isolation/schema-pg.ts'
import { redisStore } from '../../src/drivers/store/redis.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import { billing } from '../../src/satellites/billing/index.ts'
import { quotas } from '../../src/satellites/quotas/index.ts'
import { createTenancy } from '../../src/tenancy/tenancy.ts'
import { TEST_APP_KEY } from '../../src/testing/base/tenancy.ts'
import { serveParent } from '../support/child.ts'

await serveParent(async ({ url, redisUrl, keyPrefix, plans, options, role = 'api' }) => {
  const { billing: service, quotas: counters } = await createTenancy({
    database: { url, max: 5 },
    appKey: TEST_APP_KEY,
    isolation: [schemaPg()],
    satellites: [quotas(), billing(options)],
    plans,
    role,
    logger: createLogger({ level: 'silent' }),
    resilience: { redis: { quota: 'fail-closed' } }, // a failed count is an error
    ...(redisUrl ? { store: redisStore({ url: redisUrl, keyPrefix }) } : {}),
  })
  return async ({ tenants = [], track = 0, reset = false, close = false, send, report }) => {
    for (let call = 0; call < track; call++) {
      await Promise.all(tenants.map((tenant: string) => counters.track(tenant, 'calls')))
      if (reset && call % 10 === 9) await counters.reset(tenants[0], 'calls')
    }
    if (close) await service.windows.close()
    if (send) await service.usage.send(send)
    return report && service.reportUsage(report.tenant, 'api_calls', report.quantity, { id: report.id })
  }
})
