/** Iterates the tables of a copy, each once and with all of its rows; anything else is no copy of a tenant. */
import { BackupIncompatible, type TableCopy, type TenantCopy } from '../../../tenants/isolation/copy.ts'

/** How many rows were read of each table. */
export type Rows = ReadonlyMap<string, number>

/** @param readTable reads the table to its end, and answers how many rows of it there are. It is given the columns that were described. */
export async function iterateTables(copy: TenantCopy, readTable: (table: TableCopy) => Promise<number>): Promise<Rows> {
  const { tables } = copy.description
  const rows = new Map<string, number>()
  for await (const { table, csv } of copy.tables()) {
    const described = tables.find(({ name }) => name === table.name)
    if (!described || rows.has(table.name)) {
      throw BackupIncompatible(`The copy has the table "${table.name}" twice, or without having said so.`)
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
