/** The part of a tenancy with the erasure of tenants. */

import { commandsOf } from '../../kernel/api/projection.ts'
import { handles } from '../../kernel/jobs/jobs.ts'
import type { Part } from '../../kernel/part-definition.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { Lifecycle } from '../lifecycle/parts.ts'
import type { Installation } from '../lifecycle/provisioning.ts'
import type { Registry } from '../registry/registry.ts'
import type { Transfers } from '../transfers/transfers.ts'
import { type ErasureSettings, Erasures } from './erasures.ts'
import { EraseTenant, RecoverErasures } from './job-types.ts'
import { getErasure, operations } from './operations.ts'
import { tables } from './tables.ts'

interface Dependencies {
  readonly configuration: { readonly erasure: ErasureSettings }
  readonly registry: Registry
  readonly storage: Storage
  readonly lifecycle: Lifecycle
  readonly provisioning: Installation
  readonly transfers: Transfers
}

export const erasuresPart: Part<'erasures', Erasures, Dependencies> = {
  name: 'erasures',
  tables,
  service: (kernel, { configuration, registry, storage, lifecycle, provisioning, transfers }) =>
    new Erasures({
      kernel,
      registry,
      storage,
      provisioning,
      transfers,
      transitions: lifecycle.transitions,
      lostPlacements: lifecycle.lostPlacements,
      settings: configuration.erasure,
    }),
  operations,
  commands: commandsOf([getErasure]),
  jobs: [
    handles(EraseTenant, (erasures: Erasures, { tenantId }, { signal }) => erasures.work(tenantId, { signal })),
    handles(RecoverErasures, (erasures: Erasures) => erasures.recover()),
  ],
  schedule: [{ type: RecoverErasures, cron: '* * * * *' }],
}
