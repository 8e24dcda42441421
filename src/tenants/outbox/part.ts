/** The part of a tenancy for the outbox of tenants' transactions. */
import { z } from 'zod'
import { commandsOf } from '../../kernel/api/projection.ts'
import { handles, jobType } from '../../kernel/jobs/jobs.ts'
import { cachedGauges, SMALL_SHARE } from '../../kernel/metrics/cached-gauges.ts'
import type { Part } from '../../kernel/part-definition.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { Registry } from '../registry/registry.ts'
import { outboxDiagnosis } from './doctor.ts'
import { operations } from './operations.ts'
import { Outbox } from './outbox.ts'
import { tables } from './tables.ts'

const PruneOutbox = jobType({
  name: 'PruneOutbox',
  summary: 'Removes the ids of outbox entries that were applied more than 36 days ago',
  data: z.object({}),
  workers: 1,
})

interface Dependencies {
  readonly storage: Storage
  readonly registry: Registry
}

export const outboxPart: Part<'outbox', Outbox, Dependencies> = {
  name: 'outbox',
  tables,
  tenantTables: ['outbox_failed', 'outbox_marks'],
  service: (kernel, { storage, registry }) => new Outbox(kernel, storage, registry),
  operations,
  commands: commandsOf(operations),
  jobs: [handles(PruneOutbox, (outbox: Outbox) => outbox.prune())],
  schedule: [{ type: PruneOutbox, cron: '29 4 * * *' }],
  doctor: [outboxDiagnosis],
  metrics: (outbox) =>
    cachedGauges(
      () => outbox.oldestSeconds(),
      [
        {
          name: 'multitenancy_outbox_oldest_seconds',
          help: "Age of the oldest entry of a tenant's transaction that waits for its application, by server; 0 if none waits",
          samples: (ages) => [...ages].map(([placement, value]) => ({ labels: { placement }, value })),
        },
      ],
      { maxShare: SMALL_SHARE },
    ),
}

/** Relays after the satellites have started, and stops before them: their kinds are applied in between. */
export const relayPart: Part<'relay', Outbox, { readonly outbox: Outbox }> = {
  name: 'relay',
  service: (_, { outbox }) => outbox,
  start: (outbox) => outbox.start(),
  work: (outbox) => outbox.work(),
  stop: (outbox) => outbox.stop(),
}
