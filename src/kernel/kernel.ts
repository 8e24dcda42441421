/** What every part is built on, handed to a satellite's `service` function. */
import type { Clock } from './clock.ts'
import type { Secrets } from './crypto.ts'
import type { Database } from './database.ts'
import type { Egress } from './egress.ts'
import type { Events } from './events.ts'
import type { Jobs } from './jobs.ts'
import type { Logger } from './logger.ts'
import type { Cursors } from './page.ts'
import type { Resilience } from './resilience.ts'
import type { Store } from './store.ts'

export interface Kernel {
  readonly database: Database
  readonly store: Store
  readonly events: Events
  readonly jobs: Jobs
  readonly secrets: Secrets
  readonly cursors: Cursors
  /** What is done while a dependency is away. */
  readonly resilience: Resilience
  /** The only way out. */
  readonly egress: Egress
  readonly clock: Clock
  readonly log: Logger
}
