/**
 * Rules for schemas of single tenants (schema-pg): their owners, the rights on them, and the absence of references to
 * other tenants.
 */
import type { CatalogRule } from '../catalog/rule.ts'

const IN_TENANTS = 'join tenants on tenants.oid'
const ROWS = `('r', 'p', 'v', 'm', 'f')`

/** The schema of each object, for the kinds of objects that can depend on another one. */
const LOCATED = `located as materialized (
  select 'pg_class'::regclass as classid, pg_class.oid as objid, nspname from pg_class ${IN_TENANTS} = relnamespace
  union all select 'pg_proc'::regclass, pg_proc.oid, nspname from pg_proc ${IN_TENANTS} = pronamespace
  union all select 'pg_type'::regclass, pg_type.oid, nspname from pg_type ${IN_TENANTS} = typnamespace
  union all select 'pg_constraint'::regclass, pg_constraint.oid, nspname from pg_constraint ${IN_TENANTS} = connamespace
  union all select 'pg_rewrite'::regclass, pg_rewrite.oid, nspname
    from pg_rewrite join pg_class on pg_class.oid = ev_class ${IN_TENANTS} = relnamespace
  union all select 'pg_attrdef'::regclass, pg_attrdef.oid, nspname
    from pg_attrdef join pg_class on pg_class.oid = adrelid ${IN_TENANTS} = relnamespace
  union all select 'pg_trigger'::regclass, pg_trigger.oid, nspname
    from pg_trigger join pg_class on pg_class.oid = tgrelid ${IN_TENANTS} = relnamespace where not tgisinternal
  union all select 'pg_policy'::regclass, pg_policy.oid, nspname
    from pg_policy join pg_class on pg_class.oid = polrelid ${IN_TENANTS} = relnamespace)`

export const SCHEMA_RULES: readonly CatalogRule[] = [
  {
    code: 'isolation.foreign-owner',
    severity: 'error',
    query: `select 'schema ' || quote_ident(nspname) as object, quote_ident(pg_get_userbyid(nspowner)) as other, nspname as schema
      from tenants, input where nspowner <> owner
      union all
      select pg_describe_object('pg_class'::regclass, pg_class.oid, 0), quote_ident(pg_get_userbyid(relowner)), nspname
      from pg_class ${IN_TENANTS} = relnamespace, input where relkind in ${ROWS} and relowner <> owner
      union all
      select pg_describe_object('pg_proc'::regclass, pg_proc.oid, 0), quote_ident(pg_get_userbyid(proowner)), nspname
      from pg_proc ${IN_TENANTS} = pronamespace, input where proowner <> owner`,
    fault: ({ other }) => `belongs to ${other}, and not to the role of \`url\``,
    remedy: ({ object }) => `alter ${object} owner to the role of \`url\``,
  },
  {
    code: 'isolation.scope-rights',
    severity: 'error',
    query: `select pg_describe_object('pg_class'::regclass, granted.oid, 0) as object,
        string_agg(distinct lower(privilege_type) || case when is_grantable then ' with grant option' else '' end, ', ') as other,
        min(nspname) as schema
      from granted ${IN_TENANTS} = relnamespace, input
      where grantee = scope and (is_grantable or case relkind when 'S' then privilege_type not in ('USAGE', 'SELECT')
        else privilege_type not in ('SELECT', 'INSERT', 'UPDATE', 'DELETE') end)
      group by granted.oid
      union all
      select 'schema ' || quote_ident(nspname),
        string_agg(distinct lower(privilege_type) || case when is_grantable then ' with grant option' else '' end, ', '), nspname
      from tenants, input, aclexplode(nspacl) where grantee = scope and (is_grantable or privilege_type <> 'USAGE')
      group by nspname
      union all
      select 'new tables of schema ' || quote_ident(nspname), string_agg(distinct lower(privilege_type), ', '), nspname
      from pg_default_acl ${IN_TENANTS} = defaclnamespace, input, aclexplode(defaclacl)
      where grantee = scope and defaclobjtype = 'r' and (is_grantable or privilege_type not in ('SELECT', 'INSERT', 'UPDATE', 'DELETE'))
      group by nspname`,
    fault: ({ other }) => `gives the scope role the right to ${other}`,
    remedy: () => 'Revoke it: the scope role needs only the rights to select, insert, update and delete.',
  },
  {
    code: 'isolation.public-rights',
    severity: 'error',
    query: `select pg_describe_object('pg_class'::regclass, granted.oid, 0) as object,
        string_agg(distinct lower(privilege_type), ', ') as other, min(nspname) as schema
      from granted ${IN_TENANTS} = relnamespace where grantee = 0 group by granted.oid
      union all
      select 'schema ' || quote_ident(nspname), string_agg(distinct lower(privilege_type), ', '), nspname
      from tenants, aclexplode(nspacl) where grantee = 0 group by nspname`,
    fault: ({ other }) => `gives PUBLIC the right to ${other}, also outside of a tenant's scope`,
    remedy: ({ object }) =>
      `revoke all on ${object.replace(/^(view|materialized view|foreign table) /, 'table ')} from public`,
  },
  {
    // The names in a view or a BEGIN ATOMIC function were resolved at its creation, regardless of the later search
    // path.
    code: 'isolation.bound-to-another-tenant',
    severity: 'error',
    query: `, ${LOCATED}
      select pg_describe_object(bound.classid, bound.objid, 0) as object, bound.nspname as schema,
        string_agg(distinct pg_describe_object(target.classid, target.objid, 0), ', ') as other
      from pg_depend join located bound using (classid, objid)
      join located target on target.classid = refclassid and target.objid = refobjid
      where bound.nspname <> target.nspname
      group by bound.classid, bound.objid, bound.nspname`,
    fault: ({ other }) => `refers to another tenant's schema: ${other}`,
    remedy: () => "Drop it and create it again with the tenant's own schema first in the search path.",
  },
  {
    code: 'isolation.reads-beyond-tenant',
    severity: 'warn',
    query: `select distinct pg_describe_object(d.classid, d.objid, 0) as object,
        pg_describe_object('pg_class'::regclass, target.oid, 0) as other, bound.nspname as schema
      from (select 'pg_proc'::regclass as classid, pg_proc.oid as objid, nspname from pg_proc ${IN_TENANTS} = pronamespace
        union all select 'pg_rewrite'::regclass, pg_rewrite.oid, nspname
          from pg_rewrite join pg_class on pg_class.oid = ev_class ${IN_TENANTS} = relnamespace) bound
      join pg_depend d using (classid, objid) join pg_class target on refclassid = 'pg_class'::regclass and refobjid = target.oid
      join others on others.oid = target.relnamespace
      where target.relkind in ${ROWS}
        and not exists (select from extended e where e.classid = 'pg_class'::regclass and e.objid = target.oid)`,
    fault: ({ other }) => `reads ${other}, which belongs to no tenant`,
    remedy: () => 'Make sure that all tenants may see it: a view reads with the rights of its owner.',
  },
  {
    code: 'isolation.table-in-public',
    severity: 'warn',
    query: `select pg_describe_object('pg_class'::regclass, c.oid, 0) as object from pg_class c
      where relnamespace = to_regnamespace('public') and relkind in ${ROWS}
        and not exists (select from extended where classid = 'pg_class'::regclass and objid = c.oid)
        and exists (select from pg_class own ${IN_TENANTS} = own.relnamespace where own.relname = c.relname and own.relkind in ${ROWS})`,
    fault: () => 'has the name of a tenant table, and is shared by all tenants',
    remedy: () =>
      'Check whether a migration named the schema public. Move the rows to their tenants, and drop the table.',
  },
]
