/**
 * Finds objects outside of the shared tables' schema that show or change rows of tenants past row level security. It
 * checks the whole database after a migration and for the doctor.
 *
 * - An object counts if the scope role or PUBLIC has a right on it. USAGE on its schema is needed only for its name: a
 *   view, a column default, a CHECK or an operator refers to it by OID. The functions of an aggregate need a right of
 *   the aggregate's owner. A trigger of a shared table needs no right, and a publication needs no statement.
 * - A function whose own settings change the scope (`SET app.tenant_id`, `SET ROLE`) also counts in the shared tables'
 *   schema. The function of a trigger needs no right.
 * - Schemas of single tenants (schema-pg) and objects of extensions are ignored, except where a rule reads shared
 *   tables.
 * - The comment 'tenantry: shared' on an object declares that all tenants may see its content. No tenant may write to
 *   it.
 */
import pg from 'pg'
import { isPost } from '../catalog/outbox-objects.ts'
import type { Finding } from './rules.ts'
import { queryPinned, SHARED } from './sql.ts'

/** Objects of a new server have lower OIDs. */
const FIRST_OWN_OID = 16384
const RIGHTS = ['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']

/**
 * Settings of a function that change the visible rows of its statements. The server compares their names
 * case-insensitively.
 */
const SCOPE_SETTINGS = '^(app[.]tenant_id|role|session_authorization)='

type Kind =
  | 'function'
  | 'setting'
  | 'trigger'
  | 'view'
  | 'table'
  | 'materialized view'
  | 'foreign table'
  | 'rule'
  | 'publication'

interface Exposure {
  readonly kind: Kind
  /** As PostgreSQL describes it. */
  readonly object: string
  /** The declared or changed object, as a statement names it. */
  readonly name: string
  /** Additional information for the message. */
  readonly detail: string
}

const unused = (kind: string, name: string, detail: string) => `revoke all on ${kind} ${name} from ${detail}`
const declared = (kind: string, name: string) =>
  `comment on ${kind} ${name} is '${SHARED}', if all tenants may see its content`

const WORDS: Readonly<Record<Kind, (exposure: Exposure) => readonly [fault: string, remedy: string]>> = {
  function: ({ name, detail }) => [
    'is SECURITY DEFINER, and its owner bypasses row level security: a call of any tenant may read the rows of all',
    `make it SECURITY INVOKER; ${unused('routine', name, detail)}; or ${declared('routine', name)}`,
  ],
  setting: ({ name, detail }) => [
    `sets ${detail} for its statements, which then see the rows of another tenant or of all`,
    `alter routine ${name} reset ${detail}`,
  ],
  trigger: ({ name, detail }) => [
    `calls ${detail}, which is SECURITY DEFINER and whose owner bypasses row level security`,
    `make the function SECURITY INVOKER; give it to an owner that is neither superuser nor BYPASSRLS; or ${declared('routine', name)}`,
  ],
  view: ({ name, detail }) => [
    'reads the rows of all tenants with the rights of its owner, past the policies',
    `alter view ${name} set (security_invoker = true); ${unused('table', name, detail)}; or ${declared('view', name)}`,
  ],
  table: (exposure) => stored(exposure, 'no policy of Tenantry protects it'),
  'materialized view': (exposure) => stored(exposure, 'row level security does not apply to its stored rows'),
  'foreign table': (exposure) => stored(exposure, 'row level security does not apply to it'),
  rule: () => [
    'reads or writes shared tables with the rights of the owner, past the policies',
    'use a trigger instead',
  ],
  publication: ({ name }) => [
    'sends the rows of all tenants to its subscribers, past the policies',
    `drop it, name the tables that it publishes, or ${declared('publication', name)}`,
  ],
}

const stored = ({ kind, name, detail }: Exposure, fault: string): [string, string] => [
  `is outside of the schema with tenants' rows, every tenant may use it, and ${fault}`,
  `${unused('table', name, detail)}; or let tenants only select from it, and ${declared(kind, name)}`,
]

/** @param schema with the tables that all tenants share */
export async function exposuresOf(
  client: pg.ClientBase,
  schema: string,
  scopeRole: string,
): Promise<readonly Finding[]> {
  const [found] = await queryPinned(client, exposures(schema, scopeRole))
  return ((found?.rows ?? []) as Exposure[]).map((exposure) => {
    const [fault, remedy] = WORDS[exposure.kind](exposure)
    return { object: exposure.object, fault, remedy }
  })
}

const isDeclared = (classId: string, oid: string): string =>
  `coalesce(btrim(obj_description(${oid}, '${classId}')) = '${SHARED}', false)`
const isExtended = (classId: string, oid: string): string => `exists (select from pg_depend
  where classid = '${classId}'::regclass and objid = ${oid} and refclassid = 'pg_extension'::regclass and deptype = 'e')`
const describe = (classId: string, oid: string): string => `pg_describe_object('${classId}'::regclass, ${oid}, 0)`

const exposures = (schema: string, scopeRole: string): string => `
  with recursive input as (
    select oid as scope, quote_ident(rolname) as "scopeName", ${pg.escapeLiteral(pg.escapeIdentifier(schema))}::regnamespace::oid as shared
    from pg_roles where rolname = ${pg.escapeLiteral(scopeRole)}),
  -- the schemas outside, apart from those of single tenants
  outside as (
    select n.oid, nspname from pg_namespace n, input
    where n.oid <> shared and nspname !~ '^pg_(toast|temp)'
      and (nspname !~ '^t[0-9]+_' and nspname not in (select locator from tenantry.adoptions) or n.oid not in (select defaclnamespace from pg_default_acl, aclexplode(defaclacl) where grantee = scope))),
  kept as (
    select c.oid from pg_class c, input where relnamespace = shared and relkind in ('r', 'p') and not ${isDeclared('pg_class', 'c.oid')}),
  -- those tables, and the views that read them, directly or through other views
  reading (oid) as (
    select oid from kept
    union
    select ev_class from reading join pg_depend on refclassid = 'pg_class'::regclass and refobjid = reading.oid
      join pg_rewrite on classid = 'pg_rewrite'::regclass and pg_rewrite.oid = objid where rulename = '_RETURN'),
  granted as (
    select c.oid, array_agg(distinct a.privilege_type) as rights from pg_class c, input, lateral (
      select grantee, privilege_type from aclexplode(relacl)
      union all select grantee, privilege_type from pg_attribute, aclexplode(attacl) where attrelid = c.oid) as a
    where c.relnamespace in (select oid from outside union select relnamespace from reading join pg_class using (oid))
      and c.relkind in ('r', 'p', 'v', 'm', 'f') and c.oid >= ${FIRST_OWN_OID} and a.grantee in (0, scope)
      and a.privilege_type = any (array[${RIGHTS.map((right) => `'${right}'`).join()}])
    group by c.oid),
  usable as (
    select c.oid, relkind, c.oid::regclass::text as name, rights, ${isDeclared('pg_class', 'c.oid')} as "isDeclared",
      coalesce((select option_value::boolean from pg_options_to_table(reloptions) where option_name = 'security_invoker'), false) as "isInvoker"
    from granted join pg_class c using (oid), input
    where c.relnamespace <> shared and not ${isExtended('pg_class', 'c.oid')}
      and c.oid is distinct from to_regclass('tenantry.fenced')),
  privileged as (
    select p.oid, pronamespace from pg_proc p join pg_roles on pg_roles.oid = proowner
    where prosecdef and (rolsuper or rolbypassrls) and not ${isPost('p')} and not ${isDeclared('pg_proc', 'p.oid')} and not ${isExtended('pg_proc', 'p.oid')})
  select 'function' as kind, ${describe('pg_proc', 'privileged.oid')} as object, privileged.oid::regprocedure::text as name,
    'public, ' || "scopeName" as detail
  from privileged, input
  where pronamespace in (select oid from outside) and has_function_privilege(scope, privileged.oid, 'execute')
    or exists (select from pg_aggregate where has_function_privilege(scope, aggfnoid, 'execute') and privileged.oid in
      (aggtransfn, aggfinalfn, aggcombinefn, aggserialfn, aggdeserialfn, aggmtransfn, aggminvtransfn, aggmfinalfn))
  union all
  select 'setting', ${describe('pg_proc', 'p.oid')}, p.oid::regprocedure::text, split_part(setting, '=', 1)
  from pg_proc p, input, unnest(proconfig) as setting
  where setting ~* '${SCOPE_SETTINGS}' and pronamespace in (select oid from outside union select shared)
    and (prorettype = 'trigger'::regtype or has_function_privilege(scope, p.oid, 'execute')) and not ${isExtended('pg_proc', 'p.oid')}
  union all
  select 'trigger', ${describe('pg_trigger', 't.oid')}, privileged.oid::regprocedure::text, ${describe('pg_proc', 'privileged.oid')}
  from input join pg_class c on relnamespace = shared join pg_trigger t on tgrelid = c.oid join privileged on privileged.oid = tgfoid
  where not tgisinternal and pronamespace <> shared
  union all
  select 'view', ${describe('pg_class', 'usable.oid')}, name, 'public, ' || "scopeName"
  from usable join reading using (oid), input where relkind = 'v' and not "isInvoker" and not "isDeclared"
  union all
  select case relkind when 'm' then 'materialized view' when 'f' then 'foreign table' else 'table' end, ${describe('pg_class', 'usable.oid')},
    name, 'public, ' || "scopeName"
  from usable, input where relkind <> 'v' and not ("isDeclared" and rights = '{SELECT}')
    and (usable.oid in (select oid from reading) or usable.oid in (select c.oid from pg_class c where relnamespace in (select oid from outside)))
  union all
  select 'rule', ${describe('pg_rewrite', 'r.oid')}, '', ''
  from usable join pg_rewrite r on ev_class = usable.oid
  where rulename <> '_RETURN' and exists (select from pg_depend join reading on refobjid = reading.oid
    where classid = 'pg_rewrite'::regclass and objid = r.oid and refclassid = 'pg_class'::regclass)
  union all
  select 'publication', ${describe('pg_publication', 'p.oid')}, quote_ident(pubname), ''
  from pg_publication p, input
  where not ${isDeclared('pg_publication', 'p.oid')} and exists (select from kept) and (puballtables
    or exists (select from pg_publication_namespace where pnpubid = p.oid and pnnspid = shared)
    or exists (select from pg_publication_rel join kept on prrelid = kept.oid where prpubid = p.oid))
  order by 2`
