/**
 * Opens connections of the tenants' login, each checked before it is lent: which database the server gave, whether a pooler stands
 * between, and, once a minute, whether the login may more than it should. Its sessions begin with the settings of session-settings.ts.
 */
import pg from 'pg'
import { sqlState } from '../../kernel/database.ts'
import { DependencyUnavailable } from '../../kernel/errors.ts'
import { inTime } from '../../kernel/in-time.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { Placement } from '../../tenants/isolation.ts'
import { closedOr } from './closed-database.ts'
import { cut, goodbye } from './goodbye.ts'
import { refuseMightyRole } from './login-rights.ts'
import { tryScope } from './scoped-query.ts'
import {
  type PooledSettings,
  pooledSettings,
  readSessionSettings,
  type SessionSettings,
  withSettings,
} from './session-settings.ts'
import { silent } from './silent.ts'

const CONNECT_TIMEOUT_MS = 5_000
/** How long a login that was found to have no more rights than it should is not asked again. */
const TRUSTED_MS = 60_000
const PASSWORD_REFUSED = '28P01'
/** What a server answers to a login that it does not let in; 28000 where pg_hba.conf or NOLOGIN forbids it, which no password changes. */
const REFUSED = new Set([PASSWORD_REFUSED, '28000'])
/** How long it counts that a server let the login in, and how long a probe waits for an answer. */
const ANSWER_COUNTS_MS = 10_000
const PROBE_MS = 1_500
/** What poolers answer to `options` in the startup packet. */
const OPTIONS_REFUSED = new Set(['08P01', '0A000'])

/** The server's own database, beside those that belong to a tenant. */
export const OWN_DATABASE = ''

export class LoginClients {
  readonly #placement: Placement
  readonly #log: Logger
  readonly #trustedUntil = new Map<'own' | 'tenants', number>()
  #settings: Promise<SessionSettings> | undefined
  #pooled: PooledSettings | undefined
  #answer: { readonly isRefused: boolean; readonly at: number } | undefined

  constructor(placement: Placement, log: Logger) {
    this.#placement = placement
    this.#log = log
  }

  /** What each scope sets, behind a pooler; known when the first connection is open. */
  get pooled(): PooledSettings | undefined {
    return this.#pooled
  }

  /**
   * Throws `E_DEPENDENCY_UNAVAILABLE` when the server refuses the login, also after its password was restored.
   * @param database one that belongs to a tenant, or `OWN_DATABASE`
   * @param options `restores`: false for what only reads, such as the doctor; default true
   */
  async open(database: string, { restores = true } = {}): Promise<pg.Client> {
    try {
      return await this.#open(database).catch(async (error) => {
        if (!restores || !isPasswordRefusal(error) || !(await this.#restored())) throw error
        return this.#open(database)
      })
    } catch (error) {
      if (!isRefusal(error)) throw error
      this.#noteRefusal(error)
      throw DependencyUnavailable("The server refuses the login of tenants' queries.", { cause: error })
    }
  }

  /** Whether the server refuses the login. That it let it in counts for ten seconds; false while it does not answer. */
  async isRefused(): Promise<boolean> {
    const { isRefused = true, at = 0 } = this.#answer ?? {}
    if (isRefused || performance.now() > at + ANSWER_COUNTS_MS) {
      const asked = this.open(OWN_DATABASE).then(goodbye)
      asked.catch(() => undefined) // it may come when nothing waits for it any more
      await inTime(asked, PROBE_MS, silent).catch((error) =>
        this.#log.debug(
          { err: error, placement: this.#placement.name },
          "the login of tenants' queries was tried in vain",
        ),
      )
    }
    return this.#answer?.isRefused ?? false
  }

  /** Logged once, until the server lets the login in again. */
  #noteRefusal(error: unknown): void {
    if (!this.#answer?.isRefused) {
      this.#log.error(
        { err: error, placement: this.#placement.name },
        "a server refused the login of tenants' queries; run tenantry doctor",
      )
    }
    this.#answer = { isRefused: true, at: performance.now() }
  }

  async #restored(): Promise<boolean> {
    const { name, restoreLogin } = this.#placement
    return (restoreLogin?.() ?? Promise.resolve(false)).catch((error) => {
      this.#log.error({ err: error, placement: name }, "the login of tenants' queries could not be restored")
      return false
    })
  }

  async #open(database: string): Promise<pg.Client> {
    const settings = await this.#sessionSettings()
    const { name, pooler, scopeRole } = this.#placement
    const client = new pg.Client({
      connectionString: this.#urlOf(database, settings),
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      keepAlive: true,
      application_name: 'tenantry tenants',
    })
    client.on('error', () => undefined) // heard by the connections once it is theirs
    const timer = setTimeout(() => cut(client, silent()), CONNECT_TIMEOUT_MS)
    try {
      await client.connect().catch((error) => {
        throw OPTIONS_REFUSED.has(error.code) && !pooler ? hiddenPooler(name, error) : error
      })
      this.#answer = { isRefused: false, at: performance.now() }
      // What it owns is asked where all tenants are; in one that is a tenant's alone the doctor looks.
      const where = database === OWN_DATABASE ? 'own' : 'tenants'
      if (performance.now() > (this.#trustedUntil.get(where) ?? 0)) {
        await refuseMightyRole(client, scopeRole)
        this.#trustedUntil.set(where, performance.now() + TRUSTED_MS)
      }
      const reached = await tryScope(client, pooler ? 'in full' : 'named')
      if (reached.isBehindPooler && !pooler) throw hiddenPooler(name)
      if (database !== OWN_DATABASE && reached.database !== database) {
        throw new Error(`asked for the database "${database}", the server gave "${reached.database}"`)
      }
      return client
    } catch (error) {
      await goodbye(client).catch((failure) =>
        this.#log.debug({ err: failure }, 'a failed connection was not ended in order'),
      )
      throw database === OWN_DATABASE ? error : closedOr(error)
    } finally {
      clearTimeout(timer)
    }
  }

  #urlOf(database: string, settings: SessionSettings): string {
    const { tenantUrl, pooler } = this.#placement
    const url = database === OWN_DATABASE ? tenantUrl : withDatabase(tenantUrl, database)
    return pooler ? url : withSettings(url, settings)
  }

  /** Read once: a change of the server's configuration applies to processes that are started after it. */
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
    owner.on('error', () => undefined) // fails the statement, too; unheard, it would end the process
    try {
      await owner.connect()
      const settings = await readSessionSettings(owner, this.#placement.settings)
      if (this.#placement.pooler) this.#pooled = pooledSettings(settings, this.#placement.settings)
      return settings
    } finally {
      await goodbye(owner)
    }
  }
}

/** PostgreSQL names the place in its source at which it lets nobody in. Statements raise these states nowhere else. */
const isRefusal = (error: unknown): boolean =>
  REFUSED.has(sqlState(error) ?? '') && (error as { severity?: string }).severity === 'FATAL'

const isPasswordRefusal = (error: unknown): boolean => isRefusal(error) && sqlState(error) === PASSWORD_REFUSED

export function withDatabase(url: string, database: string): string {
  const changed = new URL(url)
  changed.pathname = `/${encodeURIComponent(database)}`
  return changed.href
}

/** Named statements would be found on the connection of somebody else, or not at all. */
const hiddenPooler = (placement: string, cause?: unknown) =>
  new Error(
    `placements.${placement}: a pooler stands before \`tenantUrl\`: set placements.${placement}.pooler to true, or let ` +
      '`tenantUrl` name PostgreSQL itself',
    { cause },
  )
