/**
 * Prepares the login of tenants' queries on each placement: `tenantry_tenant`, which is no superuser, owns nothing,
 * does not bypass row security and inherits nothing. Its only rights are those of a scope role, which it takes for the
 * duration of a tenant's scope.
 *
 * - Unless the host configures `tenantUrl`, both roles are created at the first start, and the password is stored
 *   encrypted in the backoffice. Roles belong to a whole server: if another installation uses the name, a suffix is
 *   added.
 * - An unavailable placement does not stop the start once its login is known: the next start checks its roles. Without
 *   them, its tenants cannot be served.
 * - Every wait for a server has a timeout, because a start that creates a login blocks the starts of all other
 *   processes.
 */
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { DependencyUnavailable } from '../../../kernel/base/errors.ts'
import type { Logger } from '../../../kernel/base/logger.ts'
import type { Secrets } from '../../../kernel/crypto/crypto.ts'
import { randomToken } from '../../../kernel/crypto/crypto.ts'
import { type Database, isDatabaseUnavailable, sqlState } from '../../../kernel/database/database.ts'
import { checkedUrl } from '../../../kernel/database/start-failures.ts'
import type { ConnectionLimits, Placement, PublicRight } from '../../../tenants/isolation/driver.ts'
import { bindingOfPlacement } from '../../../tenants/isolation/own-logins.ts'
import type { TenantTables } from '../../../tenants/tenant/tables.ts'
import { closeClient } from '../connections/close-client.ts'
import { settingFaults } from '../scope/session-settings.ts'
import { KeptLogins } from './kept-logins.ts'
import { withLogin } from './login-clients.ts'
import { scramVerifier } from './scram-verifier.ts'

const CONNECT_TIMEOUT_MS = 5_000
/** Timeout at the server, for a statement that waits for a lock. */
const STATEMENT_TIMEOUT_MS = 5_000
/** Timeout of the response; longer, so that the server has cancelled the statement before it is tried again. */
const RESPONSE_TIMEOUT_MS = 8_000
/** The placement on the server of the backoffice, which every start needs. */
const BACKOFFICE = 'main'
const LOGIN = 'tenantry_tenant'
const ATTEMPTS = 5
const DUPLICATE_OBJECT = new Set(['42710', '23505'])
const QUERY_CANCELED = '57014'
const INSUFFICIENT_PRIVILEGE = '42501'

export interface PlacementConfig {
  /**
   * URL of the owner of tenants' storage, for DDL. For `main` it is the URL of the backoffice database, and not set
   * here.
   */
  readonly url?: string | undefined
  /** URL of the login of tenants' queries; default: a login that is created at the first start. */
  readonly tenantUrl?: string | undefined
  /** Whether `tenantUrl` connects to a pooler in transaction mode (PgBouncer); default false. */
  readonly pooler?: boolean | undefined
  /**
   * Rights that PUBLIC keeps in the databases here; default none. docs/security.md lists what each right shares between
   * tenants.
   */
  readonly publicRights?: readonly PublicRight[] | undefined
  /**
   * Settings of tenants' sessions, instead of those of a session of `url`.
   * @example { statement_timeout: '30s', timezone: 'Europe/Berlin' }
   */
  readonly settings?: Readonly<Record<string, string>> | undefined
  /** Limits of connections of this process for tenants' queries on this server. */
  readonly connections?: Partial<ConnectionLimits> | undefined
}

function limitsOf({ max = 10, perTenant, queuePerTenant = 100, waitMs = 5_000 }: Partial<ConnectionLimits> = {}) {
  return { max, perTenant: Math.min(perTenant ?? Math.ceil(max / 2), max), queuePerTenant, waitMs }
}

interface Known {
  readonly placement: Placement
  /** Roles of an earlier start, which should exist. */
  readonly expected?: Roles
}

/**
 * Creates the login and its scope role if necessary, and returns how to connect. Safe to run concurrently in several
 * processes. Throws `E_DEPENDENCY_UNAVAILABLE` if they must be created on a server that does not respond.
 */
export async function preparePlacement(
  name: string,
  config: PlacementConfig & { readonly url: string },
  database: Database,
  secrets: Secrets,
  log: Pick<Logger, 'warn'>,
): Promise<Placement> {
  const { placement, expected } = await knownOrMade(name, config, database, secrets)
  if (!expected) return placement
  try {
    await withServer(config.url, (server) => assertRolesExist(server, expected))
  } catch (error) {
    if (name === BACKOFFICE || !isDatabaseUnavailable(error)) throw error
    log.warn(
      { err: error, placement: name },
      'a placement cannot be reached: its tenants are not served until it is available',
    )
  }
  return placement
}

function knownOrMade(
  name: string,
  config: PlacementConfig & { readonly url: string },
  database: Database,
  secrets: Secrets,
): Promise<Known> {
  const placement = (tenantUrl: string, scopeRole: string): Placement => ({
    name,
    url: config.url,
    tenantUrl,
    scopeRole,
    connections: limitsOf(config.connections),
    pooler: config.pooler ?? false,
    publicRights: config.publicRights,
    settings: config.settings,
    ownLogins: new KeptLogins(name, database, secrets, config.tenantUrl === undefined && !config.pooler),
  })
  return database.transaction(async () => {
    await database.sql(`select pg_advisory_xact_lock(hashtextextended('tenantry placement ' || $1, 0))`, [name])
    const kept = await database
      .query<TenantTables>()
      .selectFrom('placementLogins')
      .selectAll()
      .where('placement', '=', name)
      .executeTakeFirst()
    const given = config.tenantUrl ? decodeURIComponent(new URL(config.tenantUrl).username) : undefined
    const isSame = kept && (given === undefined ? kept.password !== null : kept.login === given)
    if (isSame) {
      const password = kept.password === null ? '' : secrets.decrypt(kept.password, bindingOfPlacement(name))
      if (kept.password !== null && !secrets.isCurrent(kept.password)) {
        await database
          .query<TenantTables>()
          .updateTable('placementLogins')
          .set({ password: secrets.encrypt(password, bindingOfPlacement(name)) })
          .where('placement', '=', name)
          .execute()
      }
      const tenantUrl = config.tenantUrl ?? withLogin(config.url, kept.login, password)
      return { placement: placement(tenantUrl, kept.scopeRole), expected: kept }
    }
    const password = given === undefined ? randomToken() : null
    const { login, scopeRole } = await withServer(config.url, (server) =>
      given === undefined
        ? makeLogin(server, password ?? '', kept?.scopeRole)
        : adoptLogin(server, given, kept?.scopeRole),
    ).catch((error) => {
      throw isDatabaseUnavailable(error) || sqlState(error) === QUERY_CANCELED ? unprepared(name, error) : error
    })
    const encrypted = password && secrets.encrypt(password, bindingOfPlacement(name))
    const row = { placement: name, login, scopeRole, password: encrypted }
    await database
      .query<TenantTables>()
      .insertInto('placementLogins')
      .values(row)
      .onConflict((conflict) => conflict.column('placement').doUpdateSet(row))
      .execute()
    return { placement: placement(config.tenantUrl ?? withLogin(config.url, login, password ?? ''), scopeRole) }
  })
}

const unprepared = (placement: string, cause: unknown) =>
  DependencyUnavailable(
    `The server of the placement "${placement}" does not respond, and the login of its tenants' queries must be prepared ` +
      'there: start the server, or remove the placement from the configuration until it is available.',
    { cause },
  )

interface Roles {
  readonly login: string
  readonly scopeRole: string
}

/** Connects for setup, with a timeout of a few seconds for each response. */
export async function withServer<T>(url: string, work: (server: pg.Client) => Promise<T>): Promise<T> {
  const server = new pg.Client({
    connectionString: url,
    application_name: 'tenantry setup',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: RESPONSE_TIMEOUT_MS,
  })
  server.on('error', () => undefined) // the error fails the statement, too; without a listener it would end the process
  await server.connect()
  try {
    return await work(server)
  } finally {
    await closeClient(server)
  }
}

/**
 * Roles belong to the server, and no dump of a database contains them. Without them, all rights on tenants' rows are
 * lost.
 */
async function assertRolesExist(server: pg.Client, { login, scopeRole }: Roles): Promise<void> {
  const { rows } = await server.query('select from pg_roles where rolname = any($1)', [[login, scopeRole]])
  if (rows.length === 2) return
  throw new Error(
    `The roles "${login}" and "${scopeRole}" of this installation do not exist on this server. Was its database restored here? ` +
      'Restore the roles first (pg_dumpall --roles-only), then the database, so that its grants find them.',
  )
}

/** @param kept existing scope role with the rights on the tenants' rows; the new login takes it over */
async function makeLogin(server: pg.Client, password: string, kept: string | undefined): Promise<Roles> {
  for (let attempt = 1; ; attempt++) {
    const login = attempt === 1 ? LOGIN : `${LOGIN}_${randomUUID().slice(0, 8)}`
    const scopeRole = kept ?? scopeRoleOf(login)
    const makeScope = kept === undefined ? [createScope(scopeRole)] : []
    try {
      await run(server, [...(await createLogin(server, login, password)), ...makeScope, grantScope(scopeRole, login)])
      return { login, scopeRole }
    } catch (error) {
      if (attempt === ATTEMPTS || !DUPLICATE_OBJECT.has(sqlState(error) ?? '')) throw error
    }
  }
}

/** Prepares the host's login. An administrator may already have granted it its scope role. */
async function adoptLogin(server: pg.Client, login: string, kept: string | undefined): Promise<Roles> {
  const scopeRole = kept ?? scopeRoleOf(login)
  const { rows } = await server.query(
    `select exists (select from pg_auth_members where roleid = roles.oid and member = $2::regrole) as member
     from pg_roles as roles where rolname = $1`,
    [scopeRole, pg.escapeIdentifier(login)],
  )
  const makeScope = rows.length === 0 ? [createScope(scopeRole)] : []
  if (!rows[0]?.member) await run(server, [...makeScope, grantScope(scopeRole, login) + (await withoutInherit(server))])
  return { login, scopeRole }
}

/** The host's login may be one that inherits: this membership must not give it rights outside of a scope. */
async function withoutInherit(server: pg.Client): Promise<string> {
  const { rows } = await server.query(`select current_setting('server_version_num')::int >= 160000 as knows`)
  return rows[0].knows ? ' with inherit false' : '' // in older versions the login must be NOINHERIT; otherwise it is rejected
}

async function run(server: pg.Client, statements: readonly string[]): Promise<void> {
  try {
    const deadline = `set local statement_timeout = ${STATEMENT_TIMEOUT_MS}`
    await server.query(['begin', deadline, ...statements, 'commit'].join('; '))
  } catch (error) {
    if (isDatabaseUnavailable(error)) throw error // the transaction ends with the connection
    await server.query('rollback')
    if (sqlState(error) === INSUFFICIENT_PRIVILEGE) throw new Error(remedy(statements), { cause: error })
    throw error
  }
}

async function createLogin(server: pg.Client, login: string, password: string): Promise<string[]> {
  const quoted = pg.escapeIdentifier(login)
  const { rows } = await server.query('select current_database() as name')
  return [
    `create role ${quoted} login nosuperuser nobypassrls noinherit nocreatedb nocreaterole password ${pg.escapeLiteral(scramVerifier(password))}`,
    `alter role ${quoted} set search_path = pg_catalog`,
    `grant connect on database ${pg.escapeIdentifier(rows[0].name)} to ${quoted}`,
  ]
}

const createScope = (role: string): string => `create role ${pg.escapeIdentifier(role)} nologin noinherit`

const grantScope = (role: string, login: string): string =>
  `grant ${pg.escapeIdentifier(role)} to ${pg.escapeIdentifier(login)}`

/**
 * The same name for created and configured logins, so that the start finds the role of the statements for an
 * administrator.
 */
const scopeRoleOf = (login: string): string => `${login.slice(0, 57)}_scope`

const remedy = (statements: readonly string[]): string =>
  [
    'The database role of `url` may not create roles. Have an administrator run these statements (with another password),',
    'then set `tenantUrl` to the URL of the login; or give the role CREATEROLE:',
    ...statements.map((statement) => `  ${statement.replace(/password '.*'/, "password '…'")};`),
  ].join('\n')

/**
 * Placements by name, including the backoffice's. Throws an `Error` for a placement without `url`, and for settings
 * that are fixed.
 */
export function placementsOf({
  placements = {},
  database,
}: {
  readonly placements?: Readonly<Record<string, PlacementConfig>>
  readonly database: { readonly url: string }
}) {
  const all = Object.entries({ main: {}, ...placements }).map(([name, placement]: [string, PlacementConfig]) => {
    const isMain = name === 'main'
    const url = checkedUrl(isMain ? 'database.url' : `placements.${name}.url`, isMain ? database.url : placement.url)
    const [fault] = settingFaults(placement)
    if (fault) throw new Error(`placements.${name}.${fault}`)
    return [name, { ...placement, url }] as const
  })
  return Object.fromEntries(all)
}
