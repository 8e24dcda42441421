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
  { storage, places }: Pick<TransferParts, 'storage' | 'places'>,
  attempt: Attempt,
  copy: TenantCopy,
): Promise<Filled> {
  const place = await places.begin(attempt)
  await attempt.phase('making')
  const watched = attempt.meter.watch(copy)
  const imported = await storage.driver(place.isolation).import(place, watched, attempt.options)
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
