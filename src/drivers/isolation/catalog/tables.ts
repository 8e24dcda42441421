/**
 * Reads the tables and sequences of one schema from the catalog, as far as a copy of their rows needs them.
 *
 * - They are found by their dependency on the schema: `pg_class` has no index on the schema, so a query of it would
 *   read every table of every tenant in the database.
 * - Objects of extensions are excluded. Partitions are read and written through their partitioned table. Children by
 *   inheritance are separate tables with their own rows.
 * - Catalog names are qualified: the search path may name the schema first, and its functions must not be called.
 * - Sub-selects end with a limit instead of `exists`: for `exists`, the planner may scan a whole catalog that it
 *   believes to be small.
 */
import pg from 'pg'
import type { CopiedColumn } from '../../../tenants/isolation/copy.ts'

const TENANT_ID = { name: 'tenant_id', type: 'text' }

export interface StoredColumn extends CopiedColumn {
  /** Whether its values are computed from other columns and cannot be given. */
  readonly isGenerated: boolean
  /**
   * Whether it is the tenant column, which `tenantry.current_tenant()` fills: it marks the owner of a row and is not part of
   * a copy.
   */
  readonly isFilled: boolean
  /** Whether a value is required, as the column is not null and has no default. */
  readonly isRequired: boolean
  /**
   * Its type, quoted, if the type belongs to the schema. A type of the same name in another schema is a different type.
   */
  readonly ownType?: string | null
}

export interface StoredTable {
  readonly name: string
  readonly isPartitioned: boolean
  /** Whether it has partitions on another server, whose rows are not part of the storage. */
  readonly hasForeignRows: boolean
  readonly columns: readonly StoredColumn[]
}

export interface StoredSequence {
  readonly name: string
  /** In digits. */
  readonly increment: string
  /** Number of values that a session reserves. */
  readonly cache: string
  /** Column whose default uses the sequence. */
  readonly column: { readonly table: string; readonly name: string } | null
}

export interface StoredSchema {
  readonly tables: readonly StoredTable[]
  readonly sequences: readonly StoredSequence[]
}

export const qualified = (schema: string, name: string): string =>
  `${pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(name)}`

/** Whether each row has a tenant. In a schema that tenants share, all other tables are shared, too. */
export const isTenants = ({ columns }: StoredTable): boolean => columns.some(({ isFilled }) => isFilled)

/** Columns that are part of a copy. */
export const copiedColumns = ({ columns }: StoredTable): CopiedColumn[] =>
  columns.filter(({ isGenerated, isFilled }) => !isGenerated && !isFilled).map(({ name, type }) => ({ name, type }))

/**
 * Common table expression `relation`, to follow `with`: every table and sequence of the schema, including partitions.
 * @param schema unquoted
 */
export const relationsOf = (schema: string): string => `
  relation as materialized (
    select c.oid, relname, relkind, relispartition, relnamespace
    from pg_catalog.pg_namespace n
    join pg_catalog.pg_depend d on d.refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass and d.refobjid = n.oid and d.refobjsubid = 0
      and d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.objsubid = 0
    join pg_catalog.pg_class c on c.oid = d.objid
    where nspname = ${pg.escapeLiteral(schema)} and relkind in ('r', 'p', 'S', 'v', 'm') and not exists (
      select from pg_catalog.pg_depend e where e.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and e.objid = c.oid and e.objsubid = 0 and e.deptype = 'e'))`

/**
 * Selects one row with a `StoredSchema`, or none if the schema does not exist. The search path determines how types are
 * spelled.
 */
const storedText = (schema: string, { name, type }: typeof TENANT_ID): string => `
  with ${relationsOf(schema)}
  select
    coalesce((select pg_catalog.json_agg(pg_catalog.json_build_object(
      'name', relname,
      'isPartitioned', relkind = 'p',
      'hasForeignRows', relkind = 'p' and coalesce((
        select true from pg_catalog.pg_partition_tree(relation.oid) t
        where (select f.relkind from pg_catalog.pg_class f where f.oid = t.relid) = 'f' limit 1), false),
      'columns', array(
        select pg_catalog.json_build_object(
          'name', attname,
          'type', pg_catalog.format_type(atttypid, atttypmod),
          'isGenerated', attgenerated <> '',
          'isFilled', attname = ${pg.escapeLiteral(name)} and coalesce((
            select true from pg_catalog.pg_attrdef join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass and d.objid = pg_attrdef.oid
            where adrelid = attrelid and adnum = attnum and refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass
              and refobjid = pg_catalog.to_regprocedure('tenantry.current_tenant()')
              and pg_catalog.pg_get_expr(adbin, adrelid) ~ '${type === 'text' ? '^(tenantry\\.)?current_tenant\\(\\)$' : `^\\((tenantry\\.)?current_tenant\\(\\)\\)::${type}$`}' limit 1), false),
          'ownType', case when typnamespace = relnamespace then pg_catalog.quote_ident(typname) end,
          'isRequired', (attnotnull or typnotnull) and not atthasdef and attidentity = '' and typdefault is null)
        from pg_catalog.pg_attribute join pg_catalog.pg_type on pg_type.oid = atttypid
        where attrelid = relation.oid and attnum > 0 and not attisdropped order by attnum)
      ) order by relname collate pg_catalog."C")
      from relation where relkind in ('r', 'p') and not (relispartition and exists (
        select from pg_catalog.pg_partition_ancestors(relation.oid) a join pg_catalog.pg_class p on p.oid = a.relid
        where p.oid <> relation.oid and p.relnamespace = relation.relnamespace))), '[]') as tables,
    coalesce((select pg_catalog.json_agg(pg_catalog.json_build_object(
      'name', relname,
      'increment', seqincrement::pg_catalog.text,
      'cache', seqcache::pg_catalog.text,
      'column', (
        select pg_catalog.json_build_object('table', t.relname, 'name', attname)
        from pg_catalog.pg_depend d join pg_catalog.pg_class t on t.oid = refobjid join pg_catalog.pg_attribute on attrelid = t.oid and attnum = refobjsubid
        where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.objid = relation.oid and refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
          and d.deptype in ('a', 'i') and t.relnamespace = relation.relnamespace limit 1)
      ) order by relname collate pg_catalog."C")
      from relation join pg_catalog.pg_sequence on seqrelid = relation.oid where relkind = 'S'), '[]') as sequences
  from pg_catalog.pg_namespace where nspname = ${pg.escapeLiteral(schema)}`

/**
 * Returns undefined if the schema does not exist. Types of the schema, and types found by `searchPath`, are spelled
 * without a schema, so that the types of two storages are comparable.
 */
export async function readStored(
  client: pg.ClientBase,
  schema: string,
  searchPath: string,
  column = TENANT_ID,
): Promise<StoredSchema | undefined> {
  const path = pg.escapeLiteral(`${pg.escapeIdentifier(schema)}, pg_catalog, ${searchPath}`)
  const [, , stored] = await all(
    client,
    `select pg_catalog.set_config('tenantry.path_before', pg_catalog.current_setting('search_path'), true)`,
    `select pg_catalog.set_config('search_path', ${path}, true)`,
    storedText(schema, column),
    `select pg_catalog.set_config('search_path', pg_catalog.current_setting('tenantry.path_before'), true)`,
  )
  return stored?.rows[0]
}

/** Like `readStored` for an existing schema. */
export async function existingIn(
  client: pg.ClientBase,
  schema: string,
  searchPath: string,
  column = TENANT_ID,
): Promise<StoredSchema> {
  const stored = await readStored(client, schema, searchPath, column)
  if (!stored) throw new Error(`Schema "${schema}" not found`)
  return stored
}

/** Runs several statements in one text and returns a list of results, even for one statement. */
export async function all(client: pg.ClientBase, ...statements: readonly string[]): Promise<pg.QueryResult[]> {
  if (statements.length === 0) return []
  return [(await client.query(statements.join(';\n'))) as unknown as pg.QueryResult | pg.QueryResult[]].flat()
}
