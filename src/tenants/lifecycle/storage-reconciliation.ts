/**
 * Compares the storage in the registry with the storage on the servers, for the doctor, in bulk queries.
 *
 * Tenants change during the comparison, and a transition sets a fence before its commit. So each mismatch is checked a
 * second time with its rows locked, when no transition is in flight.
 */
import type { Kernel } from '../../kernel/kernel.ts'
import type { ConnectionCount, IsolationDriver, StorageLocation } from '../isolation/driver.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { RegisteredLocation } from '../isolation/orphaned-rows.ts'
import { toLocation } from '../registry/registry.ts'
import {
  type BesideRegistered,
  byLocator,
  compared,
  identity,
  leftOver,
  type Mismatch,
  type Registered,
  takeMismatches,
} from './mismatches.ts'

const READ_AT_ONCE = 1_000
/** Mismatches of one check with locked rows, which reads all storage of the server. */
const CHECKED_AT_ONCE = 2_000
/** A longer installation or purge is stuck. */
const STUCK_MS = 10 * 60_000

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

  failed(): AsyncIterable<FailedTenant> {
    return this.#byId(
      `select id, failure from multitenancy.tenants where status = 'failed' and purged_at is null and id > $1`,
      [],
    )
  }

  /** Installations and purges that have run for too long. */
  stuck(): AsyncIterable<StuckTenant> {
    const before = new Date(this.#kernel.clock.now().getTime() - STUCK_MS)
    return this.#byId(
      `select id, 'provisioning' as what, updated_at as since from multitenancy.tenants
       where status = 'provisioning' and purged_at is null and id > $1 and updated_at < $2
       union all
       select id, 'purge', purge_started_at from multitenancy.tenants
       where status = 'deleted' and purged_at is null and id > $1 and purge_started_at < $2`,
      [before],
    )
  }

  /** Number of tenants by the value of `metadata.plan`, valid or not. */
  async plans(): Promise<{ plan: unknown; tenants: number }[]> {
    const { rows } = await this.#kernel.database.sql(
      `select metadata->'plan' as plan, count(*) as tenants from multitenancy.tenants
       where purged_at is null and status <> 'deleted' and metadata ? 'plan' group by 1 order by 1`,
    )
    return rows
  }

  /** Mismatches between the registry and a server. Keeps the names of the server's storage in memory. */
  async *mismatches(driver: IsolationDriver, placement: string): AsyncIterable<Mismatch> {
    let suspected: Mismatch[] = []
    for await (const mismatch of this.#suspected(driver, placement)) {
      if (suspected.push(mismatch) < CHECKED_AT_ONCE) continue
      yield* await this.#confirmed(driver, placement, suspected)
      suspected = []
    }
    if (suspected.length > 0) yield* await this.#confirmed(driver, placement, suspected)
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
    const rows = this.#byId<Parameters<typeof toLocation>[0]>(
      `select id, isolation, placement, locator, epoch from multitenancy.tenants
       where isolation = $2 and purged_at is null and id > $1`,
      [isolation],
    )
    for await (const row of rows) yield toLocation(row)
  }

  async *#suspected(driver: IsolationDriver, placement: string): AsyncIterable<Mismatch> {
    const { separateStorage: isSeparate } = driver.capabilities
    const stored = byLocator((await driver.inventory?.(placement)) ?? [])
    for await (const row of this.#byLocator<Registered>(REGISTERED, driver.name, placement)) {
      yield* takeMismatches([row], [], stored, isSeparate)
    }
    for await (const row of this.#byLocator<BesideRegistered>(BESIDE, driver.name, placement)) {
      yield* takeMismatches([], [row], stored, isSeparate)
    }
    yield* leftOver(stored, isSeparate)
  }

  /** Those that still exist, with their tenants locked. */
  async #confirmed(driver: IsolationDriver, placement: string, suspected: readonly Mismatch[]): Promise<Mismatch[]> {
    const { database } = this.#kernel
    const known = new Set(suspected.map(identity))
    const values = [driver.name, placement, suspected.map(({ locator }) => locator)]
    return database.transaction(async () => {
      await database.sql(
        `select from multitenancy.tenants where isolation = $1 and placement = $2 and locator = any($3) order by id for share`,
        values,
      )
      const { rows: registered } = await database.sql(`${REGISTERED} and locator = any($3) order by locator`, values)
      const { rows: beside } = await database.sql(`${BESIDE} and locator = any($3) order by locator`, values)
      const { separateStorage: isSeparate } = driver.capabilities
      const found = compared(registered, beside, (await driver.inventory?.(placement)) ?? [], { isSeparate })
      return found.filter((mismatch) => known.has(identity(mismatch)))
    })
  }

  /** Rows of all pages of a statement whose `$1` is the last id. */
  async *#byId<Row extends { readonly id: string }>(text: string, values: readonly unknown[]): AsyncIterable<Row> {
    yield* pages<Row>(async (last) => {
      const { rows } = await this.#kernel.database.sql(`${text} order by id limit ${READ_AT_ONCE}`, [
        last?.id ?? '',
        ...values,
      ])
      return rows
    })
  }

  async *#byLocator<Row extends { readonly locator: string }>(
    text: string,
    isolation: string,
    placement: string,
  ): AsyncIterable<Row> {
    yield* pages<Row>(async (last) => {
      const { rows } = await this.#kernel.database.sql(
        `${text} and locator > $3 order by locator limit ${READ_AT_ONCE}`,
        [isolation, placement, last?.locator ?? ''],
      )
      return rows
    })
  }
}

const REGISTERED = `
  select id, locator, status, status_before as "statusBefore", purge_started_at is not null as "isBeingPurged",
    held_by is not null as "isHeld"
  from multitenancy.tenants where isolation = $1 and placement = $2 and purged_at is null`

const BESIDE = `
  select tenant_id as "tenantId", locator, state from multitenancy.storage_locations
  where isolation = $1 and placement = $2`

async function* pages<Row>(read: (last: Row | undefined) => Promise<readonly Row[]>): AsyncIterable<Row> {
  let last: Row | undefined
  do {
    const rows = await read(last)
    yield* rows
    last = rows.at(-1)
  } while (last)
}
