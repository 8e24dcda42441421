/**
 * Rules for the login of tenants' queries and its scope role: their attributes and memberships, and the absence of
 * rights except those on tenants' rows. Roles and the queried catalogs belong to the whole server.
 */
import type { CatalogRule } from '../catalog/rule.ts'
import { isOwnLogin } from '../roles/own-login-role.ts'

export type Who = 'login' | 'scope'

const ATTRIBUTES = [
  ['rolsuper', 'superuser', 'is a superuser', 'nosuperuser'],
  ['rolbypassrls', 'bypasses-rls', 'bypasses row security', 'nobypassrls'],
  ['rolinherit', 'inherits', 'inherits the rights of its roles', 'noinherit'],
  ['rolcreatedb', 'creates-databases', 'may create databases', 'nocreatedb'],
  ['rolcreaterole', 'creates-roles', 'may create roles', 'nocreaterole'],
  ['rolreplication', 'replicates', 'may replicate the whole server', 'noreplication'],
] as const

const attributeRules = (who: Who): CatalogRule[] => [
  ...ATTRIBUTES.map(([column, code, fault, wanted]) => attributeRule(who, column, code, fault, wanted)),
  ...(who === 'scope' ? [attributeRule(who, 'rolcanlogin', 'logs-in', 'may log in', 'nologin')] : []),
]

const attributeRule = (who: Who, column: string, code: string, fault: string, wanted: string): CatalogRule => ({
  code: `isolation.${who}-${code}`,
  severity: 'error',
  query: `select 'role ' || quote_ident(rolname) as object from pg_roles, input where pg_roles.oid = ${who} and ${column}`,
  fault: () => fault,
  remedy: ({ object }) => `alter ${object} ${wanted}`,
})

/** Objects on which a role has rights (a), or which it owns (o). Names of objects in other databases are unknown. */
export const dependencies = (who: Who, kind: 'a' | 'o', also = 'true'): string => `
  select distinct 'role ' || quote_ident(rolname) as object,
    case when dbid = 0 or datname = current_database() then coalesce(pg_describe_object(classid, objid, objsubid), 'something')
      else 'something in the database ' || quote_ident(datname) end as other
  from pg_shdepend join input on refobjid = ${who} join pg_roles on pg_roles.oid = refobjid
  left join pg_database on pg_database.oid = dbid
  where refclassid = 'pg_authid'::regclass and deptype = '${kind}' and ${also}`

const memberships = (condition: string, object: string, other: string): string => `
  select 'role ' || quote_ident(${object}) as object, quote_ident(${other}) as other
  from pg_auth_members m join pg_roles taken on taken.oid = roleid join pg_roles member on member.oid = m.member, input
  where ${condition}`

export const ROLE_RULES: readonly CatalogRule[] = [
  ...attributeRules('login'),
  ...attributeRules('scope'),
  {
    code: 'isolation.login-member-of',
    severity: 'error',
    query: memberships('m.member = login and roleid <> scope', 'member.rolname', 'taken.rolname'),
    fault: ({ other }) => `may become ${other}`,
    remedy: ({ object, other }) => `revoke ${other} from ${object.slice('role '.length)}`,
  },
  {
    // Since PostgreSQL 16 an attribute of each membership; before, an attribute of the member.
    code: 'isolation.login-inherits-scope',
    severity: 'error',
    query: memberships(
      `m.member = login and roleid = scope and (to_jsonb(m)->>'inherit_option')::boolean`,
      'member.rolname',
      'taken.rolname',
    ),
    fault: ({ other }) => `inherits the rights of ${other}, also outside of a tenant's scope`,
    remedy: ({ object, other }) => `grant ${other} to ${object.slice('role '.length)} with inherit false`,
  },
  {
    code: 'isolation.login-grants-scope',
    severity: 'error',
    query: memberships('m.member = login and roleid = scope and admin_option', 'member.rolname', 'taken.rolname'),
    fault: ({ other }) => `may grant ${other} to other roles`,
    remedy: ({ object, other }) => `revoke admin option for ${other} from ${object.slice('role '.length)}`,
  },
  {
    // Since PostgreSQL 16 the creator of a role is a member of it; the owner has all rights anyway.
    code: 'isolation.scope-member',
    severity: 'error',
    query: memberships(
      `roleid = scope and m.member not in (login, owner) and not ${isOwnLogin('member')}`,
      'member.rolname',
      'taken.rolname',
    ),
    fault: ({ other }) => `may become ${other}, and so read the rows of every tenant`,
    remedy: ({ object, other }) => `revoke ${other} from ${object.slice('role '.length)}`,
  },
  {
    code: 'isolation.scope-member-of',
    severity: 'error',
    query: memberships('m.member = scope', 'member.rolname', 'taken.rolname'),
    fault: ({ other }) => `may become ${other}`,
    remedy: ({ object, other }) => `revoke ${other} from ${object.slice('role '.length)}`,
  },
  {
    code: 'isolation.login-rights',
    severity: 'error',
    query: `${dependencies('login', 'a', `classid <> 'pg_database'::regclass`)}
      union select 'role ' || quote_ident(rolname), 'database ' || quote_ident(datname)
      from pg_database, input, aclexplode(datacl), pg_roles
      where grantee = login and pg_roles.oid = login and privilege_type <> 'CONNECT'`,
    fault: ({ other }) => `has its own rights on ${other}`,
    remedy: ({ object, other }) =>
      `revoke all on it from ${object.slice('role '.length)}${other.startsWith('database ') ? ', and grant connect again' : ''}`,
  },
  {
    code: 'isolation.login-search-path',
    severity: 'warn',
    query: `select 'role ' || quote_ident(rolname) as object from pg_roles, input
      where pg_roles.oid = login and not coalesce((
        select bool_and(setting = 'search_path=pg_catalog') from pg_db_role_setting, unnest(setconfig) setting
        where setrole = login and setting like 'search_path=%'
          and setdatabase in (0, (select oid from pg_database where datname = current_database()))), false)`,
    fault: () => `has tables in its search path outside of a tenant's scope`,
    remedy: ({ object }) => `alter ${object} set search_path = pg_catalog`,
  },
  {
    code: 'isolation.login-setting',
    severity: 'error',
    query: `select case setrole when 0 then 'database ' || quote_ident(datname) else 'role ' || quote_ident(rolname) end as object,
        setting as other
      from input, pg_db_role_setting left join pg_database on pg_database.oid = setdatabase left join pg_roles on pg_roles.oid = setrole,
        unnest(setconfig) setting
      where (setrole = login or setrole = 0 and datname = current_database()) and setting ~ '^(role|app\\.tenant_id)='`,
    fault: ({ other }) => `starts every session with ${other}, as if inside a tenant's scope`,
    remedy: ({ object, other }) => `alter ${object} reset ${other.split('=')[0]}`,
  },
]
