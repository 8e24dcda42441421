/**
 * What the catalog says of the tables and sequences in one schema, as far as a copy of their rows has to know it.
 *
 * They are found by what depends on the schema: `pg_class` has no index on the schema, so a query of it reads every table of
 * every tenant in the database. What is an extension's is left to the extension. Partitions are read and written through the
 * table that they are of; children by inheritance are tables like any other, with rows of their own.
 *
 * Sub-selects end with a limit where they could be an `exists`: for that the planner may read a catalog from end to end, as soon
 * as it believes it to be small.
 */
import pg from 'pg'
import type { CopiedColumn } from '../../../tenants/isolation/copy.ts'

export interface StoredColumn extends CopiedColumn {
  /** Its values follow from others, and cannot be given. */
  readonly isGenerated: boolean
  /** Is `tenant_id`, and is given by `tenantry.current_tenant()`: whose the row is, and no part of a copy. */
  readonly isFilled: boolean
  /** Must be given: neither may it be null, nor is there a default. */
  readonly isRequired: boolean
  /** Its type, quoted, when that is one of the schema's own: it is another one than that of the same name in another schema. */
  readonly ownType?: string | null
}

export interface StoredTable {
  readonly name: string
  readonly isPartitioned: boolean
  /** Partitions on another server, whose rows are not the storage's. */
  readonly hasForeignRows: boolean
  readonly columns: readonly StoredColumn[]
}

export interface StoredSequence {
  readonly name: string
  /** In digits. */
  readonly increment: string
  /** How many values a session takes at once. */
  readonly cache: string
  /** Whose default it is. */
  readonly column: { readonly table: string; readonly name: string } | null
}

export interface StoredSchema {
  readonly tables: readonly StoredTable[]
  readonly sequences: readonly StoredSequence[]
}

export const qualified = (schema: string, name: string): string =>
  `${pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(name)}`

/** Whether each row of it says whose it is: in a schema that tenants share, all others are shared too. */
export const isTenants = ({ columns }: StoredTable): boolean => columns.some(({ isFilled }) => isFilled)

/** What a copy has of a table. */
export const copiedColumns = ({ columns }: StoredTable): CopiedColumn[] =>
  columns.filter(({ isGenerated, isFilled }) => !isGenerated && !isFilled).map(({ name, type }) => ({ name, type }))

/**
 * `relation` is every table and sequence of the schema, partitions included. To stand after `with`.
 * @param schema as it is
 */
export const relationsOf = (schema: string): string => `
  relation as materialized (
    select c.oid, relname, relkind, relispartition, relnamespace
    from pg_namespace n
    join pg_depend d on d.refclassid = 'pg_namespace'::regclass and d.refobjid = n.oid and d.refobjsubid = 0
      and d.classid = 'pg_class'::regclass and d.objsubid = 0
    join pg_class c on c.oid = d.objid
    where nspname = ${pg.escapeLiteral(schema)} and relkind in ('r', 'p', 'S', 'v', 'm') and not exists (
      select from pg_depend e where e.classid = 'pg_class'::regclass and e.objid = c.oid and e.objsubid = 0 and e.deptype = 'e'))`

/** One row with a `StoredSchema`; none when there is no such schema. Types are spelled by the search path. */
const storedText = (schema: string): string => `
  with ${relationsOf(schema)}
  select
    coalesce((select json_agg(json_build_object(
      'name', relname,
      'isPartitioned', relkind = 'p',
      'hasForeignRows', relkind = 'p' and coalesce((
        select true from pg_partition_tree(relation.oid) t
        where (select f.relkind from pg_class f where f.oid = t.relid) = 'f' limit 1), false),
      'columns', array(
        select json_build_object(
          'name', attname,
          'type', format_type(atttypid, atttypmod),
          'isGenerated', attgenerated <> '',
          'isFilled', attname = 'tenant_id' and coalesce((
            select true from pg_attrdef join pg_depend d on d.classid = 'pg_attrdef'::regclass and d.objid = pg_attrdef.oid
            where adrelid = attrelid and adnum = attnum and refclassid = 'pg_proc'::regclass
              and refobjid = to_regprocedure('tenantry.current_tenant()')
              and pg_get_expr(adbin, adrelid) ~ '^(tenantry\\.)?current_tenant\\(\\)$' limit 1), false),
          'ownType', case when typnamespace = relnamespace then quote_ident(typname) end,
          'isRequired', (attnotnull or typnotnull) and not atthasdef and attidentity = '' and typdefault is null)
        from pg_attribute join pg_type on pg_type.oid = atttypid
        where attrelid = relation.oid and attnum > 0 and not attisdropped order by attnum)
      ) order by relname collate "C")
      from relation where relkind in ('r', 'p') and not (relispartition and exists (
        select from pg_partition_ancestors(relation.oid) a join pg_class p on p.oid = a.relid
        where p.oid <> relation.oid and p.relnamespace = relation.relnamespace))), '[]') as tables,
    coalesce((select json_agg(json_build_object(
      'name', relname,
      'increment', seqincrement::text,
      'cache', seqcache::text,
      'column', (
        select json_build_object('table', t.relname, 'name', attname)
        from pg_depend d join pg_class t on t.oid = refobjid join pg_attribute on attrelid = t.oid and attnum = refobjsubid
        where d.classid = 'pg_class'::regclass and d.objid = relation.oid and refclassid = 'pg_class'::regclass
          and d.deptype in ('a', 'i') and t.relnamespace = relation.relnamespace limit 1)
      ) order by relname collate "C")
      from relation join pg_sequence on seqrelid = relation.oid where relkind = 'S'), '[]') as sequences
  from pg_namespace where nspname = ${pg.escapeLiteral(schema)}`

/**
 * Undefined when there is no such schema. Types of the schema are spelled without it, so that those of two storages compare, and
 * so are those that `searchPath` finds.
 */
export async function readStored(
  client: pg.ClientBase,
  schema: string,
  searchPath: string,
): Promise<StoredSchema | undefined> {
  const path = pg.escapeLiteral(`${pg.escapeIdentifier(schema)}, pg_catalog, ${searchPath}`)
  const [, , stored] = await all(
    client,
    `select set_config('tenantry.path_before', current_setting('search_path'), true)`,
    `select set_config('search_path', ${path}, true)`,
    storedText(schema),
    `select set_config('search_path', current_setting('tenantry.path_before'), true)`,
  )
  return stored?.rows[0]
}

/** The same where it is known to be there. */
export async function existingIn(client: pg.ClientBase, schema: string, searchPath: string): Promise<StoredSchema> {
  const stored = await readStored(client, schema, searchPath)
  if (!stored) throw new Error(`the schema "${schema}" is not there`)
  return stored
}

/** Several statements in one text; their results, also where there is one. */
export async function all(client: pg.ClientBase, ...statements: readonly string[]): Promise<pg.QueryResult[]> {
  if (statements.length === 0) return []
  return [(await client.query(statements.join(';\n'))) as unknown as pg.QueryResult | pg.QueryResult[]].flat()
}
