/**
 * The centre: the registry of tenants and everything that happens to one. Shaped like a satellite, always there.
 */

import type { Insertable } from 'kysely'
import type { z } from 'zod'
import { recordChange } from '../kernel/changes.ts'
import { violatedConstraint } from '../kernel/database.ts'
import { invalid } from '../kernel/errors.ts'
import { uuidv7 } from '../kernel/ids.ts'
import type { QueueCounts } from '../kernel/jobs.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { PageOf } from '../kernel/page.ts'
import { assertUsable } from './access.ts'
import { DomainTaken, PlanNotFound, PlanResolvedByHost, TenantExists, TenantNotFound, TenantState } from './errors.ts'
import { TenantCreated, TenantEnteredMaintenance, TenantExitedMaintenance, TenantUpdated } from './events.ts'
import { Installation } from './installation.ts'
import type { TenantHandle } from './isolation.ts'
import { InstallTenant } from './jobs.ts'
import { Plans, type PlansConfig } from './plans.ts'
import { Registry, type TenantFilter } from './registry.ts'
import type { Storage } from './storage.ts'
import type { TenantRow, TenantTables } from './tables.ts'
import { MaintenanceRequest, Metadata, mergePatch, NewTenant, type Tenant, TenantChange, toTenant } from './tenant.ts'
import { type Transition, Transitions } from './transition.ts'

const DAY_MS = 86_400_000
const FIRST_EPOCH = 1

export interface TenantsConfig {
  readonly plans: PlansConfig
  /** Days between deletion and purge; default 30. */
  readonly retentionDays: number
  /** Whether expired tenants are purged daily; else only by `tenant:purge`. */
  readonly autoPurge: boolean
}

export class Tenants {
  readonly registry: Registry
  readonly plans: Plans
  readonly installation: Installation
  readonly #storage: Storage
  readonly #kernel: Kernel
  readonly #transitions: Transitions
  readonly #retentionMs: number

  constructor(kernel: Kernel, storage: Storage, config: TenantsConfig) {
    this.#kernel = kernel
    this.#storage = storage
    this.#retentionMs = config.retentionDays * DAY_MS
    this.registry = new Registry(kernel)
    this.plans = new Plans(config.plans, kernel)
    this.#transitions = new Transitions(kernel, this.registry)
    this.installation = new Installation(kernel, this.registry, storage, this.#transitions, config.autoPurge)
  }

  /** Registers a tenant and starts its installation. `E_TENANT_EXISTS`, `E_DOMAIN_TAKEN`, or a 400. */
  async create(request: z.input<typeof NewTenant>): Promise<Tenant> {
    const { id = uuidv7(), name, metadata, domains, ...wish } = parsed(NewTenant, request)
    this.#checkPlan(metadata)
    const { driver, placement } = this.#storage.choose(wish.isolation, wish.placement)
    const { database, jobs, events, clock } = this.#kernel
    const now = clock.now()
    return database.transaction(async () => {
      const row = await this.#insert({
        id,
        name,
        status: 'provisioning',
        metadata,
        domains,
        isolation: driver.name,
        placement,
        locator: driver.locator(id, FIRST_EPOCH),
        epoch: FIRST_EPOCH,
        createdAt: now,
        updatedAt: now,
      })
      await this.#claimDomains(id, domains)
      await jobs.send(InstallTenant, { tenantId: id }, { tenantId: id, key: id })
      const tenant = toTenant(row)
      await this.#record('tenants.create', id, null, editable(tenant))
      await events.publish(TenantCreated, { tenantId: id, name, isolation: driver.name, placement })
      return tenant
    })
  }

  get(id: string): Promise<Tenant> {
    return this.registry.get(id)
  }

  list(filter: TenantFilter): Promise<PageOf<Tenant>> {
    return this.registry.list(filter)
  }

  /** Changes name, metadata (merge patch) and domains; what is left out stays. */
  async update(id: string, request: z.input<typeof TenantChange>): Promise<Tenant> {
    const change = parsed(TenantChange, request)
    return this.#edit(id, 'tenants.update', (row) => {
      const metadata = change.metadata ? mergePatch(row.metadata, change.metadata) : row.metadata
      return {
        name: change.name ?? row.name,
        domains: change.domains ?? row.domains,
        metadata: parsed(Metadata, metadata, 'metadata'),
      }
    })
  }

  /** Writes `metadata.plan`. `E_PLAN_NOT_FOUND`, or `E_PLAN_RESOLVED_BY_HOST` when the host gave its own `getPlan`. */
  async setPlan(id: string, plan: string): Promise<Tenant> {
    if (this.plans.isDecidedByHost) {
      throw PlanResolvedByHost("The host's getPlan decides which plan a tenant has; change it there.")
    }
    if (!this.plans.isDefined(plan)) throw PlanNotFound(`There is no plan "${plan}"; GET /plans lists them.`)
    return this.#edit(id, 'tenants.setPlan', ({ name, domains, metadata }) => ({
      name,
      domains,
      metadata: { ...metadata, plan },
    }))
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
      return { set: { statusBefore: from, deletedAt: now, purgeAt }, event: { purgeAt: purgeAt.toISOString() } }
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
    return this.#setMaintenance(id, (current, now) => ({
      message,
      retryAfterSeconds,
      since: current?.since ?? now.toISOString(),
    }))
  }

  exitMaintenance(id: string): Promise<Tenant> {
    return this.#setMaintenance(id, () => null)
  }

  /** The tenant's storage. Throws what a guarded route answers when the tenant cannot be used now. */
  async handle(id: string): Promise<TenantHandle> {
    const located = await this.registry.find(id)
    if (!located) throw TenantNotFound(`There is no tenant "${id}".`)
    assertUsable(located.tenant)
    return this.#storage.driver(located.tenant.isolation).handle(located.place)
  }

  /** Jobs by queue and state; of one tenant, or all. */
  async queues(id?: string): Promise<QueueCounts[]> {
    if (id !== undefined) await this.get(id)
    return this.#kernel.jobs.counts(id)
  }

  /** Resolves when the tenant is no longer provisioning, or with what it is when `signal` aborts. */
  async settled(id: string, signal: AbortSignal): Promise<Tenant> {
    for (;;) {
      const done = new AbortController()
      const change = this.registry.nextChange(id, AbortSignal.any([signal, done.signal, AbortSignal.timeout(1_000)]))
      const tenant = await this.get(id)
      if (tenant.status !== 'provisioning' || signal.aborted) {
        done.abort()
        return tenant
      }
      await change
    }
  }

  #checkPlan(metadata: Record<string, unknown>): void {
    if (metadata.plan === undefined) return
    if (typeof metadata.plan === 'string' && this.plans.isDefined(metadata.plan)) return
    const known = Object.keys(this.plans.describe().definitions).join(', ')
    throw invalid([{ path: 'metadata.plan', message: `not a plan; one of ${known}` }])
  }

  async #insert(row: Insertable<TenantRow>): Promise<TenantRow> {
    const inserted = await this.#kernel.database
      .query<TenantTables>()
      .insertInto('tenants')
      .values(row)
      .onConflict((conflict) => conflict.column('id').doNothing())
      .returningAll()
      .executeTakeFirst()
    if (!inserted) throw TenantExists(`The id "${row.id}" is taken; ids are never given again, not even after a purge.`)
    return inserted
  }

  async #claimDomains(tenantId: string, domains: readonly string[]): Promise<void> {
    const table = this.#kernel.database.query<TenantTables>()
    await table.deleteFrom('tenantDomains').where('tenantId', '=', tenantId).execute()
    if (domains.length === 0) return
    try {
      await table
        .insertInto('tenantDomains')
        .values([...domains].sort().map((domain) => ({ domain, tenantId })))
        .execute()
    } catch (error) {
      if (violatedConstraint(error) !== 'tenant_domains_pkey') throw error
      throw DomainTaken('One of the domains belongs to another tenant.', { cause: error })
    }
  }

  /** Locks the row, applies `edit`, and records what really changed; nothing is written when nothing did. */
  #edit(id: string, action: string, edit: (row: TenantRow) => Editable): Promise<Tenant> {
    const { database, events, clock } = this.#kernel
    return database.transaction(async () => {
      const row = await this.#lock(id)
      const before = editable(row)
      const after = edit(row)
      const changed = (['name', 'metadata', 'domains'] as const).filter(
        (key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]),
      )
      if (changed.length === 0) return toTenant(row)
      if (after.metadata.plan !== before.metadata.plan) this.#checkPlan(after.metadata)
      if (changed.includes('domains')) await this.#claimDomains(id, after.domains)
      const updated = await database
        .query<TenantTables>()
        .updateTable('tenants')
        .set({ ...after, updatedAt: clock.now() })
        .where('id', '=', id)
        .returningAll()
        .executeTakeFirstOrThrow()
      await this.registry.changed(id)
      await this.#record(action, id, pick(before, changed), pick(after, changed))
      await events.publish(TenantUpdated, { tenantId: id, changed })
      return toTenant(updated)
    })
  }

  #setMaintenance(
    id: string,
    next: (current: TenantRow['maintenance'], now: Date) => TenantRow['maintenance'],
  ): Promise<Tenant> {
    const { database, events, clock } = this.#kernel
    return database.transaction(async () => {
      const row = await this.#lock(id)
      const maintenance = next(row.maintenance, clock.now())
      if (JSON.stringify(maintenance) === JSON.stringify(row.maintenance)) return toTenant(row)
      const updated = await database
        .query<TenantTables>()
        .updateTable('tenants')
        .set({ maintenance, updatedAt: clock.now() })
        .where('id', '=', id)
        .returningAll()
        .executeTakeFirstOrThrow()
      await this.registry.changed(id)
      const action = maintenance ? 'tenants.enterMaintenance' : 'tenants.exitMaintenance'
      await this.#record(action, id, { maintenance: row.maintenance }, { maintenance })
      if (!maintenance) await events.publish(TenantExitedMaintenance, { tenantId: id })
      else if (!row.maintenance) await events.publish(TenantEnteredMaintenance, { tenantId: id, ...maintenance })
      return toTenant(updated)
    })
  }

  /** The row, locked until the end of the transaction. Deleted tenants cannot be changed. */
  async #lock(id: string): Promise<TenantRow> {
    const row = await this.#kernel.database
      .query<TenantTables>()
      .selectFrom('tenants')
      .selectAll()
      .where('id', '=', id)
      .where('purgedAt', 'is', null)
      .forUpdate()
      .executeTakeFirst()
    if (!row) throw TenantNotFound(`There is no tenant "${id}".`)
    if (row.status === 'deleted') {
      throw TenantState(`The tenant "${id}" is deleted and cannot be changed; restore it first.`, {
        extras: { from: row.status },
      })
    }
    return row
  }

  #record(action: string, id: string, before: Record<string, unknown> | null, after: Record<string, unknown> | null) {
    return recordChange(this.#kernel.events, { action, tenantId: id, target: `tenant:${id}`, before, after })
  }
}

type Editable = Pick<Tenant, 'name' | 'metadata' | 'domains'>

const editable = ({ name, metadata, domains }: Editable): Editable => ({ name, metadata, domains })

const pick = (value: Editable, keys: readonly (keyof Editable)[]): Record<string, unknown> =>
  Object.fromEntries(keys.map((key) => [key, value[key]]))

/** Checks what a host passes in code as strictly as what comes over HTTP. */
function parsed<Schema extends z.ZodType>(schema: Schema, value: unknown, path = ''): z.output<Schema> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw invalid(
    result.error.issues.map((issue) => ({
      path: [path, ...issue.path].filter(String).join('.'),
      message: issue.message,
    })),
  )
}
