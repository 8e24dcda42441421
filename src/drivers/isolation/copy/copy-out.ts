/**
 * Reads all rows of a tenant in one snapshot, as the owner: a fence applies to tenants' queries only.
 *
 *   tables ─► BEGIN, locks ─► snapshot ─► catalog, sequences ─► COPY, table by table ─► COMMIT
 *
 * - The locks precede the snapshot and block only statements that alter or truncate a table: after such a change, an
 *   older snapshot sees an empty table. If tables were created or dropped between the first step and the snapshot, the
 *   copy starts again.
 * - Sequences have no snapshot. They are read after it, so they are beyond every value in it.
 * - In shared tables, row level security selects the rows: the policies bind the owner (row-security/row-reader.ts).
 * - Only the chunks in flight are in memory (tables-out.ts).
 *
 * A copy does not contain large objects, foreign tables, objects outside of the schema and tables of extensions. An
 * import refreshes materialised views from the tables.
 */
import pg from 'pg'
import { sqlState } from '../../../kernel/database/database.ts'
import {
  BackupIncompatible,
  type CopiedSequence,
  type CopiedTable,
  type CopyDescription,
  type TenantCopy,
} from '../../../tenants/isolation/copy.ts'
import { all, copiedColumns, isTenants, qualified, readStored, type StoredSchema } from '../catalog/tables.ts'
import type { PostgresMigrator } from '../migrations/postgres-migrator.ts'
import { columnName, TENANT_ID, type TenantColumn } from '../row-security/tenant-column.ts'
import { type Holding, READING, setting } from '../transactions/copy-session.ts'
import { sequencesText } from './sequences.ts'
import { TablesOut } from './tables-out.ts'

export interface Source {
  readonly isolation: string
  /** The schema of the tables. Its name is also the key of the migration records. */
  readonly schema: string
  readonly searchPath: string
  readonly tenantId: string
  readonly migrator: PostgresMigrator
  /** Of shared tables: the statements after which the transaction sees only the rows of this tenant. */
  readonly among?: { readonly statements: readonly string[] }
  /** Of shared tables: the column with the tenant; default `tenant_id`. */
  readonly column?: TenantColumn
  /** Of a copy that was kept: what it describes, in place of the catalog and the records of migrations. */
  readonly description?: CopyDescription
  /** Runs in the snapshot, before rows are read. Throws if the state is not as expected. */
  readonly confirm?: (client: pg.ClientBase) => Promise<void>
}

/** Tables change only while a tenant is migrated. */
const ATTEMPTS = 5
const UNDEFINED_TABLE = '42P01'
const FAILED = 'The transaction of a copy could not be ended'

/**
 * Runs on a connection of the owner, outside of any transaction. The connection may be lost, with or without an error.
 */
export async function copyOut<T>(
  client: pg.ClientBase,
  source: Source,
  work: (copy: TenantCopy) => Promise<T>,
  hold: Holding,
): Promise<T> {
  return hold(client, async () => {
    let copy: TablesOut | undefined
    try {
      copy = await startCopy(client, source)
      const result = await work(copy)
      if (await copy.isEnded()) await client.query('commit')
      return result
    } catch (error) {
      if (copy === undefined || (await copy.isEnded())) {
        await client.query('rollback').catch((failure) => {
          throw new AggregateError([error, failure], FAILED)
        })
      }
      throw error
    }
  })
}

async function startCopy(client: pg.ClientBase, source: Source): Promise<TablesOut> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const before = await tablesOf(client, source)
    const stored = await locked(client, source, before)
    if (stored && namesIn(stored) === namesIn(before)) return read(client, source, stored)
    await client.query('rollback')
  }
  throw new Error('Tables were created or dropped during each attempt to copy. Repeat the copy after the migrations')
}

/** The schema in the snapshot; undefined if a table was dropped. */
async function locked(client: pg.ClientBase, source: Source, before: StoredSchema): Promise<StoredSchema | undefined> {
  try {
    await all(client, 'begin isolation level repeatable read, read only', ...locks(before, source), setting(READING))
    await source.confirm?.(client)
    return await tablesOf(client, source)
  } catch (error) {
    if (sqlState(error) === UNDEFINED_TABLE) return undefined
    throw error
  }
}

async function tablesOf(client: pg.ClientBase, { schema, searchPath, among, column }: Source): Promise<StoredSchema> {
  const stored = await readStored(client, schema, searchPath, column)
  if (!stored) throw nothingThere()
  const { sequences } = stored
  const tables = among ? stored.tables.filter(isTenants) : stored.tables
  const foreign = tables.find(({ hasForeignRows }) => hasForeignRows)
  if (foreign) throw BackupIncompatible(`The table "${foreign.name}" has rows on another server; nothing was read.`)
  return { tables, sequences }
}

export const nothingThere = (cause?: unknown) =>
  BackupIncompatible('Storage of the tenant not found; nothing was read.', { cause })

const namesIn = ({ tables }: StoredSchema): string => JSON.stringify(tables.map(({ name }) => name))

/** Only settings precede the locks: the first query after them takes the snapshot. */
const locks = ({ tables }: StoredSchema, { schema, among }: Source): string[] => [
  'set local lock_timeout = 10000',
  // The policies of a table would silently hide rows from its owner.
  ...(among ? [] : ['set local row_security = off']),
  ...(tables.length > 0
    ? [`lock table ${tables.map(({ name }) => qualified(schema, name)).join(', ')} in access share mode`]
    : []),
]

async function read(client: pg.ClientBase, source: Source, stored: StoredSchema): Promise<TablesOut> {
  const { schema, searchPath, tenantId, migrator, isolation, among, description: kept } = source
  const tables = kept?.tables ?? stored.tables.map((table) => ({ name: table.name, columns: copiedColumns(table) }))
  const reads = tables.map((table) => ({ table, query: queryOf(table, stored, source) }))
  const ran = kept?.migrations ?? (await migrator.records(client, schema))
  const results = await all(
    client,
    sequencesText(schema, stored),
    `select set_config('search_path', ${pg.escapeLiteral(searchPath)}, true), set_config('app.tenant_id', ${pg.escapeLiteral(tenantId)}, true)`,
    ...(among?.statements ?? []),
    ...reads.map(({ query }) => `explain (format json) ${query}`),
  )
  const description: CopyDescription = {
    engine: 'postgres',
    isolation,
    migrations: ran.map(({ name, checksum }) => ({ name, checksum })),
    tables: reads.map(({ table }) => table),
    sequences: kept?.sequences ?? (results[0]?.rows as CopiedSequence[]),
  }
  return new TablesOut(client, description, reads, estimateOf(results.slice(-reads.length || results.length)))
}

/** Row level security selects the rows. The equal condition is for the index. */
function queryOf(
  { name, columns }: CopiedTable,
  { tables }: StoredSchema,
  { schema, tenantId, among, column = TENANT_ID }: Source,
): string {
  const names = columns.map((one) => pg.escapeIdentifier(one.name))
  const only = tables.some((one) => one.name === name && one.isPartitioned) ? '' : 'only '
  const condition = among ? ` where ${columnName(column)} = ${pg.escapeLiteral(tenantId)}` : ''
  return `select ${names.join(', ')} from ${only}${qualified(schema, name)}${condition}`
}

/** The estimate of the planner. */
const estimateOf = (plans: readonly pg.QueryResult[]): number =>
  plans.reduce((sum, { rows }) => sum + (rows[0]?.['QUERY PLAN']?.[0]?.Plan?.['Plan Rows'] ?? 0), 0)
