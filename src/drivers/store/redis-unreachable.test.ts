/** Tests the cause that a probe of an unreachable Redis reports. The client of a cluster reports no cause itself. */
import { expect, test } from 'vitest'
import { freePort } from '../../../test/support/free-port.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { createHealth } from '../../kernel/resilience/health.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { redisStore } from './redis.ts'

test('each probe of a store that refuses connections reports the cause', async () => {
  const log = createLogger({ level: 'silent' })
  const store = redisStore({ url: `redis://127.0.0.1:${await freePort()}` }).open({ log })
  try {
    const health = createHealth({ timeoutMs: 10_000 })
    health.register('store', () => store.ping())
    const check = async () => (await health.report()).checks.store
    await eventually(async () => expect(await check()).toMatchObject({ message: 'connection refused' }))
    for (let probe = 0; probe < 5; probe++) {
      expect(await check()).toMatchObject({ status: 'fail', message: 'connection refused' })
    }
  } finally {
    await store.close()
  }
})
