/** Two placements with a fake clock and no workers: the tests carry out the transfers. */
import { afterAll, beforeAll, inject } from 'vitest'
import { openTestEnvironment, type TestEnvironment } from '../../../test/support/two-servers.ts'
import { fakeClock } from '../../testing/base/clock.ts'
import { Attempt } from './execution/attempt.ts'

/** The plan `pro` schedules one backup per hour. */
export const HOURLY_BACKUPS = {
  defaultPlan: 'free',
  definitions: { free: { limits: {} }, pro: { limits: {}, backups: { everyHours: 1, keep: 1 } } },
}

export const only = { isLast: true, signal: new AbortController().signal }

/** Once per test file. */
export function useRecovery() {
  const clock = fakeClock()
  let environment: TestEnvironment
  beforeAll(async () => {
    environment = await openTestEnvironment(inject('postgresUrl'), {
      role: 'api',
      clock,
      plans: HOURLY_BACKUPS,
    })
  })
  afterAll(() => environment?.end())

  const sql = (text: string, values: unknown[] = []) => environment.tenancy.kernel.database.sql(text, values)

  return {
    clock,
    get environment() {
      return environment
    },
    sql,
    async install(id: string, metadata = {}): Promise<void> {
      await environment.tenancy.tenants.create({ id, name: id, metadata })
      await environment.tenancy.tenants.installation.install(id, only)
    },
    /** Expires the lease of a transfer, the given number of seconds ago. */
    withoutHeartbeatFor: (id: string, seconds: number) =>
      sql(`update multitenancy.transfers set lease_until = now() - $2 * interval '1 second' where id = $1`, [
        id,
        seconds,
      ]),
    async claim(id: string, leaseMs = 60_000): Promise<Attempt> {
      const attempt = await Attempt.claim(environment.tenancy.kernel, id, { leaseMs, signal: only.signal })
      if (!attempt) throw new Error('the transfer could not be claimed')
      return attempt
    },
  }
}
