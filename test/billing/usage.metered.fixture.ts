/** A quota that becomes metered while tenants use it. */
import { afterAll, beforeAll } from 'vitest'
import { billing } from '../../src/satellites/billing/index.ts'
import { quotas } from '../../src/satellites/quotas/index.ts'
import { type Metered, type MeteredTenancy, openMetered, type StoreName } from './usage.fixture.ts'

/** One tenancy for the tests of one store. */
export function openMetering(store: StoreName) {
  const fixture = {} as { open: Metered }
  beforeAll(async () => {
    fixture.open = await openMetered(store, { options: { usage: {} } })
  })
  afterAll(() => fixture.open?.end())
  return Object.assign(fixture, {
    track: (tenantId: string, amount: number, quota = 'calls') =>
      fixture.open.tenancy.quotas.track(tenantId, quota, amount),
    /** A new process with a configuration in which the quota is metered. Its interval is longer than a test. */
    async metering(quota: string, role: 'worker' | 'api' = 'worker'): Promise<MeteredTenancy> {
      fixture.open.provider.advance({ seconds: 1 })
      const usage = { [quota]: { meter: 'api_calls', flushMs: 3_600_000 } }
      return fixture.open.open({ satellites: [quotas(), billing({ ...fixture.open.options, usage })], role })
    },
  })
}
