/** Fills new storage from a copy: creates, loads, migrates it, and compares the row counts with those of the copy. */
import { BackupIncompatible, type TableTotals, type TenantCopy } from '../../isolation/copy.ts'
import { type Imported, StorageExists, type StorageLocation } from '../../isolation/driver.ts'
import type { Attempt } from '../execution/attempt.ts'
import type { TransferDependencies } from './dependencies.ts'

export interface Filled {
  readonly location: StorageLocation
  /** Migrations applied to the new storage. */
  readonly migrations: readonly string[]
  readonly totals: readonly TableTotals[]
}

/** A backoffice restored from a dump does not know the locations that were filled since. */
const TAKEN_AT_MOST = 100

export async function fill(dependencies: FillDependencies, attempt: Attempt, copy: TenantCopy): Promise<Filled> {
  const watched = attempt.meter.watch(copy)
  const { location, imported } = await imports(dependencies, attempt, watched)
  await attempt.phase('verifying')
  const totals = await watched.totals()
  compareRows(totals, imported)
  return { location, migrations: imported.migrations, totals }
}

type FillDependencies = Pick<TransferDependencies, 'storage' | 'stagedStorage' | 'changes'>

/** Imports into the first empty location. */
async function imports({ storage, stagedStorage, changes }: FillDependencies, attempt: Attempt, copy: TenantCopy) {
  for (let taken = 0; ; taken++) {
    const location = await stagedStorage.begin(attempt)
    await attempt.phase('making')
    const driver = storage.driver(location.isolation)
    const options = { ...attempt.options, assertNotAbandoned: () => stagedStorage.assertMaking(location) }
    try {
      return { location, imported: await driver.import(location, copy, options) }
    } catch (error) {
      if (!StorageExists.matches(error) || taken === TAKEN_AT_MOST) throw error
      await stagedStorage.leaveAlone(location, attempt)
    } finally {
      if (!driver.capabilities.separateStorage) await changes.notify() // shared tables may have been migrated
    }
  }
}

function compareRows(totals: readonly TableTotals[], { rows }: Imported): void {
  for (const { name, rows: expected } of totals) {
    const found = rows.get(name)
    if (found !== expected) {
      throw BackupIncompatible(
        `Table "${name}" has ${found ?? 'no'} rows after the import, but the copy has ${expected}.`,
      )
    }
  }
}
