/** Removes the empty tables of a storage before an import of tables, with all other objects of its schema. */
import pg from 'pg'
import { DependencyUnavailable } from '../../../kernel/base/errors.ts'
import { sqlState } from '../../../kernel/database/database.ts'
import { StorageExists } from '../../../tenants/isolation/driver.ts'
import { qualified, relationsOf } from '../catalog/tables.ts'

const LOCK_NOT_AVAILABLE = '55P03'
const MAX_SHOWN = 5

/** Throws `E_STORAGE_EXISTS` if a table has a row. Locks the tables until the transaction ends. */
export async function assertNoRows(client: pg.ClientBase, schema: string): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `with ${relationsOf(schema)} select relname as name from relation where relkind in ('r', 'p') order by relname collate "C"`,
  )
  if (rows.length === 0) return
  const names = rows.map(({ name }) => name)
  await client.query(`set local row_security = off; ${names.map((name) => lock(schema, name)).join('; ')}`).catch(inUse)
  const checks = names.map(
    (name) => `select ${pg.escapeLiteral(name)} as name where exists (select from only ${qualified(schema, name)})`,
  )
  const filled = (await client.query<{ name: string }>(checks.join(' union all '))).rows.map(({ name }) => `"${name}"`)
  if (filled.length === 0) return
  throw StorageExists(
    `These tables of the tenant have rows: ${shown(filled)}. An import of tables replaces empty tables only. ` +
      'Delete the rows, or import into a new tenant.',
  )
}

const lock = (schema: string, name: string): string =>
  `lock table only ${qualified(schema, name)} in access exclusive mode`

function inUse(error: unknown): never {
  if (sqlState(error) !== LOCK_NOT_AVAILABLE) throw error
  throw DependencyUnavailable(
    'Another transaction uses a table of the tenant. Run the import again when it has ended.',
    {
      cause: error,
    },
  )
}

/** Selects objects of the schema, without those of extensions and parts of other objects (sequence of an identity column). */
const objectsOf = (schema: string): string => `
  select d.classid, d.objid from pg_catalog.pg_depend d
  join pg_catalog.pg_namespace n on d.refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass and d.refobjid = n.oid
  where n.nspname = ${pg.escapeLiteral(schema)} and d.classid <> 'pg_catalog.pg_default_acl'::pg_catalog.regclass and not exists (
    select from pg_catalog.pg_depend e where e.classid = d.classid and e.objid = d.objid and e.deptype in ('e', 'i'))`

/** Selects objects outside of the schema that a removal with CASCADE would remove, without parts of others. Casts belong to their types. */
const dependentsOf = (schema: string): string => `
  with recursive own as materialized (${objectsOf(schema)}), reached as (
    select classid, objid, 'n'::pg_catalog."char" as deptype from own
    union
    select d.classid, d.objid, d.deptype from reached r join pg_catalog.pg_depend d on d.refclassid = r.classid and d.refobjid = r.objid
    where d.deptype <> 'e'
  )
  select distinct case when named.type = 'rule' and address.object_names[3] = '_RETURN'
      then pg_catalog.format('view %I.%I', address.object_names[1], address.object_names[2])
      else named.type || ' ' || named.identity end collate pg_catalog."C" as object
  from reached r, pg_catalog.pg_identify_object(r.classid, r.objid, 0) as named,
    pg_catalog.pg_identify_object_as_address(r.classid, r.objid, 0) as address
  where not exists (select from own where own.classid = r.classid and own.objid = r.objid)
    and r.deptype <> 'i' and r.classid <> 'pg_catalog.pg_cast'::pg_catalog.regclass
    and coalesce(named.schema, '') not like 'pg\\_toast%'
    and coalesce(named.schema, pg_catalog.quote_ident(address.object_names[1])) is distinct from pg_catalog.quote_ident(${pg.escapeLiteral(schema)})
  order by object`

/**
 * The schema, its rights and objects of extensions stay. Throws `E_STORAGE_EXISTS` if an object of another schema
 * depends on one of the schema.
 */
export async function dropObjects(client: pg.ClientBase, schema: string): Promise<void> {
  const { rows } = await client.query<{ object: string }>(dependentsOf(schema))
  if (rows.length > 0) {
    throw StorageExists(
      `These objects outside of the schema depend on objects of the tenant: ${shown(rows.map(({ object }) => object))}. ` +
        'An import of tables would drop them. Drop them first, or import into a new tenant.',
    )
  }
  await client.query(`do $do$
    declare
      found record;
      named record;
    begin
      for found in ${objectsOf(schema)} loop
        select type, identity into named from pg_catalog.pg_identify_object(found.classid, found.objid, 0);
        continue when named.identity is null; -- dropped with an object before
        named.type := case named.type when 'composite type' then 'type' when 'statistics object' then 'statistics' else named.type end;
        execute pg_catalog.format('drop %s if exists %s cascade', named.type, named.identity);
      end loop;
    end $do$`)
}

function shown(names: readonly string[]): string {
  const more = names.length > MAX_SHOWN ? ` and ${names.length - MAX_SHOWN} more` : ''
  return `${names.slice(0, MAX_SHOWN).join(', ')}${more}`
}
