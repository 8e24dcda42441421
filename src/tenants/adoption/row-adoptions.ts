/**
 * Adopts the tables of an application with the rows of many tenants, and releases them again. The order of the steps,
 * and their outcome after a kill, are those of the adoption of one tenant (adoptions.ts).
 */
import type { z } from 'zod'
import { parsed } from '../../kernel/base/validate.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { type DriverRowAdoption, NotAdoptable, notAdoptable } from '../isolation/adoption.ts'
import { NotSupported } from '../isolation/driver.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { SchemaVersions } from '../migrations/schema-versions.ts'
import type { Plans } from '../registry/plans.ts'
import type { Registry } from '../registry/registry.ts'
import { TenantCreated, TenantDeleted, TenantProvisioned } from '../tenant/events.ts'
import { UninstallTenant } from '../tenant/job-types.ts'
import { migrationsUpTo } from './baseline.ts'
import {
  type AdoptedTables,
  type ReleasedTables,
  RowAdoptionPlan,
  RowAdoptionPlanRequest,
  RowAdoptionRequest,
  RowReleaseRequest,
} from './row-requests.ts'
import { RowReservations } from './row-reservations.ts'
import type { RowAdoptionRow } from './tables.ts'

export interface AdoptionDependencies {
  readonly kernel: Kernel
  readonly registry: Registry
  readonly storage: Storage
  readonly plans: Plans
  readonly versions: SchemaVersions
}

/** Tenants that a plan names. */
const SHOWN = 20

type Given = z.output<typeof RowAdoptionPlanRequest>
type Place = Pick<RowAdoptionRow, 'isolation' | 'placement'>

export class RowAdoptions {
  readonly #kernel: Kernel
  readonly #registry: AdoptionDependencies['registry']
  readonly #storage: Storage
  readonly #plans: AdoptionDependencies['plans']
  readonly #versions: AdoptionDependencies['versions']
  readonly #reservations: RowReservations

  constructor({ kernel, registry, storage, plans, versions }: AdoptionDependencies) {
    this.#kernel = kernel
    this.#registry = registry
    this.#storage = storage
    this.#plans = plans
    this.#versions = versions
    this.#reservations = new RowReservations(kernel)
  }

  /** Lists what an adoption would do. Changes nothing. */
  async plan(request: z.input<typeof RowAdoptionPlanRequest>): Promise<RowAdoptionPlan> {
    const given = parsed(RowAdoptionPlanRequest, request)
    const { adoption, place, wanted } = this.#target(given)
    const { tenants, schema, ...plan } = await adoption.plan(wanted)
    const taken = await this.#reservations.reasonsAgainst(place.isolation, place.placement, tenants)
    const reasons = [...taken, ...plan.reasons]
    return RowAdoptionPlan.parse({
      ...place,
      storage: schema,
      ...plan,
      isAdoptable: reasons.length === 0,
      reasons,
      tenants: tenants.length,
      firstTenants: tenants.slice(0, SHOWN),
    })
  }

  /** Executes a plan. `E_NOT_ADOPTABLE` with all reasons, also if the catalog or the tenants differ from the plan. */
  async adopt(request: z.input<typeof RowAdoptionRequest>): Promise<AdoptedTables> {
    const { digest, ...given } = parsed(RowAdoptionRequest, request)
    this.#plans.check(given.metadata)
    const { adoption, place, wanted } = this.#target(given)
    const plan = await adoption.plan(wanted)
    if (plan.reasons.length > 0) throw notAdoptable(plan.reasons)
    if (plan.digest !== digest) throw NotAdoptable('The tables, their tenants or the request differ from the plan.')
    // Residency: `assertResidency(tenant, placement)` guards an adoption here, once placements have regions.
    const row = await this.#reservations.reserve(
      { ...place, storage: plan.schema, metadata: given.metadata, migrations: [...wanted.baseline], digest },
      plan.tenants,
    )
    try {
      const assertNotAbandoned = () => this.#reservations.assertHeld(row)
      await adoption.adopt(wanted, { adoptionId: row.adoptionId, digest, assertNotAbandoned })
    } catch (error) {
      await this.#settle(row).catch((failure) =>
        this.#kernel.log.warn({ err: failure }, 'could not settle a failed adoption; the job RecoverAdoptions retries'),
      )
      const present = await this.#reservations.find(place.isolation, place.placement)
      // The response of a COMMIT may be lost although the server has committed.
      if (present?.adoptionId !== row.adoptionId || present.state !== 'adopted') throw error
    }
    await this.#activate(row)
    return { ...place, storage: plan.schema, tenants: plan.tenants.length }
  }

  /** Part of the job RecoverAdoptions. */
  async recover(): Promise<void> {
    for (const row of await this.#reservations.unfinished()) {
      try {
        if (row.state === 'adopting') await this.#settle(row)
        else {
          await this.#restore(row)
          await this.#reservations.endRelease(row)
        }
      } catch (error) {
        const { adoptionId } = row
        this.#kernel.log.warn({ err: error, adoptionId }, 'an adoption could not be settled; the next run retries')
      }
    }
  }

  /**
   * Gives the tables back as they were before the adoption, and deletes their tenants. The job UninstallTenant purges
   * the rest of each tenant. Safe to repeat. `E_TENANT_STATE`.
   */
  async release(request: z.input<typeof RowReleaseRequest>): Promise<ReleasedTables> {
    const given = parsed(RowReleaseRequest, request)
    const { driver, placement } = this.#storage.choose(given.isolation, given.placement)
    this.#adoptionOf(driver.name)
    const { database, events, jobs, clock } = this.#kernel
    const { row, tenants } = await database.transaction(async () => {
      const begun = await this.#reservations.beginRelease(driver.name, placement)
      const purgeAt = clock.now().toISOString()
      await this.#registry.changedAll(begun.deleted)
      await jobs.sendAll(
        UninstallTenant,
        begun.tenants.map((tenantId) => ({ data: { tenantId }, key: tenantId })),
      )
      await recordChange(events, {
        action: 'tenants.releaseTables',
        tenantId: null,
        target: `tables:${placement}/${begun.row.storage}`,
        after: { isolation: driver.name, placement, storage: begun.row.storage, tenants: begun.tenants.length },
      })
      for (const tenantId of begun.deleted) await events.publish(TenantDeleted, { tenantId, purgeAt })
      return begun
    })
    await this.#restore(row)
    return { isolation: row.isolation, placement, storage: row.storage, tenants: tenants.length }
  }

  isReleasing({ isolation, placement }: Place): Promise<boolean> {
    return this.#reservations.isReleasing(isolation, placement)
  }

  /** Restores the tables if they are being released. Safe to repeat. */
  async releaseStorage({ isolation, placement }: Place): Promise<void> {
    const row = await this.#reservations.find(isolation, placement)
    if (row?.state === 'releasing') await this.#restore(row)
  }

  /** Changes nothing if the tables were released and adopted again meanwhile. */
  async #restore({ isolation, placement, adoptionId }: RowAdoptionRow): Promise<void> {
    await this.#adoptionOf(isolation).release(placement, adoptionId)
  }

  #adoptionOf(isolation: string): DriverRowAdoption {
    const { rowAdoption } = this.#storage.driver(isolation)
    if (rowAdoption) return rowAdoption
    throw NotSupported(`The isolation driver "${isolation}" has no tables that tenants share.`)
  }

  #target({ isolation, placement, baseline, acceptDifferences, from, idColumn, nameColumn }: Given) {
    const chosen = this.#storage.choose(isolation, placement)
    const place: Place = { isolation: chosen.driver.name, placement: chosen.placement }
    return {
      place,
      adoption: this.#adoptionOf(place.isolation),
      wanted: {
        placement: place.placement,
        baseline: migrationsUpTo(this.#versions, baseline),
        acceptDifferences,
        from: from === undefined ? undefined : { table: from, id: idColumn, name: nameColumn },
      } satisfies Parameters<DriverRowAdoption['plan']>[0],
    }
  }

  async #settle(row: RowAdoptionRow): Promise<void> {
    await this.#adoptionOf(row.isolation).settle(row.placement, row.adoptionId, async (isAdopted) => {
      if (isAdopted) await this.#activate(row)
      else await this.#reservations.remove(row)
    })
  }

  /** Idempotent: one of several processes publishes the events. */
  async #activate(row: RowAdoptionRow): Promise<void> {
    const { database, events } = this.#kernel
    const { isolation, placement, storage, migrations, digest, adoptionId, metadata } = row
    await database.transaction(async () => {
      const { capabilities } = this.#storage.driver(isolation)
      const version = await this.#versions.ofStorage(capabilities, migrations)
      const tenants = await this.#reservations.finish(row, version)
      if (!tenants) return
      await this.#registry.changedAll(tenants.map(({ id }) => id))
      await recordChange(events, {
        action: 'tenants.adoptTables',
        tenantId: null,
        target: `tables:${placement}/${storage}`,
        after: { isolation, placement, storage, metadata, migrations, digest, adoptionId, tenants: tenants.length },
      })
      for (const { id, name } of tenants) {
        await events.publish(TenantCreated, { tenantId: id, name, isolation, placement })
        await events.publish(TenantProvisioned, { tenantId: id })
      }
    })
  }
}
