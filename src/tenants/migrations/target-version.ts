/** The version of storage that a tenant is about to have. */
import type { Database } from '../../kernel/database/database.ts'
import type { IsolationDriver, StorageLocation } from '../isolation/driver.ts'
import type { TableChanges } from '../isolation/schema-generation.ts'
import type { SchemaVersions } from './schema-versions.ts'
import { isVersionOfAny, lockVersions } from './shared-storage.ts'

export interface TargetVersionDependencies {
  readonly database: Database
  readonly versions: SchemaVersions
  readonly changes: TableChanges
}

/**
 * In the transaction that gives the tenant its storage, and before its row is locked: who writes the versions of all tenants of
 * shared tables takes the two in this order.
 *
 * @param migrations as the storage was found to have them, where nobody else can change it.
 */
export async function versionOnArrival(
  { database, versions, changes }: TargetVersionDependencies,
  { capabilities, ...driver }: Pick<IsolationDriver, 'capabilities' | 'applied'>,
  location: StorageLocation,
  migrations: readonly string[],
): Promise<string> {
  if (capabilities.separateStorage) return versions.ofStorage(capabilities, migrations)
  await lockVersions(database, location, 'one')
  const version = await versions.ofStorage(capabilities, await driver.applied(location))
  if (!(await isVersionOfAny(database, location, version))) await changes.notify()
  return version
}
