/** Storage that is filled from a copy: made, loaded, brought up to date, and counted against what the copy says it held. */
import { BackupIncompatible, type TableTotals, type TenantCopy } from '../copy.ts'
import type { Imported, Place } from '../isolation.ts'
import type { Attempt } from './attempt.ts'
import type { TransferParts } from './parts.ts'

export interface Filled {
  readonly place: Place
  /** What it has run. */
  readonly migrations: readonly string[]
  readonly totals: readonly TableTotals[]
}

export async function fill(
  { storage, places, changes }: Pick<TransferParts, 'storage' | 'places' | 'changes'>,
  attempt: Attempt,
  copy: TenantCopy,
): Promise<Filled> {
  const place = await places.begin(attempt)
  await attempt.phase('making')
  const watched = attempt.meter.watch(copy)
  const driver = storage.driver(place.isolation)
  const options = { ...attempt.options, refuseGivenUp: () => places.assertMaking(place) }
  const imported = await driver.import(place, watched, options).finally(async () => {
    if (!driver.capabilities.separateStorage) await changes.tell() // tables that others share may have been brought up to date
  })
  await attempt.phase('verifying')
  const totals = await watched.totals()
  compareRows(totals, imported)
  return { place, migrations: imported.migrations, totals }
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
