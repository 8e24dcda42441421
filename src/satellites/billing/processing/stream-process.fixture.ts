/**
 * A worker in a process of its own, which kills itself where it is told to: SIGKILL, with nothing put in order, in the transaction of
 * an event or between its commit and the end of its job.
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
  /** `within`: a typed event is written down, and nothing is committed; `after`: all of it is, and the job does not know. */
  readonly when: 'within' | 'after'
  /** How many typed events are said before. */
  readonly before: number
}

export interface WorkerOptions {
  readonly url: string
  readonly options: BillingOptions
  /** The provider's time, which stands still. */
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
  // Whoever asks is answered by its end.
  return () => Promise.withResolvers().promise
})
