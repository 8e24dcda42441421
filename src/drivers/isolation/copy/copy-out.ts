/**
 * Reads all that a tenant has, in one snapshot, as its owner: a fence keeps tenants' queries out, not this.
 *
 *   which tables ─► BEGIN, locks ─► snapshot ─► what the catalog says, sequences ─► COPY, table by table ─► COMMIT
 *
 * The locks come before the snapshot, and keep nobody out but who would alter or empty a table: what such a change leaves behind, an
 * older snapshot sees as an empty table. When tables have come or gone between the first step and the snapshot, it begins anew.
 * Sequences know no snapshot; read after it, they are beyond every value in it.
 *
 * In shared tables, row level security itself says whose the rows are: the owner reads as somebody whom the policies bind
 * (row-security/row-reader.ts). Nothing is held but what is on its way (tables-out.ts).
 *
 * Not in a copy: large objects, foreign tables, what is outside of the schema, and the tables of extensions. Materialised views are
 * made anew from the tables.
 */
import pg from 'pg'
import { sqlState } from '../../../kernel/database/database.ts'
import {
  BackupIncompatible,
  type CopiedSequence,
  type CopyDescription,
  type TenantCopy,
} from '../../../tenants/isolation/copy.ts'
import {
  all,
  copiedColumns,
  isTenants,
  qualified,
  readStored,
  type StoredSchema,
  type StoredTable,
} from '../catalog/tables.ts'
import type { PostgresMigrator } from '../migrations/postgres-migrator.ts'
import { type Holding, READING, setting } from '../transactions/copy-session.ts'
import { sequencesText } from './sequences.ts'
import { TablesOut } from './tables-out.ts'

export interface Source {
  readonly isolation: string
  /** Of the tables, which also names the records of their migrations. */
  readonly schema: string
  readonly searchPath: string
  readonly tenantId: string
  readonly migrator: PostgresMigrator
  /** Of tables that tenants share: what makes the transaction see the rows of this one, and no others. */
  readonly among?: { readonly statements: readonly string[] }
  /** In the snapshot, before anything of the tenant is read; throws when it is not what was expected. */
  readonly confirm?: (client: pg.ClientBase) => Promise<void>
}

/** Tables come and go while a tenant is migrated, not all the time. */
const ATTEMPTS = 5
const UNDEFINED_TABLE = '42P01'
const FAILED = 'the transaction of a copy could not be ended in order'

/** On a connection of the owner, outside of any transaction. It may be lost, whether this throws or not. */
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
  throw new Error('tables come and go all the time: there is no moment for a copy')
}

/** What there is in the snapshot; undefined when a table is gone already. */
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

async function tablesOf(client: pg.ClientBase, { schema, searchPath, among }: Source): Promise<StoredSchema> {
  const stored = await readStored(client, schema, searchPath)
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

/** Settings that are no queries: the snapshot is taken by the first of these, after the locks. */
const locks = ({ tables }: StoredSchema, { schema, among }: Source): string[] => [
  'set local lock_timeout = 10000',
  // A table's own policies would hide rows from its owner, in silence.
  ...(among ? [] : ['set local row_security = off']),
  ...(tables.length > 0
    ? [`lock table ${tables.map(({ name }) => qualified(schema, name)).join(', ')} in access share mode`]
    : []),
]

async function read(client: pg.ClientBase, source: Source, stored: StoredSchema): Promise<TablesOut> {
  const { schema, searchPath, tenantId, migrator, isolation, among } = source
  const reads = stored.tables.map((table) => ({
    table: { name: table.name, columns: copiedColumns(table) },
    query: queryOf(table, source),
  }))
  const ran = await migrator.records(client, schema)
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
    sequences: results[0]?.rows as CopiedSequence[],
  }
  return new TablesOut(client, description, reads, estimateOf(results.slice(-reads.length || results.length)))
}

/** Whose rows they are, row level security says; the condition says it again, for the index. */
function queryOf(table: StoredTable, { schema, tenantId, among }: Source): string {
  const columns = copiedColumns(table).map(({ name }) => pg.escapeIdentifier(name))
  const only = table.isPartitioned ? '' : 'only '
  const condition = among ? ` where tenant_id = ${pg.escapeLiteral(tenantId)}` : ''
  return `select ${columns.join(', ')} from ${only}${qualified(schema, table.name)}${condition}`
}

/** What the planner believes. */
const estimateOf = (plans: readonly pg.QueryResult[]): number =>
  plans.reduce((sum, { rows }) => sum + (rows[0]?.['QUERY PLAN']?.[0]?.Plan?.['Plan Rows'] ?? 0), 0)
