/** The shared infrastructure of all parts, passed to a satellite's `service` function. */

import type { Cursors } from './api/page.ts'
import type { Clock } from './base/clock.ts'
import type { Logger } from './base/logger.ts'
import type { Secrets } from './crypto/crypto.ts'
import type { Database } from './database/database.ts'
import type { Egress } from './egress/egress.ts'
import type { Events } from './events/events.ts'
import type { Streams } from './events/streams.ts'
import type { Jobs } from './jobs/jobs.ts'
import type { TenantLabels } from './metrics/tenant-labels.ts'
import type { OutboxKinds } from './outbox/kinds.ts'
import type { Processes } from './processes/processes.ts'
import type { Resilience } from './resilience/resilience.ts'
import type { Tracing } from './resilience/tracing.ts'
import type { Shares } from './shares/shares.ts'
import type { Store } from './store/store.ts'

export interface Kernel {
  readonly database: Database
  /** Whether the start may write to the backoffice; false if it cannot store data, and the host reads only (`allowsReadOnly`). */
  readonly canWrite: boolean
  readonly store: Store
  readonly events: Events
  readonly streams: Streams
  readonly jobs: Jobs
  readonly secrets: Secrets
  readonly cursors: Cursors
  /** Policies for unavailable dependencies. */
  readonly resilience: Resilience
  /** Spans of OpenTelemetry, and the trace of the work in progress. */
  readonly tracing: Tracing
  /** The only way for outgoing requests. */
  readonly egress: Egress
  /** Tenants that have their own metric series. */
  readonly labels: TenantLabels
  /** Processes on this backoffice, and the id of this one. */
  readonly processes: Processes
  /** Kinds of entries that transactions of tenants post. */
  readonly outbox: OutboxKinds
  /** Contributions of the parts to lists over all parts. */
  readonly shares: Shares
  readonly clock: Clock
  readonly log: Logger
}
