/**
 * Checks whether rows can be written to shared tables without the host's triggers, and makes the checks that the
 * triggers skip.
 *
 * With `session_replication_role` set to replica, neither the host's triggers run nor those that check foreign keys and
 * deferrable keys. So foreign keys are checked afterwards. This mode is not used if other checks would be skipped, or
 * if there are triggers that run only in it.
 */
import pg from 'pg'
import { BackupIncompatible, type CopiedSequence, type CopiedTable } from '../../../tenants/isolation/copy.ts'
import type { Rows } from '../catalog/iterate-tables.ts'
import { isTenants, qualified, relationsOf, type StoredSchema } from '../catalog/tables.ts'
import type { PostgresMigrator } from '../migrations/postgres-migrator.ts'
import type { RowReader } from './row-reader.ts'
import { queryPinned } from './sql.ts'
import { columnName, type TenantColumn, valueAs } from './tenant-column.ts'

export interface SharedStorage {
  readonly column: TenantColumn
  readonly schema: string
  /** The search path for any schema that has the same tables. */
  readonly searchPathOf: (schema: string) => string
  /** The label of the rows. */
  readonly tenant: string
  readonly scopeRole: string
  readonly migrator: PostgresMigrator
}

/** Shared tables at the start of one import. */
export interface Shared extends SharedStorage {
  readonly searchPath: string
  readonly stored: StoredSchema
  readonly facts: SharedFacts
  readonly reader: RowReader
  /** Applied migrations, in order. */
  readonly applied: readonly string[]
  /** The name of a schema that only this import uses and that is dropped at the end. */
  readonly stagingSchema: string
}

/** The result of an import. */
export interface Taken {
  readonly rows: Rows
  /** Minimum values of the sequences. */
  readonly sequences: readonly CopiedSequence[]
}

export interface SharedFacts {
  /** Whether rows can be written without triggers, with foreign keys checked afterwards. */
  readonly canDisableTriggers: boolean
  /** Whether the host has triggers that run for each insert. */
  readonly hasTriggers: boolean
  readonly foreignKeys: readonly ForeignKey[]
}

/** A foreign key of a table with tenants' rows. */
export interface ForeignKey {
  readonly name: string
  /** The name of the table. */
  readonly of: string
  /** The name of the referenced table. */
  readonly to: string
  /** Both as read without their children. */
  readonly table: string
  readonly target: string
  /** Whether the referenced table is shared by all tenants. */
  readonly isShared: boolean
  /** Columns of the table `f`. */
  readonly columns: readonly string[]
  /** Condition: the row of the target `p` is the one that `f` refers to. */
  readonly match: string
  /** MATCH FULL: all columns are null, or none is. */
  readonly isFull: boolean
}

export async function sharedFacts(
  client: pg.ClientBase,
  schema: string,
  { name }: Pick<TenantColumn, 'name'>,
): Promise<SharedFacts> {
  const tenantColumn = pg.escapeLiteral(name)
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
        and not exists (select from key where to_jsonb(key) ->> 'conperiod' = 'true' and contype = 'f')
        and not exists (select from key join pg_class p on p.oid = confrelid where contype = 'f' and not (
          has_schema_privilege(p.relnamespace, 'usage') and has_table_privilege(p.oid, 'select') and has_table_privilege(p.oid, 'update')))
        as "canDisableTriggers",
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
        join pg_attribute here_id on here_id.attrelid = conrelid and here_id.attname = ${tenantColumn}
        left join pg_attribute there_id on there_id.attrelid = confrelid and there_id.attname = ${tenantColumn}
        where contype = 'f' and conparentid = 0 and convalidated order by key.oid) as "foreignKeys"`,
  )) as [pg.QueryResult]
  return rows[0]
}

/**
 * Replaces the triggers of foreign keys for the rows of one tenant: checks that every referenced row exists, and locks
 * it where another transaction could delete it. Throws `E_BACKUP_INCOMPATIBLE` with table and constraint.
 */
export async function checkForeignKeys(
  client: pg.ClientBase,
  { foreignKeys }: SharedFacts,
  tenant: string,
  column: TenantColumn,
): Promise<void> {
  const mine = `f.${columnName(column)} = ${valueAs(column, tenant)}`
  for (const { name, of, table, target, isShared, columns, match, isFull } of foreignKeys) {
    if (isShared) {
      const referred = `select from ${target} p where exists (select from ${table} f where ${mine} and ${match}) for key share`
      await client.query(`select count(*) from (${referred}) as held`)
    }
    const nulls = `pg_catalog.num_nulls(${columns.join(', ')})`
    const broken = `${nulls} = 0 and not exists (select from ${target} p where ${match})`
    const partly = isFull ? ` or ${nulls} between 1 and ${columns.length - 1}` : ''
    const { rows } = await client.query(
      `select exists (select from ${table} f where ${mine} and (${broken}${partly})) as broken`,
    )
    if (rows[0].broken) {
      throw BackupIncompatible(`A row of the copy for the table "${of}" violates its constraint "${name}".`)
    }
  }
}

/**
 * In tables that all tenants read, a copy may only have existing rows. Throws `E_BACKUP_INCOMPATIBLE` with the name of
 * the table.
 */
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
        `The copy has new rows for the table "${name}"; all tenants read this table, so an import does not write to it.`,
      )
    }
  }
}
