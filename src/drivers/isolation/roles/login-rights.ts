/** Rejects a login of tenants' queries that has more rights than it should, before it is used. */
import type pg from 'pg'

/**
 * Whether an owned object gives rights, for a row of `pg_shdepend`. Temporary objects of another database count as such
 * objects.
 */
export const GIVES_RIGHTS = `classid not in ('pg_catalog.pg_largeobject'::pg_catalog.regclass, 'pg_catalog.pg_default_acl'::pg_catalog.regclass)
  and not exists (
    select from pg_catalog.pg_depend inside join pg_catalog.pg_namespace n on n.oid = inside.refobjid
    where pg_shdepend.dbid = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database())
      and inside.classid = pg_shdepend.classid and inside.objid = pg_shdepend.objid
      and inside.refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass and n.nspname ~ '^pg_temp_')`

/**
 * What makes a role, or a role that it may become, unsuitable for tenants' queries. Any statement of a tenant can
 * create objects of the role that give no rights; these must not stop the connections of all tenants. Names are
 * qualified, as temporary tables may shadow them.
 */
const PRIVILEGES = `
  select rolname as role, rolname = session_user as itself, case
      when rolsuper then 'is a superuser'
      when rolbypassrls then 'bypasses row security'
      when rolname in ('pg_read_all_data', 'pg_write_all_data') then 'may read or write everything'
      when rolname = 'pg_database_owner' or exists (
        select from pg_catalog.pg_shdepend
        where refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass and refobjid = role.oid and deptype = 'o'
          and dbid in (0, (select oid from pg_catalog.pg_database where datname = current_database()))
          and ${GIVES_RIGHTS}
      ) then 'owns something in the database'
      when rolname = $1 and pg_has_role(session_user, oid, 'usage')
        then 'gives it rights outside of a scope: make the login NOINHERIT, or grant that role WITH INHERIT FALSE'
    end as fault
  from pg_catalog.pg_roles role where pg_has_role(session_user, oid, 'member') order by itself desc`

/** @param client connected as the login */
export async function rejectPrivilegedRole(client: pg.ClientBase, scopeRole: string): Promise<void> {
  const { rows } = await client.query(PRIVILEGES, [scopeRole])
  const privileged = rows.find(({ fault }) => fault)
  if (!privileged) return
  const who = privileged.itself ? `the role "${privileged.role}"` : `the role may become "${privileged.role}", which`
  throw new Error(`tenantUrl: ${who} ${privileged.fault}; use another role for tenants' queries`)
}
