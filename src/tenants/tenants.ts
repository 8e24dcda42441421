/**
 * The service of tenants: their life cycle, name, metadata, domains, plan and maintenance, with the services of the
 * other parts.
 */

import type { z } from 'zod'
import type { PageOf } from '../kernel/api/page.ts'
import { uuidv7 } from '../kernel/base/ids.ts'
import { parsed } from '../kernel/base/validate.ts'
import { recordChange } from '../kernel/events/changes.ts'
import type { QueueCounts } from '../kernel/jobs/jobs.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { Released } from './adoption/requests.ts'
import { type BackofficeRestore, reconcileAfterRestore } from './backoffice-recovery.ts'
import { DeadLetters } from './dead-letters.ts'
import { assertAgrees } from './handles/agreement.ts'
import type { Tenant } from './handles/handle.ts'
import { usable } from './handles/router.ts'
import type { Transition } from './lifecycle/transitions.ts'
import type { Explanation } from './overview/explanation.ts'
import type { Entry } from './overview/resolution.ts'
import { register } from './registry/registration.ts'
import type { TenantFilter } from './registry/registry.ts'
import { lockExistingTenant } from './registry/tenant-assertions.ts'
import type { Located } from './registry/tenant-cache.ts'
import { TenantUpdates } from './registry/updates.ts'
import { PlanNotFound, PlanResolvedByHost } from './tenant/errors.ts'
import { TenantCreated, TenantEnteredMaintenance, TenantExitedMaintenance, TenantUpdated } from './tenant/events.ts'
import type { Names } from './tenant/names.ts'
import type { TenantRow } from './tenant/tables.ts'
import {
  MaintenanceRequest,
  Metadata,
  mergePatch,
  NewTenant,
  TenantChange,
  type TenantRecord,
  toTenant,
} from './tenant/tenant.ts'
import type { TenantServices } from './tenant-services.ts'
import { requestInstallation } from './transfers/requests/installation.ts'
import { keepMaintenance } from './transfers/requests/requests.ts'

/** Metadata with the name of a plan, which is that of the tenant unless `plans.getPlan` decides. */
type Planned<Request, N extends Names> = Request & { readonly metadata?: { readonly plan?: N['plan'] | null } }

export class Tenants<DB = any, N extends Names = Names> {
  readonly registry: TenantServices['registry']
  readonly plans: TenantServices['plans']
  readonly installation: TenantServices['provisioning']
  readonly migrations: TenantServices['migrations']
  /** Runs of `tenant:each`. */
  readonly commandRuns: TenantServices['commandRuns']
  readonly fences: TenantServices['lifecycle']['fences']
  readonly openStorage: TenantServices['lifecycle']['openStorage']
  readonly lostPlacements: TenantServices['lifecycle']['lostPlacements']
  readonly reconciliation: TenantServices['lifecycle']['reconciliation']
  readonly handles: TenantServices['handles']
  readonly circuits: TenantServices['circuits']
  /** Backups, restores, clones and moves of tenants. */
  readonly transfers: TenantServices['transfers']
  /** Erasures of tenants, with their reports. */
  readonly erasures: TenantServices['erasures']
  /** The isolation drivers in use. */
  readonly storage: TenantServices['storage']
  /** Calls in tenants' transactions, applied after the commit. */
  readonly outbox: TenantServices['outbox']
  /** Adoption of existing storage. */
  readonly adoptions: TenantServices['adoptions']
  /** Imports of dumps with tables. */
  readonly tableImports: TenantServices['tableImports']
  /** Reads over all parts: attention list, timelines. */
  readonly overview: TenantServices['overview']
  /** Jobs that failed permanently. */
  readonly deadLetters: DeadLetters
  readonly #kernel: Kernel
  readonly #transitions: TenantServices['lifecycle']['transitions']
  readonly #updates: TenantUpdates
  readonly #retentionMs: number

  /** @param retentionMs time between the deletion of a tenant and its purge */
  constructor(kernel: Kernel, services: TenantServices, retentionMs: number) {
    const { registry, lifecycle } = services
    this.registry = registry
    this.plans = services.plans
    this.installation = services.provisioning
    this.migrations = services.migrations
    this.commandRuns = services.commandRuns
    this.fences = lifecycle.fences
    this.openStorage = lifecycle.openStorage
    this.lostPlacements = lifecycle.lostPlacements
    this.reconciliation = lifecycle.reconciliation
    this.handles = services.handles
    this.circuits = services.circuits
    this.transfers = services.transfers
    this.erasures = services.erasures
    this.storage = services.storage
    this.outbox = services.outbox
    this.adoptions = services.adoptions
    this.tableImports = services.tableImports
    this.overview = services.overview
    this.deadLetters = new DeadLetters(kernel)
    this.#kernel = kernel
    this.#transitions = lifecycle.transitions
    this.#updates = new TenantUpdates(kernel, registry)
    this.#retentionMs = retentionMs
  }

  /** Registers a tenant and starts its installation. `E_TENANT_EXISTS`, `E_DOMAIN_TAKEN`, or a 400. */
  async create(request: Planned<z.input<typeof NewTenant>, N>): Promise<TenantRecord> {
    const { id = uuidv7(), name, metadata, domains, ...options } = parsed(NewTenant, request)
    this.plans.check(metadata)
    const { driver, placement } = this.storage.choose(options.isolation, options.placement)
    const { database, events } = this.#kernel
    return database.transaction(async () => {
      const isolation = driver.name
      const dependencies = { kernel: this.#kernel, registry: this.registry, storage: this.storage }
      const row = await register(dependencies, { id, name, metadata, domains, isolation, placement })
      await this.#updates.claimDomains(id, domains, false)
      await requestInstallation(this.#kernel, row)
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

  get(id: string): Promise<TenantRecord> {
    return this.registry.get(id)
  }

  /** Locks a tenant, also a deleted one, until the end of the current transaction. `E_TENANT_NOT_FOUND` */
  async lock(id: string): Promise<TenantRecord> {
    return toTenant(await lockExistingTenant(this.#kernel.database, id))
  }

  /** A page of tenants. `E_PLAN_RESOLVED_BY_HOST`, or a 400. */
  async list(filter: TenantFilter): Promise<PageOf<TenantRecord>> {
    const { plan } = filter
    return this.registry.list(filter, plan === undefined ? undefined : this.plans.condition(plan))
  }

  /** Changes name, metadata (merge patch) and domains; omitted members stay unchanged. */
  async update(id: string, request: Planned<z.input<typeof TenantChange>, N>): Promise<TenantRecord> {
    const { name, domains, metadata } = parsed(TenantChange, request)
    return this.#edit(id, 'tenants.update', (row) => ({
      name: name ?? row.name,
      domains: domains ?? row.domains,
      metadata: metadata ? parsed(Metadata, mergePatch(row.metadata, metadata), 'metadata') : row.metadata,
    }))
  }

  /** Writes `metadata.plan`. `E_PLAN_NOT_FOUND`, or `E_PLAN_RESOLVED_BY_HOST` if the host has configured `getPlan`. */
  async setPlan(id: string, plan: N['plan']): Promise<TenantRecord> {
    if (this.plans.isDecidedByHost) {
      throw PlanResolvedByHost("The host's getPlan decides the plan of a tenant. Change it there.")
    }
    if (!this.plans.isDefined(plan)) throw PlanNotFound(`Plan "${plan}" not found. GET /plans lists all plans.`)
    return this.#edit(id, 'tenants.setPlan', ({ metadata }) => ({ metadata: { ...metadata, plan } }))
  }

  /** Activates a suspended tenant, or installs a failed one again. */
  activate(id: string): Promise<Transition> {
    return this.#transitions.run(id, 'activate', ({ installs }, now) => ({
      set: installs ? { failure: null } : { activatedAt: now, suspendedAt: null },
    }))
  }

  /** Installs a tenant again if its installation has failed; otherwise it stays unchanged. */
  reinstall(id: string): Promise<Transition> {
    return this.#kernel.database.transaction(async () => {
      const tenant = await this.lock(id)
      return tenant.status === 'failed' ? this.activate(id) : { tenant, changed: false }
    })
  }

  suspend(id: string): Promise<Transition> {
    return this.#transitions.run(id, 'suspend', (_, now) => ({ set: { suspendedAt: now } }))
  }

  /** Soft deletion: the storage stays until `purgeAt`, and `restore` is possible until then. */
  delete(id: string): Promise<Transition> {
    return this.#transitions.run(id, 'delete', ({ from }, now) => {
      const purgeAt = new Date(now.getTime() + this.#retentionMs)
      return {
        set: { statusBefore: from, deletedAt: now, purgeAt },
        event: { purgeAt: purgeAt.toISOString() },
      }
    })
  }

  /** Returns the tenant to its status before the deletion. */
  restore(id: string): Promise<Transition> {
    return this.#transitions.run(id, 'restore', () => ({
      set: { statusBefore: null, deletedAt: null, purgeAt: null },
      event: { from: 'deletion' },
    }))
  }

  /**
   * Gives an adopted tenant up without its storage: restores owners and rights there, and purges everything else. After
   * an interruption, the job UninstallTenant continues. `E_TENANT_STATE` if the tenant was not adopted.
   */
  async release(id: string): Promise<Released> {
    const released = await this.adoptions.beginRelease(id, () =>
      this.#transitions.run(id, 'delete', ({ from }, now) => ({
        set: { statusBefore: from, deletedAt: now, purgeAt: now },
        event: { purgeAt: now.toISOString() },
      })),
    )
    await this.installation.purge(id)
    return released
  }

  /** Requests of the tenant receive 503 until `exitMaintenance`; its status is unchanged. */
  async enterMaintenance(id: string, request: z.input<typeof MaintenanceRequest> = {}): Promise<TenantRecord> {
    const { message = null, retryAfterSeconds } = parsed(MaintenanceRequest, request)
    return this.#updates.run(id, {
      action: 'tenants.enterMaintenance',
      next: ({ maintenance }, now) => ({
        maintenance: { message, retryAfterSeconds, since: maintenance?.since ?? now.toISOString() },
      }),
      changed: async (_, before) => {
        if (before.heldBy) await keepMaintenance(this.#kernel.database, id)
        if (before.maintenance) return // its message has changed; the maintenance was active before
        await this.#kernel.events.publish(TenantEnteredMaintenance, { tenantId: id, message, retryAfterSeconds })
      },
    })
  }

  exitMaintenance(id: string): Promise<TenantRecord> {
    return this.#updates.run(id, {
      action: 'tenants.exitMaintenance',
      next: () => ({ maintenance: null }),
      changed: () => this.#kernel.events.publish(TenantExitedMaintenance, { tenantId: id }),
    })
  }

  /** Call it after the backoffice was restored from a dump, before any process serves or works. */
  reconcileAfterRestore(): Promise<BackofficeRestore> {
    return reconcileAfterRestore(this.#kernel, this, this.#retentionMs)
  }

  /** A usable tenant. Throws the error of a guarded route otherwise. */
  async handle(id: string): Promise<Tenant<DB, N>> {
    assertAgrees(id)
    return this.handles.of(usable(id, this.registry.peek(id) ?? (await this.registry.find(id))))
  }

  /**
   * Explains whether requests of a tenant are admitted now, check by check. `E_TENANT_NOT_FOUND`
   *
   * @example const { response, checks } = await tenancy.tenants.explain('acme', { host: 'acme.example.com' })
   */
  explain(id: string, entry: Entry = {}): Promise<Explanation> {
    return this.overview.explanations.explain(id, entry)
  }

  /** Throws `E_CIRCUIT_OPEN` while the tenant's storage is known to be unavailable. */
  assertCircuitClosed({ location }: Located): void {
    this.circuits.assertClosed(location)
  }

  /** Jobs by queue and state; of one tenant, or all. */
  async queues(id?: string): Promise<QueueCounts[]> {
    if (id !== undefined) await this.get(id)
    return this.#kernel.jobs.counts(id)
  }

  /** Resolves when the tenant is no longer provisioning, or with its current state if `signal` aborts. */
  waitUntilInstalled(id: string, signal: AbortSignal): Promise<TenantRecord> {
    const isDone = ({ status }: TenantRecord) => status !== 'provisioning'
    return this.registry.until(id, () => this.get(id), isDone, signal)
  }

  #edit(id: string, action: string, next: (row: TenantRow) => Partial<TenantRow>): Promise<TenantRecord> {
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
}
