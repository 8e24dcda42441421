/**
 * Compares a login that Tenantry created with its expected state, and returns the statements that restore it. The
 * expected state is the stored password, and `search_path = pg_catalog` as the only default. The owner cannot read the
 * password of a role, so it is tested with a connection.
 */
import pg from 'pg'
import { sqlState } from '../../../kernel/database/database.ts'
import { StorageFenced } from '../../../tenants/isolation/driver.ts'
import { closedOr } from '../connections/closed-database.ts'
import { withSettings } from '../scope/session-settings.ts'
import { withDatabase, withLogin } from './login-clients.ts'
import { ownLoginStatements, roleStateOf } from './own-login-role.ts'
import { scramVerifier } from './scram-verifier.ts'
import { withServer } from './tenant-login.ts'

const PASSWORD_REJECTED = '28P01'
/** The only default of a login that Tenantry creates, in the form of the catalog. */
const SEARCH_PATH = 'search_path=pg_catalog'

export interface LoginFaults {
  readonly login: string
  /** Whether the server rejects the password. */
  readonly passwordChanged: boolean
  /** Unexpected and missing defaults, each with its database if it applies to one only. */
  readonly settings: readonly string[]
}

export interface KeptLogin {
  readonly login: string
  readonly password: string
  /** Scope role of a login that belongs to a database of the same name. */
  readonly scopeRole?: string
}

interface Default {
  readonly name: string
  /** Null for a default that applies to all databases. */
  readonly database: string | null
}

export interface ComparedLogin {
  readonly isThere: boolean
  readonly isRejected: boolean
  readonly defaults: readonly Default[]
}

/** Allows the login to connect although a tenant has set a missing library for its sessions. */
const NO_LIBRARIES = new Map([['local_preload_libraries', '']])

/** Unexpected defaults of a role, and the missing default. */
const DEFAULTS = `
  select datname as database, split_part(setting, '=', 1) as name
  from pg_db_role_setting left join pg_database on pg_database.oid = setdatabase, unnest(setconfig) setting
  where setrole = $1::regrole and (setdatabase <> 0 or setting <> '${SEARCH_PATH}')
  union all
  select null, 'search_path' where not exists (select from pg_db_role_setting, unnest(setconfig) setting
    where setrole = $1::regrole and setdatabase = 0 and setting like 'search_path=%')
  order by database nulls first, name`

export async function compareLogin(
  server: pg.Client,
  ownerUrl: string,
  { login, password, scopeRole }: KeptLogin,
): Promise<ComparedLogin> {
  if (scopeRole !== undefined && !(await roleStateOf(server, login, scopeRole)).isOurs) {
    return { isThere: false, isRejected: true, defaults: [] }
  }
  const { rows } = await server.query(DEFAULTS, [pg.escapeIdentifier(login)])
  const own = withSettings(withLogin(ownerUrl, login, password), NO_LIBRARIES)
  const url = scopeRole === undefined ? own : withDatabase(own, login)
  const isRejected = await withServer(url, async () => false).catch((error) => {
    if (sqlState(error) === PASSWORD_REJECTED) return true
    if (scopeRole !== undefined && StorageFenced.matches(closedOr(error))) return false // checked by the server after the password
    throw error
  })
  return { isThere: true, isRejected, defaults: rows }
}

export const faultsOf = ({ login }: KeptLogin, { isRejected, defaults }: ComparedLogin): LoginFaults => ({
  login,
  passwordChanged: isRejected,
  settings: defaults.map(({ name, database }) => (database === null ? name : `${name} in database ${database}`)),
})

/** Returns the statements that restore differences; an empty list if there are none. */
export function restoring(
  { login, password, scopeRole }: KeptLogin,
  { isThere, isRejected, defaults }: ComparedLogin,
): string[] {
  if (!isThere) return [ownLoginStatements(login, password, scopeRole ?? '', false)]
  const role = `alter role ${pg.escapeIdentifier(login)}`
  const databases = new Set(defaults.map(({ database }) => database))
  return [
    ...(isRejected ? [`${role} password ${pg.escapeLiteral(scramVerifier(password))}`] : []),
    ...[...databases].map(
      (name) => `${role}${name === null ? '' : ` in database ${pg.escapeIdentifier(name)}`} reset all`,
    ),
    ...(databases.has(null) ? [`${role} set ${SEARCH_PATH}`] : []),
  ]
}

export const isFaulty = ({ passwordChanged, settings }: LoginFaults): boolean => passwordChanged || settings.length > 0

/**
 * Ends sessions of the login with an uncommitted change of a role, which would block the owner without limit. An owner
 * without the right to end them waits for the lock timeout.
 */
export const endUncommittedChanges = (login: string): string => {
  const role = pg.escapeIdentifier(login)
  return `do $do$
    declare is_member boolean := pg_has_role(current_user, ${pg.escapeLiteral(login)}, 'usage'); one integer;
    begin
      for one in select pid from pg_locks join pg_stat_activity using (pid)
        where relation in ('pg_authid'::regclass, 'pg_db_role_setting'::regclass) and mode = 'RowExclusiveLock' and granted
          and usename = ${pg.escapeLiteral(login)}
      loop
        if not is_member then grant ${role} to current_user; end if;
        perform pg_terminate_backend(one);
        if not is_member then revoke ${role} from current_user; end if;
      end loop;
    exception when insufficient_privilege then null;
    end $do$`
}
