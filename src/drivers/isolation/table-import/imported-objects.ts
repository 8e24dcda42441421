/**
 * Checks the objects that an import has created against the catalog, and gives them the rights of tables from
 * migrations. The check does not depend on the parser of the file.
 */
import pg from 'pg'
import { InvalidRequest } from '../../../kernel/base/errors.ts'
import { qualified, relationsOf } from '../catalog/tables.ts'

const MAX_SHOWN = 5

/** Kinds of objects that an import may create, as `pg_identify_object` names them. */
const KINDS = [
  'table',
  'view',
  'materialized view',
  'sequence',
  'type',
  'composite type',
  'function',
  'procedure',
  'statistics object',
]

/** $1: the role of the import, $2: the schema. */
const FAULTS = `
  with owned as (
    select s.classid, s.objid, named.type, named.schema, named.identity
    from pg_catalog.pg_shdepend s, pg_catalog.pg_identify_object(s.classid, s.objid, 0) as named
    where s.dbid in (0, (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database()))
      and s.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass and s.refobjid = pg_catalog.quote_ident($1)::pg_catalog.regrole and s.deptype = 'o'
  ), relation as (select c.*, identity, type from owned join pg_catalog.pg_class c on classid = 'pg_catalog.pg_class'::pg_catalog.regclass and objid = c.oid
  ), routine as (select p.*, identity, type from owned join pg_catalog.pg_proc p on classid = 'pg_catalog.pg_proc'::pg_catalog.regclass and objid = p.oid)
  select coalesce(type || ' ' || identity, 'an object') as object, 'is not in the schema of the tenant' as fault
    from owned where schema is distinct from pg_catalog.quote_ident($2)
  union all select type || ' ' || identity, 'is a kind of object that an import does not create'
    from owned where type <> all (${pg.escapeLiteral(`{${KINDS.map((kind) => `"${kind}"`).join()}}`)})
  union all select type || ' ' || identity, 'runs with the rights of its owner (SECURITY DEFINER)' from routine where prosecdef
  union all select type || ' ' || identity, 'is not written in sql or plpgsql'
    from routine where prolang not in (select oid from pg_catalog.pg_language where lanname in ('sql', 'plpgsql'))
  union all select type || ' ' || identity, 'has the name of a routine of PostgreSQL' from routine
    where exists (select from pg_catalog.pg_proc p where p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace and p.proname = routine.proname)
  union all select type || ' ' || identity, 'has the name of a relation of PostgreSQL' from relation
    where exists (select from pg_catalog.pg_class c where c.relnamespace = 'pg_catalog'::pg_catalog.regnamespace and c.relname = relation.relname)
  union all select pg_catalog.pg_describe_object('pg_catalog.pg_cast'::pg_catalog.regclass, c.oid, 0), 'is a kind of object that an import does not create'
    from pg_catalog.pg_cast c where exists (
      select from pg_catalog.pg_type t where t.oid in (castsource, casttarget) and t.typowner = pg_catalog.quote_ident($1)::pg_catalog.regrole
    ) and not exists (
      select from pg_catalog.pg_depend e where e.classid = 'pg_catalog.pg_cast'::pg_catalog.regclass and e.objid = c.oid and e.deptype = 'i')
  union all select type || ' ' || identity, 'gives rights to other roles' from routine where proacl is not null
  union all select type || ' ' || identity, 'gives rights to other roles'
    from relation where relacl is not null or exists (select from pg_catalog.pg_attribute where attrelid = relation.oid and attacl is not null)
  union all select type || ' ' || identity, 'has row security or a policy'
    from relation where relrowsecurity or relforcerowsecurity or exists (select from pg_catalog.pg_policy where polrelid = relation.oid)
  union all select type || ' ' || identity, 'has a rule'
    from relation join pg_catalog.pg_rewrite on ev_class = relation.oid where rulename <> '_RETURN'
  union all select type || ' ' || identity, 'has a trigger that is enabled in all replication roles'
    from relation join pg_catalog.pg_trigger on tgrelid = relation.oid where not tgisinternal and tgenabled not in ('O', 'D')
  union all select distinct type || ' ' || identity, 'reads ' || pg_catalog.pg_describe_object('pg_catalog.pg_class'::pg_catalog.regclass, read.oid, 0)
    from relation join pg_catalog.pg_rewrite on ev_class = relation.oid
    join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass and d.objid = pg_rewrite.oid and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
    join pg_catalog.pg_class read on read.oid = d.refobjid join pg_catalog.pg_namespace n on n.oid = read.relnamespace
    where nspname not in ($2, 'pg_catalog', 'information_schema') and not exists (
      select from pg_catalog.pg_depend e where e.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and e.objid = read.oid and e.deptype = 'e')`

/** Before the role of the import leaves its objects. Throws `E_INVALID_REQUEST` with the objects. */
export async function assertSafeObjects(client: pg.ClientBase, schema: string, role: string): Promise<void> {
  const { rows } = await client.query<{ object: string; fault: string }>(FAULTS, [role, schema])
  if (rows.length === 0) return
  const shown = rows.slice(0, MAX_SHOWN).map(({ object, fault }) => `${object} ${fault}`)
  const more = rows.length > MAX_SHOWN ? `; and ${rows.length - MAX_SHOWN} more` : ''
  throw InvalidRequest(`The file created objects that are not accepted: ${shown.join('; ')}${more}`)
}

/** Views read with the rights of their caller. Tenants' statements get the rights of tables from migrations. */
export async function grantRights(client: pg.ClientBase, schema: string, scopeRole: string): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `with ${relationsOf(schema)} select relname as name from relation where relkind = 'v'`,
  )
  const [name, role] = [schema, scopeRole].map((one) => pg.escapeIdentifier(one))
  await client.query(
    [
      ...rows.map((view) => `alter view ${qualified(schema, view.name)} set (security_invoker = true)`),
      `grant select, insert, update, delete on all tables in schema ${name} to ${role}`,
      `grant usage, select on all sequences in schema ${name} to ${role}`,
      `grant execute on all routines in schema ${name} to ${role}`,
    ].join('; '),
  )
}
