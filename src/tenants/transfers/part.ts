/** The part of a tenancy with the transfers and backups of tenants. */

import { on } from '../../kernel/events/events.ts'
import { handles } from '../../kernel/jobs/jobs.ts'
import type { Part } from '../../kernel/part-definition.ts'
import type { Circuits } from '../circuits/circuits.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { TableChanges } from '../isolation/schema-generation.ts'
import type { Lifecycle } from '../lifecycle/parts.ts'
import type { SchemaVersions } from '../migrations/schema-versions.ts'
import type { Plans } from '../registry/plans.ts'
import type { Registry } from '../registry/registry.ts'
import { TenantDeleted } from '../tenant/events.ts'
import { onDemand } from './archive/lazy.ts'
import type { Archives } from './archive/port.ts'
import { backupSeries } from './backup-metrics.ts'
import type { BackupSettings } from './backups/backups.ts'
import { archivesSystem } from './erasure.ts'
import { StagedStorage } from './execution/staged-storage.ts'
import {
  BackupTenant,
  CloneTenant,
  MoveTenant,
  RecoverTransfers,
  RestoreTenant,
  RunBackups,
} from './requests/job-types.ts'
import { transferProviders } from './search.ts'
import { Transfers } from './transfers.ts'

const TYPES = [BackupTenant, RestoreTenant, CloneTenant, MoveTenant]

interface Dependencies {
  readonly configuration: {
    /** Retention of former storage. */
    readonly retentionMs: number
    readonly backups: BackupSettings & { readonly archives: Archives | undefined; readonly isEncrypting: boolean }
  }
  readonly storage: Storage
  readonly circuits: Circuits
  readonly registry: Registry
  readonly plans: Plans
  readonly tableChanges: TableChanges
  readonly lifecycle: Lifecycle
  readonly migrations: { readonly versions: SchemaVersions }
}

export const transfersPart: Part<'transfers', Transfers, Dependencies> = {
  name: 'transfers',
  tenantTables: ['transfers', 'backups'],
  erase: { systems: [archivesSystem] },
  service(kernel, { configuration, storage, circuits, registry, plans, tableChanges, lifecycle, migrations }) {
    const { fences, transitions, lostPlacements } = lifecycle
    const { archives, isEncrypting, ...backups } = configuration.backups
    const dependencies = {
      kernel,
      registry,
      storage,
      circuits,
      fences,
      transitions,
      versions: migrations.versions,
      changes: tableChanges,
      stagedStorage: new StagedStorage(kernel, storage, lostPlacements),
      keptForMs: configuration.retentionMs,
      archives: archives && onDemand(archives),
      isEncrypting,
    }
    return new Transfers(dependencies, { plans, ...backups })
  },
  listeners: [on(TenantDeleted, 'within', (transfers: Transfers, { tenantId }) => transfers.cancelAll(tenantId))],
  jobs: [
    ...TYPES.map((type) =>
      handles(type, (transfers: Transfers, { transferId }, attempt) => transfers.work(transferId, attempt)),
    ),
    handles(RecoverTransfers, (transfers: Transfers) => transfers.recover()),
    handles(RunBackups, (transfers: Transfers) => transfers.runDue()),
  ],
  schedule: [
    { type: RecoverTransfers, cron: '* * * * *' },
    { type: RunBackups, cron: '*/10 * * * *' },
  ],
  searchProviders: transferProviders,
  metrics: backupSeries,
  stop: (transfers) => transfers.stop(),
}
