/**
 * Deletes all rows of one tenant from shared tables.
 *
 * - Triggers of the host run as they do when the tenant itself deletes, and rely on row security. So the deletion runs
 *   as a role that sees only the tenant's rows. Rows that triggers write (a journal of deletions) are deleted, too.
 * - One statement deletes from every table, and foreign keys are checked at its end: their order, cycles and
 *   deferrability do not matter. PostgreSQL rejects it if a trigger changes a row that the same statement deletes from
 *   another table. Then the tables are deleted one after the other, and those with remaining references again.
 * - Without triggers and rules, this statement leaves no rows, and no search follows: it would read all deleted rows.
 * - Queries of the catalog are pinned: a former owner can create functions in `public` and in the path of the tables.
 * - The server counts the deleted rows of each table for its statistics. With triggers, which may write and delete
 *   further rows, or without statistics, the rows are counted first.
 */
import pg from 'pg'
import { sqlState } from '../../../kernel/database/database.ts'
import { deletionFrom } from '../../../kernel/database/tenant-rows.ts'
import type { FoundData } from '../../../kernel/erasable.ts'
import { fence, unfence, withRowsOf } from './apply.ts'
import { queryPinned } from './sql.ts'
import { columnName, TENANT_ID, type TenantColumn } from './tenant-column.ts'

/** Limits the depth of journals of journals and of references between rows. */
const MOST_PASSES = 10
const CHANGED_BY_TRIGGER = '27000'
const REFERRED_TO = '23503'

export interface TenantRows {
  /** Default: `tenant_id`. */
  readonly column?: TenantColumn
  readonly tenant: string
  readonly searchPath: string
  readonly scopeRole: string
  /** Whether the deleted rows are counted; default false. */
  readonly isCounted?: boolean
}

/**
 * Runs as the owner in a transaction. Throws if rows are left. Tables without the tenant column are shared and not
 * changed. Returns the number of rows before the deletion by table, only of tables that had some.
 */
export async function deleteTenantRows(client: pg.ClientBase, schema: string, rows: TenantRows): Promise<FoundData[]> {
  const { column = TENANT_ID, isCounted = false } = rows
  const [all, own] = [await tablesOf(client, schema, column), `${columnName(column)} = $1`]
  const { tables, mayWrite, isTracked } = all
  if (tables.length === 0) return []
  const isByServer = isTracked && !mayWrite
  let counts: readonly number[] = []
  const asTenant = async () => {
    await client.query(`select set_config('search_path', $1, true), set_config('app.tenant_id', $2, true)`, [
      rows.searchPath,
      rows.tenant,
    ])
    if (isCounted) counts = isByServer ? await deletedFrom(client, all) : await countsOf(client, all, own, rows.tenant)
    for (let pass = 0; pass < MOST_PASSES; pass++) {
      const isWhole = await deleteOnce(client, tables, own, rows.tenant)
      if (isWhole && !mayWrite) return
      if (!(await hasRows(client, tables, own, rows.tenant))) return
    }
    throw new Error(
      'Rows of the tenant remain, or triggers write new ones, after all were deleted; nothing was removed',
    )
  }
  if (await isExempt(client)) await inScope(client, rows, asTenant)
  else await withRowsOf(client, schema, rows.tenant, asTenant, column)
  if (!isCounted) return []
  const deleted = isByServer ? (await deletedFrom(client, all)).map((count, at) => count - (counts[at] ?? 0)) : counts
  return all.names.map((kind, at) => ({ kind, count: deleted[at] ?? 0 })).filter(({ count }) => count > 0)
}

/** For an owner that policies do not bind: takes the scope role, with the fence lifted for this transaction only. */
async function inScope(client: pg.ClientBase, { tenant, scopeRole }: TenantRows, work: () => Promise<void>) {
  await unfence(client, tenant)
  await client.query(`select set_config('role', $1, true)`, [scopeRole])
  await work()
  await client.query(`select set_config('role', 'none', true)`)
  await fence(client, tenant)
}

/** Whether policies do not bind the owner. */
export async function isExempt(client: pg.ClientBase): Promise<boolean> {
  const { rows } = await client.query(
    'select rolsuper or rolbypassrls as exempt from pg_roles where rolname = current_user',
  )
  return rows[0].exempt
}

interface Tables {
  /** Qualified and quoted. */
  readonly tables: readonly string[]
  /** Whether a trigger or rule of the host may write rows while others are deleted. */
  readonly mayWrite: boolean
  /** Whether the server counts deleted rows. */
  readonly isTracked: boolean
  readonly oids: readonly string[]
  /** As in a search. */
  readonly names: readonly string[]
}

async function tablesOf(client: pg.ClientBase, schema: string, { name }: TenantColumn): Promise<Tables> {
  const [space, column] = [pg.escapeLiteral(schema), pg.escapeLiteral(name)]
  const [{ rows }] = (await queryPinned(
    client,
    `with relation as materialized (
       select * from pg_class where relnamespace = (select oid from pg_namespace where nspname = ${space}) and relkind in ('r', 'p'))
     select exists (select from relation where relhasrules) or exists (
         select from relation join pg_trigger on tgrelid = relation.oid where not tgisinternal) as "mayWrite",
       current_setting('track_counts')::boolean as "isTracked",
       coalesce(json_agg(relname order by relname), '[]') as relations, coalesce(json_agg(owned.oid::text order by relname), '[]') as oids,
       coalesce(json_agg(format('%I.%I', ${space}, relname) order by relname), '[]') as names
     from relation owned join pg_attribute on attrelid = owned.oid
     where not relispartition and attname = ${column} and not attisdropped`,
  )) as [pg.QueryResult]
  const [{ relations, ...all }] = rows
  const tables = relations.map((name: string) => `${pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(name)}`)
  return { ...all, tables }
}

/** Rows that this session has deleted, of earlier transactions too: only differences within a transaction are exact. */
async function deletedFrom(client: pg.ClientBase, { oids }: Tables): Promise<number[]> {
  const [{ rows }] = (await queryPinned(
    client,
    `select array(select coalesce(
         (select sum(pg_stat_get_xact_tuples_deleted(relid)) from pg_partition_tree(oid)), pg_stat_get_xact_tuples_deleted(oid))::float8
       from unnest('{${oids.join(',')}}'::oid[]) with ordinality as every (oid, at) order by at) as deleted`,
  )) as [pg.QueryResult]
  return rows[0].deleted
}

async function countsOf(client: pg.ClientBase, { tables }: Tables, own: string, tenant: string): Promise<number[]> {
  const counts = tables.map((table) => `(select count(*) from ${table} where ${own})`)
  const { rows } = await client.query(`select array[${counts.join(', ')}]::float8[] as counts`, [tenant])
  return rows[0].counts
}

/** Returns whether one statement has deleted the rows of all tables. */
async function deleteOnce(
  client: pg.ClientBase,
  tables: readonly string[],
  own: string,
  tenant: string,
): Promise<boolean> {
  if (await isDone(client, CHANGED_BY_TRIGGER, deletionFrom(tables, own), tenant)) return true
  for (const table of tables) await isDone(client, REFERRED_TO, `delete from ${table} where ${own}`, tenant)
  return false
}

/** Returns false if the statement failed with this error, and undoes it. */
async function isDone(client: pg.ClientBase, unless: string, text: string, tenant: string): Promise<boolean> {
  await client.query('savepoint deletion')
  try {
    await client.query(text, [tenant])
  } catch (error) {
    if (sqlState(error) !== unless) throw error
    await client.query('rollback to savepoint deletion')
    return false
  }
  await client.query('release savepoint deletion')
  return true
}

async function hasRows(
  client: pg.ClientBase,
  tables: readonly string[],
  own: string,
  tenant: string,
): Promise<boolean> {
  const any = tables.map((table) => `exists (select from ${table} where ${own})`)
  const { rows } = await client.query(`select ${any.join(' or ')} as any`, [tenant])
  return rows[0].any
}
