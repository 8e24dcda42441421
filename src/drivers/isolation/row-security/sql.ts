/**
 * Defines the database objects of row level security, and reads the catalog of a schema with tenants' rows.
 *
 * A protected table has two policies. That of tenants compares twice, on purpose:
 *
 *   tenant_id = current_setting(..) and tenant_id = (select tenantry.admitted_tenant())
 *
 * The function raises 42501 without a tenant and TN001 for a fenced one. In a sub-select it is called once for a
 * statement and becomes the index condition. The planner concludes that both must be equal, and checks this before it
 * reads rows ("One-Time Filter"). With only the function, a scan of an empty table, or one whose other conditions fail
 * first, would return no rows instead of raising. It is PL/pgSQL and not SQL: a function that is not inlined costs less
 * where a statement is planned each time.
 *
 * The other policy lets the owner see all rows, in a transaction that requests it: see `withoutForce` in apply.ts.
 */
import { createHash } from 'node:crypto'
import pg from 'pg'
import { ROW_LOCATIONS } from './locations.ts'
import { admittedFunction, admittedIn, columnName, settingAs, TENANT_ID, type TenantColumn } from './tenant-column.ts'

const HASH_LENGTH = 12

/** The comment with which a host declares that a table has no tenants' rows, or that all tenants may read an object. */
export const SHARED = 'tenantry: shared'

/** The setting with which the owner's transaction requests the rows of all tenants. */
export const ALL_TENANTS = 'tenantry.all_tenants'
/** The setting of a transaction in which the owner sees the rows of the tenant that it names. */
export const ONE_TENANT = 'tenantry.one_tenant'

/**
 * Objects that a database needs once, after `baseObjects`. Idempotent, also in ten concurrent processes. A tenant can
 * read only its own row of `tenantry.fenced`, so it cannot list other tenants.
 *
 * A fence admits a session that logged in as the owner and has named the tenant in a setting of the transaction. So a
 * suspended or moving tenant is copied through its policies. No other session passes by that setting, nor by a function
 * that runs with the owner's rights: only the login counts.
 */
export const rowObjects = (scopeRole: string, column = TENANT_ID): string => {
  const role = pg.escapeIdentifier(scopeRole)
  return `begin;
  select pg_advisory_xact_lock(7367228003);
  create table if not exists tenantry.fenced (tenant text primary key);
  ${ROW_LOCATIONS};
  do $do$ begin
    if not (select relrowsecurity from pg_class where oid = 'tenantry.fenced'::regclass) then
      alter table tenantry.fenced enable row level security;
    end if;
    if not exists (select from pg_policy where polrelid = 'tenantry.fenced'::regclass and polname = 'own') then
      create policy own on tenantry.fenced for select using (tenant = (select current_setting('app.tenant_id', true)));
    end if;
  end $do$;
  create or replace function tenantry.refuse_fenced() returns boolean stable parallel safe language plpgsql as $function$
    begin
      raise exception using errcode = 'TN001', message = 'the tenant is fenced: its rows are not in use here';
    end $function$;
  create or replace function tenantry.admitted_tenant() returns text stable parallel safe language plpgsql as $function$
    declare
      this text := tenantry.current_tenant();
    begin
      perform from tenantry.fenced where tenant = this and (
        pg_catalog.current_setting('${ONE_TENANT}', true) is distinct from this
        or not pg_catalog.pg_has_role(session_user, (
          select relowner from pg_catalog.pg_class where oid = 'tenantry.fenced'::pg_catalog.regclass), 'member'));
      if found then perform tenantry.refuse_fenced(); end if;
      return this;
    end $function$;
  grant usage on schema tenantry to ${role};
  grant select on tenantry.fenced to ${role};
  grant execute on function tenantry.current_tenant(), tenantry.admitted_tenant(), tenantry.refuse_fenced() to ${role};
  ${admittedFunction(column, role)}
  commit`
}

export type Audience = 'tenant' | 'owner'

/** The required definition of a policy, and the prefix of its name. */
export interface PolicyDefinition {
  /** `tenantry_tenant_<hash of the clauses>`, followed by the hash of the policy in the catalog. */
  readonly prefix: string
  readonly clauses: string
}

export function policyDefinition(audience: Audience, role: string, column = TENANT_ID): PolicyDefinition {
  return defined(audience, audience === 'tenant' ? tenantClauses(role, column) : ownerClauses(role, column))
}

/**
 * The policy for roles of the application whose tables were adopted: they see all rows, as before. The login counts: a
 * function of the owner gives a tenant no access, also if the owner is a member of these roles.
 */
export const formerDefinition = (all: readonly string[], owner: string): PolicyDefinition => {
  const roles = all.toSorted()
  return defined(
    'former',
    `for all to ${roles.map((role) => pg.escapeIdentifier(role)).join(', ')}
   using ((select ${roles.map((role) => `pg_has_role(session_user, ${pg.escapeLiteral(role)}, 'member')`).join(' or ')})
     and current_user <> ${pg.escapeLiteral(owner)})`,
  )
}

function defined(audience: string, clauses: string): PolicyDefinition {
  const hash = createHash('sha256').update(clauses).digest('hex').slice(0, HASH_LENGTH)
  return { prefix: `tenantry_${audience}_${hash}`, clauses }
}

const tenantClauses = (role: string, column: TenantColumn): string => {
  const [name, admitted] = [columnName(column), admittedIn(column)]
  return `for all to ${pg.escapeIdentifier(role)}
   using (${name} = ${settingAs(column, 'app.tenant_id')} and ${name} = (select ${admitted}))
   with check (${name} = (select ${admitted}))`
}

/** The login counts, not the current role: a SECURITY DEFINER function of the owner gives a tenant no access. */
const ownerClauses = (role: string, column: TenantColumn): string =>
  `for all to ${pg.escapeIdentifier(role)}
   using ((select pg_has_role(session_user, ${pg.escapeLiteral(role)}, 'member'))
     and ((select current_setting('${ALL_TENANTS}', true) = 'on') or ${columnName(column)} = ${settingAs(column, ONE_TENANT)}))`

/** Hash of all properties of a policy in the catalog, which reveals a change under the same name. */
const KEPT = `left(md5(concat_ws('|', polcmd, polpermissive,
  array(select pg_get_userbyid(role) from unnest(polroles) role order by 1),
  pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))), ${HASH_LENGTH})`

/** Adds the hash from the catalog to the names of new policies. */
export const hardenPolicies = (schema: string, prefixes: readonly string[]): string => `do $do$
  declare made record;
  begin
    for made in select polname, polrelid::regclass as relation, ${KEPT} as kept
      from pg_policy join pg_class on pg_class.oid = polrelid
      where relnamespace = ${pg.escapeLiteral(pg.escapeIdentifier(schema))}::regnamespace
        and polname in (${prefixes.map((prefix) => pg.escapeLiteral(prefix)).join(', ')})
    loop
      execute format('alter policy %I on %s rename to %I', made.polname, made.relation, made.polname || '_' || made.kept);
    end loop;
  end $do$`

export interface SchemaFacts {
  readonly column: TenantColumn
  readonly name: string
  readonly owner: string
  readonly scopeMayUse: boolean
  readonly scopeMayCreate: boolean
  readonly relations: readonly Relation[]
  /** SECURITY DEFINER functions that bypass row level security and that a tenant's statement can reach. */
  readonly privilegedFunctions: readonly string[]
}

export interface Relation {
  readonly name: string
  /** As in `pg_class.relkind`: r and p are tables, v a view, m materialised, f foreign, S a sequence. */
  readonly kind: 'r' | 'p' | 'v' | 'm' | 'f' | 'S'
  readonly owner: string
  readonly comment: string | null
  readonly isSecured: boolean
  readonly isForced: boolean
  /** Of a view: whether it reads with the rights of its caller. */
  readonly isInvoker: boolean
  readonly tenantId: TenantIdColumn | null
  readonly keys: readonly { readonly name: string; readonly leads: boolean }[]
  readonly exclusions: readonly { readonly name: string; readonly isScoped: boolean }[]
  readonly foreignKeys: readonly ForeignKey[]
  readonly policies: readonly Policy[]
  readonly rules: readonly string[]
  /** Parents and children by inheritance or partitioning; `name` is null for a table in another schema. */
  readonly relatives: readonly { readonly name: string | null; readonly shown: string }[]
  /** Rights of the scope role, `*` with grant option, `(column)` on one column. */
  readonly granted: readonly string[]
  readonly isPublic: boolean
}

interface TenantIdColumn {
  readonly type: string
  readonly isRequired: boolean
  readonly default: string | null
  readonly isDeterministic: boolean
}

interface ForeignKey {
  readonly name: string
  /** Null for a table in another schema. */
  readonly target: string | null
  readonly shown: string
  /** Whether `tenant_id` references `tenant_id`. */
  readonly isScoped: boolean
  /** Whether only the tenant column is in the key: it reveals nothing about other tenants. */
  readonly isOwnId: boolean
}

export interface Policy {
  readonly name: string
  readonly roles: readonly string[]
  readonly isPermissive: boolean
  /** Hash of the policy in the catalog. */
  readonly kept: string
}

/** Returns undefined if the schema does not exist. */
export async function readSchema(
  client: pg.ClientBase,
  schema: string,
  scopeRole?: string,
  column = TENANT_ID,
): Promise<SchemaFacts | undefined> {
  const results = await queryPinned(client, facts(schema, scopeRole, column))
  const found = results[0]?.rows[0]?.facts
  return found && { ...found, column }
}

/**
 * Runs statements with only `pg_catalog` in the search path, and restores the path: the catalog's text of a definition
 * depends on it. Several statements in one text are one transaction, also if none is open.
 */
export async function queryPinned(client: pg.ClientBase, ...statements: readonly string[]): Promise<pg.QueryResult[]> {
  const results = await client.query(
    [
      `select pg_catalog.set_config('tenantry.path_before', pg_catalog.current_setting('search_path'), true),
        pg_catalog.set_config('search_path', 'pg_catalog', true)`,
      ...statements,
      `select set_config('search_path', current_setting('tenantry.path_before'), true)`,
    ].join(';\n'),
  )
  return (results as unknown as pg.QueryResult[]).slice(1, -1)
}

const facts = (schema: string, scopeRole: string | undefined, { name, type }: TenantColumn): string => `
  select json_build_object(
    'name', nspname,
    'owner', pg_get_userbyid(nspowner),
    'scopeMayUse', coalesce(has_schema_privilege(scope, n.oid, 'usage'), false),
    'scopeMayCreate', coalesce(has_schema_privilege(scope, n.oid, 'create'), false),
    'relations', array(select json_build_object(
        'name', relname, 'kind', relkind, 'owner', pg_get_userbyid(relowner), 'comment', obj_description(c.oid, 'pg_class'),
        'isSecured', relrowsecurity, 'isForced', relforcerowsecurity,
        'isInvoker', coalesce((select option_value::boolean from pg_options_to_table(reloptions)
          where option_name = 'security_invoker'), false),
        'tenantId', case when t.attnum is not null then json_build_object(
          'type', format_type(t.atttypid, t.atttypmod), 'isRequired', t.attnotnull,
          'default', case when t.attgenerated = '' then
            (select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = c.oid and adnum = t.attnum) end,
          'isDeterministic', coalesce((select collisdeterministic from pg_collation where oid = t.attcollation), true)) end,
        'keys', array(select json_build_object('name', (select relname from pg_class where oid = indexrelid), 'leads', coalesce(indkey[0] = t.attnum
              and coalesce((select collisdeterministic from pg_collation where oid = indcollation[0]), indcollation[0] = 0), false))
          from pg_index where indrelid = c.oid and indisunique order by indexrelid),
        'exclusions', array(select json_build_object('name', conname, 'isScoped', exists (
              select from generate_subscripts(conkey, 1) k
              where conkey[k] = t.attnum and conexclop[k] = '=(${type},${type})'::regoperator))
          from pg_constraint where conrelid = c.oid and contype = 'x' order by conname),
        'foreignKeys', array(select json_build_object(
            'name', conname, 'shown', confrelid::regclass,
            'target', (select relname from pg_class where oid = confrelid and relnamespace = n.oid),
            'isScoped', exists (select from generate_subscripts(conkey, 1) k
              join pg_attribute there on there.attrelid = confrelid and there.attnum = confkey[k]
              where conkey[k] = t.attnum and there.attname = ${pg.escapeLiteral(name)} and conpfeqop[k] = '=(${type},${type})'::regoperator),
            'isOwnId', coalesce(conkey = array[t.attnum] and conpfeqop = array['=(${type},${type})'::regoperator::oid], false))
          from pg_constraint where conrelid = c.oid and contype = 'f' and conparentid = 0 order by conname),
        'policies', array(select json_build_object('name', polname, 'isPermissive', polpermissive, 'kept', ${KEPT},
            'roles', array(select case role when 0 then '' else pg_get_userbyid(role) end from unnest(polroles) role order by 1))
          from pg_policy where polrelid = c.oid order by polname),
        'rules', array(select rulename from pg_rewrite where ev_class = c.oid and rulename <> '_RETURN' order by rulename),
        'relatives', array(select json_build_object('shown', other::regclass,
            'name', (select relname from pg_class where oid = other and relnamespace = n.oid))
          from (select inhparent from pg_inherits where inhrelid = c.oid
            union select inhrelid from pg_inherits where inhparent = c.oid) as family (other)),
        'granted', array(select privilege_type || case when is_grantable then '*' else '' end
            from aclexplode(relacl) where grantee = scope
          union select privilege_type || '(' || attname || ')' from pg_attribute, aclexplode(attacl)
            where attrelid = c.oid and grantee = scope order by 1),
        'isPublic', exists (select from aclexplode(relacl) where grantee = 0
          union all select from pg_attribute, aclexplode(attacl) where attrelid = c.oid and grantee = 0))
      from pg_class c
      left join pg_attribute t on t.attrelid = c.oid and t.attname = ${pg.escapeLiteral(name)} and not t.attisdropped
      where relnamespace = n.oid and relkind in ('r', 'p', 'v', 'm', 'f', 'S') order by relname),
    'privilegedFunctions', array(select pg_proc.oid::regprocedure from pg_proc join pg_roles on pg_roles.oid = proowner
      where pronamespace = n.oid and prosecdef and (rolsuper or rolbypassrls)
        and (prorettype = 'trigger'::regtype or coalesce(has_function_privilege(scope, pg_proc.oid, 'execute'), false))
      order by 1)) as facts
  from pg_namespace n, (select oid from pg_roles where rolname = ${scopeRole === undefined ? 'null' : pg.escapeLiteral(scopeRole)}
    union all select null where ${scopeRole === undefined}) as role (scope)
  where nspname = ${pg.escapeLiteral(schema)}`
