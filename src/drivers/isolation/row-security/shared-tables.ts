/**
 * Whether rows may be put into shared tables without a word of the host's triggers, and what has to be looked at then instead.
 *
 * With `session_replication_role` set to replica, no trigger of the host's runs, and none of those that check foreign keys and
 * deferrable keys. So foreign keys are asked about afterwards; where there is something else that would go unchecked, or triggers
 * that run then of all times, it is not done.
 */
import pg from 'pg'
import { BackupIncompatible, type CopiedSequence, type CopiedTable } from '../../../tenants/isolation/copy.ts'
import type { Rows } from '../catalog/iterate-tables.ts'
import { isTenants, qualified, relationsOf, type StoredSchema } from '../catalog/tables.ts'
import type { PostgresMigrator } from '../migrations/postgres-migrator.ts'
import type { RowReader } from './row-reader.ts'
import { queryPinned } from './sql.ts'

export interface SharedStorage {
  readonly schema: string
  /** Of any schema that has the same tables. */
  readonly searchPathOf: (schema: string) => string
  /** What the rows carry. */
  readonly tenant: string
  readonly scopeRole: string
  readonly migrator: PostgresMigrator
}

/** Shared tables as one import finds them. */
export interface Shared extends SharedStorage {
  readonly searchPath: string
  readonly stored: StoredSchema
  readonly facts: SharedFacts
  readonly reader: RowReader
  /** What has been run, in order. */
  readonly applied: readonly string[]
  /** The name of a schema that nobody else has, and that is gone at the end. */
  readonly stagingSchema: string
}

/** What an import has put there. */
export interface Taken {
  readonly rows: Rows
  /** What sequences must be beyond now. */
  readonly sequences: readonly CopiedSequence[]
}

export interface SharedFacts {
  /** Rows can be written without triggers, and foreign keys asked about afterwards. */
  readonly canDisableTriggers: boolean
  /** Of the host's, which run for rows that anybody inserts. */
  readonly hasTriggers: boolean
  readonly foreignKeys: readonly ForeignKey[]
}

/** Of a table with tenants' rows. */
export interface ForeignKey {
  readonly name: string
  /** The name of the table. */
  readonly of: string
  /** That of the table which it refers to. */
  readonly to: string
  /** The same as they are read without their children. */
  readonly table: string
  readonly target: string
  /** Whether it refers to what all tenants share. */
  readonly isShared: boolean
  /** Of the table, as `f`. */
  readonly columns: readonly string[]
  /** Whether a row of the target, `p`, is the one that `f` refers to. */
  readonly match: string
  /** MATCH FULL: all of its columns are null, or none is. */
  readonly isFull: boolean
}

export async function sharedFacts(client: pg.ClientBase, schema: string): Promise<SharedFacts> {
  const [{ rows }] = (await queryPinned(
    client,
    `with ${relationsOf(schema)},
    fired as materialized (
      select tgenabled from relation join pg_trigger on tgrelid = relation.oid where not tgisinternal and tgenabled <> 'D'),
    key as materialized (select k.* from relation join pg_constraint k on conrelid = relation.oid)
    select
      has_parameter_privilege(current_user, 'session_replication_role', 'set')
        and not exists (select from fired where tgenabled in ('R', 'A'))
        and not exists (select from key where condeferrable and contype in ('p', 'u', 'x'))
        and not exists (select from key where to_jsonb(key) ->> 'conperiod' = 'true' and contype = 'f') as "canDisableTriggers",
      exists (select from fired where tgenabled in ('O', 'A')) as "hasTriggers",
      array(
        select json_build_object(
          'name', conname, 'of', f.relname, 'to', p.relname, 'isShared', there_id.attnum is null,
          'table', case f.relkind when 'p' then '' else 'only ' end || conrelid::regclass,
          'target', case p.relkind when 'p' then '' else 'only ' end || confrelid::regclass,
          'isFull', confmatchtype = 'f',
          'columns', array(
            select format('f.%I', attname) from unnest(conkey) with ordinality as k (number, position)
            join pg_attribute on attrelid = conrelid and attnum = number order by position),
          'match', (
            select string_agg(format('p.%I operator(%I.%s) f.%I', there.attname, nspname, oprname, here.attname), ' and ')
            from generate_subscripts(conkey, 1) as position
            join pg_attribute here on here.attrelid = conrelid and here.attnum = conkey[position]
            join pg_attribute there on there.attrelid = confrelid and there.attnum = confkey[position]
            join pg_operator o on o.oid = conpfeqop[position] join pg_namespace n on n.oid = oprnamespace))
        from key join pg_class f on f.oid = conrelid join pg_class p on p.oid = confrelid
        join pg_attribute here_id on here_id.attrelid = conrelid and here_id.attname = 'tenant_id'
        left join pg_attribute there_id on there_id.attrelid = confrelid and there_id.attname = 'tenant_id'
        where contype = 'f' and conparentid = 0 and convalidated order by key.oid) as "foreignKeys"`,
  )) as [pg.QueryResult]
  return rows[0]
}

/**
 * What the triggers of foreign keys do, for the rows of one tenant: every row is there that they refer to, and stays, where another
 * could take it away. Throws `E_BACKUP_INCOMPATIBLE`, naming table and constraint.
 */
export async function checkForeignKeys(
  client: pg.ClientBase,
  { foreignKeys }: SharedFacts,
  tenant: string,
): Promise<void> {
  const mine = `f.tenant_id = ${pg.escapeLiteral(tenant)}`
  for (const { name, of, table, target, isShared, columns, match, isFull } of foreignKeys) {
    if (isShared) {
      const referred = `select from ${target} p where exists (select from ${table} f where ${mine} and ${match}) for key share`
      await client.query(`select count(*) from (${referred}) as held`)
    }
    const nulls = `num_nulls(${columns.join(', ')})`
    const broken = `${nulls} = 0 and not exists (select from ${target} p where ${match})`
    const partly = isFull ? ` or ${nulls} between 1 and ${columns.length - 1}` : ''
    const { rows } = await client.query(
      `select exists (select from ${table} f where ${mine} and (${broken}${partly})) as broken`,
    )
    if (rows[0].broken) {
      throw BackupIncompatible(`A row of the copy for the table "${of}" is refused by its constraint "${name}".`)
    }
  }
}

/** Of tables that all tenants read, a copy may have no row that is not there already. Throws `E_BACKUP_INCOMPATIBLE`, naming the table. */
export async function assertNoOtherRows(
  client: pg.ClientBase,
  { schema, stagingSchema, stored }: Shared,
  copied: readonly CopiedTable[],
): Promise<void> {
  const shared = stored.tables.filter((table) => !isTenants(table)).map(({ name }) => name)
  for (const { name, columns } of copied.filter((table) => shared.includes(table.name))) {
    const texts = columns.map((column) => `${pg.escapeIdentifier(column.name)}::text`).join(', ')
    const [incoming, there] = [stagingSchema, schema].map((one) => `select ${texts} from ${qualified(one, name)}`)
    const { rows } = await client.query(`select exists (${incoming} except ${there}) as other`)
    if (rows[0].other) {
      throw BackupIncompatible(
        `The copy has rows of the table "${name}" that are not there; all tenants read it, so an import does not write to it.`,
      )
    }
  }
}
