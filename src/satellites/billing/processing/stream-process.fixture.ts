/**
 * A worker process that kills itself with SIGKILL within the transaction of an event, or between its commit and the end
 * of its job.
 */

import { serveParent } from '../../../../test/support/child.ts'
import { schemaPg } from '../../../drivers/isolation/schema-pg.ts'
import { createLogger } from '../../../kernel/base/logger.ts'
import { createTenancy } from '../../../tenancy/tenancy.ts'
import { TEST_APP_KEY } from '../../../testing/base/tenancy.ts'
import { PLANS } from '../billing.fixture.ts'
import { eventRecorder } from '../event-recorder.fixture.ts'
import { type BillingOptions, billing } from '../index.ts'
import { events } from '../model/events.ts'

export interface Death {
  /**
   * `within`: a typed event is written and not committed. `after`: the transaction is committed and the job is not
   * completed.
   */
  readonly when: 'within' | 'after'
  /** Number of typed events to publish before the death. */
  readonly before: number
}

export interface WorkerOptions {
  readonly url: string
  readonly options: BillingOptions
  /** Constant time of the clock, in ms. */
  readonly now: number
  readonly death: Death | null
}

await serveParent(async ({ url, options, now, death }: WorkerOptions) => {
  let left = death?.before ?? 0
  const dieAt = (when: Death['when']) => {
    if (death?.when !== when) return
    if (left === 0) process.kill(process.pid, 'SIGKILL')
    left -= 1
  }
  const tenancy = await createTenancy({
    database: { url },
    appKey: TEST_APP_KEY,
    isolation: [schemaPg()],
    placements: { main: { connections: { max: 4, perTenant: 4 } } },
    satellites: [billing(options), eventRecorder(() => dieAt('within'))],
    plans: PLANS,
    role: 'worker',
    clock: { now: () => new Date(now) },
    logger: createLogger({ level: 'silent' }),
  })
  for (const type of events) tenancy.on(type, () => dieAt('after'))
  // The request never gets a response; the end of the process rejects it.
  return () => Promise.withResolvers().promise
})
