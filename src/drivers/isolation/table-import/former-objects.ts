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
  const more = filled.length > MAX_SHOWN ? ` and ${filled.length - MAX_SHOWN} more` : ''
  throw StorageExists(
    `These tables of the tenant have rows: ${filled.slice(0, MAX_SHOWN).join(', ')}${more}. An import of tables replaces empty tables only. ` +
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

/** The schema, its rights and objects of extensions stay. */
export async function dropObjects(client: pg.ClientBase, schema: string): Promise<void> {
  await client.query(`do $do$
    declare
      found record;
      named record;
    begin
      for found in
        select classid, objid from pg_depend d join pg_namespace n on refclassid = 'pg_namespace'::regclass and refobjid = n.oid
        where nspname = ${pg.escapeLiteral(schema)} and classid <> 'pg_default_acl'::regclass and not exists (
          select from pg_depend e where e.classid = d.classid and e.objid = d.objid and e.deptype = 'e')
      loop
        select type, identity into named from pg_identify_object(found.classid, found.objid, 0);
        continue when named.identity is null; -- dropped with an object before
        execute format('drop %s if exists %s cascade', replace(named.type, 'composite ', ''), named.identity);
      end loop;
    end $do$`)
}
