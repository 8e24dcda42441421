/**
 * Tenants of a placement that share their tables have one schema between them. Its version stands in the row of each, and
 * whoever writes one asks the storage under this lock: so the last to write has seen the last change.
 */
import type { Database } from '../kernel/database.ts'
import { UNKNOWN_VERSION } from './schema-version.ts'

export interface SharedStorage {
  readonly isolation: string
  readonly placement: string
}

export const sharedStorageName = ({ isolation, placement }: SharedStorage): string => `${isolation}/${placement}`

/**
 * Until the transaction ends.
 *
 * @param how `one` writes the row of one tenant, and any number may; `all` writes those of all tenants.
 */
export async function lockVersions(database: Database, storage: SharedStorage, how: 'one' | 'all'): Promise<void> {
  const lock = how === 'one' ? 'pg_advisory_xact_lock_shared' : 'pg_advisory_xact_lock'
  await database.sql(`select ${lock}(hashtextextended($1, 7367228003))`, [sharedStorageName(storage)])
}

export interface SharingTenant {
  readonly id: string
  readonly locator: string
  readonly epoch: number
  readonly version: string
}

/** Tenants that are active or suspended there. */
export async function sharingTenants(
  database: Database,
  { isolation, placement }: SharedStorage,
  limit?: number,
): Promise<SharingTenant[]> {
  const { rows } = await database.sql(
    `select id, locator, epoch, schema_version as version from multitenancy.tenants
     where isolation = $1 and placement = $2 and status in ('active', 'suspended') order by id limit $3`,
    [isolation, placement, limit ?? null],
  )
  return rows
}

/** Also for those that are yet to become active, or may be restored. */
export async function writeVersions(
  database: Database,
  { isolation, placement }: SharedStorage,
  version: string,
): Promise<void> {
  await database.sql(
    `update multitenancy.tenants set schema_version = $3
     where isolation = $1 and placement = $2 and purged_at is null and schema_version <> $3`,
    [isolation, placement, version],
  )
}

/** Before a rollback: until it is known how it ended, nobody must take the storage for up to date. */
export const unversion = (database: Database, storage: SharedStorage): Promise<void> =>
  writeVersions(database, storage, UNKNOWN_VERSION)
