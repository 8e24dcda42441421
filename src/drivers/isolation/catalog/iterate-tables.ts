/**
 * Iterates the tables of a copy, each once and with all of its rows; throws `E_BACKUP_INCOMPATIBLE` for an inconsistent
 * copy.
 */
import { BackupIncompatible, type TableCopy, type TenantCopy } from '../../../tenants/isolation/copy.ts'

/** Number of rows read, by table. */
export type Rows = ReadonlyMap<string, number>

/** @param readTable reads the table with the described columns to its end, and returns its number of rows */
export async function iterateTables(copy: TenantCopy, readTable: (table: TableCopy) => Promise<number>): Promise<Rows> {
  const { tables } = copy.description
  const rows = new Map<string, number>()
  for await (const { table, csv } of copy.tables()) {
    const described = tables.find(({ name }) => name === table.name)
    if (!described || rows.has(table.name)) {
      throw BackupIncompatible(`The copy contains the table "${table.name}" twice, or does not describe it.`)
    }
    rows.set(table.name, await readTable({ table: described, csv }))
  }
  const missing = tables.find(({ name }) => !rows.has(name))
  if (missing) throw BackupIncompatible(`The copy ends before the table "${missing.name}".`)
  for (const { name, rows: expected } of await copy.totals()) {
    const taken = rows.get(name) ?? 0
    if (taken !== expected) {
      throw BackupIncompatible(`The copy has ${expected} rows of the table "${name}", and ${taken} are there.`)
    }
  }
  return rows
}
