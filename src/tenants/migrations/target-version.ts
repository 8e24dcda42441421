/** Determines the version of the storage that a tenant receives. */
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
 * Called in the transaction that changes the tenant's storage, before its row is locked: a writer of all versions of a shared storage
 * uses the same lock order.
 *
 * @param migrations of a separate storage, which no other process can change
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
