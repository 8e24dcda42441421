/**
 * Manages the login of one tenant's database: a role with the name of the database, which may connect to this database
 * only, and takes the scope role like the login of the placement.
 *
 *   password committed in the backoffice ──► role created, or password set again ──open──► may connect
 *
 * The password of an interrupted run is used by the next one. A tenant's SQL may change the password and defaults of
 * its login, but with them it can only connect to its own database.
 */
import pg from 'pg'
import type { Logger } from '../../../kernel/base/logger.ts'
import type { Placement } from '../../../tenants/isolation/driver.ts'
import { scramVerifier } from './scram-verifier.ts'

/** The server of the roles. */
interface Server {
  readonly placement: Placement
  readonly name: string
  readonly login: string
  readonly scopeRole: string
  readonly log: Logger
}

export const OWN_LOGIN_DEFAULT = 'search_path = pg_catalog'

export interface RoleState {
  /** Whether the role of `url` may create roles. */
  readonly mayMake: boolean
  readonly isThere: boolean
  /** Whether it is a member of this placement's scope role; any other role of the name is left unchanged. */
  readonly isOurs: boolean
}

const ROLE_STATE = `
  select owner.rolcreaterole or owner.rolsuper as "mayMake", own.oid is not null as "isThere",
    coalesce((select true from pg_auth_members where roleid = $2::regrole and member = own.oid), false) as "isOurs"
  from pg_roles as owner left join pg_roles as own on own.rolname = $1 where owner.rolname = current_user`

export async function roleStateOf(client: pg.ClientBase, name: string, scopeRole: string): Promise<RoleState> {
  const { rows } = await client.query(ROLE_STATE, [name, pg.escapeIdentifier(scopeRole)])
  return rows[0]
}

/**
 * Returns statements that create the role, or set the password of an existing one.
 *
 * The owner becomes a member: otherwise it could not see or end the sessions of the role, unless it is a superuser.
 */
export function ownLoginStatements(name: string, password: string, scopeRole: string, isThere: boolean): string {
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
 * Creates the login of an existing database if the placement has such logins. Safe to repeat.
 * @param client in a transaction with the lock of the storage
 */
export async function makeOwnLogin(server: Server, client: pg.ClientBase, name: string): Promise<void> {
  const { ownLogins } = server.placement
  if (!ownLogins?.areMade) return
  const { mayMake, isThere, isOurs } = await roleStateOf(client, name, server.scopeRole)
  if (!mayMake) {
    const words = 'the role of `url` may not create roles (CREATEROLE): a tenant uses the login of the placement'
    server.log.warn({ placement: server.name, locator: name }, words)
    return
  }
  if (isThere && !isOurs) throw new Error(`The role "${name}" exists on the server and was not created by Tenantry`)
  await client.query(ownLoginStatements(name, await ownLogins.keep(name), server.scopeRole, isThere))
}

/** Drops role and password of a dropped database. Safe to repeat. @param client with the lock of the storage */
export async function dropOwnLogin(server: Server, client: pg.ClientBase, name: string): Promise<void> {
  const { ownLogins } = server.placement
  if (!ownLogins) return
  if ((await roleStateOf(client, name, server.scopeRole)).isOurs) {
    await client.query(`drop role if exists ${pg.escapeIdentifier(name)}`)
  }
  await ownLogins.remove(name)
}

/** Returns the role of tenants' queries in a database. */
export async function loginOf(server: Server, name: string): Promise<string> {
  return (await server.placement.ownLogins?.passwordOf(name)) === undefined ? server.login : name
}

/**
 * SQL condition on a row of `pg_database`: whether tenants' queries may connect. A role with the name of the database
 * counts only if it takes the scope role.
 * @param login of the placement, as SQL @param scopeRole as SQL
 */
export const isOpenTo = (login: string, scopeRole: string): string => `(datallowconn and exists (
  select from pg_roles as login where has_database_privilege(login.oid, pg_database.oid, 'connect')
    and (rolname = ${login} or rolname = datname and pg_has_role(login.oid, ${scopeRole}::name, 'member'))))`

/**
 * SQL condition for a catalog rule: whether a role is the login of a database of this installation.
 * @param role a row of pg_roles
 */
export const isOwnLogin = (role: string): string => `(exists (
  select from pg_database, aclexplode(datacl), input where datname = ${role}.rolname and grantee = scope)
  and exists (select from pg_auth_members, input where roleid = scope and member = ${role}.oid))`
