/**
 * Opens connections of the tenants' login and checks each before its use: the database, the absence of an undeclared
 * pooler and, once a minute, the rights of the login. Its sessions start with the settings of session-settings.ts.
 */
import pg from 'pg'
import { DependencyUnavailable } from '../../../kernel/base/errors.ts'
import type { Logger } from '../../../kernel/base/logger.ts'
import { withTimeout } from '../../../kernel/base/with-timeout.ts'
import { sqlState } from '../../../kernel/database/database.ts'
import type { Placement } from '../../../tenants/isolation/driver.ts'
import { OwnLoginRejected } from '../../../tenants/isolation/own-logins.ts'
import { closeClient, destroyClient } from '../connections/close-client.ts'
import { closedOr } from '../connections/closed-database.ts'
import { timeoutError } from '../connections/timeouts.ts'
import { tryScope } from '../scope/scoped-query.ts'
import {
  type PooledSettings,
  pooledSettings,
  readSessionSettings,
  type SessionSettings,
  withSettings,
} from '../scope/session-settings.ts'
import { rejectPrivilegedRole } from './login-rights.ts'

const CONNECT_TIMEOUT_MS = 5_000
/** Interval between two checks of the rights of a login. */
const TRUSTED_MS = 60_000
const PASSWORD_REJECTED = '28P01'
/** SQL states of a rejected login. 28000 is raised for pg_hba.conf or NOLOGIN, and no password changes it. */
const LOGIN_REJECTED = new Set([PASSWORD_REJECTED, '28000'])
/** Age at which the result of a login attempt expires, and timeout of a probe. */
const RESULT_TTL_MS = 10_000
const PROBE_MS = 1_500
/** SQL states of poolers that reject `options` in the startup packet. */
const OPTIONS_REJECTED = new Set(['08P01', '0A000'])

/** The database of the placement, in contrast to those that belong to a tenant. */
export const OWN_DATABASE = ''

export class LoginClients {
  readonly #placement: Placement
  readonly #log: Logger
  readonly #trustedUntil = new Map<'own' | 'tenants', number>()
  #settings: Promise<SessionSettings> | undefined
  #pooled: PooledSettings | undefined
  #lastResult: { readonly isRejected: boolean; readonly at: number } | undefined
  #isRejectionLogged = false

  constructor(placement: Placement, log: Logger) {
    this.#placement = placement
    this.#log = log
  }

  /** Settings of each scope behind a pooler; undefined before the first connection. */
  get pooled(): PooledSettings | undefined {
    return this.#pooled
  }

  /**
   * Throws `E_DEPENDENCY_UNAVAILABLE` if the server rejects the login, even after its password was restored.
   * @param database one that belongs to a tenant, or `OWN_DATABASE`
   * @param options `restores`: whether a changed password is restored; false for readers such as the doctor; default
   * true
   */
  async open(database: string, { restores = true } = {}): Promise<pg.Client> {
    const password = await this.#ownPassword(database)
    try {
      return await this.#open(database, password).catch(async (error) => {
        if (password === undefined && isRejection(error)) this.#lastResult = { isRejected: true, at: performance.now() }
        if (!restores || !isPasswordRejection(error)) throw error
        if (!(await this.#restored(password === undefined ? undefined : database))) throw error
        return this.#open(database, await this.#ownPassword(database))
      })
    } catch (error) {
      if (!isRejection(error)) throw error
      if (password === undefined) this.#noteRejection(error)
      const cause = password === undefined ? error : new OwnLoginRejected(error)
      throw DependencyUnavailable("The server rejects the login of tenants' queries.", { cause })
    }
  }

  /** Password of the login that belongs to one database only; undefined for the placement's login. */
  async #ownPassword(database: string): Promise<string | undefined> {
    return database === OWN_DATABASE ? undefined : this.#placement.ownLogins?.passwordOf(database)
  }

  /**
   * Whether the server rejects the login. An accepted login counts for ten seconds; false if the server does not
   * respond.
   */
  async isRejected(): Promise<boolean> {
    const { isRejected = true, at = 0 } = this.#lastResult ?? {}
    if (isRejected || performance.now() > at + RESULT_TTL_MS) {
      const login = this.open(OWN_DATABASE).then(closeClient)
      login.catch(() => undefined) // it may fail after the timeout
      await withTimeout(login, PROBE_MS, timeoutError).catch((error) =>
        this.#log.debug(
          { err: error, placement: this.#placement.name },
          "an attempt to log in as the login of tenants' queries failed",
        ),
      )
    }
    return this.#lastResult?.isRejected ?? false
  }

  /** Logs once until the server accepts the login again. */
  #noteRejection(error: unknown): void {
    if (!this.#isRejectionLogged) {
      this.#log.error(
        { err: error, placement: this.#placement.name },
        "a server rejected the login of tenants' queries; run tenantry doctor",
      )
    }
    this.#isRejectionLogged = true
  }

  async #restored(database: string | undefined): Promise<boolean> {
    const { name, restoreLogin } = this.#placement
    return (restoreLogin?.(database) ?? Promise.resolve(false)).catch((error) => {
      const words = "the login of tenants' queries could not be restored"
      this.#log.error({ err: error, placement: name, database }, words)
      return false
    })
  }

  async #open(database: string, ownPassword?: string): Promise<pg.Client> {
    const settings = await this.#sessionSettings()
    const { name, pooler, scopeRole } = this.#placement
    const client = new pg.Client({
      connectionString: this.#urlOf(database, settings, ownPassword),
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      keepAlive: true,
      application_name: 'tenantry tenants',
    })
    client.on('error', () => undefined) // the pool handles errors later
    const timer = setTimeout(() => destroyClient(client, timeoutError()), CONNECT_TIMEOUT_MS)
    try {
      await client.connect().catch((error) => {
        throw OPTIONS_REJECTED.has(error.code) && !pooler ? hiddenPooler(name, error) : error
      })
      if (ownPassword === undefined) {
        this.#lastResult = { isRejected: false, at: performance.now() }
        this.#isRejectionLogged = false
      }
      // Checked in the placement's database and in one database of a tenant; the doctor checks all of them.
      const where = database === OWN_DATABASE ? 'own' : 'tenants'
      if (performance.now() > (this.#trustedUntil.get(where) ?? 0)) {
        await rejectPrivilegedRole(client, scopeRole)
        this.#trustedUntil.set(where, performance.now() + TRUSTED_MS)
      }
      const reached = await tryScope(client, pooler ? 'in full' : 'named')
      if (reached.isBehindPooler && !pooler) throw hiddenPooler(name)
      if (database !== OWN_DATABASE && reached.database !== database) {
        throw new Error(`connected to the database "${reached.database}" instead of "${database}"`)
      }
      return client
    } catch (error) {
      await closeClient(client).catch((failure) =>
        this.#log.debug({ err: failure }, 'a failed connection was not closed cleanly'),
      )
      throw database === OWN_DATABASE ? error : closedOr(error)
    } finally {
      clearTimeout(timer)
    }
  }

  /** URL without session settings, for a single connection. The password is read again. */
  async urlOf(database: string): Promise<string> {
    this.#placement.ownLogins?.forget(database)
    return this.#loginUrl(database, await this.#ownPassword(database))
  }

  #loginUrl(database: string, ownPassword: string | undefined): string {
    const { tenantUrl } = this.#placement
    const login = ownPassword === undefined ? tenantUrl : withLogin(tenantUrl, database, ownPassword)
    return database === OWN_DATABASE ? login : withDatabase(login, database)
  }

  #urlOf(database: string, settings: SessionSettings, ownPassword: string | undefined): string {
    const url = this.#loginUrl(database, ownPassword)
    return this.#placement.pooler ? url : withSettings(url, settings)
  }

  /** Reads the settings once: a change of the server's configuration applies to processes that are started later. */
  #sessionSettings(): Promise<SessionSettings> {
    this.#settings ??= this.#readSettings().catch((error) => {
      this.#settings = undefined
      throw error
    })
    return this.#settings
  }

  async #readSettings(): Promise<SessionSettings> {
    const owner = new pg.Client({
      connectionString: this.#placement.url,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: CONNECT_TIMEOUT_MS,
      application_name: 'tenantry setup',
    })
    owner.on('error', () => undefined) // the error fails the statement, too; without a listener it would end the process
    try {
      await owner.connect()
      const settings = await readSessionSettings(owner, this.#placement.settings)
      if (this.#placement.pooler) this.#pooled = pooledSettings(settings, this.#placement.settings)
      return settings
    } finally {
      await closeClient(owner)
    }
  }
}

/** A rejected login is FATAL; statements may raise these states with another severity. */
const isRejection = (error: unknown): boolean =>
  LOGIN_REJECTED.has(sqlState(error) ?? '') && (error as { severity?: string }).severity === 'FATAL'

const isPasswordRejection = (error: unknown): boolean => isRejection(error) && sqlState(error) === PASSWORD_REJECTED

export function withLogin(url: string, login: string, password: string): string {
  const changed = new URL(url)
  changed.username = encodeURIComponent(login)
  changed.password = encodeURIComponent(password)
  return changed.href
}

export function withDatabase(url: string, database: string): string {
  const changed = new URL(url)
  changed.pathname = `/${encodeURIComponent(database)}`
  return changed.href
}

/** Behind an undeclared pooler, a named statement would be missing, or would be the statement of another client. */
const hiddenPooler = (placement: string, cause?: unknown) =>
  new Error(
    `placements.${placement}: \`tenantUrl\` connects to a pooler. Set placements.${placement}.pooler to true, or let ` +
      '`tenantUrl` name PostgreSQL itself',
    { cause },
  )
