/**
 * Jobs of provisioning and purge. Each job can be killed at any step and run again.
 *
 * - `install` creates the storage atomically, then activates the tenant with a conditional UPDATE. A tenant that was
 *   deleted in between stays deleted, and its purge removes the storage.
 * - While a server is read-only or full, each attempt sends a new job: no tenant fails because of the outage.
 * - `purge` claims the tenant first, which excludes a restore. Then it removes the storage, then all rows in one
 *   transaction.
 */
import { sql } from 'kysely'
import { writeFailure } from '../../kernel/database/write-failures.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import type { Attempt } from '../../kernel/jobs/jobs.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { StorageLocation } from '../isolation/location.ts'
import type { TableChanges } from '../isolation/schema-generation.ts'
import type { SchemaVersions } from '../migrations/schema-versions.ts'
import { versionOnArrival } from '../migrations/target-version.ts'
import { type Registry, toLocation } from '../registry/registry.ts'
import { TenantNotFound, TenantState } from '../tenant/errors.ts'
import { TenantMigrated, TenantPurged } from '../tenant/events.ts'
import { CONTINUED_AFTER_SECONDS, type Failure, failureOf, mayPass } from '../tenant/failure.ts'
import { InstallTenant, UninstallTenant } from '../tenant/job-types.ts'
import { forgetAdoptedName, releasedLocator } from '../tenant/released.ts'
import type { TenantRow, TenantTables } from '../tenant/tables.ts'
import type { Fences } from './fences.ts'
import type { LostPlacements } from './lost-placements.ts'
import type { Transitions } from './transitions.ts'

/** Time that a provisioning tenant can be without a job before it is lost; longer than any send takes. */
const LOST_AFTER_MS = 60_000
const READ_AT_ONCE = 1_000
/** An erasure carries out the purge in its own order. */
const NOT_ERASED = sql.raw<boolean>(
  'not exists (select from multitenancy.erasures where erasures.tenant_id = tenants.id)',
)
const NOT_MADE: Failure = {
  code: 'E_INSTALLATION_FAILED',
  message: 'The storage could not be created. See the log for the cause.',
}

/** The functions of adoptions that a purge needs. */
export interface AdoptedStorage {
  isReleasing(location: StorageLocation): Promise<boolean>
  releaseStorage(location: StorageLocation): Promise<void>
}

/** The functions of transfers that a purge needs. */
export interface TransfersOfTenant {
  drop(tenantId: string): Promise<void>
}

export interface InstallationDependencies {
  readonly kernel: Kernel
  readonly registry: Registry
  readonly storage: Storage
  readonly versions: SchemaVersions
  readonly changes: TableChanges
  readonly transitions: Transitions
  readonly fences: Fences
  readonly lost: Pick<LostPlacements, 'drop'>
  readonly transfers: TransfersOfTenant
  readonly adoptions: AdoptedStorage
  readonly autoPurge: boolean
}

export class Installation {
  readonly #kernel: Kernel
  readonly #registry: Registry
  readonly #storage: Storage
  readonly #versions: SchemaVersions
  readonly #changes: TableChanges
  readonly #transitions: Transitions
  readonly #fences: Fences
  readonly #lost: Pick<LostPlacements, 'drop'>
  readonly #transfers: TransfersOfTenant
  readonly #adoptions: AdoptedStorage
  readonly #autoPurge: boolean

  constructor({ transfers, adoptions, autoPurge, ...dependencies }: InstallationDependencies) {
    const { kernel, registry, storage, versions, changes, transitions, fences, lost } = dependencies
    this.#kernel = kernel
    this.#registry = registry
    this.#storage = storage
    this.#versions = versions
    this.#changes = changes
    this.#transitions = transitions
    this.#fences = fences
    this.#lost = lost
    this.#transfers = transfers
    this.#adoptions = adoptions
    this.#autoPurge = autoPurge
  }

  /** The job InstallTenant: the tenant becomes active, or failed after a permanent error or the last attempt. */
  async install(id: string, attempt: Pick<Attempt, 'isLast'>): Promise<void> {
    const row = await this.#row(id)
    if (!row) return
    if (row.status !== 'provisioning') return this.#leaveToPurge(row) // a killed attempt may have created storage
    try {
      const assertNotAbandoned = () => this.#assertNotPurged(id)
      await this.#activate(
        row,
        await this.#storage.driver(row.isolation).provision(toLocation(row), { assertNotAbandoned }),
      )
    } catch (error) {
      if (TenantState.matches(error) || TenantNotFound.matches(error)) return this.#leaveToPurge(row)
      if (writeFailure(error) !== undefined) return this.#continueLater(id, error)
      if (!attempt.isLast && mayPass(error)) throw error
      this.#kernel.log.error({ err: error, tenantId: id }, 'tenant installation failed')
      await this.#failPermanently(id, failureOf(error, NOT_MADE))
    }
  }

  /** Fails provisioning tenants without a job (killed during the last attempt). */
  async recover(): Promise<void> {
    const { database, jobs, clock } = this.#kernel
    const lost = await database
      .query<TenantTables>()
      .selectFrom('tenants')
      .select('id')
      .where('status', '=', 'provisioning')
      .where('clonedFrom', 'is', null) // RecoverTransfers handles clones
      .where('updatedAt', '<', new Date(clock.now().getTime() - LOST_AFTER_MS))
      .execute()
    for (const { id } of lost) {
      if (await jobs.isPending(InstallTenant, id)) continue
      await this.#failPermanently(id, {
        code: 'E_INSTALLATION_LOST',
        message: 'All attempts of the installation were interrupted. Activate the tenant to install it again.',
      })
    }
  }

  /** Ids of deleted tenants past their purgeAt, oldest first. */
  async *expired(): AsyncIterable<string> {
    const { database, clock } = this.#kernel
    const now = clock.now()
    let last: { purgeAt: Date | null; id: string } | undefined
    do {
      let query = database
        .query<TenantTables>()
        .selectFrom('tenants')
        .select(['id', 'purgeAt'])
        .where('status', '=', 'deleted')
        .where('purgedAt', 'is', null)
        .where('purgeAt', '<=', now)
        .where(NOT_ERASED)
        .orderBy('purgeAt')
        .orderBy('id')
        .limit(READ_AT_ONCE)
      const { purgeAt, id } = last ?? {}
      if (purgeAt && id) {
        query = query.where(({ eb, refTuple, tuple }) => eb(refTuple('purgeAt', 'id'), '>', tuple(purgeAt, id)))
      }
      const rows = await query.execute()
      for (const row of rows) yield row.id
      last = rows.at(-1)
    } while (last)
  }

  /** The daily job: one UninstallTenant per expired tenant. */
  async purgeExpired(): Promise<void> {
    if (!this.#autoPurge) return
    // The job has no tenant: otherwise the purge would delete its own job.
    for await (const id of this.expired()) await this.#kernel.jobs.send(UninstallTenant, { tenantId: id }, { key: id })
  }

  /**
   * Removes everything of a deleted tenant past its purgeAt, except its id. Returns false if the tenant is not deleted,
   * not past its purgeAt, or already purged.
   */
  async purge(id: string): Promise<boolean> {
    const claimed = await this.#claimForPurge(id)
    if (!claimed) return false
    const location = toLocation(claimed)
    const isReleased = await this.#adoptions.isReleasing(location)
    await this.#lost.drop(location, isReleased ? { release: (there) => this.#adoptions.releaseStorage(there) } : {})
    await forgetAdoptedName(this.#kernel.database, location)
    await this.#transfers.drop(id)
    await this.#kernel.store.purge(id)
    await this.purgeRows(id, isReleased ? 'release' : 'purge')
    return true
  }

  /** Removes all rows of a tenant except its id, after its storage. A purge leaves them to an erasure that was requested meanwhile. */
  async purgeRows(id: string, by: 'purge' | 'release' | 'erasure'): Promise<void> {
    const { database, jobs, events, clock } = this.#kernel
    await database.transaction(async () => {
      // Before the row of the tenant: the migration worker locks the two in this order.
      await database.sql('select from multitenancy.migration_items where tenant_id = $1 for update', [id])
      await database.sql('select from multitenancy.tenants where id = $1 for no key update', [id])
      if (by !== 'erasure' && (await this.#isErased(id))) return
      const emptied = await database
        .query<TenantTables>()
        .updateTable('tenants')
        .set({ name: '', metadata: {}, domains: [], maintenance: null, failure: null, purgedAt: clock.now() })
        .$if(by === 'release', (query) => query.set({ locator: releasedLocator(id) }))
        .where('id', '=', id)
        .where('purgedAt', 'is', null)
        .returning('id')
        .executeTakeFirst()
      if (!emptied) return
      await jobs.forget(id)
      await this.#registry.changed(id)
      const action = by === 'release' ? 'tenants.release' : 'tenants.purge'
      await recordChange(events, { action, tenantId: id, target: `tenant:${id}` })
      await events.publish(TenantPurged, { tenantId: id })
    })
  }

  async #isErased(id: string): Promise<boolean> {
    const { rows } = await this.#kernel.database.sql('select from multitenancy.erasures where tenant_id = $1', [id])
    return rows.length > 0
  }

  /** Throws if the backoffice cannot store the new job either: the present job is then retried. */
  async #continueLater(id: string, error: unknown): Promise<void> {
    const { jobs, log } = this.#kernel
    log.warn({ err: error, tenantId: id }, 'the server could not store data; the installation of the tenant waits')
    await jobs.send(InstallTenant, { tenantId: id }, { tenantId: id, key: id, afterSeconds: CONTINUED_AFTER_SECONDS })
  }

  async #activate(row: TenantRow, migrations: readonly string[]): Promise<void> {
    const { database, events } = this.#kernel
    const [versions, changes] = [this.#versions, this.#changes]
    await database.transaction(async () => {
      const driver = this.#storage.driver(row.isolation)
      const schemaVersion = await versionOnArrival({ database, versions, changes }, driver, toLocation(row), migrations)
      await this.#transitions.run(row.id, 'install', (_, now) => ({
        set: { activatedAt: now, failure: null, schemaVersion },
        also: async () => {
          if (migrations.length === 0) return
          await events.publish(TenantMigrated, { tenantId: row.id, migrations: [...migrations], direction: 'up' })
        },
      }))
    })
  }

  #row(id: string): Promise<TenantRow | undefined> {
    const { database } = this.#kernel
    return database.query<TenantTables>().selectFrom('tenants').selectAll().where('id', '=', id).executeTakeFirst()
  }

  /**
   * Another run has installed the tenant, or it was deleted. A later purge removes the storage. A purge that has
   * started may have checked before the storage was created. Adopted storage is not of an installation.
   */
  async #leaveToPurge(row: TenantRow): Promise<void> {
    if (!(await this.#isBeingPurged(row.id))) return this.#fences.close(row.id)
    const created = this.#storage.driver(row.isolation).locator(row.id, row.epoch)
    if (row.locator === created) await this.#lost.drop(toLocation(row))
  }

  /** Throws if the purge would not find storage created from now on. */
  async #assertNotPurged(id: string): Promise<void> {
    if (await this.#isBeingPurged(id)) throw TenantNotFound(`Tenant "${id}" is being purged.`)
  }

  async #isBeingPurged(id: string): Promise<boolean> {
    const started = await this.#kernel.database
      .query<TenantTables>()
      .selectFrom('tenants')
      .select('id')
      .where('id', '=', id)
      .where('purgeStartedAt', 'is not', null)
      .executeTakeFirst()
    return started !== undefined
  }

  async #failPermanently(id: string, failure: Failure): Promise<void> {
    try {
      await this.#transitions.run(id, 'fail', () => ({
        set: { failure },
        event: { code: failure.code },
        outcome: 'failure',
        also: () => this.#changes.notify(), // tables that others share may have been changed before it failed
      }))
    } catch (error) {
      if (!TenantState.matches(error) && !TenantNotFound.matches(error)) throw error // otherwise, the tenant has changed its status
    }
  }

  #claimForPurge(id: string): Promise<TenantRow | undefined> {
    const { database, clock } = this.#kernel
    const now = clock.now()
    return database
      .query<TenantTables>()
      .updateTable('tenants')
      .set(({ fn, ref, val }) => ({ purgeStartedAt: fn.coalesce(ref('purgeStartedAt'), val(now)) }))
      .where('id', '=', id)
      .where('status', '=', 'deleted')
      .where('purgedAt', 'is', null)
      .where(NOT_ERASED)
      .where(({ eb, or }) => or([eb('purgeStartedAt', 'is not', null), eb('purgeAt', '<=', now)]))
      .returningAll()
      .executeTakeFirst()
  }
}
