/** Process of bench/cases/flags.ts that evaluates a flag and reports when it first gets the expected value. */
import { createTenancy, schemaPg } from 'tenantry'
import { featureFlags } from 'tenantry/satellites/feature-flags'
import { type RedisStoreOptions, redisStore } from '../src/drivers/store/redis.ts'
import { createLogger } from '../src/kernel/base/logger.ts'
import { serveParent } from '../test/support/child.ts'
import { APP_KEY } from './tenancy.ts'

interface Options {
  readonly url: string
  readonly redis?: RedisStoreOptions
}

await serveParent(async ({ url, redis }: Options) => {
  const tenancy = await createTenancy({
    database: { url },
    appKey: APP_KEY,
    isolation: [schemaPg()],
    satellites: [featureFlags()],
    ...(redis && { store: redisStore(redis) }),
    role: 'api',
    logger: createLogger({ level: 'error' }),
  })
  const { featureFlags: flags } = tenancy
  let changed = Promise.withResolvers<void>()
  flags.onChange(() => {
    changed.resolve()
    changed = Promise.withResolvers()
  })
  return async ({ tenantId, key, isOn }: { tenantId: string; key: string; isOn: boolean }) => {
    for (;;) {
      const { promise } = changed
      if ((await flags.isEnabled(key, { tenantId })) === isOn) return Number(process.hrtime.bigint())
      await promise
    }
  }
})
