/** Compares the tables of a file with those of the migrations: names, columns and types. */
import type { StoredColumn, StoredSchema, StoredTable } from '../catalog/tables.ts'

/** Sentences, in the order of the tables. */
export function differences(migrated: StoredSchema, imported: StoredSchema): string[] {
  const names = [...new Set([...migrated.tables, ...imported.tables].map(({ name }) => name))].sort()
  return names.flatMap((name) => {
    const of = ({ tables }: StoredSchema) => tables.find((table) => table.name === name)
    const [before, now] = [of(migrated), of(imported)]
    if (!before) return [`the migrations have no table "${name}"`]
    return now ? columnDifferences(before, now) : [`the file has no table "${name}"`]
  })
}

function columnDifferences({ name: table, columns }: StoredTable, imported: StoredTable): string[] {
  const names = [...new Set([...columns, ...imported.columns].map(({ name }) => name))]
  return names.flatMap((name) => {
    const of = (all: readonly StoredColumn[]) => all.find((column) => column.name === name)
    const [before, now] = [of(columns), of(imported.columns)]
    if (!before) return [`the migrations have no column "${name}" in the table "${table}"`]
    if (!now) return [`the file has no column "${name}" in the table "${table}"`]
    const [expected, actual] = [before, now].map(
      ({ type, isGenerated }) => `${type}${isGenerated ? ', generated' : ''}`,
    )
    return expected === actual
      ? []
      : [`the column "${name}" of the table "${table}" is ${actual} in the file, and ${expected} in the migrations`]
  })
}
