/**
 * Compares the storage in the registry with the storage on the servers, for the doctor, in bulk queries.
 *
 * Tenants change during the comparison, and a transition sets a fence before its commit. So each mismatch is checked a
 * second time with its rows locked, when no transition is in flight.
 */
import type { Kernel } from '../../kernel/kernel.ts'
import type { ConnectionCount, IsolationDriver, StorageLocation, StoredLocation } from '../isolation/driver.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { RegisteredLocation } from '../isolation/orphaned-rows.ts'
import { toLocation } from '../registry/registry.ts'
import type { Status } from '../tenant/lifecycle.ts'
import type { PlaceRow } from '../transfers/model/tables.ts'

const READ_AT_ONCE = 1_000
/** A longer installation or purge is stuck. */
const STUCK_MS = 10 * 60_000

export interface Registered {
  readonly id: string
  readonly locator: string
  readonly status: Status
  readonly statusBefore: Status | null
  readonly isBeingPurged: boolean
  /** Whether a transfer keeps the tenant closed. */
  readonly isHeld: boolean
}

/** Storage of a tenant in addition to its own. */
export interface BesideRegistered extends Pick<PlaceRow, 'tenantId' | 'locator' | 'state'> {}

/** `former open`: former storage without a fence. `abandoned`: storage of a failed transfer, not dropped yet. */
export type Mismatch = { readonly locator: string } & (
  | { readonly kind: 'missing' | 'open' | 'closed' | 'former open' | 'abandoned'; readonly tenantId: string }
  | { readonly kind: 'left over' }
)

export interface TenantsOn {
  readonly isolation: string
  readonly placement: string
  readonly tenants: number
}

export interface StuckTenant {
  readonly id: string
  readonly what: 'provisioning' | 'purge'
  readonly since: Date
}

export interface FailedTenant {
  readonly id: string
  readonly failure: { readonly code: string; readonly message: string } | null
}

export class StorageReconciliation {
  readonly #kernel: Pick<Kernel, 'database' | 'clock'>
  readonly #storage: Storage

  constructor(kernel: Pick<Kernel, 'database' | 'clock'>, storage: Storage) {
    this.#kernel = kernel
    this.#storage = storage
  }

  get drivers(): readonly IsolationDriver[] {
    return this.#storage.drivers
  }

  get placements(): readonly string[] {
    return this.#storage.placements
  }

  /** Tenants on a driver or placement that this process does not have. */
  async unserved(): Promise<TenantsOn[]> {
    const { rows } = await this.#kernel.database.sql(
      `select isolation, placement, count(*) as tenants from multitenancy.tenants
       where purged_at is null group by isolation, placement order by isolation, placement`,
    )
    const drivers = this.drivers.map(({ name }) => name)
    return (rows as TenantsOn[]).filter(
      ({ isolation, placement }) => !drivers.includes(isolation) || !this.placements.includes(placement),
    )
  }

  async failed(): Promise<FailedTenant[]> {
    const { rows } = await this.#kernel.database.sql(
      `select id, failure from multitenancy.tenants where status = 'failed' and purged_at is null order by id`,
    )
    return rows
  }

  /** Installations and purges that have run for too long. */
  async stuck(): Promise<StuckTenant[]> {
    const before = new Date(this.#kernel.clock.now().getTime() - STUCK_MS)
    const { rows } = await this.#kernel.database.sql(
      `select id, 'provisioning' as what, updated_at as since from multitenancy.tenants
       where status = 'provisioning' and purged_at is null and updated_at < $1
       union all
       select id, 'purge', purge_started_at from multitenancy.tenants
       where status = 'deleted' and purged_at is null and purge_started_at < $1 order by id`,
      [before],
    )
    return rows
  }

  /** Number of tenants by the value of `metadata.plan`, valid or not. */
  async plans(): Promise<{ plan: unknown; tenants: number }[]> {
    const { rows } = await this.#kernel.database.sql(
      `select metadata->'plan' as plan, count(*) as tenants from multitenancy.tenants
       where purged_at is null and status <> 'deleted' and metadata ? 'plan' group by 1 order by 1`,
    )
    return rows
  }

  /** Mismatches between the registry and a server. */
  async mismatches(driver: IsolationDriver, placement: string): Promise<Mismatch[]> {
    const look = async () =>
      compared(
        await this.#registered(driver.name, placement),
        await this.#beside(driver.name, placement),
        (await driver.inventory?.(placement)) ?? [],
        { isSeparate: driver.capabilities.separateStorage },
      )
    const suspected = new Set((await look()).map(identity))
    if (suspected.size === 0) return []
    const { database } = this.#kernel
    return database.transaction(async () => {
      await database.sql(
        `select from multitenancy.tenants where isolation = $1 and placement = $2 and locator = any($3) order by id for share`,
        [driver.name, placement, [...suspected].map((one) => one.slice(one.indexOf(' ') + 1))],
      )
      return (await look()).filter((mismatch) => suspected.has(identity(mismatch)))
    })
  }

  /** Owners of the given locations, as far as they belong to this installation. */
  async ownersOf(placement: string, locators: readonly string[]): Promise<Map<string, string>> {
    if (locators.length === 0) return new Map()
    const { rows } = await this.#kernel.database.sql(
      `select locator, id from multitenancy.tenants where placement = $1 and locator = any($2) and purged_at is null
       union select locator, tenant_id from multitenancy.storage_locations where placement = $1 and locator = any($2)`,
      [placement, locators],
    )
    return new Map(rows.map(({ locator, id }) => [locator, id]))
  }

  /**
   * Storage locations of a driver on a server in one snapshot: those of tenants that are not purged, and of transfers.
   */
  async locations(isolation: string, placement: string): Promise<RegisteredLocation[]> {
    const { rows } = await this.#kernel.database.sql(
      `select id as "tenantId", locator from multitenancy.tenants
       where isolation = $1 and placement = $2 and purged_at is null
       union all select tenant_id, locator from multitenancy.storage_locations where isolation = $1 and placement = $2`,
      [isolation, placement],
    )
    return rows
  }

  /** Whether storage is being copied or migrated, which can take long. */
  async isAtWork(): Promise<boolean> {
    const { rows } = await this.#kernel.database.sql(
      `select exists (select from multitenancy.transfers where state = 'running' and lease_until > now())
         or exists (select from multitenancy.migration_runs where state = 'running') as "isAtWork"`,
    )
    return rows[0].isAtWork
  }

  /** Connections for queries of tenants, by placement. */
  connections(): readonly ConnectionCount[] {
    return this.#storage.connections()
  }

  /** Storage locations of all tenants of a driver that are not purged. */
  async *storageLocations(isolation: string): AsyncIterable<StorageLocation> {
    let last = ''
    for (;;) {
      const { rows } = await this.#kernel.database.sql(
        `select id, isolation, placement, locator, epoch from multitenancy.tenants
         where isolation = $1 and purged_at is null and id > $2 order by id limit $3`,
        [isolation, last, READ_AT_ONCE],
      )
      if (rows.length === 0) return
      for (const row of rows) yield toLocation(row)
      last = rows.at(-1).id
    }
  }

  async #beside(isolation: string, placement: string): Promise<BesideRegistered[]> {
    const { rows } = await this.#kernel.database.sql(
      `select tenant_id as "tenantId", locator, state from multitenancy.storage_locations
       where isolation = $1 and placement = $2 order by locator`,
      [isolation, placement],
    )
    return rows
  }

  async #registered(isolation: string, placement: string): Promise<Registered[]> {
    const { rows } = await this.#kernel.database.sql(
      `select id, locator, status, status_before as "statusBefore", purge_started_at is not null as "isBeingPurged",
         held_by is not null as "isHeld"
       from multitenancy.tenants where isolation = $1 and placement = $2 and purged_at is null order by id`,
      [isolation, placement],
    )
    return rows
  }
}

/**
 * @param beside storage of tenants in addition to their own
 * @param isSeparate whether each tenant has separate storage; otherwise, `stored` has only fences
 */
export function compared(
  registered: readonly Registered[],
  beside: readonly BesideRegistered[],
  stored: readonly StoredLocation[],
  { isSeparate }: { isSeparate: boolean },
): Mismatch[] {
  const locations = new Map(stored.map((location) => [location.locator, location]))
  const found: Mismatch[] = []
  for (const { id: tenantId, locator, status, statusBefore, isBeingPurged, isHeld } of registered) {
    const location = locations.get(locator)
    locations.delete(locator)
    if (isBeingPurged) continue
    const lived = status === 'deleted' ? statusBefore : status // a tenant that was never active may have no storage
    const isInstalled = lived === 'active' || lived === 'suspended'
    if (!isInstalled) continue
    const isFenced = location?.isFenced ?? false
    if (isSeparate && !location) found.push({ kind: 'missing', locator, tenantId })
    else if ((status !== 'active' || isHeld) && !isFenced) found.push({ kind: 'open', locator, tenantId })
    else if (status === 'active' && !isHeld && isFenced) found.push({ kind: 'closed', locator, tenantId })
  }
  for (const { tenantId, locator, state } of beside) {
    const location = locations.get(locator)
    locations.delete(locator)
    if (state === 'former' && !(isSeparate ? (location?.isFenced ?? true) : location?.isFenced)) {
      found.push({ kind: 'former open', locator, tenantId })
    }
    if (state === 'abandoned') found.push({ kind: 'abandoned', locator, tenantId })
  }
  if (isSeparate) for (const locator of locations.keys()) found.push({ kind: 'left over', locator })
  return found
}

const identity = ({ kind, locator }: Mismatch): string => `${kind.replace(' ', '-')} ${locator}`
