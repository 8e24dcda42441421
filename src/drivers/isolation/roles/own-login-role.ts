/**
 * The login of one tenant's database, at the server: a role with the name of the database, which may connect to that one only, and takes
 * the scope role as the login of the placement does.
 *
 *   password committed in the backoffice ──► role made, or given the password again ──open──► may connect
 *
 * A run that was killed in between left a password that the next one finds. A tenant's SQL may change password and defaults of its login,
 * and connect to nothing with them but its own database: no other tenant has this login.
 */
import pg from 'pg'
import type { Logger } from '../../../kernel/base/logger.ts'
import type { Placement } from '../../../tenants/isolation/driver.ts'
import { scramVerifier } from './scram-verifier.ts'

/** The server whose roles they are. */
interface Server {
  readonly placement: Placement
  readonly name: string
  readonly login: string
  readonly scopeRole: string
  readonly log: Logger
}

export const OWN_LOGIN_DEFAULT = 'search_path = pg_catalog'

export interface Standing {
  /** Whether the role of `url` may make roles. */
  readonly mayMake: boolean
  readonly isThere: boolean
  /** Whether it takes the scope role of this placement: what else has the name is left alone. */
  readonly isOurs: boolean
}

const STANDING = `
  select owner.rolcreaterole or owner.rolsuper as "mayMake", own.oid is not null as "isThere",
    coalesce((select true from pg_auth_members where roleid = $2::regrole and member = own.oid), false) as "isOurs"
  from pg_roles as owner left join pg_roles as own on own.rolname = $1 where owner.rolname = current_user`

export async function standingOf(client: pg.ClientBase, name: string, scopeRole: string): Promise<Standing> {
  const { rows } = await client.query(STANDING, [name, pg.escapeIdentifier(scopeRole)])
  return rows[0]
}

/**
 * What makes the role, or gives one that is there its password again.
 *
 * The owner becomes a member: else it could not see or end the sessions of the role, unless it is a superuser.
 */
export function makingOwnLogin(name: string, password: string, scopeRole: string, isThere: boolean): string {
  const role = pg.escapeIdentifier(name)
  const verifier = pg.escapeLiteral(scramVerifier(password))
  const rights = `login nosuperuser nobypassrls noinherit nocreatedb nocreaterole password ${verifier}`
  const made = [
    `create role ${role} ${rights}`,
    `alter role ${role} set ${OWN_LOGIN_DEFAULT}`,
    `grant ${pg.escapeIdentifier(scopeRole)} to ${role}`,
    `do $do$ begin if not (select rolsuper from pg_roles where rolname = current_user) then grant ${role} to current_user; end if; end $do$`,
  ]
  return isThere ? `alter role ${role} password ${verifier}` : made.join('; ')
}

/**
 * Makes the login of a database that is there, where the placement has such logins. Safe to repeat.
 * @param client in a transaction that has the storage alone
 */
export async function makeOwnLogin(server: Server, client: pg.ClientBase, name: string): Promise<void> {
  const { ownLogins } = server.placement
  if (!ownLogins?.areMade) return
  const { mayMake, isThere, isOurs } = await standingOf(client, name, server.scopeRole)
  if (!mayMake) {
    const words = 'the role of `url` may not make roles (CREATEROLE): a tenant uses the login of the placement'
    server.log.warn({ placement: server.name, locator: name }, words)
    return
  }
  if (isThere && !isOurs) throw new Error(`there is a role "${name}" on the server that Tenantry has not made`)
  await client.query(makingOwnLogin(name, await ownLogins.keep(name), server.scopeRole, isThere))
}

/** Drops role and password of a database that is gone. Safe to repeat. @param client that has the storage alone */
export async function dropOwnLogin(server: Server, client: pg.ClientBase, name: string): Promise<void> {
  const { ownLogins } = server.placement
  if (!ownLogins) return
  if ((await standingOf(client, name, server.scopeRole)).isOurs) {
    await client.query(`drop role if exists ${pg.escapeIdentifier(name)}`)
  }
  await ownLogins.remove(name)
}

/** The role of tenants' queries in a database. */
export async function loginOf(server: Server, name: string): Promise<string> {
  return (await server.placement.ownLogins?.passwordOf(name)) === undefined ? server.login : name
}

/**
 * Whether tenants' queries are let into a row of `pg_database`, as SQL. The role of this name may be another's: only one that takes the
 * scope role counts.
 * @param login of the placement, as SQL @param scopeRole as SQL
 */
export const isOpenTo = (login: string, scopeRole: string): string => `(datallowconn and exists (
  select from pg_roles as login where has_database_privilege(login.oid, pg_database.oid, 'connect')
    and (rolname = ${login} or rolname = datname and pg_has_role(login.oid, ${scopeRole}::name, 'member'))))`

/**
 * Whether a role is the login of a database of this installation, as SQL for a rule of the catalog.
 * @param role a row of pg_roles
 */
export const isOwnLogin = (role: string): string => `(exists (
  select from pg_database, aclexplode(datacl), input where datname = ${role}.rolname and grantee = scope)
  and exists (select from pg_auth_members, input where roleid = scope and member = ${role}.oid))`
