/**
 * Rules for a placement's own database outside of tenants' schemas: which objects tenants' statements can use or create
 * there. The login has all rights of PUBLIC.
 */

import { isPost } from '../catalog/outbox-objects.ts'
import type { CatalogRule } from '../catalog/rule.ts'

const RELATION = `pg_describe_object('pg_class'::regclass, granted.oid, 0)`
const RIGHTS = `string_agg(distinct lower(privilege_type), ', ')`
const notExtended = (catalog: string, oid: string): string =>
  `not exists (select from extended where classid = '${catalog}'::regclass and objid = ${oid})`

export const DATABASE_RULES: readonly CatalogRule[] = [
  {
    code: 'isolation.server-functions',
    severity: 'error',
    query: `select pg_describe_object('pg_proc'::regclass, p.oid, 0) as object, p.oid::regprocedure as other, input.scope::regrole as detail
      from pg_proc p, input where exists (select from aclexplode(proacl) where grantee in (0, scope)) and exists (
        select from pg_init_privs where classoid = 'pg_proc'::regclass and objoid = p.oid
          and not exists (select from aclexplode(initprivs) where grantee = 0))`,
    fault: () => `is not executable by PUBLIC on a new server, but every tenant's statement may execute it`,
    remedy: ({ other, detail }) => `revoke execute on function ${other} from public, ${detail}`,
  },
  {
    code: 'isolation.public-creates-schemas',
    severity: 'error',
    query: `select 'database ' || quote_ident(datname) as object from pg_database, input, aclexplode(datacl)
      where datname = current_database() and grantee in (0, scope) and privilege_type = 'CREATE'`,
    fault: () => `allows tenants' statements to create schemas`,
    remedy: ({ object }) => `revoke create on ${object} from public, and from the scope role`,
  },
  {
    code: 'isolation.public-may-create',
    severity: 'warn',
    query: `select 'schema ' || quote_ident(nspname) as object from others, input, aclexplode(nspacl)
      where grantee = 0 and privilege_type = 'CREATE' and nspname is distinct from extensions`,
    fault: () => 'allows PUBLIC, including tenants, to create objects in it',
    remedy: ({ object }) => `revoke create on ${object} from public`,
  },
  {
    code: 'isolation.extensions-schema-writable',
    severity: 'error',
    query: `select 'schema ' || quote_ident(nspname) as object from pg_namespace, input
      where nspname = extensions and has_schema_privilege(scope, pg_namespace.oid, 'create')`,
    fault: () => `is in the search path of every tenant's statement, and tenants may create objects in it`,
    remedy: ({ object }) => `revoke create on ${object} from public, and from the scope role`,
  },
  {
    code: 'isolation.scope-rights-elsewhere',
    severity: 'error',
    query: `select ${RELATION} as object, ${RIGHTS} as other from granted join others on others.oid = relnamespace, input
      where grantee = scope and ${notExtended('pg_class', 'granted.oid')}
        and (granted.oid is distinct from to_regclass('tenantry.fenced') or privilege_type <> 'SELECT' or is_grantable)
      group by granted.oid
      union all
      select 'schema ' || quote_ident(nspname), ${RIGHTS} from others, input, aclexplode(nspacl)
      where grantee = scope and (privilege_type = 'CREATE' or is_grantable or nspname = 'multitenancy')
        and nspname is distinct from extensions
      group by nspname`,
    fault: ({ other }) => `belongs to no tenant, and every tenant's statement has the right to ${other}`,
    remedy: ({ object }) =>
      `revoke all on ${object.replace(/^(view|materialized view|foreign table) /, 'table ')} from the scope role`,
  },
  {
    code: 'isolation.public-rights-elsewhere',
    severity: 'warn',
    query: `select ${RELATION} as object, ${RIGHTS} as other from granted join others on others.oid = relnamespace
      where grantee = 0 and ${notExtended('pg_class', 'granted.oid')} group by granted.oid`,
    fault: ({ other }) => `gives PUBLIC, including tenants, the right to ${other}`,
    remedy: ({ object }) =>
      `revoke all on ${object.replace(/^(view|materialized view|foreign table) /, 'table ')} from public`,
  },
  {
    code: 'isolation.security-definer',
    severity: 'warn',
    query: `select pg_describe_object('pg_proc'::regclass, pg_proc.oid, 0) as object, quote_ident(rolname) as other,
        (select nspname from tenants where tenants.oid = pronamespace) as schema
      from pg_proc join pg_roles on pg_roles.oid = proowner, input
      where prosecdef and has_function_privilege(scope, pg_proc.oid, 'execute') and ${notExtended('pg_proc', 'pg_proc.oid')}
        and not ${isPost('pg_proc')} and (pronamespace in (select oid from tenants)
          or pronamespace in (select oid from others where has_schema_privilege(scope, oid, 'usage')))`,
    fault: ({ other }) => `runs with the rights of ${other}, regardless of the calling tenant`,
    remedy: () => 'Make it SECURITY INVOKER, or make sure that it reads no data of another tenant.',
  },
]
