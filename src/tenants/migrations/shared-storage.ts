/**
 * Tenants of a placement that share their tables have one schema between them. Its version stands in the row of each, and
 * whoever writes one asks the storage under this lock: so the last to write has seen the last change.
 */
import type { Database } from '../../kernel/database/database.ts'
import { UNKNOWN_VERSION } from '../tenant/schema-version.ts'

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

/** Whether a tenant there is known to have that version: if none is, the tables have just been brought to it. */
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
 * Also for those that are yet to become active, or may be restored. Rows are locked by their ids, as by whoever locks several.
 *
 * @param from only of those that have this one; absent: of all.
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

/** The versions that tenants there are known to have, also those that are yet to become active. */
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
