/** Reports the migrations of tenants and plans a run, by the versions in the backoffice or by queries of the storages. */

import { forEachConcurrent } from '../../kernel/base/concurrency.ts'
import { DependencyUnavailable, TenancyError } from '../../kernel/base/errors.ts'
import { type Database, isDatabaseUnavailable } from '../../kernel/database/database.ts'
import { outcomesOf } from '../circuits/classify.ts'
import type { Storage } from '../isolation/drivers.ts'
import { toLocation } from '../registry/registry.ts'
import { tenantNotFound } from '../tenant/errors.ts'
import { type AppliedMigration, type Comparison, compared, lastOf, withChecksums } from '../tenant/schema-version.ts'
import { MigrationFailed, migrationFailure } from './errors.ts'
import type { CountedRun } from './model/run.ts'
import { assertMigratable, type Candidate, candidates, type Selection } from './plan.ts'
import { countedRuns, withCounts } from './run-rows.ts'
import type { SchemaVersions } from './schema-versions.ts'

const CONCURRENCY = 4

export interface PlannedMigration {
  readonly tenantId: string
  /** In the order of the run or rollback. */
  readonly migrations: readonly string[]
  /** The known reason for which a run would fail. */
  readonly error: { readonly code: string; readonly message: string } | null
}

export interface VersionSummary extends Comparison {
  /** The last migration of those tenants; null if they have none, or if it is unknown. */
  readonly last: string | null
  readonly isKnown: boolean
  readonly tenants: number
  /** Tenants of them whose storage failed in its last run or rollback. */
  readonly failed: number
}

export interface MigrationSummary {
  /** Versions of active and suspended tenants, the most frequent first. */
  readonly versions: readonly VersionSummary[]
  readonly lastRun: CountedRun | null
}

export interface TenantMigrationState {
  readonly migration: string
  /** `unknown`: run, but not in the folder. `edited`: changed in the folder after its run. */
  readonly state: 'applied' | 'pending' | 'unknown' | 'edited'
}

export interface PlanOptions {
  readonly ids?: readonly string[] | undefined
  /** Queries every storage. */
  readonly verify?: boolean | undefined
  /** Plans a rollback of this number of migrations. */
  readonly steps?: number | undefined
}

interface PlanContext {
  readonly verify: boolean
  /** Placements with unavailable servers, and the errors. */
  readonly unavailable: Map<string, unknown>
}

export class MigrationStatus {
  readonly #database: Database
  readonly #storage: Storage
  readonly #versions: SchemaVersions

  constructor(database: Database, storage: Storage, versions: SchemaVersions) {
    this.#database = database
    this.#storage = storage
    this.#versions = versions
  }

  /**
   * Returns the migrations of a run for each tenant, without tenants that have none. Changes no data. An unavailable server is an
   * error of all its tenants and is queried once.
   */
  async plan({ ids, verify = false, steps }: PlanOptions = {}): Promise<PlannedMigration[]> {
    if (ids) await assertMigratable(this.#database, ids)
    const { folder } = this.#versions
    const selection: Selection = { direction: steps === undefined ? 'up' : 'down', ids, verify }
    const chosen = await candidates(this.#database, selection, folder)
    const planned: PlannedMigration[] = []
    const unavailable = new Map<string, unknown>()
    await forEachConcurrent(chosen, CONCURRENCY, async (tenant, index) => {
      planned[index] = await this.#planOf(tenant, { verify, steps, unavailable })
    })
    return planned.filter(({ migrations, error }) => migrations.length > 0 || error)
  }

  /** Number of tenants by version, and the newest run. */
  async summary(): Promise<MigrationSummary> {
    const { rows } = await this.#database.sql(FAILED_BY_VERSION)
    const failed = new Map<string, number>(rows.map(({ schema_version, failed }) => [schema_version, failed]))
    return { versions: await this.#versionsInUse(failed), lastRun: await this.#lastRun() }
  }

  /** Number of active and suspended tenants that lack a migration. Tenants of unknown versions do not count. */
  async pendingTenants(): Promise<number> {
    const versions = await this.#versionsInUse()
    return versions.reduce((sum, { pending, tenants }) => (pending.length > 0 ? sum + tenants : sum), 0)
  }

  async #versionsInUse(failed: ReadonlyMap<string, number> = new Map()): Promise<VersionSummary[]> {
    const { rows } = await this.#database.sql(
      `select tenant.schema_version, count(*) as tenants from multitenancy.tenants tenant
       where tenant.status in ('active', 'suspended') group by tenant.schema_version order by count(*) desc, 1`,
    )
    const versions: VersionSummary[] = []
    for (const { schema_version, tenants } of rows) {
      const applied = await this.#versions.of(schema_version)
      versions.push({
        last: applied?.at(-1)?.name ?? null,
        isKnown: applied !== undefined,
        tenants,
        failed: failed.get(schema_version) ?? 0,
        ...(applied ? compared(applied, this.#versions.folder) : { pending: [], unknown: [], edited: [] }),
      })
    }
    return versions
  }

  /** Returns each migration of one tenant, in order. */
  async ofTenant(id: string, { verify = false }: { verify?: boolean } = {}): Promise<TenantMigrationState[]> {
    const { rows } = await this.#database.sql(
      `select id, isolation, placement, locator, epoch, schema_version as version from multitenancy.tenants
       where id = $1 and purged_at is null`,
      [id],
    )
    const [tenant] = rows as Candidate[]
    if (!tenant) throw tenantNotFound(id)
    const applied = await this.#applied(tenant, { verify, unavailable: new Map() })
    const { pending, unknown, edited } = compared(applied, this.#versions.folder)
    const stateOf = (name: string): TenantMigrationState['state'] => {
      if (unknown.includes(name)) return 'unknown'
      if (edited.includes(name)) return 'edited'
      return pending.includes(name) ? 'pending' : 'applied'
    }
    const names = [...this.#versions.folder.map(({ name }) => name), ...unknown]
    return names.map((migration) => ({ migration, state: stateOf(migration) }))
  }

  async #planOf(
    tenant: Candidate,
    { steps, ...how }: PlanContext & { readonly steps: number | undefined },
  ): Promise<PlannedMigration> {
    try {
      const applied = await this.#applied(tenant, how)
      const { pending, edited } = compared(applied, this.#versions.folder)
      const error = edited.length > 0 ? editedError(edited) : null
      return { tenantId: tenant.id, migrations: steps === undefined ? pending : lastOf(applied, steps), error }
    } catch (error) {
      if (!(error instanceof TenancyError)) throw error
      const { code, message } = migrationFailure(error, 0)
      return { tenantId: tenant.id, migrations: [], error: { code, message } }
    }
  }

  /** A storage with an unknown version is always queried. */
  async #applied(tenant: Candidate, { verify, unavailable }: PlanContext): Promise<readonly AppliedMigration[]> {
    const known = await this.#versions.of(tenant.version)
    if (known && !verify) return known
    const { isolation, placement } = tenant
    const driver = this.#storage.driver(isolation)
    if (unavailable.has(placement) && driver.capabilities.reach !== 'no server')
      throw unreachable(placement, unavailable.get(placement))
    try {
      return withChecksums(await driver.applied(toLocation(tenant)), this.#versions.folder, known)
    } catch (error) {
      const isServerUnavailable = outcomesOf(error, driver.capabilities.reach).server === 'failure'
      if (isServerUnavailable) unavailable.set(placement, error)
      throw isServerUnavailable || isDatabaseUnavailable(error) ? unreachable(placement, error) : error
    }
  }

  async #lastRun(): Promise<CountedRun | null> {
    const run = await countedRuns(this.#database)
      .orderBy('createdAt', 'desc')
      .orderBy('id', 'desc')
      .limit(1)
      .executeTakeFirst()
    return run ? withCounts(run) : null
  }
}

/** The last result of a storage counts. */
const FAILED_BY_VERSION = `
  with failed as (
    select item.tenant_id, item.isolation, item.placement
    from multitenancy.migration_runs run join multitenancy.migration_items item on item.run_id = run.id
    where item.state = 'failed' and not exists (
      select from multitenancy.migration_runs later join multitenancy.migration_items result on result.run_id = later.id
      where (later.created_at, later.id) > (run.created_at, run.id)
        and result.storage = item.storage and result.state in ('done', 'failed'))
  ), tenant as (
    select tenant.schema_version, tenant.status from failed join multitenancy.tenants tenant on tenant.id = failed.tenant_id
    union all
    select tenant.schema_version, tenant.status from failed join multitenancy.tenants tenant
      on failed.tenant_id is null and tenant.isolation = failed.isolation and tenant.placement = failed.placement
  )
  select schema_version, count(*) as failed from tenant where status in ('active', 'suspended') group by schema_version`

const unreachable = (placement: string, cause: unknown) =>
  DependencyUnavailable(`The database server of the placement "${placement}" is unavailable.`, { cause })

const editedError = (edited: readonly string[]) => ({
  code: MigrationFailed.code,
  message: `Changed after having been run: ${edited.join(', ')}; restore them and add new ones.`,
})
