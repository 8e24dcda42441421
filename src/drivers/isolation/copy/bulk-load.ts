/**
 * Plans the statements that prepare tables for a bulk load and restore them after it:
 *
 *   foreign keys within the schema          dropped, and checked once for all rows when they are restored
 *   indexes, primary keys, unique keys      dropped, and built in one step
 *   checks that were never validated        dropped, as they apply to new rows only; restored without validation
 *   triggers of the host                    disabled: the rows already contain their effects
 *   forced row security                     not forced: the owner loads all rows
 *   the default of the tenant column        the constant tenant id: a function would be called for each row
 *   constraints that may be deferred        immediate, so that no check is left for the end of the transaction
 *
 * The catalog itself provides the restored definitions beforehand, exactly: definition, name, comment, tablespace,
 * statistics target, clustering and replica identity.
 *
 * An index stays if another object needs it (a foreign key from another schema, a view that groups by a primary key),
 * if it is part of a partitioned table's index, or if it calls functions or operators of the host: PostgreSQL would
 * build it with another search path than the one for writing rows. Exclusion constraints and keys without overlaps
 * stay, too.
 */
import pg from 'pg'
import { relationsOf } from '../catalog/tables.ts'
import { queryPinned } from '../row-security/sql.ts'
import { columnDefault, columnName, TENANT_ID, type TenantColumn, valueAs } from '../row-security/tenant-column.ts'

export interface BulkLoadPlan {
  readonly off: readonly string[]
  readonly on: readonly string[]
}

export interface BulkLoadOptions {
  /** The tenant of the rows. */
  readonly tenantId: string
  /** Default: `tenant_id`. */
  readonly column?: TenantColumn | undefined
  /** Whether only the default of the tenant column is restored, because the rows are then moved to other tables. */
  readonly isPassing?: boolean
  /** How to treat foreign keys to a table of the schema that is not loaded. */
  readonly others?: (table: string) => 'checked' | 'trusted' | 'gone'
}

/** Runs in the transaction of the load. @param tables to load, without partitions */
export async function planBulkLoad(
  client: pg.ClientBase,
  schema: string,
  tables: readonly string[],
  { tenantId, column = TENANT_ID, isPassing = false, others = () => 'checked' }: BulkLoadOptions,
): Promise<BulkLoadPlan> {
  if (tables.length === 0) return { off: [], on: [] }
  const [result] = (await queryPinned(client, factsText(schema, tables, column))) as [pg.QueryResult]
  const { indexes, constraints, triggers, deferrable, forced, fillings }: Facts = result.rows[0]
  const immediate = deferrable.map(({ name }) => name)
  const deferred = deferrable.filter(({ isBack }) => isBack).map(({ name }) => name)
  const filled = fillings.map((table) => `${filling(table, column)} ${columnDefault(column)}`)
  const on = [
    ...indexes.flatMap(indexBack),
    ...constraints.flatMap((constraint) => constraintBack(constraint, others)),
    ...triggers.map(({ table, name, state }) => `alter table only ${table} enable ${ENABLED[state]}trigger ${name}`),
    ...forced.map((table) => `alter table only ${table} force row level security`),
    ...(deferred.length > 0 ? [`set constraints ${deferred.join(', ')} deferred`] : []),
  ]
  return {
    off: [
      ...(immediate.length > 0 ? [`set constraints ${immediate.join(', ')} immediate`] : []),
      ...constraints.map(({ owner, name }) => `alter ${owner} drop constraint ${pg.escapeIdentifier(name)}`),
      ...indexes.map((index) =>
        index.key ? `alter table ${index.table} drop constraint ${index.name}` : `drop index ${index.qualifiedName}`,
      ),
      ...triggers.map(({ table, name }) => `alter table only ${table} disable trigger ${name}`),
      ...forced.map((table) => `alter table only ${table} no force row level security`),
      ...fillings.map((table) => `${filling(table, column)} ${valueAs(column, tenantId)}`),
    ],
    on: isPassing ? filled : [...on, ...filled],
  }
}

/** Names are quoted, tables with their schema. */
interface Facts {
  readonly indexes: readonly Index[]
  readonly constraints: readonly Constraint[]
  readonly triggers: readonly { readonly table: string; readonly name: string; readonly state: 'O' | 'R' | 'A' }[]
  /** By name, as a transaction sets them. `isBack` marks constraints that stay and are deferred by default. */
  readonly deferrable: readonly { readonly name: string; readonly isBack: boolean }[]
  /** Tables whose policies bind their owner. */
  readonly forced: readonly string[]
  /** Tables whose tenant column has the default `tenantry.current_tenant()`. */
  readonly fillings: readonly string[]
}

interface Index {
  readonly name: string
  readonly qualifiedName: string
  readonly table: string
  readonly definition: string
  /** Null: that of the database, as is the transaction's default. */
  readonly tablespace: string | null
  readonly comment: string | null
  readonly statistics: readonly (readonly [column: number, target: number])[]
  readonly isClustered: boolean
  readonly isIdentity: boolean
  /** The constraint of the index. */
  readonly key: { readonly kind: 'p' | 'u'; readonly deferral: string; readonly comment: string | null } | null
}

interface Constraint {
  /** `table "a"."b"`, `domain "a"."c"` */
  readonly owner: string
  /** Not quoted. */
  readonly name: string
  readonly definition: string
  readonly comment: string | null
  /** Of a foreign key: the referenced table, if it is not loaded. */
  readonly other: string | null
}

const filling = (table: string, column: TenantColumn): string =>
  `alter table only ${table} alter column ${columnName(column)} set default`

const ENABLED = { O: '', R: 'replica ', A: 'always ' }
const KEYS = { p: 'primary key', u: 'unique' }

function indexBack({ name, qualifiedName, table, definition, ...index }: Index): string[] {
  const comment = (on: string, text: string | null) =>
    text === null ? [] : [`comment on ${on} is ${pg.escapeLiteral(text)}`]
  const inTablespace = (name: string) => `select set_config('default_tablespace', ${pg.escapeLiteral(name)}, true)`
  return [
    ...(index.tablespace ? [inTablespace(index.tablespace), definition, inTablespace('')] : [definition]),
    ...(index.key
      ? [`alter table ${table} add constraint ${name} ${KEYS[index.key.kind]} using index ${name}${index.key.deferral}`]
      : []),
    ...(index.key ? comment(`constraint ${name} on ${table}`, index.key.comment) : []),
    ...comment(`index ${qualifiedName}`, index.comment),
    ...index.statistics.map(
      ([column, target]) => `alter index ${qualifiedName} alter column ${column} set statistics ${target}`,
    ),
    ...(index.isClustered ? [`alter table ${table} cluster on ${name}`] : []),
    ...(index.isIdentity ? [`alter table ${table} replica identity using index ${name}`] : []),
  ]
}

function constraintBack(constraint: Constraint, others: NonNullable<BulkLoadOptions['others']>): string[] {
  const { owner, definition, comment, other } = constraint
  const kind = other === null ? 'checked' : others(other)
  if (kind === 'gone') return []
  const name = pg.escapeIdentifier(constraint.name)
  const isTrusted = kind === 'trusted' && !/ NOT (VALID|ENFORCED)$/.test(definition)
  return [
    `alter ${owner} add constraint ${name} ${definition}${isTrusted ? ' not valid' : ''}`,
    ...(comment === null
      ? []
      : [`comment on constraint ${name} on ${owner.replace(/^table /, '')} is ${pg.escapeLiteral(comment)}`]),
  ]
}

/** `loaded` and its partitions are the family; all objects are found from the relations of the schema. */
const factsText = (schema: string, tables: readonly string[], column: TenantColumn): string => `
  with ${relationsOf(schema)},
  loaded as materialized (
    select oid, relkind, relispartition from relation
    where relkind in ('r', 'p') and relname in (${tables.map((name) => pg.escapeLiteral(name)).join(', ')})),
  family as materialized (
    select oid from loaded union select relid from loaded, pg_partition_tree(loaded.oid) where relkind = 'p'),
  reference as materialized (
    select k.oid, conname, conrelid, confrelid from relation join pg_constraint k on conrelid = relation.oid
    where contype = 'f' and conparentid = 0 and confrelid in (select oid from relation)
      and (conrelid in (select oid from family) or confrelid in (select oid from family))),
  index as materialized (
    select i.*, k.oid as key, k.contype, k.condeferrable, k.condeferred
    from loaded join pg_index i on indrelid = loaded.oid
    left join pg_constraint k on conrelid = indrelid and conindid = indexrelid and contype in ('p', 'u', 'x')
    where relkind = 'r' and not relispartition and indisvalid and indisready and not indisexclusion
      and contype is distinct from 'x' and to_jsonb(k) ->> 'conperiod' is distinct from 'true'
      and (select true from (
          select classid, objid from pg_depend where refclassid = 'pg_class'::regclass and refobjid = indexrelid
          union all select classid, objid from pg_depend where refclassid = 'pg_constraint'::regclass and refobjid = k.oid) d
        where not (d.classid = 'pg_class'::regclass and d.objid = indexrelid)
          and not (d.classid = 'pg_constraint'::regclass and d.objid in (select oid from reference)) limit 1) is null
      and (select true from pg_depend where classid = 'pg_class'::regclass and objid = indexrelid
        and (refclassid in ('pg_proc'::regclass, 'pg_operator'::regclass) or deptype in ('x', 'e')) limit 1) is null)
  select
    array(select json_build_object(
        'name', quote_ident(relname), 'qualifiedName', format('%I.%I', nspname, relname), 'table', indrelid::regclass,
        'definition', pg_get_indexdef(indexrelid), 'tablespace', (select spcname from pg_tablespace where oid = reltablespace),
        'comment', obj_description(indexrelid, 'pg_class'), 'isClustered', indisclustered, 'isIdentity', indisreplident,
        'statistics', array(select json_build_array(attnum, attstattarget) from pg_attribute
          where attrelid = indexrelid and attstattarget >= 0 order by attnum),
        'key', case when key is not null then json_build_object(
          'kind', contype, 'comment', obj_description(key, 'pg_constraint'),
          'deferral', case when condeferred then ' deferrable initially deferred' when condeferrable then ' deferrable' else '' end) end)
      from index join pg_class c on c.oid = indexrelid join pg_namespace n on n.oid = relnamespace
      order by indexrelid) as indexes,
    array(select json_build_object(
        'owner', owner, 'name', conname, 'definition', pg_get_constraintdef(oid),
        'comment', obj_description(oid, 'pg_constraint'), 'other', other)
      from (
        select oid, conname, 'table ' || conrelid::regclass as owner,
          (select relname from relation where oid = confrelid and oid not in (select oid from family)) as other
        from reference
        union all select k.oid, conname, 'table ' || conrelid::regclass, null
        from family join pg_constraint k on conrelid = family.oid
        where contype in ('c', 'n') and not convalidated and conislocal and coninhcount = 0
        union all select k.oid, conname, 'domain ' || contypid::regtype, null
        from pg_namespace n
        join pg_depend d on refclassid = 'pg_namespace'::regclass and refobjid = n.oid and refobjsubid = 0
          and classid = 'pg_type'::regclass
        join pg_constraint k on conrelid = 0 and contypid = objid
        where nspname = ${pg.escapeLiteral(schema)} and not convalidated) as dropped (oid, conname, owner, other)
      order by oid) as constraints,
    array(select json_build_object('table', tgrelid::regclass, 'name', quote_ident(tgname), 'state', tgenabled)
      from family join pg_trigger on tgrelid = family.oid
      where not tgisinternal and tgenabled <> 'D' order by pg_trigger.oid) as triggers,
    array(select json_build_object('name', name, 'isBack', bool_or(stays) and not bool_or(cannot)) from (
        select format('%I.%I', nspname, conname), condeferred
            and k.oid not in (select oid from reference) and k.oid not in (select key from index where key is not null),
          (select true from pg_constraint o where o.conname = k.conname and o.connamespace = k.connamespace
            and not o.condeferrable limit 1) is true
        from family join pg_constraint k on conrelid = family.oid join pg_namespace n on n.oid = connamespace
        where condeferrable) as held (name, stays, cannot)
      group by name order by name) as deferrable,
    array(select loaded.oid::regclass::text from loaded join pg_class c on c.oid = loaded.oid where relforcerowsecurity) as forced,
    array(select oid::regclass::text
      from loaded join pg_attribute on attrelid = loaded.oid and attname = ${pg.escapeLiteral(column.name)}
      where attgenerated = '' and (
        select pg_get_expr(adbin, adrelid) = ${pg.escapeLiteral(columnDefault(column))} from pg_attrdef
        where adrelid = attrelid and adnum = attnum)) as fillings`
