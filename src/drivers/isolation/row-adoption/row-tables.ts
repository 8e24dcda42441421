/**
 * Reads the tables of an existing schema whose rows belong to many tenants, and their tenants.
 *
 * Only plain columns of plain tables are read, with names and types of `pg_catalog`, and without policies. Tables with
 * expressions that call routines of other roles are not read, because the planner evaluates constant calls in the
 * expressions of an index. So nothing of the former owner runs with the rights of the role of `url`.
 */
import pg from 'pg'
import { type AdoptedTenant, notAdoptable, type TenantSource } from '../../../tenants/isolation/adoption.ts'
import { TenantId, TenantName } from '../../../tenants/tenant/tenant.ts'
import type { RowTables } from '../audit/orphaned-rows.ts'
import { columnName, isColumnValue, type TenantColumn } from '../row-security/tenant-column.ts'

export interface RowTable {
  /** As in `pg_class.relname`. */
  readonly name: string
  /** Qualified, and quoted where necessary. */
  readonly identity: string
  /** The tenant column in a structure: `column orders.org_id`. */
  readonly columnObject: string
  readonly isPartitioned: boolean
  /** Null without the tenant column. */
  readonly column: {
    readonly isRequired: boolean
    readonly default: string | null
    /** Whether the server computes the value. */
    readonly isComputed: boolean
    readonly isIndexed: boolean
    readonly hasType: boolean
  } | null
  readonly isSecured: boolean
  readonly isForced: boolean
}

const TABLES = `
  select relname as name, (pg_identify_object('pg_class'::regclass, c.oid, 0)).identity as identity,
    'column ' || quote_ident(relname) || '.' || quote_ident($2) as "columnObject", relkind = 'p' as "isPartitioned",
    relrowsecurity as "isSecured", relforcerowsecurity as "isForced",
    case when attnum is not null then json_build_object(
      'isRequired', attnotnull, 'isComputed', attgenerated <> '' or attidentity <> '', 'hasType', atttypid = $3::regtype,
      'default', (select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = c.oid and adnum = attnum),
      'isIndexed', exists (
        select from pg_index where indrelid = c.oid and indkey[0] = attnum and indpred is null and indisvalid)) end as column
  from pg_class c left join pg_attribute on attrelid = c.oid and attname = $2 and not attisdropped
  where relnamespace = (select oid from pg_namespace where nspname = $1) and relkind in ('r', 'p') order by 1`

/** In a transaction. Changes its search path. */
export async function readTables(client: pg.ClientBase, { schema, column }: RowTables): Promise<RowTable[]> {
  await client.query(`select set_config('search_path', 'pg_catalog', true)`)
  const { rows } = await client.query(TABLES, [schema, column.name, column.type])
  return rows
}

/** Foreign keys between tables with tenants whose columns do not include the tenant column. */
const LINKS = `
  select conname as name, conrelid::regclass::text as "of", confrelid::regclass::text as "to",
    case f.relkind when 'p' then '' else 'only ' end || conrelid::regclass as "from",
    case p.relkind when 'p' then '' else 'only ' end || confrelid::regclass as "target",
    (select string_agg(format('p.%I operator(%I.%s) f.%I', there.attname, nspname, oprname, here.attname), ' and ')
     from generate_subscripts(conkey, 1) as position
     join pg_attribute here on here.attrelid = conrelid and here.attnum = conkey[position]
     join pg_attribute there on there.attrelid = confrelid and there.attnum = confkey[position]
     join pg_operator o on o.oid = conpfeqop[position] join pg_namespace n on n.oid = oprnamespace) as match
  from pg_constraint k join pg_class f on f.oid = conrelid join pg_class p on p.oid = confrelid
  join pg_attribute a on a.attrelid = conrelid and a.attname = $2 and a.atttypid = $3::regtype and not a.attisdropped
  join pg_attribute b on b.attrelid = confrelid and b.attname = $2 and b.atttypid = $3::regtype and not b.attisdropped
  where contype = 'f' and conparentid = 0 and not a.attnum = any(conkey)
    and f.relnamespace = (select oid from pg_namespace where nspname = $1) and p.relnamespace = f.relnamespace
  order by 1, 2`

/** Locks tables against new expressions and children. Reads and writes of rows continue. */
const lockOf = (tables: readonly string[]): string =>
  `lock table ${tables.map((table) => `only ${table}`).join(', ')} in share update exclusive mode`

/** Routines of other roles in expressions of tables and their children, and children that are not in the list. */
const CODE = `
  with recursive listed as materialized (select unnest($1::text[]::regclass[])::oid as oid),
  family (oid) as (select oid from listed union select inhrelid from family join pg_inherits on inhparent = family.oid),
  part (relation, classid, objid) as (
    select oid, 'pg_class'::regclass, oid from family
    union all select indrelid, 'pg_class'::regclass, indexrelid from family join pg_index on indrelid = oid
    union all select stxrelid, 'pg_statistic_ext'::regclass, s.oid from family join pg_statistic_ext s on stxrelid = family.oid
    union all select conrelid, 'pg_constraint'::regclass, k.oid from family join pg_constraint k on conrelid = family.oid)
  select distinct relation::regclass::text as table, p.oid::regprocedure::text as routine from part
  join pg_depend d on d.classid = part.classid and d.objid = part.objid
  join pg_proc p on p.oid = case refclassid when 'pg_proc'::regclass then refobjid
    when 'pg_operator'::regclass then (select oprcode from pg_operator o where o.oid = refobjid) end
  join pg_roles on pg_roles.oid = proowner where proowner <> current_user::regrole and not rolsuper
  union all select oid::regclass::text, null from family where oid not in (select oid from listed) order by 1, 2`

/** Locks the tables, and returns the reasons why reading their rows would execute code of other roles. */
async function codeIn(client: pg.ClientBase, tables: readonly string[]): Promise<string[]> {
  if (tables.length === 0) return []
  await client.query(lockOf(tables))
  const { rows } = await client.query(CODE, [tables])
  return rows.map(({ table, routine }) =>
    routine === null
      ? `the table ${table} inherits from a table of another schema`
      : `an expression of the table ${table} calls ${routine}, whose owner could change it: drop the expression, or give the routine to the role of \`url\``,
  )
}

export interface FoundTenants {
  readonly tenants: readonly AdoptedTenant[]
  readonly reasons: readonly string[]
}

/** Reads the rows of all tables with the tenant column. In a transaction, after `readTables`. */
export async function readTenants(
  client: pg.ClientBase,
  rowTables: RowTables,
  tables: readonly RowTable[],
  { from, scopeRole }: { readonly from: TenantSource | undefined; readonly scopeRole: string },
): Promise<FoundTenants> {
  const { schema, column } = rowTables
  const reasons = await codeIn(
    client,
    tables.map(({ identity }) => identity),
  )
  if (reasons.length > 0) return { tenants: [], reasons }
  const values = new Map<string, string[]>()
  await client.query('set local row_security = off')
  for (const table of tables) {
    if (!table.column?.hasType || table.isPartitioned) continue
    if (!table.column.isRequired && (await hasNulls(client, table, column))) {
      reasons.push(`the table ${table.identity} has rows without a tenant: ${columnName(column)} is null`)
    }
    values.set(table.identity, await valuesOf(client, table, column))
  }
  const { rows: links } = await client.query(LINKS, [schema, column.name, column.type])
  for (const link of links) {
    const name = columnName(column)
    const { rows } = await client.query(
      `select exists (select from ${link.from} f join ${link.target} p on ${link.match} where f.${name} <> p.${name}) as mixed`,
    )
    if (rows[0].mixed) {
      reasons.push(
        `the foreign key "${link.name}" refers from rows of ${link.of} to rows of ${link.to} that belong to another tenant`,
      )
    }
  }
  await client.query('set local row_security = on')
  const all = [...new Set([...values.values()].flat())].sort()
  const source = from && (await sourceOf(client, rowTables, from, scopeRole))
  const code = source ? await codeIn(client, [source]) : []
  if (code.length > 0) return { tenants: [], reasons: [...reasons, ...code] }
  const tenants = from && source ? await sourceRows(client, source, from) : all.map((id) => ({ id, name: id }))
  return { tenants, reasons: [...reasons, ...reasonsAgainst(column, tenants, values)] }
}

function reasonsAgainst(
  column: TenantColumn,
  tenants: readonly AdoptedTenant[],
  values: ReadonlyMap<string, readonly string[]>,
): string[] {
  const ids = new Set(tenants.map(({ id }) => id))
  const invalid = tenants.filter(({ id }) => !TenantId.safeParse(id).success || !isColumnValue(column, id))
  const unnamed = tenants.filter(({ name }) => !TenantName.safeParse(name).success)
  return [
    ...(tenants.length === 0 ? ['there are no tenants'] : []),
    ...(ids.size < tenants.length ? ['the table with the tenants has an id more than once'] : []),
    ...some(invalid, 'values are no id of a tenant (lower case letters, digits, - and _; at most 48)', ({ id }) => id),
    ...some(unnamed, 'names have no text, or more than 200 characters; tenants with these ids', ({ id }) => id),
    ...[...values].flatMap(([table, all]) =>
      some(
        all.filter((value) => !ids.has(value)),
        `values of ${columnName(column)} in the table ${table} are no tenant`,
        (value) => value,
      ),
    ),
  ]
}

const SHOWN = 5

function some<T>(all: readonly T[], fault: string, text: (one: T) => string): string[] {
  if (all.length === 0) return []
  const shown = all.slice(0, SHOWN).map((one) => JSON.stringify(text(one).slice(0, 100)))
  return [`${all.length} ${fault}: ${shown.join(', ')}${all.length > SHOWN ? ', …' : ''}`]
}

async function hasNulls(client: pg.ClientBase, { identity }: RowTable, column: TenantColumn): Promise<boolean> {
  const { rows } = await client.query(
    `select exists (select from only ${identity} where ${columnName(column)} is null) as found`,
  )
  return rows[0].found
}

/** With one index look-up for each value if there is an index. */
async function valuesOf(client: pg.ClientBase, { identity, column: found }: RowTable, column: TenantColumn) {
  const name = columnName(column)
  const byIndex = `with recursive label (value) as (
      (select ${name} from only ${identity} where ${name} is not null order by 1 limit 1)
      union all select (select ${name} from only ${identity} where ${name} > label.value order by 1 limit 1)
      from label where label.value is not null)
    select value::text from label where value is not null`
  const distinct = `select distinct ${name}::text as value from only ${identity} where ${name} is not null`
  const { rows } = await client.query<{ value: string }>(found?.isIndexed ? byIndex : distinct)
  return rows.map(({ value }) => value)
}

/** Types whose text is computed by PostgreSQL alone. */
const READABLE = ['text', 'character varying', 'character', 'uuid', 'smallint', 'integer', 'bigint']

/**
 * The table with the tenants. Only a table of the former application: the plan shows its values, so tables of the server, of the backoffice and of
 * tenants are excluded.
 */
async function sourceOf(
  client: pg.ClientBase,
  { schema }: RowTables,
  from: TenantSource,
  scopeRole: string,
): Promise<string> {
  const dot = from.table.indexOf('.')
  const [space, table] = dot < 0 ? [schema, from.table] : [from.table.slice(0, dot), from.table.slice(dot + 1)]
  const columns = [from.id, ...(from.name === undefined ? [] : [from.name])]
  const { rows: found } = await client.query(
    `select attname as name, format_type(atttypid, -1) = any($4) and attgenerated = '' as readable from pg_class c
     join pg_attribute on attrelid = c.oid and attnum > 0 and not attisdropped
     where relnamespace = (select oid from pg_namespace where nspname = $1) and relname = $2 and relkind = 'r'
       and attname = any($3) and $1 !~ '^(pg_|information_schema$|tenantry|multitenancy)'
       and relowner in (select relowner from pg_class where relnamespace = (select oid from pg_namespace where nspname = $5))
       and ($1 = $5 or not exists (
         select from pg_namespace n, aclexplode(nspacl) where n.oid = relnamespace and grantee = (select oid from pg_roles where rolname = $6)))`,
    [space, table, columns, READABLE, schema, scopeRole],
  )
  const missing = columns.filter((name) => !found.some((one) => one.name === name && one.readable))
  if (missing.length > 0) {
    throw notAdoptable([
      `no table "${space}.${table}" of an owner of the adopted tables, which tenants cannot use, has a column "${missing.join('", "')}" of type ${READABLE.join(', ')}`,
    ])
  }
  return `${pg.escapeIdentifier(space)}.${pg.escapeIdentifier(table)}`
}

async function sourceRows(client: pg.ClientBase, source: string, from: TenantSource): Promise<AdoptedTenant[]> {
  const id = `${pg.escapeIdentifier(from.id)}::text`
  const name = from.name === undefined ? 'null' : `nullif(btrim(${pg.escapeIdentifier(from.name)}::text), '')`
  await client.query('set local row_security = off')
  const { rows } = await client.query<AdoptedTenant>(
    `select ${id} as id, coalesce(${name}, ${id}) as name from only ${source} where ${id} is not null order by 1`,
  )
  await client.query('set local row_security = on')
  return rows
}
