/**
 * Adopts existing storage as that of a tenant, and releases it again.
 *
 *   reserve id and locator ──commit──► one transaction at the server ──► settle ──► tenant active
 *                                                                         └── not committed there ──► reservation removed
 *
 * - The server's record decides. `settle` reads it under the lock of the storage, which the transaction of the adoption
 *   holds, too. So a killed process, a lost response of COMMIT and a stalled process have one outcome.
 * - The job RecoverAdoptions settles adoptions whose process was killed.
 * - A release is a deletion and a purge whose drop of the storage is replaced by the restoration of owners and rights.
 */
import type { z } from 'zod'
import { invalid } from '../../kernel/base/errors.ts'
import { parsed } from '../../kernel/base/validate.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { AdoptionRequest as DriverRequest } from '../isolation/adoption.ts'
import { type IsolationDriver, NotSupported, type StorageLocation } from '../isolation/driver.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { SchemaVersions } from '../migrations/schema-versions.ts'
import type { Plans } from '../registry/plans.ts'
import type { Registry } from '../registry/registry.ts'
import { TenantCreated, TenantProvisioned } from '../tenant/events.ts'
import { UninstallTenant } from '../tenant/job-types.ts'
import { type TenantRecord, toTenant } from '../tenant/tenant.ts'
import { migrationsUpTo } from './baseline.ts'
import { type AdoptionPlan, AdoptionPlanRequest, AdoptionRequest, type Released } from './requests.ts'
import { Reservations } from './reservations.ts'
import { type AdoptionDependencies, RowAdoptions } from './row-adoptions.ts'
import type { AdoptionRow } from './tables.ts'

/** The caller of a release purges the tenant first. */
const CONTINUED_AFTER_SECONDS = 60

type PlanRequest = z.output<typeof AdoptionPlanRequest>

interface Target {
  readonly adoption: NonNullable<IsolationDriver['adoption']>
  readonly request: DriverRequest
}

export class Adoptions {
  /** Adoption of tables with the rows of many tenants. */
  readonly tables: RowAdoptions
  readonly #kernel: Kernel
  readonly #registry: Registry
  readonly #storage: Storage
  readonly #plans: Plans
  readonly #versions: SchemaVersions
  readonly #reservations: Reservations

  constructor(dependencies: AdoptionDependencies) {
    const { kernel, registry, storage, plans, versions } = dependencies
    this.tables = new RowAdoptions(dependencies)
    this.#kernel = kernel
    this.#registry = registry
    this.#storage = storage
    this.#plans = plans
    this.#versions = versions
    this.#reservations = new Reservations(kernel)
  }

  /** Lists what an adoption would do. Changes nothing. */
  async plan(request: z.input<typeof AdoptionPlanRequest>): Promise<AdoptionPlan> {
    const given = parsed(AdoptionPlanRequest, request)
    const { adoption, request: wanted } = this.#target(given)
    const { location } = wanted
    const owner = await this.#reservations.ownerOf(location)
    const taken = (await this.#reservations.isIdTaken(given.id)) ? [`the tenant id "${given.id}" is taken`] : []
    const owned = owner === undefined ? [] : [`it is the storage of the tenant "${owner}"`]
    const { digest, warnings, differences, statements, ...found } = await adoption.plan(wanted)
    const reasons = [...taken, ...owned, ...found.reasons]
    return {
      id: given.id,
      isolation: location.isolation,
      placement: location.placement,
      storage: location.locator,
      digest,
      isAdoptable: reasons.length === 0,
      reasons,
      warnings: [...warnings],
      differences: [...differences],
      statements: [...statements],
    }
  }

  /**
   * Executes a plan. `E_NOT_ADOPTABLE` with all reasons, also if the catalog has changed since the plan; `E_TENANT_EXISTS`
   * if the id is taken.
   */
  async adopt(request: z.input<typeof AdoptionRequest>): Promise<TenantRecord> {
    const given = parsed(AdoptionRequest, request)
    this.#plans.check(given.metadata)
    const { adoption, request: wanted } = this.#target(given)
    // Residency: `assertResidency(tenant, placement)` guards an adoption here, once placements have regions.
    const row = await this.#reservations.reserve(wanted, { ...given, name: given.name ?? given.id })
    const { adoptionId, digest } = row
    try {
      const assertNotAbandoned = () => this.#reservations.assertHeld(row)
      await adoption.adopt(wanted, { adoptionId, digest, assertNotAbandoned })
    } catch (error) {
      await this.#settle(row).catch((failure) =>
        this.#kernel.log.warn(
          { err: failure, tenantId: row.tenantId },
          'could not settle a failed adoption; the job RecoverAdoptions retries',
        ),
      )
      // The response of a COMMIT may be lost although the server has committed.
      const tenant = await this.#adopted(row)
      if (tenant) return tenant
      throw error
    }
    return this.#activate(row)
  }

  /** The job RecoverAdoptions. */
  async recover(): Promise<void> {
    for (const row of await this.#reservations.expired()) {
      try {
        await this.#settle(row)
      } catch (error) {
        this.#kernel.log.warn(
          { err: error, tenantId: row.tenantId },
          'an adoption could not be settled; the next run retries',
        )
      }
    }
    await this.tables.recover()
  }

  /**
   * Marks the adopted storage as to be released, in one transaction with `delete`, which deletes the tenant. The purge
   * then releases the storage instead of dropping it. `E_TENANT_STATE` if the tenant was not adopted, or has moved.
   */
  async beginRelease(id: string, deleteTenant: () => Promise<unknown>): Promise<Released> {
    const { database, jobs, clock } = this.#kernel
    return database.transaction(async () => {
      const { isolation, placement, locator } = await this.#reservations.beginRelease(id)
      await deleteTenant()
      const now = clock.now()
      await database.sql(
        `update multitenancy.tenants set purge_at = $2, purge_started_at = coalesce(purge_started_at, $2) where id = $1`,
        [id, now],
      )
      await jobs.send(UninstallTenant, { tenantId: id }, { key: id, afterSeconds: CONTINUED_AFTER_SECONDS })
      return { id, isolation, placement, storage: locator }
    })
  }

  /** Whether the storage is to be released instead of dropped. */
  async isReleasing(location: StorageLocation): Promise<boolean> {
    const { tenantId, locator } = location
    return (await this.#reservations.isReleasing(tenantId, locator)) || (await this.tables.isReleasing(location))
  }

  /** Restores owners and rights of the storage. Safe to repeat. */
  async releaseStorage(location: StorageLocation): Promise<void> {
    if (this.#storage.driver(location.isolation).rowAdoption) return this.tables.releaseStorage(location)
    await this.#adoptionOf(this.#storage.driver(location.isolation)).release(location)
  }

  #adoptionOf({ name, adoption }: IsolationDriver): NonNullable<IsolationDriver['adoption']> {
    if (adoption) return adoption
    throw NotSupported(`The isolation driver "${name}" cannot adopt existing storage.`)
  }

  #target({ id, isolation, placement, schema, database, baseline, acceptDifferences }: PlanRequest): Target {
    const chosen = this.#storage.choose(isolation, placement)
    const adoption = this.#adoptionOf(chosen.driver)
    const isDatabase = chosen.driver.capabilities.reach === 'own database'
    const locator = isDatabase ? database : schema
    if (locator === undefined) {
      throw invalid([{ path: isDatabase ? 'database' : 'schema', message: `is required for ${isolation}` }])
    }
    if (!isDatabase && database !== undefined) {
      throw invalid([{ path: 'database', message: `is not possible for ${isolation}` }])
    }
    const location = { tenantId: id, isolation, placement: chosen.placement, locator, epoch: 1 }
    const migrations = migrationsUpTo(this.#versions, baseline)
    return {
      adoption,
      request: { location, ...(isDatabase ? { schema } : {}), baseline: migrations, acceptDifferences },
    }
  }

  async #settle(row: AdoptionRow): Promise<void> {
    const adoption = this.#adoptionOf(this.#storage.driver(row.isolation))
    await adoption.settle(toLocation(row), row.adoptionId, async (isAdopted) => {
      if (isAdopted) await this.#activate(row)
      else await this.#reservations.remove(row)
    })
  }

  async #adopted({ tenantId, adoptionId }: AdoptionRow): Promise<TenantRecord | undefined> {
    const row = await this.#reservations.find(tenantId)
    return row?.adoptionId === adoptionId && row.state === 'adopted' ? this.#registry.get(tenantId) : undefined
  }

  /** Idempotent: one of several processes publishes the events. */
  async #activate(row: AdoptionRow): Promise<TenantRecord> {
    const { database, events } = this.#kernel
    const { tenantId, adoptionId, name, metadata, isolation, placement, locator, migrations } = row
    return database.transaction(async () => {
      const schemaVersion = await this.#versions.ofStorage(this.#storage.driver(isolation).capabilities, migrations)
      const tenant = await this.#reservations.finish(row, schemaVersion)
      if (!tenant) return this.#registry.get(tenantId)
      await this.#registry.changed(tenantId)
      await recordChange(events, {
        action: 'tenants.adopt',
        tenantId,
        target: `tenant:${tenantId}`,
        after: { name, metadata, isolation, placement, storage: locator, migrations, digest: row.digest, adoptionId },
      })
      await events.publish(TenantCreated, { tenantId, name, isolation, placement })
      await events.publish(TenantProvisioned, { tenantId })
      return toTenant(tenant)
    })
  }
}

const toLocation = ({ tenantId, isolation, placement, locator }: AdoptionRow): StorageLocation => ({
  tenantId,
  isolation,
  placement,
  locator,
  epoch: 1,
})
