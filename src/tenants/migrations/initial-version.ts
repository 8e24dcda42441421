/**
 * What a storage has before it is migrated, and what everybody was told that it has: the version that stands in the backoffice.
 *
 * Where that is not known, or is to be verified, the storage is asked, and what it has is written down before anything is run. So
 * what is run from there on is news, whoever tells it: also who takes over from a process that has run it and died. What was
 * written before and is not there any more is news again; what is there and nobody was told of stays news.
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
  /** The version that everybody was told of. */
  readonly reportedVersion: string
  readonly has: readonly AppliedMigration[]
}

/** @param version that stands in the row of the tenant, or of one that shares the storage. */
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
