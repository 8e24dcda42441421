/**
 * Determines the migrations of a storage before a run, and its last published version.
 *
 * If the version is unknown or to be verified, the storage is queried, and the result is stored before any migration runs. So each
 * worker publishes the later migrations, including those that a killed worker has run.
 */
import type { Kernel } from '../../kernel/kernel.ts'
import type { IsolationDriver, StorageLocation } from '../isolation/driver.ts'
import { type AppliedMigration, withChecksums } from '../tenant/schema-version.ts'
import type { Claimed, MigrationItems } from './items.ts'
import { isVerified, type MigrationRun } from './model/run.ts'
import type { SchemaVersions } from './schema-versions.ts'
import { lockVersions, versionsOf, writeVersions } from './shared-storage.ts'

interface InitialVersionDependencies {
  readonly kernel: Pick<Kernel, 'database'>
  readonly versions: SchemaVersions
  readonly run: MigrationRun
  readonly items: MigrationItems
}

export interface StartingVersion {
  /** The last published version. */
  readonly reportedVersion: string
  readonly has: readonly AppliedMigration[]
}

/** @param version in the row of the tenant, or of one tenant of a shared storage */
export async function startingVersion(
  { kernel, versions, run, items }: InitialVersionDependencies,
  driver: IsolationDriver,
  item: Claimed,
  location: StorageLocation,
  version: string,
): Promise<StartingVersion> {
  const { database } = kernel
  const all = item.tenant ? [version] : await versionsOf(database, item)
  const known = new Map<string, readonly AppliedMigration[] | undefined>()
  for (const one of all) known.set(one, await versions.of(one))
  const believed = known.get(version)
  if (believed && ![...known.values()].includes(undefined) && !isVerified(run))
    return { reportedVersion: version, has: believed }
  const names = await driver.applied(location)
  const has = withChecksums(names, versions.folder, believed)
  return database.transaction(async () => {
    await items.hold(item.storage)
    if (!item.tenant) await lockVersions(database, item, 'all')
    let reportedVersion = version
    for (const [before, migrations] of known) {
      const after = await versions.keep(migrations?.filter(({ name }) => names.includes(name)) ?? has)
      if (before === version) reportedVersion = after
      if (before === after) continue
      if (item.tenant) await items.write(item.tenant, after)
      else await writeVersions(database, item, after, before)
    }
    return { reportedVersion, has }
  })
}
