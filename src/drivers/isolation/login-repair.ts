/**
 * Restores a login that Tenantry made. Every role may change its own password and its own defaults, so SQL of one tenant may do so for
 * all tenants that share the login: no session could connect, or all sessions would begin with the tenant's settings. A tenant with a
 * login of its own does so to itself.
 *
 *   at the start (the shared ones), when the server refuses the login (28P01), doctor --fix
 *      ──► lock of the login ──► compare ──► restore, commit ──► log, event `TenantLoginRestored`
 *
 * The owner cannot read the password of a role. So a login compares it. The expected state is that of createLogin: the password
 * of the backoffice, and `search_path = pg_catalog` as the only default.
 */
import pg from 'pg'
import type { Secrets } from '../../kernel/crypto.ts'
import { type Database, isDatabaseUnavailable, sqlState } from '../../kernel/database.ts'
import type { Events } from '../../kernel/events.ts'
import type { Logger } from '../../kernel/logger.ts'
import { type Placement, StorageFenced } from '../../tenants/isolation.ts'
import { TenantLoginRestored } from '../../tenants/login-events.ts'
import { bindingOfOwn } from '../../tenants/own-logins.ts'
import type { TenantTables } from '../../tenants/tables.ts'
import { closedOr } from './closed-database.ts'
import { withDatabase, withLogin } from './login-clients.ts'
import { makingOwnLogin, standingOf } from './own-login-role.ts'
import { inTransaction } from './owner-transaction.ts'
import { scramVerifier } from './scram-verifier.ts'
import { withSettings } from './session-settings.ts'
import { bindingOf, type PlacementConfig, preparePlacement, withServer } from './tenant-login.ts'

const PASSWORD_REFUSED = '28P01'
/** The only default of a login that is made here, as the catalog has it. */
const SEARCH_PATH = 'search_path=pg_catalog'
const INTERNAL_ERROR = 'XX000'
const LOCK_TIMEOUT_MS = 4_000
const ATTEMPTS = 5
const BEGIN = `begin; set local lock_timeout = ${LOCK_TIMEOUT_MS}`

export interface LoginFaults {
  readonly login: string
  /** Whether the server refuses the password. */
  readonly passwordChanged: boolean
  /** Unexpected and missing defaults, each with its database if it applies to one only. */
  readonly settings: readonly string[]
}

export interface RepairParts {
  readonly database: Database
  readonly secrets: Secrets
  readonly events: Events
  readonly log: Logger
  /** URLs of the owners, by placement. */
  readonly urls: ReadonlyMap<string, string>
}

/**
 * Ends sessions of the login that have changed a role and not committed: they would block the owner for as long as they like. An owner
 * that may not end them waits for the lock time-out.
 */
const endingChanges = (login: string): string => {
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

interface Kept {
  readonly login: string
  readonly password: string
  /** Of a login that belongs to a database of the same name: what it takes. */
  readonly scopeRole?: string
}

interface Default {
  readonly name: string
  /** Null for one that applies to all databases. */
  readonly database: string | null
}

interface Compared {
  readonly isThere: boolean
  readonly isRefused: boolean
  readonly defaults: readonly Default[]
}

/** Lets the login connect, although a tenant has named a missing library for its sessions. */
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

export class LoginRepair {
  readonly #parts: RepairParts
  readonly #running = new Map<string, Promise<LoginFaults | undefined>>()

  constructor(parts: RepairParts) {
    this.#parts = parts
  }

  /** Names of all placements. */
  get placements(): readonly string[] {
    return [...this.#parts.urls.keys()]
  }

  /**
   * Faults of the login of a placement, or of one database there; undefined for a configured login (`tenantUrl`), whose password is not
   * kept here.
   */
  async examine(placement: string, database?: string): Promise<LoginFaults | undefined> {
    const kept = await (database === undefined ? this.#kept(placement) : this.#keptOwn(placement, database))
    if (!kept) return undefined
    const compared = await withServer(this.#urlOf(placement), (server) => this.#compare(server, placement, kept))
    return faultsOf(kept, compared)
  }

  /** Databases of a placement with a login of their own. */
  async owned(placement: string): Promise<readonly string[]> {
    const rows = await this.#parts.database
      .query<TenantTables>()
      .selectFrom('tenantLogins')
      .select('locator')
      .where('placement', '=', placement)
      .orderBy('locator')
      .execute()
    return rows.map(({ locator }) => locator)
  }

  /**
   * Restores what differs. @param database of a login that belongs to it alone; default that of the placement
   * @returns its faults before; undefined for a configured login, or none
   */
  restore(placement: string, database?: string): Promise<LoginFaults | undefined> {
    const key = `${placement} ${database ?? ''}`
    const running =
      this.#running.get(key) ?? this.#restore(placement, database).finally(() => this.#running.delete(key))
    this.#running.set(key, running)
    return running
  }

  /** Restores the logins of all placements, at the start. A failure on one server does not affect the others. */
  async restoreAll(): Promise<void> {
    for (const placement of this.placements) {
      await this.restore(placement).catch((error) => {
        if (isDatabaseUnavailable(error)) return // preparePlacement has logged it
        this.#parts.log.warn({ err: error, placement }, "the login of tenants' queries could not be examined")
      })
    }
  }

  async #restore(placement: string, database?: string): Promise<LoginFaults | undefined> {
    const { log, events } = this.#parts
    const faults = await this.#alone(placement, () => this.#restoreNow(placement, database))
    if (!faults || !isFaulty(faults)) return faults
    if (faults.passwordChanged && (await this.examine(placement, database))?.passwordChanged) {
      throw new Error(
        `the server refuses the login "${faults.login}" with its own password, too: is it VALID UNTIL a past date?`,
      )
    }
    log.warn({ placement, ...faults }, "the login of tenants' queries had been changed and was restored")
    await events.announce(TenantLoginRestored, { placement, ...faults, settings: [...faults.settings] })
    return faults
  }

  /** One process at a time for each placement. The lock is a row of the backoffice: tenants cannot take it, as they can advisory locks. */
  #alone<T>(placement: string, work: () => Promise<T>): Promise<T> {
    const { database } = this.#parts
    return database.outside(() =>
      database.transaction(async () => {
        await database.sql(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`)
        await database.sql('select from multitenancy.placement_logins where placement = $1 for update', [placement])
        return work()
      }),
    )
  }

  async #restoreNow(placement: string, database?: string): Promise<LoginFaults | undefined> {
    const kept = await (database === undefined ? this.#kept(placement) : this.#keptOwn(placement, database))
    if (!kept) return undefined
    const attempt = () =>
      withServer(this.#urlOf(placement), async (server) => {
        const compared = await this.#compare(server, placement, kept)
        const statements = restoring(kept, compared)
        const work = async () => {
          if (compared.isThere) await server.query(endingChanges(kept.login))
          await server.query(statements.join('; '))
        }
        if (statements.length > 0) await inTransaction(server, work, { begin: BEGIN })
        return faultsOf(kept, compared)
      })
    for (let attempts = 1; ; attempts++) {
      try {
        return await attempt()
      } catch (error) {
        // "tuple concurrently updated": a tenant has changed the login in the same moment.
        if (sqlState(error) !== INTERNAL_ERROR || attempts === ATTEMPTS) throw error
      }
    }
  }

  async #compare(server: pg.Client, placement: string, { login, password, scopeRole }: Kept): Promise<Compared> {
    if (scopeRole !== undefined && !(await standingOf(server, login, scopeRole)).isOurs) {
      return { isThere: false, isRefused: true, defaults: [] }
    }
    const { rows } = await server.query(DEFAULTS, [pg.escapeIdentifier(login)])
    const own = withSettings(withLogin(this.#urlOf(placement), login, password), NO_LIBRARIES)
    const url = scopeRole === undefined ? own : withDatabase(own, login)
    const isRefused = await withServer(url, async () => false).catch((error) => {
      if (sqlState(error) === PASSWORD_REFUSED) return true
      if (scopeRole !== undefined && StorageFenced.matches(closedOr(error))) return false // asked after the password
      throw error
    })
    return { isThere: true, isRefused, defaults: rows }
  }

  #urlOf(placement: string): string {
    const url = this.#parts.urls.get(placement)
    if (url === undefined) throw new Error(`the placement "${placement}" is not configured`)
    return url
  }

  async #kept(placement: string): Promise<Kept | undefined> {
    const { database, secrets } = this.#parts
    const row = await database
      .query<TenantTables>()
      .selectFrom('placementLogins')
      .select(['login', 'password'])
      .where('placement', '=', placement)
      .executeTakeFirst()
    if (!row || row.password === null) return undefined
    return { login: row.login, password: secrets.open(row.password, bindingOf(placement)) }
  }

  async #keptOwn(placement: string, database: string): Promise<Kept | undefined> {
    const row = await this.#parts.database
      .query<TenantTables>()
      .selectFrom('tenantLogins')
      .innerJoin('placementLogins', 'placementLogins.placement', 'tenantLogins.placement')
      .select(['tenantLogins.password', 'scopeRole'])
      .where('tenantLogins.placement', '=', placement)
      .where('locator', '=', database)
      .executeTakeFirst()
    if (!row) return undefined
    const password = this.#parts.secrets.open(row.password, bindingOfOwn(placement, database))
    return { login: database, password, scopeRole: row.scopeRole }
  }
}

const faultsOf = ({ login }: Kept, { isRefused, defaults }: Compared): LoginFaults => ({
  login,
  passwordChanged: isRefused,
  settings: defaults.map(({ name, database }) => (database === null ? name : `${name} in database ${database}`)),
})

function restoring({ login, password, scopeRole }: Kept, { isThere, isRefused, defaults }: Compared): string[] {
  if (!isThere) return [makingOwnLogin(login, password, scopeRole ?? '', false)]
  const role = `alter role ${pg.escapeIdentifier(login)}`
  const databases = new Set(defaults.map(({ database }) => database))
  return [
    ...(isRefused ? [`${role} password ${pg.escapeLiteral(scramVerifier(password))}`] : []),
    ...[...databases].map(
      (name) => `${role}${name === null ? '' : ` in database ${pg.escapeIdentifier(name)}`} reset all`,
    ),
    ...(databases.has(null) ? [`${role} set ${SEARCH_PATH}`] : []),
  ]
}

type Placements = Readonly<Record<string, PlacementConfig & { readonly url: string }>>

/** Prepares all placements, with their logins. */
export async function preparePlacements(
  placements: Placements,
  parts: Omit<RepairParts, 'urls'>,
): Promise<{ prepared: ReadonlyMap<string, Placement>; logins: LoginRepair }> {
  const urls = new Map(Object.entries(placements).map(([name, { url }]) => [name, url]))
  const logins = new LoginRepair({ ...parts, urls })
  const prepared = new Map<string, Placement>()
  for (const [name, config] of Object.entries(placements)) {
    const placement = await preparePlacement(name, config, parts.database, parts.secrets, parts.log)
    const restoreLogin = async (database?: string) => {
      if (database !== undefined) placement.ownLogins?.forget(database) // another process may have replaced it
      return (await logins.restore(name, database)) !== undefined
    }
    prepared.set(name, { ...placement, restoreLogin })
  }
  return { prepared, logins }
}

export const isFaulty = ({ passwordChanged, settings }: LoginFaults): boolean => passwordChanged || settings.length > 0
