/**
 * The centre: the registry of tenants and everything that happens to one. Shaped like a satellite, always there.
 */

import type { z } from 'zod'
import type { PageOf } from '../kernel/api/page.ts'
import { uuidv7 } from '../kernel/base/ids.ts'
import { parsed } from '../kernel/base/validate.ts'
import { recordChange } from '../kernel/events/changes.ts'
import type { QueueCounts } from '../kernel/jobs/jobs.ts'
import type { Kernel } from '../kernel/kernel.ts'
import { type BackofficeRestore, reconcileAfterRestore } from './backoffice-recovery.ts'
import type { Circuits } from './circuits/circuits.ts'
import { assertAgrees } from './handles/agreement.ts'
import type { TenantHandle } from './handles/handle.ts'
import { Handles } from './handles/handles.ts'
import { usable } from './handles/router.ts'
import type { Storage } from './isolation/drivers.ts'
import type { TenantMigration } from './isolation/migrations.ts'
import type { TableChanges } from './isolation/schema-generation.ts'
import { OpenStorage } from './lifecycle/fence-reconciler.ts'
import { Fences } from './lifecycle/fences.ts'
import { LostPlacements } from './lifecycle/lost-placements.ts'
import { Installation } from './lifecycle/provisioning.ts'
import { StorageReconciliation } from './lifecycle/storage-reconciliation.ts'
import { type Transition, Transitions } from './lifecycle/transitions.ts'
import { MigrationRuns } from './migrations/runs.ts'
import { SchemaVersions } from './migrations/schema-versions.ts'
import { Plans, type PlansConfig } from './registry/plans.ts'
import { register } from './registry/registration.ts'
import { Registry, type TenantFilter } from './registry/registry.ts'
import { lockExistingTenant } from './registry/tenant-assertions.ts'
import type { Located } from './registry/tenant-cache.ts'
import { TenantUpdates } from './registry/updates.ts'
import { PlanNotFound, PlanResolvedByHost } from './tenant/errors.ts'
import { TenantCreated, TenantEnteredMaintenance, TenantExitedMaintenance, TenantUpdated } from './tenant/events.ts'
import { InstallTenant } from './tenant/job-types.ts'
import type { TenantRow } from './tenant/tables.ts'
import {
  MaintenanceRequest,
  Metadata,
  mergePatch,
  NewTenant,
  type Tenant,
  TenantChange,
  toTenant,
} from './tenant/tenant.ts'
import type { Archives } from './transfers/archive/port.ts'
import type { BackupSettings } from './transfers/backups/backups.ts'
import { StagedStorage } from './transfers/execution/staged-storage.ts'
import { keepMaintenance } from './transfers/requests/requests.ts'
import { Transfers } from './transfers/transfers.ts'

const DAY_MS = 86_400_000

export interface TenantsConfig {
  readonly changes: TableChanges
  readonly plans: PlansConfig
  /** The host's, which every storage is brought up to. */
  readonly migrations: readonly TenantMigration[]
  /** Days between deletion and purge; default 30. */
  readonly retentionDays: number
  /** Whether expired tenants are purged daily; else only by `tenant:purge`. */
  readonly autoPurge: boolean
  readonly backups: BackupsConfig
  /** How long known tenants are served while the backoffice cannot be reached; default 300. */
  readonly staleForSeconds?: number | undefined
}

export interface BackupsConfig extends BackupSettings {
  /** Where they are kept; undefined: none can be made. */
  readonly archives: Archives | undefined
  /** Whether they are encrypted under the application key. */
  readonly isEncrypting: boolean
  /** How long what makes one may be silent before another process takes its place; default 15,000. */
  readonly leaseMs?: number | undefined
}

export class Tenants {
  readonly registry: Registry
  readonly plans: Plans
  readonly installation: Installation
  readonly migrations: MigrationRuns
  readonly fences: Fences
  readonly openStorage: OpenStorage
  readonly lostPlacements: LostPlacements
  readonly handles: Handles
  readonly circuits: Circuits
  readonly reconciliation: StorageReconciliation
  /** Backups, and whatever else makes a copy of a tenant. */
  readonly transfers: Transfers
  /** The isolation drivers in use. */
  readonly storage: Storage
  readonly #kernel: Kernel
  readonly #transitions: Transitions
  readonly #updates: TenantUpdates
  readonly #retentionMs: number

  constructor(kernel: Kernel, storage: Storage, circuits: Circuits, config: TenantsConfig) {
    this.#kernel = kernel
    this.storage = storage
    this.#retentionMs = config.retentionDays * DAY_MS
    this.registry = new Registry(kernel, { staleForSeconds: config.staleForSeconds })
    this.plans = new Plans(config.plans, kernel)
    this.circuits = circuits
    this.reconciliation = new StorageReconciliation(kernel, storage)
    this.fences = new Fences(kernel, storage, circuits)
    this.lostPlacements = new LostPlacements(kernel, storage)
    this.openStorage = new OpenStorage(kernel, this.reconciliation, this.fences)
    this.handles = new Handles({ registry: this.registry, storage, circuits, fences: this.fences })
    this.#transitions = new Transitions(kernel, this.registry, this.fences, (row) => this.#sendInstallation(row))
    this.#updates = new TenantUpdates(kernel, this.registry)
    const versions = new SchemaVersions(kernel.database, config.migrations)
    this.migrations = new MigrationRuns(kernel, storage, versions, config.changes)
    const { registry, fences } = this
    const dependencies = {
      kernel,
      registry,
      storage,
      versions,
      changes: config.changes,
      fences,
      transitions: this.#transitions,
    }
    const stagedStorage = new StagedStorage(kernel, storage, this.lostPlacements)
    this.transfers = new Transfers(
      { ...dependencies, stagedStorage, circuits, keptForMs: this.#retentionMs, ...config.backups },
      { plans: this.plans, ...config.backups },
    )
    this.installation = new Installation({
      ...dependencies,
      lost: this.lostPlacements,
      transfers: this.transfers,
      autoPurge: config.autoPurge,
    })
  }

  /** Registers a tenant and starts its installation. `E_TENANT_EXISTS`, `E_DOMAIN_TAKEN`, or a 400. */
  async create(request: z.input<typeof NewTenant>): Promise<Tenant> {
    const { id = uuidv7(), name, metadata, domains, ...options } = parsed(NewTenant, request)
    this.plans.check(metadata)
    const { driver, placement } = this.storage.choose(options.isolation, options.placement)
    const { database, events } = this.#kernel
    return database.transaction(async () => {
      const isolation = driver.name
      const row = await register(this.#dependencies, { id, name, metadata, domains, isolation, placement })
      await this.#updates.claimDomains(id, domains, false)
      await this.#sendInstallation(row)
      const tenant = toTenant(row)
      await recordChange(events, {
        action: 'tenants.create',
        tenantId: id,
        target: `tenant:${id}`,
        after: { name, metadata, domains, isolation: driver.name, placement },
      })
      await events.publish(TenantCreated, { tenantId: id, name, isolation: driver.name, placement })
      return tenant
    })
  }

  get(id: string): Promise<Tenant> {
    return this.registry.get(id)
  }

  /** The tenant, a deleted one too, which stays as it is until the transaction in progress ends. `E_TENANT_NOT_FOUND` */
  async lock(id: string): Promise<Tenant> {
    return toTenant(await lockExistingTenant(this.#kernel.database, id))
  }

  list(filter: TenantFilter): Promise<PageOf<Tenant>> {
    return this.registry.list(filter)
  }

  /** Changes name, metadata (merge patch) and domains; what is left out stays. */
  async update(id: string, request: z.input<typeof TenantChange>): Promise<Tenant> {
    const { name, domains, metadata } = parsed(TenantChange, request)
    return this.#edit(id, 'tenants.update', (row) => ({
      name: name ?? row.name,
      domains: domains ?? row.domains,
      metadata: metadata ? parsed(Metadata, mergePatch(row.metadata, metadata), 'metadata') : row.metadata,
    }))
  }

  /** Writes `metadata.plan`. `E_PLAN_NOT_FOUND`, or `E_PLAN_RESOLVED_BY_HOST` when the host gave its own `getPlan`. */
  async setPlan(id: string, plan: string): Promise<Tenant> {
    if (this.plans.isDecidedByHost) {
      throw PlanResolvedByHost("The host's getPlan decides which plan a tenant has; change it there.")
    }
    if (!this.plans.isDefined(plan)) throw PlanNotFound(`There is no plan "${plan}"; GET /plans lists them.`)
    return this.#edit(id, 'tenants.setPlan', ({ metadata }) => ({ metadata: { ...metadata, plan } }))
  }

  /** Suspended becomes active; failed is installed again. */
  activate(id: string): Promise<Transition> {
    return this.#transitions.run(id, 'activate', ({ installs }, now) => ({
      set: installs ? { failure: null } : { activatedAt: now, suspendedAt: null },
    }))
  }

  suspend(id: string): Promise<Transition> {
    return this.#transitions.run(id, 'suspend', (_, now) => ({ set: { suspendedAt: now } }))
  }

  /** Soft: the storage stays until `purgeAt`, and `restore` brings the tenant back until then. */
  delete(id: string): Promise<Transition> {
    return this.#transitions.run(id, 'delete', ({ from }, now) => {
      const purgeAt = new Date(now.getTime() + this.#retentionMs)
      return {
        set: { statusBefore: from, deletedAt: now, purgeAt },
        event: { purgeAt: purgeAt.toISOString() },
        also: () => this.transfers.cancelAll(id),
      }
    })
  }

  /** Back to the status before the deletion. */
  restore(id: string): Promise<Transition> {
    return this.#transitions.run(id, 'restore', () => ({
      set: { statusBefore: null, deletedAt: null, purgeAt: null },
      event: { from: 'deletion' },
    }))
  }

  /** Requests of the tenant are answered 503 until `exitMaintenance`; its status stays as it is. */
  async enterMaintenance(id: string, request: z.input<typeof MaintenanceRequest> = {}): Promise<Tenant> {
    const { message = null, retryAfterSeconds } = parsed(MaintenanceRequest, request)
    return this.#updates.run(id, {
      action: 'tenants.enterMaintenance',
      next: ({ maintenance }, now) => ({
        maintenance: { message, retryAfterSeconds, since: maintenance?.since ?? now.toISOString() },
      }),
      changed: async (_, before) => {
        if (before.heldBy) await keepMaintenance(this.#kernel.database, id)
        if (before.maintenance) return // its words changed; it had been entered before
        await this.#kernel.events.publish(TenantEnteredMaintenance, { tenantId: id, message, retryAfterSeconds })
      },
    })
  }

  exitMaintenance(id: string): Promise<Tenant> {
    return this.#updates.run(id, {
      action: 'tenants.exitMaintenance',
      next: () => ({ maintenance: null }),
      changed: () => this.#kernel.events.publish(TenantExitedMaintenance, { tenantId: id }),
    })
  }

  /** After the backoffice was brought back from a dump; before any process serves or works. */
  reconcileAfterRestore(): Promise<BackofficeRestore> {
    return reconcileAfterRestore(this.#kernel, this, this.#retentionMs)
  }

  /** The tenant's storage. Throws what a guarded route answers when the tenant cannot be used now. */
  async handle(id: string): Promise<TenantHandle> {
    assertAgrees(id)
    return this.handles.of(usable(id, this.registry.peek(id) ?? (await this.registry.find(id))))
  }

  /** Throws `E_CIRCUIT_OPEN` while the tenant's storage is known not to answer. */
  assertCircuitClosed({ location }: Located): void {
    this.circuits.assertClosed(location)
  }

  /** Jobs by queue and state; of one tenant, or all. */
  async queues(id?: string): Promise<QueueCounts[]> {
    if (id !== undefined) await this.get(id)
    return this.#kernel.jobs.counts(id)
  }

  /** Resolves when the tenant is no longer provisioning, or with what it is when `signal` aborts. */
  waitUntilInstalled(id: string, signal: AbortSignal): Promise<Tenant> {
    const isDone = ({ status }: Tenant) => status !== 'provisioning'
    return this.registry.until(id, () => this.get(id), isDone, signal)
  }

  #edit(id: string, action: string, next: (row: TenantRow) => Partial<TenantRow>): Promise<Tenant> {
    return this.#updates.run(id, {
      action,
      next,
      changed: async (keys, before, after) => {
        if (after.metadata.plan !== before.metadata.plan) this.plans.check(after.metadata)
        if (keys.includes('domains')) await this.#updates.claimDomains(id, after.domains, before.domains.length > 0)
        await this.#kernel.events.publish(TenantUpdated, {
          tenantId: id,
          changed: keys as ('name' | 'metadata' | 'domains')[],
        })
      },
    })
  }

  /** In the transaction that made the tenant provisioning. */
  async #sendInstallation(row: TenantRow): Promise<void> {
    if (row.clonedFrom) await this.transfers.cloneAgain(row)
    else await this.#kernel.jobs.send(InstallTenant, { tenantId: row.id }, { tenantId: row.id, key: row.id })
  }

  get #dependencies() {
    return { kernel: this.#kernel, registry: this.registry, storage: this.storage }
  }
}
