/**
 * Finds rows in shared tables that belong to no storage location: they were written without Tenantry, or after their
 * tenant's deletion.
 *
 *   read the labels ──► read the registry ──► count the rows of unknown labels and of the locations that were entered
 *
 * Exact under concurrent changes: a location is in the registry before its rows are written, and until they are
 * deleted. A label that was read first and whose location has left the registry has no rows when they are counted.
 */
import pg from 'pg'
import type { FoundData } from '../../../kernel/erasable.ts'
import type { OrphanedRows, RegisteredLocation } from '../../../tenants/isolation/orphaned-rows.ts'
import { withoutForce } from '../row-security/apply.ts'
import { labelIn } from '../row-security/locations.ts'
import { columnName, isColumnValue, type TenantColumn } from '../row-security/tenant-column.ts'
import type { PostgresServer } from '../server/postgres-server.ts'
import { reading } from './rules.ts'

interface SharedTable {
  /** As SQL, with its schema. */
  readonly name: string
  /** Whether an index leads with the tenant column. */
  readonly isIndexed: boolean
}

/** Tables of one schema that tenants share. */
export interface RowTables {
  readonly schema: string
  readonly column: TenantColumn
}

export async function orphanedRows(
  server: PostgresServer,
  tables: RowTables,
  registered: () => Promise<readonly RegisteredLocation[]>,
): Promise<OrphanedRows[]> {
  if (!(await server.owned((client) => isUsed(client, tables.schema, server.scopeRole)))) return []
  const name = columnName(tables.column)
  const labels = new Map<SharedTable, string[]>()
  await allRows(server, tables, async (client) => {
    for (const table of await tablesOf(client, tables)) labels.set(table, await labelsOf(client, table, name))
  })
  const locations = await registered()
  return allRows(server, tables, async (client) => {
    const { rows: entered } = await client.query('select tenant, locator from tenantry.row_locations')
    const locators = new Map(entered.map(({ tenant, locator }) => [tenant, locator]))
    const known = new Set(
      locations.map((location) => labelIn(location, locators.get(location.tenantId) ?? location.tenantId)),
    )
    const found: OrphanedRows[] = []
    for (const [{ name: table }, all] of labels) {
      const unknown = all.filter((label) => !known.has(label))
      const { rows } = await client.query(
        `select ${name}::text as "tenantId", count(*)::float8 as rows from ${table} where ${name} = any($1::${tables.column.type}[]) group by 1 order by 1`,
        [unknown],
      )
      for (const row of rows) found.push({ table, column: name, ...row })
    }
    return found
  })
}

/** Counts the rows with these labels, by table; only tables that have some. */
export async function countRows(
  server: PostgresServer,
  tables: RowTables,
  labels: readonly string[],
): Promise<FoundData[]> {
  if (!(await server.owned((client) => isUsed(client, tables.schema, server.scopeRole)))) return []
  const { column } = tables
  const values = labels.filter((label) => isColumnValue(column, label))
  if (values.length === 0) return []
  return allRows(server, tables, async (client) => {
    const found: FoundData[] = []
    for (const { name } of await tablesOf(client, tables)) {
      const { rows } = await client.query(
        `select count(*)::float8 as count from ${name} where ${columnName(column)} = any($1::${column.type}[])`,
        [values],
      )
      if (rows[0].count > 0) found.push({ kind: name, count: rows[0].count })
    }
    return found
  })
}

/** Runs `work` in one snapshot that includes the rows of all tenants. */
const allRows = <T>(
  server: PostgresServer,
  { schema, column }: RowTables,
  work: (client: pg.ClientBase) => Promise<T>,
): Promise<T> =>
  reading(server, async (client) => {
    await client.query('set transaction isolation level repeatable read')
    return withoutForce(client, schema, () => work(client), column)
  })

/** False before the adoption of an existing schema, and after its release, also if PUBLIC may use it. */
export async function isUsed(client: pg.ClientBase, schema: string, scopeRole: string): Promise<boolean> {
  const { rows } = await client.query(
    `select to_regclass('tenantry.row_locations') is not null and exists (
       select from pg_namespace, aclexplode(nspacl) where nspname = $1 and privilege_type = 'USAGE'
         and grantee = (select oid from pg_roles where rolname = $2)) as "isUsed"`,
    [schema, scopeRole],
  )
  return rows[0].isUsed
}

async function tablesOf(client: pg.ClientBase, { schema, column }: RowTables): Promise<SharedTable[]> {
  const { rows } = await client.query(
    `select c.oid::regclass::text as name, exists (
       select from pg_index where indrelid = c.oid and indkey[0] = attnum and indpred is null and indisvalid
         and (select relam from pg_class where oid = indexrelid) = (select oid from pg_am where amname = 'btree')
     ) as "isIndexed"
     from pg_class c join pg_attribute on attrelid = c.oid
     where relnamespace = to_regnamespace($1) and relkind in ('r', 'p') and not relispartition
       and attname = $2 and not attisdropped order by relname`,
    [pg.escapeIdentifier(schema), column.name],
  )
  return rows
}

/** Returns the values of the tenant column as text, with one index look-up for each value if there is an index. */
async function labelsOf(client: pg.ClientBase, { name, isIndexed }: SharedTable, column: string): Promise<string[]> {
  const byIndex = `with recursive found (label) as (
      (select ${column} from ${name} where ${column} is not null order by 1 limit 1)
      union all select (select t.${column} from ${name} t where t.${column} > found.label order by 1 limit 1) from found where label is not null)
    select label::text from found where label is not null`
  const { rows } = await client.query(isIndexed ? byIndex : `select distinct ${column}::text as label from ${name}`)
  return rows.map(({ label }) => label)
}
