/**
 * Revokes rights that PostgreSQL gives to PUBLIC and that reach beyond a tenant's scope (`PublicRight`), in each
 * database with tenants' rows, and gives back those that the placement keeps.
 *
 * - Functions of `pg_catalog` belong to the superuser of the server, TEMPORARY to the owner of the database. Where the
 *   role of `url` may not revoke a right, the doctor prints the statements for an administrator.
 * - Functions that PUBLIC may not execute on a new server (`lo_import`, `pg_read_file`) are covered by a catalog rule
 *   instead.
 * - In the database of one tenant, the scope role has TEMPORARY, and PUBLIC has no right.
 */
import pg from 'pg'
import type { Placement } from '../../../tenants/isolation/driver.ts'
import type { CatalogRule } from '../catalog/rule.ts'

type Kept = Pick<Placement, 'publicRights'>

const TEMPORARY = `
  select 'temporary' as "right", 'database ' || quote_ident(datname) as object, 'temporary' as privilege, datdba as owner,
    exists (select from aclexplode(coalesce(datacl, acldefault('d', datdba))) where grantee = 0 and privilege_type = 'TEMPORARY') as "isPublic"
  from pg_database where datname = current_database()`

/** A function that PUBLIC could not execute at its creation is not restored. */
const FUNCTIONS = `
  select "right", 'function ' || p.oid::regprocedure, 'execute', proowner,
    exists (select from aclexplode(coalesce(proacl, acldefault('f', proowner))) where grantee = 0)
  from (
    select oid, case
        when proname ~ '^lo' then 'large-objects'
        when proname = 'pg_logical_emit_message' then 'wal-messages'
        else 'signals' end as "right"
    from pg_proc where pronamespace = 'pg_catalog'::regnamespace
      and proname ~ '^(lo_.*|loread|lowrite|pg_cancel_backend|pg_terminate_backend|pg_logical_emit_message)$'
    union all
    select objid, 'dblink' from pg_extension e join pg_depend on refclassid = 'pg_extension'::regclass and refobjid = e.oid
    where extname = 'dblink' and classid = 'pg_proc'::regclass and deptype = 'e'
  ) as reaching join pg_proc p using (oid)
  where not exists (select from pg_init_privs where classoid = 'pg_proc'::regclass and objoid = p.oid and objsubid = 0
    and not exists (select from aclexplode(initprivs) where grantee = 0))`

/** Query for the functions whose right of PUBLIC `adjustPublicRights` revokes in the database of a tenant. */
export const publicFunctions = ({ publicRights = [] }: Kept): string => `
  select object from (${FUNCTIONS}) as rights ("right", object, privilege, owner, "isPublic")
  where "isPublic" and "right" <> all (${pg.escapeLiteral(`{${publicRights.join()}}`)}) and pg_has_role(owner, 'usage') order by 1`

/**
 * Returns one statement that revokes the rights and gives back those to keep, if that changes anything and the role of
 * `url` has the right to do it. To be executed in a transaction with the lock of `baseObjects`.
 * @param database the placement's own, or one that belongs to a tenant
 */
export const adjustPublicRights = ({ publicRights = [] }: Kept, database: 'own' | 'tenant' = 'own'): string => `do $do$
  declare changed record;
  begin
    for changed in
      select * from (${database === 'own' ? `${TEMPORARY} union all ` : ''}${FUNCTIONS}) as rights ("right", object, privilege, owner, "isPublic")
      where "isPublic" <> ("right" = any (${pg.escapeLiteral(`{${publicRights.join()}}`)})) and pg_has_role(owner, 'usage')
    loop
      execute format(case when changed."isPublic" then 'revoke %s on %s from public' else 'grant %s on %s to public' end,
        changed.privilege, changed.object);
    end loop;
  end $do$`

const SHARES: Readonly<Record<string, string>> = {
  'large-objects': "use large objects, which pass data between tenants and are in no tenant's backup",
  signals: "cancel statements and end sessions of the tenants' login",
  'wal-messages': 'write messages to the readers of logical replication',
  dblink: 'connect to other servers through dblink',
}

export const publicRightsRules = ({ publicRights = [] }: Kept, database: 'own' | 'tenant'): readonly CatalogRule[] => {
  const repair: CatalogRule['repair'] = (client) => client.query(adjustPublicRights({ publicRights }, database))
  const isNotKept = `"isPublic" and "right" <> all (${pg.escapeLiteral(`{${publicRights.join()}}`)})`
  const temporary: CatalogRule = {
    code: 'isolation.public-temporary',
    severity: 'warn',
    query: `select object, pg_has_role(rights.owner, 'usage') as "mayRepair" from (${TEMPORARY}) as rights where ${isNotKept}`,
    fault: () => 'allows PUBLIC, including tenants, to create temporary objects',
    remedy: ({ object }) => `revoke temporary on ${object} from public`,
    repair,
  }
  const functions: CatalogRule = {
    code: 'isolation.public-functions',
    severity: 'warn',
    query: `select 'database ' || quote_ident(current_database()) as object, "right" as detail,
        string_agg(substr(rights.object, 10), ', ' order by rights.object) as other, quote_ident(current_user) as owner,
        bool_and(pg_has_role(rights.owner, 'usage')) as "mayRepair"
      from (${FUNCTIONS}) as rights ("right", object, privilege, owner, "isPublic") where ${isNotKept} group by "right"`,
    fault: ({ detail }) => `allows PUBLIC to ${SHARES[detail]}`,
    remedy: ({ detail, other, owner, mayRepair }) =>
      [
        `revoke execute on function ${other} from public`,
        ...(mayRepair ? [] : [`grant execute on function ${other} to ${owner}`]),
        ...(mayRepair || detail !== 'signals' ? [] : [`grant pg_signal_backend to ${owner}`]),
      ].join('; '),
    repair,
  }
  return database === 'own' ? [temporary, functions] : [functions]
}
