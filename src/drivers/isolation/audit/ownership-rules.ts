/**
 * Rules for objects that belong to the login of tenants' queries or to the scope role. Most objects would give rights
 * to every tenant, and the login is rejected (login-rights.ts). Three kinds give no rights, and any role may create
 * them: large objects, default privileges, and temporary objects, which end with their session.
 */

import type { CatalogRule } from '../catalog/rule.ts'
import { GIVES_RIGHTS } from '../roles/login-rights.ts'
import type { PostgresServer } from '../server/postgres-server.ts'
import { dependencies, type Who } from './role-rules.ts'

const HERE = '(select oid from pg_database where datname = current_database())'

/** Databases of single tenants, which are examined separately: only there are temporary objects distinguishable. */
const OF_TENANTS = `(select oid from pg_database, aclexplode(datacl) where grantee = scope and oid <> ${HERE})`

const ownershipRule = (who: Who, where: string): CatalogRule => ({
  code: `isolation.${who}-owns`,
  severity: 'error',
  query: dependencies(who, 'o', `${GIVES_RIGHTS} and ${where}`),
  fault: ({ other }) => `owns ${other}`,
  remedy: ({ object }) =>
    `Give it to the owner of the placement: reassign owned by ${object.slice('role '.length)} to …`,
})

/** Rules for all databases of the server. */
export const OWNERSHIP_RULES = (['login', 'scope'] as const).map((who) =>
  ownershipRule(who, `dbid not in ${OF_TENANTS}`),
)
/** Rules for the database of one tenant. */
export const OWNERSHIP_RULES_INSIDE = (['login', 'scope'] as const).map((who) => ownershipRule(who, `dbid = ${HERE}`))

/** Maximum number of large objects in one statement, as each takes a lock of the server. */
const UNLINKS_PER_STATEMENT = 1_000

const KINDS = `case defaclobjtype when 'r' then 'tables' when 'S' then 'sequences' when 'f' then 'functions' when 'T' then 'types'
  when 'n' then 'schemas' else 'large objects' end`

/** Statements that restore the default privileges of a new role, for the login and the scope role. */
const DEFAULTS = `
  select defaclrole as role, format('alter default privileges for role %I%s revoke all on %s from %s', rolname,
      ' in schema ' || quote_ident(nspname), ${KINDS}, grantees)
    || case when defaclnamespace <> 0 then '' else format('; alter default privileges for role %I grant all on %s to %I', rolname, ${KINDS}, rolname)
      || case when defaclobjtype in ('f', 'T') then format('; alter default privileges for role %I grant %s on %s to public',
        rolname, case defaclobjtype when 'f' then 'execute' else 'usage' end, ${KINDS}) else '' end end as statement
  from pg_default_acl join pg_roles on pg_roles.oid = defaclrole left join pg_namespace n on n.oid = defaclnamespace,
    lateral (select string_agg(distinct case grantee when 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end, ', ') as grantees
      from (select grantee from aclexplode(defaclacl) union select defaclrole) as named) as acl
  where nspname is null or nspname !~ '^pg_temp_'`

/** Rules for objects that give no rights and are unwanted. */
/** @param login default: that of the placement */
export function leftoverRules(
  { login: shared, scopeRole, placement }: PostgresServer,
  login = shared,
): readonly CatalogRule[] {
  const roles = [login, scopeRole]
  const defaultPrivileges: CatalogRule = {
    code: 'isolation.default-privileges',
    severity: 'warn',
    query: `select 'role ' || quote_ident(rolname) as object, string_agg(statement, '; ') as other, bool_and(pg_has_role(role, 'usage')) as "mayRepair"
      from (${DEFAULTS}) as changed join pg_roles on pg_roles.oid = role, input where role in (login, scope) group by rolname`,
    fault: () => 'has changed its default privileges, which give no rights to tenants',
    remedy: ({ other }) => other,
    async repair(client) {
      const text = `select statement from (${DEFAULTS}) as changed where pg_get_userbyid(role) = any($1)`
      const { rows } = await client.query(text, [roles])
      for (const { statement } of rows) await client.query(statement)
    },
  }
  const largeObjects: CatalogRule = {
    code: 'isolation.large-objects',
    severity: 'warn',
    query: `select 'role ' || quote_ident(rolname) as object, count(*) as other, bool_and(pg_has_role(lomowner, 'usage')) as "mayRepair"
      from pg_largeobject_metadata join pg_roles on pg_roles.oid = lomowner, input where lomowner in (login, scope) group by rolname`,
    fault: ({ other }) => `owns large objects (${other}), which are in no tenant's backup`,
    remedy: ({ object }) =>
      `select lo_unlink(oid) from pg_largeobject_metadata where lomowner = '${object.slice('role '.length)}'::regrole`,
    async repair(client) {
      const text = `select lo_unlink(oid) from (select oid from pg_largeobject_metadata where pg_get_userbyid(lomowner) = any($1) limit $2) as found`
      for (;;) {
        const { rowCount } = await client.query(text, [roles, UNLINKS_PER_STATEMENT])
        if ((rowCount ?? 0) < UNLINKS_PER_STATEMENT) return
        await client.query('commit and chain')
      }
    },
  }
  return placement.publicRights?.includes('large-objects') ? [defaultPrivileges] : [defaultPrivileges, largeObjects]
}
