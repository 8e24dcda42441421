/**
 * Rules for tenants' own logins: a login connects to its own database only, and no other role may use it. Also finds
 * tenants without an own login. The attributes and rights of these logins are examined in their databases
 * (tenant-database-rules.ts).
 */
import pg from 'pg'
import type { Finding } from '../../../kernel/doctor/doctor.ts'
import type { Repair } from '../../../tenants/isolation/driver.ts'
import type { CatalogRule } from '../catalog/rule.ts'
import { isOwnLogin, roleStateOf } from '../roles/own-login-role.ts'
import type { PostgresServer } from '../server/postgres-server.ts'
import { giveOwnLogin } from '../server/tenant-database.ts'

const OWN_LOGINS = `(select * from pg_roles r where rolname in (select unnest(locators) from input) and ${isOwnLogin('r')})`
/** Whether the placement's database contains rows of tenants. */
const HAS_ROWS = `(exists (select from tenants) or exists (select from shared))`

export const ownLoginRules = ({ login }: PostgresServer): readonly CatalogRule[] => {
  const closing = (database: string) =>
    `grant connect on database ${database} to ${pg.escapeIdentifier(login)}; revoke connect on database ${database} from public`
  return [
    {
      code: 'isolation.own-login-connects',
      severity: 'error',
      query: `select 'role ' || quote_ident(own.rolname) as object, quote_ident(datname) as other, own.rolname as schema
        from pg_database, aclexplode(datacl), ${OWN_LOGINS} as own
        where grantee = own.oid and privilege_type = 'CONNECT' and datname <> own.rolname`,
      fault: ({ other }) => `belongs to one tenant, but may connect to the database ${other}`,
      remedy: ({ object, other }) => `revoke connect on database ${other} from ${object.slice('role '.length)}`,
    },
    {
      code: 'isolation.own-login-taken',
      severity: 'error',
      query: `select 'role ' || quote_ident(member.rolname) as object, quote_ident(own.rolname) as other, own.rolname as schema
        from pg_auth_members m join ${OWN_LOGINS} as own on own.oid = roleid join pg_roles member on member.oid = m.member, input
        where m.member <> owner and not member.rolsuper`,
      fault: ({ other }) => `may become ${other}, the login of one tenant`,
      remedy: ({ object, other }) => `revoke ${other} from ${object.slice('role '.length)}`,
    },
    {
      code: 'isolation.own-login-reaches-rows',
      severity: 'warn',
      query: `select 'PUBLIC' as object, quote_ident(datname) as other, pg_has_role(datdba, 'usage') as "mayRepair"
        from pg_database where datname = current_database() and ${HAS_ROWS} and exists (select from ${OWN_LOGINS} as own)
          and exists (select from aclexplode(coalesce(datacl, acldefault('d', datdba))) where grantee = 0 and privilege_type = 'CONNECT')`,
      fault: ({ other }) =>
        `may connect to ${other}, which has rows of other tenants: so may a tenant that changes its password and can reach the server`,
      remedy: ({ other }) => `Grant connect to the other roles that need it, then: ${closing(other)}`,
      repair: (client) =>
        client
          .query(`select quote_ident(current_database()) as name`)
          .then(({ rows }) => client.query(closing(rows[0].name))),
    },
  ]
}

/**
 * For each database: whether the login of the placement has the right to connect. The right of PUBLIC is checked by
 * another rule.
 */
const DATABASES = `
  select datname, exists (select from aclexplode(datacl) join pg_roles on pg_roles.oid = grantee
    where rolname = $2 and privilege_type = 'CONNECT') as "isShared"
  from pg_database where datname = any($1) order by datname`

/** Finds tenants that use the login of the placement: their SQL can change the login of all. */
export async function sharedLogins(server: PostgresServer, tenantOf: ReadonlyMap<string, string>): Promise<Finding[]> {
  const { name, login, scopeRole, placement } = server
  const own = (await placement.ownLogins?.all()) ?? new Set()
  const { mayMake, databases } = await server.owned(async (client) => {
    const { rows } = await client.query(DATABASES, [[...tenantOf.keys()], login])
    return { mayMake: (await roleStateOf(client, login, scopeRole)).mayMake, databases: rows }
  })
  const sharing = databases.filter(({ datname, isShared }) => isShared || !own.has(datname))
  const [severity, code] = ['warn', 'isolation.login-shared'] as const
  const fault = 'SQL of one tenant may change it for all tenants'
  if (sharing.length > 0 && !placement.ownLogins?.areMade) {
    const why = '`tenantUrl` is configured or a pooler is used'
    const message = `${name}: tenants with a database each share the login ${login}, as ${why}: ${fault}`
    return [{ severity: 'info', code, message, remedy: 'See docs/security.md: own logins.' }]
  }
  if (sharing.length > 0 && !mayMake) {
    const message = `${name}: tenants share the login ${login}, as the role of \`url\` may not create roles: ${fault}`
    return [{ severity, code, message, remedy: 'Give it CREATEROLE, then run: tenantry doctor --prove --fix' }]
  }
  return sharing.map(({ datname: database }) => {
    const repair: Repair = async () => {
      await giveOwnLogin(server, database)
      return 'the database has its own login now'
    }
    const message = `${name}: database ${database} is used by the login ${login}, which tenants share: ${fault}`
    const remedy = 'Give it an own login with tenantry doctor --prove --fix, which ends the sessions there.'
    const tenantId = tenantOf.get(database) ?? ''
    return { severity, code, message, remedy, tenantId, fixable: true, subject: repair }
  })
}
