/**
 * Stores the rows of a location that is not in use in a separate schema, for shared tables that cannot have rows of
 * two locations of one tenant: their keys need not begin with the tenant column, and its type may be other than text.
 *
 * - The tables have the columns of the shared ones, also the tenant column, without keys. Values of types of the shared schema are text, so
 *   migrations can drop such a type.
 * - `tenantry.row_copies` has the description: the migrations at the time of the copy, its tables and columns.
 * - Only the owner may use the schema.
 */
import { createHash } from 'node:crypto'
import pg from 'pg'
import { sqlState } from '../../../kernel/database/database.ts'
import type { FoundData } from '../../../kernel/erasable.ts'
import type { CopiedTable, CopyDescription } from '../../../tenants/isolation/copy.ts'
import type { OrphanedRows, RegisteredLocation } from '../../../tenants/isolation/orphaned-rows.ts'
import { orphanedRows, type RowTables } from '../audit/orphaned-rows.ts'
import { qualified, type StoredSchema, type StoredTable } from '../catalog/tables.ts'
import { labelAside, type RowLocation } from '../row-security/locations.ts'
import type { Shared, SharedStorage } from '../row-security/shared-tables.ts'
import { columnName, columnType, valueAs } from '../row-security/tenant-column.ts'
import type { PostgresServer } from '../server/postgres-server.ts'
import { nothingThere, type Source } from './copy-out.ts'

const UNDEFINED_TABLE = '42P01'

type Location = Pick<RowLocation, 'tenantId' | 'locator'>

export const asideSchemaOf = (location: Location): string =>
  `tenantry_aside_${createHash('sha256').update(labelAside(location)).digest('hex').slice(0, 32)}`

/** The description of the location's rows; undefined if there are none. */
export async function readAside(
  client: pg.ClientBase,
  { tenantId, locator }: Location,
): Promise<CopyDescription | undefined> {
  const { rows } = await client.query(
    'select description from tenantry.row_copies where tenant = $1 and locator = $2',
    [tenantId, locator],
  )
  return rows[0]?.description
}

/** The rows as an export reads them. Throws if there are none. */
export async function sourceAside(
  client: pg.ClientBase,
  storage: Location & Pick<Source, 'migrator' | 'isolation'> & Pick<SharedStorage, 'searchPathOf'>,
): Promise<Source> {
  const { tenantId, migrator, isolation, searchPathOf } = storage
  const description = await readAside(client, storage)
  if (!description) throw nothingThere()
  const schema = asideSchemaOf(storage)
  return { isolation, schema, searchPath: searchPathOf(schema), tenantId, migrator, description }
}

/** Creates empty tables, in place of those that a former copy of the location may have left. */
export async function createAside(
  client: pg.ClientBase,
  { schema, searchPath, stored, column, tenant }: Shared,
  location: Location,
  { tables }: Pick<CopyDescription, 'tables'>,
): Promise<void> {
  await dropAside(client, location)
  const aside = asideSchemaOf(location)
  const own = `${columnName(column)} ${columnType(column)} not null default ${valueAs(column, tenant)}`
  const path = `${pg.escapeIdentifier(schema)}, pg_catalog, ${searchPath}`
  const each = tables.map(({ name, columns }) => {
    const others = columns.filter((one) => one.name !== column.name)
    const all = others.map((one) => `${pg.escapeIdentifier(one.name)} ${typeOf(one, name, stored)}`)
    return `create table ${qualified(aside, name)} (${[own, ...all].join(', ')})`
  })
  await client.query(
    [
      `create schema ${pg.escapeIdentifier(aside)}`,
      `select pg_catalog.set_config('tenantry.path_before', pg_catalog.current_setting('search_path'), true),
        pg_catalog.set_config('search_path', ${pg.escapeLiteral(path)}, true)`,
      ...each,
      `select pg_catalog.set_config('search_path', pg_catalog.current_setting('tenantry.path_before'), true)`,
    ].join('; '),
  )
}

function typeOf({ name, type }: CopiedTable['columns'][number], table: string, { tables }: StoredSchema): string {
  const columns = tables.find((one) => one.name === table)?.columns
  return columns?.find((one) => one.name === name)?.ownType ? 'pg_catalog.text' : type
}

/** In the transaction that has filled the tables. */
export async function recordAside(
  client: pg.ClientBase,
  { tenantId, locator }: Location,
  description: CopyDescription,
): Promise<void> {
  await client.query('insert into tenantry.row_copies (tenant, locator, description) values ($1, $2, $3)', [
    tenantId,
    locator,
    JSON.stringify(description),
  ])
}

export async function dropAside(client: pg.ClientBase, location: Location): Promise<void> {
  await client.query(`drop schema if exists ${pg.escapeIdentifier(asideSchemaOf(location))} cascade`)
  await client.query('delete from tenantry.row_copies where tenant = $1 and locator = $2', [
    location.tenantId,
    location.locator,
  ])
}

/** Tables with the rows of a description in the form of the shared tables, as `insertAll` reads them. */
export const tablesAside = ({ tables }: CopyDescription, stored: StoredSchema): StoredTable[] =>
  tables.flatMap(({ name, columns }) => {
    const table = stored.tables.find((one) => one.name === name)
    if (!table) return []
    return { ...table, columns: table.columns.filter((one) => columns.some((copied) => copied.name === one.name)) }
  })

/** Rows of each table; only tables that have some. @param of only those of this tenant */
async function countAside(client: pg.ClientBase, of: { tenantId?: string } = {}): Promise<AsideRows[]> {
  const { rows: copies } = await client.query(
    `select tenant as "tenantId", locator, description from tenantry.row_copies
     where $1::text is null or tenant = $1 order by tenant, locator`,
    [of.tenantId ?? null],
  )
  const found: AsideRows[] = []
  for (const { tenantId, locator, description } of copies) {
    for (const { name } of (description as CopyDescription).tables) {
      const table = qualified(asideSchemaOf({ tenantId, locator }), name)
      const rows = await countRows(client, table)
      if (rows > 0) found.push({ tenantId, locator, table, rows })
    }
  }
  return found
}

/** Zero if the schema has been dropped meanwhile. */
async function countRows(client: pg.ClientBase, table: string): Promise<number> {
  try {
    const { rows } = await client.query(`select count(*)::float8 as rows from ${table}`)
    return rows[0].rows
  } catch (error) {
    if (sqlState(error) === UNDEFINED_TABLE) return 0
    throw error
  }
}

/** The rows of a tenant, as a search reports them. */
export const asideRowsOf = async (server: PostgresServer, tenantId: string): Promise<FoundData[]> => {
  const found = await whilePrepared(server, (client) => countAside(client, { tenantId }))
  return found.map(({ table, rows }) => ({ kind: table, count: rows }))
}

/**
 * Orphaned rows in the shared tables and aside; exact under concurrent changes (audit/orphaned-rows.ts). The registry is
 * read once, after both, and both are read again.
 */
export const orphanedOrAside = (
  server: PostgresServer,
  tables: RowTables,
  registered: () => Promise<readonly RegisteredLocation[]>,
): Promise<OrphanedRows[]> =>
  whilePrepared(server, async (client) => {
    const before = new Set((await countAside(client)).map(({ table }) => table))
    let known: readonly RegisteredLocation[] | undefined
    const read = async () => {
      known = await registered()
      return known
    }
    const found = await orphanedRows(server, tables, read)
    const names = new Set((known ?? (await registered())).map(({ tenantId, locator }) => `${tenantId} ${locator}`))
    const left = (await countAside(client)).filter(
      ({ table, tenantId, locator }) => before.has(table) && !names.has(`${tenantId} ${locator}`),
    )
    const column = columnName(tables.column)
    return [...found, ...left.map(({ table, tenantId, rows }) => ({ table, column, tenantId, rows }))]
  })

/** Returns nothing for a server without tenants. */
const whilePrepared = <T>(server: PostgresServer, work: (client: pg.ClientBase) => Promise<T[]>): Promise<T[]> =>
  server.owned(async (client) => {
    const { rows } = await client.query(`select to_regclass('tenantry.row_copies') is not null as "isPrepared"`)
    return rows[0].isPrepared ? work(client) : []
  })

interface AsideRows extends RegisteredLocation, Omit<OrphanedRows, 'column'> {}
