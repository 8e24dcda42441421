/** Opens the kernel of a tenancy on its migrated database. */
import { Cursors } from '../kernel/api/page.ts'
import type { Database } from '../kernel/database/database.ts'
import { Egress } from '../kernel/egress/egress.ts'
import { Events, type EventType } from '../kernel/events/events.ts'
import { Streams } from '../kernel/events/streams.ts'
import type { Jobs } from '../kernel/jobs/jobs.ts'
import type { Kernel } from '../kernel/kernel.ts'
import { TenantLabels } from '../kernel/metrics/tenant-labels.ts'
import { OutboxKinds } from '../kernel/outbox/kinds.ts'
import type { Processes } from '../kernel/processes/processes.ts'
import { Resilience } from '../kernel/resilience/resilience.ts'
import type { Tracing } from '../kernel/resilience/tracing.ts'
import { Shares } from '../kernel/shares/shares.ts'
import type { TenancyConfig } from './config.ts'
import type { Settings } from './settings.ts'

const MAX_TENANT_SERIES = 1_000

interface Opened {
  readonly database: Database
  readonly canWrite: boolean
  readonly jobs: Jobs
  readonly tracing: Tracing
  readonly types: readonly EventType[]
  readonly processes: Processes
}

/** Opens the store last, so that an error leaves nothing open. */
export function openKernel(
  config: TenancyConfig,
  { secrets, clock, log, store }: Settings,
  { database, canWrite, jobs, tracing, types, processes }: Opened,
): Kernel {
  const events = new Events(database, clock, types)
  return {
    database,
    canWrite,
    events,
    streams: new Streams(),
    jobs,
    secrets,
    cursors: new Cursors(secrets),
    resilience: new Resilience(config.resilience ?? {}, { events, log, tracing }),
    tracing,
    labels: new TenantLabels(config.metrics?.maxTenantSeries ?? MAX_TENANT_SERIES),
    egress: new Egress(config.egress),
    processes,
    outbox: new OutboxKinds(),
    shares: new Shares(log),
    clock,
    log,
    store: store.open({ database, clock, log }),
  }
}
