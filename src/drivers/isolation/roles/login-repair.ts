/**
 * Restores a login that Tenantry created. Every role may change its own password and defaults, so SQL of one tenant may
 * do so for all tenants that share the login: no session could connect, or all sessions would start with the tenant's
 * settings. SQL of a tenant with its own login affects only this tenant.
 *
 *   at the start (shared logins), when the server rejects the login (28P01), doctor --fix
 *      ──► lock of the placement ──► compare ──► restore, commit ──► log, event `TenantLoginRestored`
 */

import type { Logger } from '../../../kernel/base/logger.ts'
import type { Secrets } from '../../../kernel/crypto/crypto.ts'
import { type Database, isDatabaseUnavailable, sqlState } from '../../../kernel/database/database.ts'
import type { Events } from '../../../kernel/events/events.ts'
import type { Placement } from '../../../tenants/isolation/driver.ts'
import { bindingOfOwn, bindingOfPlacement } from '../../../tenants/isolation/own-logins.ts'
import { TenantLoginRestored } from '../../../tenants/tenant/login-events.ts'
import type { TenantTables } from '../../../tenants/tenant/tables.ts'
import { inTransaction } from '../transactions/owner-transaction.ts'
import {
  compareLogin,
  endUncommittedChanges,
  faultsOf,
  isFaulty,
  type KeptLogin,
  type LoginFaults,
  restoring,
} from './login-state.ts'
import { type PlacementConfig, preparePlacement, withServer } from './tenant-login.ts'

const INTERNAL_ERROR = 'XX000'
const LOCK_TIMEOUT_MS = 4_000
const ATTEMPTS = 5
const BEGIN = `begin; set local lock_timeout = ${LOCK_TIMEOUT_MS}`

export interface RepairDependencies {
  readonly database: Database
  readonly secrets: Secrets
  readonly events: Events
  readonly log: Logger
  /** URLs of the owners, by placement. */
  readonly urls: ReadonlyMap<string, string>
}

export class LoginRepair {
  readonly #dependencies: RepairDependencies
  readonly #running = new Map<string, Promise<LoginFaults | undefined>>()

  constructor(dependencies: RepairDependencies) {
    this.#dependencies = dependencies
  }

  /** Names of all placements. */
  get placements(): readonly string[] {
    return [...this.#dependencies.urls.keys()]
  }

  /**
   * Returns the faults of the login of a placement, or of one database there; undefined for a configured login
   * (`tenantUrl`), whose password is not stored.
   */
  async examine(placement: string, database?: string): Promise<LoginFaults | undefined> {
    const kept = await (database === undefined ? this.#kept(placement) : this.#keptOwn(placement, database))
    if (!kept) return undefined
    const compared = await withServer(this.#urlOf(placement), (server) =>
      compareLogin(server, this.#urlOf(placement), kept),
    )
    return faultsOf(kept, compared)
  }

  /** Databases of a placement with their own login. */
  async owned(placement: string): Promise<readonly string[]> {
    const rows = await this.#dependencies.database
      .query<TenantTables>()
      .selectFrom('tenantLogins')
      .select('locator')
      .where('placement', '=', placement)
      .orderBy('locator')
      .execute()
    return rows.map(({ locator }) => locator)
  }

  /**
   * Restores differences. @param database with its own login; default: the login of the placement
   * @returns the former faults; undefined for a configured or missing login
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
      await this.#restoreChanged(placement).catch((error) => {
        if (isDatabaseUnavailable(error)) return // preparePlacement has logged it
        this.#dependencies.log.warn({ err: error, placement }, "the login of tenants' queries could not be examined")
      })
    }
  }

  /** Compares without the lock first: a start on a read-only backoffice cannot take it. */
  async #restoreChanged(placement: string): Promise<void> {
    const faults = await this.examine(placement)
    if (faults && isFaulty(faults)) await this.restore(placement)
  }

  async #restore(placement: string, database?: string): Promise<LoginFaults | undefined> {
    const { log, events } = this.#dependencies
    const faults = await this.#alone(placement, () => this.#restoreNow(placement, database))
    if (!faults || !isFaulty(faults)) return faults
    if (faults.passwordChanged && (await this.examine(placement, database))?.passwordChanged) {
      throw new Error(
        `The server rejects the login "${faults.login}" even with its stored password: is it VALID UNTIL a past date?`,
      )
    }
    log.warn({ placement, ...faults }, "the login of tenants' queries had been changed and was restored")
    await events.announce(TenantLoginRestored, { placement, ...faults, settings: [...faults.settings] })
    return faults
  }

  /**
   * Serializes processes for each placement. The lock is a row of the backoffice, because tenants can take advisory
   * locks.
   */
  #alone<T>(placement: string, work: () => Promise<T>): Promise<T> {
    const { database } = this.#dependencies
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
        const compared = await compareLogin(server, this.#urlOf(placement), kept)
        const statements = restoring(kept, compared)
        const work = async () => {
          if (compared.isThere) await server.query(endUncommittedChanges(kept.login))
          await server.query(statements.join('; '))
        }
        if (statements.length > 0) await inTransaction(server, work, { begin: BEGIN })
        return faultsOf(kept, compared)
      })
    for (let attempts = 1; ; attempts++) {
      try {
        return await attempt()
      } catch (error) {
        // "tuple concurrently updated": a tenant has changed the login concurrently.
        if (sqlState(error) !== INTERNAL_ERROR || attempts === ATTEMPTS) throw error
      }
    }
  }

  #urlOf(placement: string): string {
    const url = this.#dependencies.urls.get(placement)
    if (url === undefined) throw new Error(`Placement "${placement}" is not configured`)
    return url
  }

  async #kept(placement: string): Promise<KeptLogin | undefined> {
    const { database, secrets } = this.#dependencies
    const row = await database
      .query<TenantTables>()
      .selectFrom('placementLogins')
      .select(['login', 'password'])
      .where('placement', '=', placement)
      .executeTakeFirst()
    if (!row || row.password === null) return undefined
    return { login: row.login, password: secrets.decrypt(row.password, bindingOfPlacement(placement)) }
  }

  async #keptOwn(placement: string, database: string): Promise<KeptLogin | undefined> {
    const row = await this.#dependencies.database
      .query<TenantTables>()
      .selectFrom('tenantLogins')
      .innerJoin('placementLogins', 'placementLogins.placement', 'tenantLogins.placement')
      .select(['tenantLogins.password', 'scopeRole'])
      .where('tenantLogins.placement', '=', placement)
      .where('locator', '=', database)
      .executeTakeFirst()
    if (!row) return undefined
    const password = this.#dependencies.secrets.decrypt(row.password, bindingOfOwn(placement, database))
    return { login: database, password, scopeRole: row.scopeRole }
  }
}

export type Placements = Readonly<Record<string, PlacementConfig & { readonly url: string }>>

/** Prepares all placements. A placement restores its login with the first connection that its server refuses. */
export async function preparePlacements(
  placements: Placements,
  logins: Pick<LoginRepair, 'restore'>,
  { database, secrets, log }: Pick<RepairDependencies, 'database' | 'secrets' | 'log'>,
): Promise<ReadonlyMap<string, Placement>> {
  const prepared = new Map<string, Placement>()
  for (const [name, config] of Object.entries(placements)) {
    const placement = await preparePlacement(name, config, database, secrets, log)
    const restoreLogin = async (database?: string) => {
      if (database !== undefined) placement.ownLogins?.forget(database) // another process may have replaced it
      return (await logins.restore(name, database)) !== undefined
    }
    prepared.set(name, { ...placement, restoreLogin })
  }
  return prepared
}

export const urlsOf = (placements: Placements): ReadonlyMap<string, string> =>
  new Map(Object.entries(placements).map(([name, { url }]) => [name, url]))
