/** The parts of a tenancy for the life cycle of tenants and their provisioning. */
import { handles } from '../../kernel/jobs/jobs.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { Part } from '../../kernel/part-definition.ts'
import type { Circuits } from '../circuits/circuits.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { TableChanges } from '../isolation/schema-generation.ts'
import type { SchemaVersions } from '../migrations/schema-versions.ts'
import type { Outbox } from '../outbox/outbox.ts'
import type { Registry } from '../registry/registry.ts'
import {
  FenceTenant,
  InstallTenant,
  PurgeTenants,
  RecoverFences,
  RecoverInstallations,
  UninstallTenant,
} from '../tenant/job-types.ts'
import { OpenStorage } from './fence-reconciler.ts'
import { Fences } from './fences.ts'
import { LostPlacements } from './lost-placements.ts'
import { type AdoptedStorage, Installation, type TransfersOfTenant } from './provisioning.ts'
import { StorageReconciliation } from './storage-reconciliation.ts'
import { Transitions } from './transitions.ts'

interface Dependencies {
  readonly registry: Registry
  readonly storage: Storage
  readonly circuits: Circuits
  readonly outbox: Outbox
}

export class Lifecycle {
  readonly reconciliation: StorageReconciliation
  readonly fences: Fences
  readonly lostPlacements: LostPlacements
  readonly openStorage: OpenStorage
  readonly transitions: Transitions

  constructor(kernel: Kernel, { registry, storage, circuits, outbox }: Dependencies) {
    this.reconciliation = new StorageReconciliation(kernel, storage)
    this.fences = new Fences(kernel, storage, circuits)
    this.lostPlacements = new LostPlacements(kernel, storage, outbox)
    this.openStorage = new OpenStorage(kernel, this.reconciliation, this.fences)
    this.transitions = new Transitions(kernel, registry, this.fences)
  }
}

export const lifecyclePart: Part<'lifecycle', Lifecycle, Dependencies> = {
  name: 'lifecycle',
  service: (kernel, dependencies) => new Lifecycle(kernel, dependencies),
  start: ({ lostPlacements }) => lostPlacements.start(),
  jobs: [
    handles(FenceTenant, ({ fences }: Lifecycle, { tenantId }) => fences.close(tenantId)),
    handles(RecoverFences, ({ openStorage }: Lifecycle) => openStorage.close()),
  ],
  schedule: [{ type: RecoverFences, cron: '41 * * * *' }],
}

interface ProvisioningDependencies extends Dependencies {
  readonly configuration: { readonly autoPurge: boolean }
  readonly tableChanges: TableChanges
  readonly lifecycle: Lifecycle
  readonly migrations: { readonly versions: SchemaVersions }
  readonly transfers: TransfersOfTenant
  readonly adoptions: AdoptedStorage
}

export const provisioningPart: Part<'provisioning', Installation, ProvisioningDependencies> = {
  name: 'provisioning',
  service: (kernel, { configuration, registry, storage, tableChanges, lifecycle, migrations, transfers, adoptions }) =>
    new Installation({
      kernel,
      registry,
      storage,
      versions: migrations.versions,
      changes: tableChanges,
      transitions: lifecycle.transitions,
      fences: lifecycle.fences,
      lost: lifecycle.lostPlacements,
      transfers,
      adoptions,
      autoPurge: configuration.autoPurge,
    }),
  jobs: [
    handles(InstallTenant, (installation: Installation, { tenantId }, attempt) =>
      installation.install(tenantId, attempt),
    ),
    handles(UninstallTenant, async (installation: Installation, { tenantId }) => {
      await installation.purge(tenantId)
    }),
    handles(PurgeTenants, (installation: Installation) => installation.purgeExpired()),
    handles(RecoverInstallations, (installation: Installation) => installation.recover()),
  ],
  schedule: [
    { type: PurgeTenants, cron: '17 3 * * *' },
    { type: RecoverInstallations, cron: '* * * * *' },
  ],
}
