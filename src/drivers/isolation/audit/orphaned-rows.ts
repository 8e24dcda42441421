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
import type { PostgresServer } from '../server/postgres-server.ts'
import { reading } from './rules.ts'

interface SharedTable {
  /** As SQL, with its schema. */
  readonly name: string
  /** Whether an index leads with `tenant_id`. */
  readonly isIndexed: boolean
}

/** @param schema with the tables */
export async function orphanedRows(
  server: PostgresServer,
  schema: string,
  registered: () => Promise<readonly RegisteredLocation[]>,
): Promise<OrphanedRows[]> {
  if (!(await server.owned((client) => isUsed(client, schema)))) return []
  const labels = new Map<SharedTable, string[]>()
  await allRows(server, schema, async (client) => {
    for (const table of await tablesOf(client, schema)) labels.set(table, await labelsOf(client, table))
  })
  const locations = await registered()
  return allRows(server, schema, async (client) => {
    const { rows: entered } = await client.query('select tenant, locator from tenantry.row_locations')
    const locators = new Map(entered.map(({ tenant, locator }) => [tenant, locator]))
    const known = new Set(
      locations.map((location) => labelIn(location, locators.get(location.tenantId) ?? location.tenantId)),
    )
    const found: OrphanedRows[] = []
    for (const [{ name }, all] of labels) {
      const unknown = all.filter((label) => !known.has(label))
      const { rows } = await client.query(
        `select tenant_id as "tenantId", count(*)::float8 as rows from ${name} where tenant_id = any($1) group by 1 order by 1`,
        [unknown],
      )
      for (const row of rows) found.push({ table: name, ...row })
    }
    return found
  })
}

/** Counts the rows with these labels, by table; only tables that have some. */
export async function countRows(
  server: PostgresServer,
  schema: string,
  labels: readonly string[],
): Promise<FoundData[]> {
  if (!(await server.owned((client) => isUsed(client, schema)))) return []
  return allRows(server, schema, async (client) => {
    const found: FoundData[] = []
    for (const { name } of await tablesOf(client, schema)) {
      const { rows } = await client.query(`select count(*)::float8 as count from ${name} where tenant_id = any($1)`, [
        labels,
      ])
      if (rows[0].count > 0) found.push({ kind: name, count: rows[0].count })
    }
    return found
  })
}

/** Runs `work` in one snapshot that includes the rows of all tenants. */
const allRows = <T>(server: PostgresServer, schema: string, work: (client: pg.ClientBase) => Promise<T>): Promise<T> =>
  reading(server, async (client) => {
    await client.query('set transaction isolation level repeatable read')
    return withoutForce(client, schema, () => work(client))
  })

async function isUsed(client: pg.ClientBase, schema: string): Promise<boolean> {
  const { rows } = await client.query(
    `select to_regnamespace($1) is not null and to_regclass('tenantry.row_locations') is not null as "isUsed"`,
    [pg.escapeIdentifier(schema)],
  )
  return rows[0].isUsed
}

async function tablesOf(client: pg.ClientBase, schema: string): Promise<SharedTable[]> {
  const { rows } = await client.query(
    `select c.oid::regclass::text as name, exists (
       select from pg_index where indrelid = c.oid and indkey[0] = attnum and indpred is null and indisvalid
         and (select relam from pg_class where oid = indexrelid) = (select oid from pg_am where amname = 'btree')
     ) as "isIndexed"
     from pg_class c join pg_attribute on attrelid = c.oid
     where relnamespace = to_regnamespace($1) and relkind in ('r', 'p') and not relispartition
       and attname = 'tenant_id' and not attisdropped order by relname`,
    [pg.escapeIdentifier(schema)],
  )
  return rows
}

/** Returns the values of `tenant_id`, with one index look-up for each value if there is an index. */
async function labelsOf(client: pg.ClientBase, { name, isIndexed }: SharedTable): Promise<string[]> {
  const byIndex = `with recursive labels (label) as (
      select min(tenant_id) from ${name}
      union all select (select min(tenant_id) from ${name} where tenant_id > label) from labels where label is not null)
    select label from labels where label is not null`
  const { rows } = await client.query(isIndexed ? byIndex : `select distinct tenant_id as label from ${name}`)
  return rows.map(({ label }) => label)
}
