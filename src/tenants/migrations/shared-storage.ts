/**
 * Versions of a storage that several tenants of a placement share: each tenant's row contains the same version.
 *
 * A writer queries the storage while it holds the lock of the versions. So the last writer has seen the last change.
 */
import type { Database } from '../../kernel/database/database.ts'
import { UNKNOWN_VERSION } from '../tenant/schema-version.ts'

export interface SharedStorage {
  readonly isolation: string
  readonly placement: string
}

export const sharedStorageName = ({ isolation, placement }: SharedStorage): string => `${isolation}/${placement}`

/**
 * Locks the versions until the transaction ends.
 *
 * @param how `one` (shared) to write the row of one tenant, `all` (exclusive) to write the rows of all tenants
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

/** The active and suspended tenants of a shared storage. */
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

/** Whether a tenant of the storage has the version. If not, the tables have just been migrated to it. */
export async function isVersionOfAny(
  database: Database,
  { isolation, placement }: SharedStorage,
  version: string,
): Promise<boolean> {
  const { rows } = await database.sql(
    `select exists (select from multitenancy.tenants
       where isolation = $1 and placement = $2 and purged_at is null and schema_version = $3) as known`,
    [isolation, placement, version],
  )
  return rows[0].known
}

/**
 * Writes the version of all tenants that are not purged. Locks rows by id, like every statement that locks several tenants.
 *
 * @param from only tenants with this version; absent: all
 */
export async function writeVersions(
  database: Database,
  { isolation, placement }: SharedStorage,
  version: string,
  from?: string,
): Promise<void> {
  await database.sql(
    `with chosen as (
       select id from multitenancy.tenants
       where isolation = $1 and placement = $2 and purged_at is null and schema_version <> $3
         and ($4::text is null or schema_version = $4)
       order by id for no key update)
     update multitenancy.tenants tenant set schema_version = $3 from chosen where tenant.id = chosen.id`,
    [isolation, placement, version, from ?? null],
  )
}

/** The versions of all tenants of the storage that are not purged. */
export async function versionsOf(database: Database, { isolation, placement }: SharedStorage): Promise<string[]> {
  const { rows } = await database.sql(
    `select distinct schema_version as version from multitenancy.tenants
     where isolation = $1 and placement = $2 and purged_at is null order by 1`,
    [isolation, placement],
  )
  return rows.map(({ version }) => version)
}

export const unversion = (database: Database, storage: SharedStorage): Promise<void> =>
  writeVersions(database, storage, UNKNOWN_VERSION)
