/**
 * Opens connections of the tenants' login, each checked before it is lent: which database the server gave, whether a pooler stands
 * between, and, once a minute, whether the login may more than it should. Its sessions begin with the settings of session-settings.ts.
 */
import pg from 'pg'
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

  constructor(placement: Placement, log: Logger) {
    this.#placement = placement
    this.#log = log
  }

  /** What each scope sets, behind a pooler; known when the first connection is open. */
  get pooled(): PooledSettings | undefined {
    return this.#pooled
  }

  /** @param database one that belongs to a tenant, or `OWN_DATABASE` */
  async open(database: string): Promise<pg.Client> {
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
      if (this.#placement.pooler) this.#pooled = pooledSettings(settings)
      return settings
    } finally {
      await goodbye(owner)
    }
  }
}

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
