/** Storage that is filled from a copy: made, loaded, brought up to date, and counted against what the copy says it held. */
import { BackupIncompatible, type TableTotals, type TenantCopy } from '../../isolation/copy.ts'
import { type Imported, StorageExists, type StorageLocation } from '../../isolation/driver.ts'
import type { Attempt } from '../execution/attempt.ts'
import type { TransferDependencies } from './dependencies.ts'

export interface Filled {
  readonly location: StorageLocation
  /** What it has run. */
  readonly migrations: readonly string[]
  readonly totals: readonly TableTotals[]
}

/** A backoffice that was brought back from a dump does not know of places that were filled since. */
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

/** Into the first place where nothing is. */
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
      if (!driver.capabilities.separateStorage) await changes.notify() // tables that others share may have been brought up to date
    }
  }
}

function compareRows(totals: readonly TableTotals[], { rows }: Imported): void {
  for (const { name, rows: expected } of totals) {
    const found = rows.get(name)
    if (found !== expected) {
      throw BackupIncompatible(
        `The table "${name}" has ${found ?? 'no'} rows after it was filled, where the copy has ${expected}.`,
      )
    }
  }
}
