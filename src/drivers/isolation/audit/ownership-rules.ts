/**
 * What the login of tenants' queries and the scope role own. Most of it gives rights to every tenant, and the login is refused
 * (login-rights.ts). Some kinds of objects any role may make, and they give no rights: large objects, default privileges, and
 * temporary objects, which go with their session.
 */

import type { CatalogRule } from '../catalog/rule.ts'
import { GIVES_RIGHTS } from '../roles/login-rights.ts'
import type { PostgresServer } from '../server/postgres-server.ts'
import { dependencies, type Who } from './role-rules.ts'

const HERE = '(select oid from pg_database where datname = current_database())'

/** Databases of one tenant each are asked by themselves, where temporary objects can be told from others. */
const OF_TENANTS = `(select oid from pg_database, aclexplode(datacl) where grantee = scope and oid <> ${HERE})`

const ownershipRule = (who: Who, where: string): CatalogRule => ({
  code: `isolation.${who}-owns`,
  severity: 'error',
  query: dependencies(who, 'o', `${GIVES_RIGHTS} and ${where}`),
  fault: ({ other }) => `owns ${other}`,
  remedy: ({ object }) =>
    `Give it to the owner of the placement: reassign owned by ${object.slice('role '.length)} to …`,
})

/** In whichever database of the server. */
export const OWNERSHIP_RULES = (['login', 'scope'] as const).map((who) =>
  ownershipRule(who, `dbid not in ${OF_TENANTS}`),
)
/** In the database of one tenant. */
export const OWNERSHIP_RULES_INSIDE = (['login', 'scope'] as const).map((who) => ownershipRule(who, `dbid = ${HERE}`))

/** So many at once: each takes a lock of the server. */
const UNLINKED_AT_ONCE = 1_000

const KINDS = `case defaclobjtype when 'r' then 'tables' when 'S' then 'sequences' when 'f' then 'functions' when 'T' then 'types'
  when 'n' then 'schemas' else 'large objects' end`

/** For the login and the scope role: the statements that bring their default privileges back to those of a new role. */
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

/** What gives no rights and is not wanted either. */
/** @param login default that of the placement */
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
    fault: () => 'has changed its default privileges, which give no right to any tenant',
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
        const { rowCount } = await client.query(text, [roles, UNLINKED_AT_ONCE])
        if ((rowCount ?? 0) < UNLINKED_AT_ONCE) return
        await client.query('commit and chain')
      }
    },
  }
  return placement.publicRights?.includes('large-objects') ? [defaultPrivileges] : [defaultPrivileges, largeObjects]
}
