/**
 * What SQLite's catalog says of a tenant's tables, as far as a copy of their rows has to know it. A virtual table keeps its rows in
 * tables of its own, its shadow, and those are copied like any other.
 */

import type { StoredTable } from '../catalog/tables.ts'
import { MIGRATIONS_TABLE } from './authorizer.ts'

/** Runs a statement of our own and answers its rows. */
export type Query = (text: string, values?: readonly unknown[]) => any[]

export interface SqliteTable extends StoredTable {
  readonly isShadow: boolean
  /** Where the numbers of its rows are never given twice: the column that they are in. */
  readonly autoincrement: string | undefined
}

export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** In the order in which they were made. */
export function sqliteTables(query: Query): SqliteTable[] {
  const tables = query(
    `select listed.name as name, listed.type as type, sql from sqlite_schema
     join pragma_table_list as listed on listed.name = sqlite_schema.name and listed.schema = 'main'
     where sqlite_schema.type = 'table' and listed.type in ('table', 'shadow') and listed.name <> ?
       and listed.name not like 'sqlite\\_%' escape '\\' order by sqlite_schema.rowid`,
    [MIGRATIONS_TABLE],
  )
  return tables.map(({ name, type, sql }) => {
    const columns = query('select name, type, "notnull", dflt_value as given, pk, hidden from pragma_table_xinfo(?)', [
      name,
    ])
    return {
      name,
      isPartitioned: false,
      hasForeignRows: false,
      isShadow: type === 'shadow',
      autoincrement: /\bautoincrement\b/i.test(sql) ? columns.find(({ pk }) => pk > 0)?.name : undefined,
      columns: columns.map((column) => ({
        name: column.name,
        type: column.type,
        isGenerated: column.hidden > 1,
        isFilled: column.name === 'tenant_id' && column.given !== null,
        isRequired: column.notnull === 1 && column.given === null && column.pk === 0,
        ownType: null,
      })),
    }
  })
}

/** The last number that was given in each table that gives none twice. */
export function sqliteSequences(query: Query): { readonly name: string; readonly lastValue: string }[] {
  if (query(`select 1 from sqlite_schema where name = 'sqlite_sequence'`).length === 0) return []
  return query('select name, cast(seq as text) as "lastValue" from sqlite_sequence order by name')
}
