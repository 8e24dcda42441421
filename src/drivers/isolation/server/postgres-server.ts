/**
 * One PostgreSQL server (a placement) as the drivers use it: a small pool of the owner for DDL, and the connections of the tenant
 * login for tenants' queries, which all drivers of a tenancy share. A login that could see more than it should is refused.
 */
import pg from 'pg'
import type { Logger } from '../../../kernel/base/logger.ts'
import { withTimeout } from '../../../kernel/base/with-timeout.ts'
import type { Placement, Statement, StatementResult } from '../../../tenants/isolation/driver.ts'
import { ready } from '../connections/client-state.ts'
import { closeClient, destroyClient } from '../connections/close-client.ts'
import { Connections } from '../connections/pool.ts'
import { Semaphore } from '../connections/semaphore.ts'
import { probeServer } from '../connections/server-probe.ts'
import { KEEP_ALIVE, RESPONSE_TIMEOUT_MS, timeoutError } from '../connections/timeouts.ts'
import { reading, type StorageRead } from '../migrations/migration-records.ts'
import { baseObjects } from '../migrations/postgres-migrator.ts'
import { LoginClients, OWN_DATABASE, withDatabase } from '../roles/login-clients.ts'
import { adjustPublicRights } from '../roles/public-rights.ts'
import { isIdle, ScopedConnection, type ScopeMode } from '../scope/scoped-connection.ts'
import type { Scope } from '../scope/scoped-query.ts'
import type { Holding } from '../transactions/copy-session.ts'
import { beginAlone, inTransaction } from '../transactions/owner-transaction.ts'
import { type AloneOptions, aloneWithTimeout } from '../transactions/storage-lock.ts'

/** As many exports as a process has workers for, and as many imports. Each keeps a connection for as long as it takes. */
export const COPIES = 6
/** As many as a run of migrations may use at once, whatever is copied meanwhile; opened when they are needed. */
const OWNER_CONNECTIONS = 16 + 2 * COPIES
const CONNECT_TIMEOUT_MS = 5_000
export const DDL_APPLICATION = 'tenantry ddl'
const OWNER = { connectionTimeoutMillis: CONNECT_TIMEOUT_MS, ...KEEP_ALIVE, application_name: DDL_APPLICATION }
const LOCK_TIMEOUT_MS = 10_000
/** Sooner than who waits for an answer gives up, so that there is one. */
const AWAITED_LOCK_MS = 4_000
/** A backend keeps some 60 KB of each five tables it has seen. */
const SCHEMAS_PER_CONNECTION = 1_000

/** For what is under way on the owner's connections to come to its end. */
const CLOSE_MS = 10_000

export interface AdministerOptions extends Pick<AloneOptions, 'partOf'> {
  /** Whether somebody waits for it: fails then as `answered` does. */
  readonly isAwaited?: boolean | undefined
}

export interface MigratingOptions<T> {
  /** How long a statement may wait for a lock; default 10,000. */
  readonly lockTimeoutMs?: number | undefined
  /** The database that it is done in, and that has the lock; default the placement's own. */
  readonly database?: string | undefined
  /** Tried first, with a transaction of its own; undefined when it has done nothing. */
  readonly atOnce?: ((client: pg.ClientBase, lockTimeoutMs: number) => Promise<T | undefined>) | undefined
  /** Of a copy that may be given up, also while it waits for the lock. */
  readonly hold?: Holding | undefined
}

export class PostgresServer {
  readonly name: string
  readonly scopeRole: string
  readonly connections: Connections
  /** Two kinds of room: an import may be fed by an export that waits for it. */
  readonly exports = new Semaphore(COPIES)
  readonly imports = new Semaphore(COPIES)
  readonly #placement: Placement
  readonly #log: Logger
  readonly #owner: pg.Pool
  readonly #logins: LoginClients
  readonly #owned = new Set<pg.ClientBase>()
  #users = 0
  #prepared: Promise<void> | undefined

  /** The server of a placement: one for all drivers of a tenancy. Give it back with `close`. */
  static of(placement: Placement, log: Logger): PostgresServer {
    const server = servers.get(placement) ?? new PostgresServer(placement, log)
    servers.set(placement, server)
    server.#users++
    return server
  }

  private constructor(placement: Placement, log: Logger) {
    this.name = placement.name
    this.scopeRole = placement.scopeRole
    this.#placement = placement
    this.#log = log
    this.#owner = new pg.Pool({
      connectionString: placement.url,
      max: OWNER_CONNECTIONS,
      ...OWNER,
    })
    // One that is lost while in use fails the next statement; unheard, its 'error' event would end the process.
    this.#owner.on('connect', (client) => {
      client.on('error', () => undefined)
      this.#owned.add(client)
    })
    this.#owner.on('remove', (client) => this.#owned.delete(client))
    this.#owner.on('error', (error) => {
      if (!this.#owner.ending)
        log.warn({ err: error, placement: this.name }, 'an idle connection of a placement was lost')
    })
    this.#logins = new LoginClients(placement, log)
    this.connections = new Connections({
      limits: placement.connections,
      maxSchemas: SCHEMAS_PER_CONNECTION,
      open: (database) => this.#logins.open(database),
      probe: () => probeServer(placement.tenantUrl, CONNECT_TIMEOUT_MS),
      isPooled: placement.pooler,
      log,
    })
  }

  get placement(): Placement {
    return this.#placement
  }

  get log(): Logger {
    return this.#log
  }

  /** The role of tenants' queries. */
  get login(): string {
    return decodeURIComponent(new URL(this.#placement.tenantUrl).username)
  }

  /** With the login of tenants' queries, and its password. @param database one that belongs to a tenant */
  loginUrl(database = OWN_DATABASE): Promise<string> {
    return this.#logins.urlOf(database)
  }

  /** One statement of a tenant, on a connection that it holds for no longer. */
  async execute(
    scope: Scope,
    scopeMode: ScopeMode,
    statement: Statement,
    database = OWN_DATABASE,
  ): Promise<StatementResult> {
    const connection = await this.connect(scope, scopeMode, database)
    try {
      return await connection.query(statement)
    } finally {
      connection.release()
    }
  }

  /** @param database one that belongs to the tenant. */
  async connect(scope: Scope, scopeMode: ScopeMode, database = OWN_DATABASE): Promise<ScopedConnection> {
    const taken = this.connections.acquire({ tenantId: scope.tenantId, database, schema: scope.openSchema })
    const pooled = taken instanceof Promise ? await taken : taken
    const settings = this.#logins.pooled
    return new ScopedConnection(this.connections, pooled, settings ? { ...scope, settings } : scope, scopeMode)
  }

  /** One transaction of the owner in the placement's database that has this storage alone, as `aloneWithTimeout` does. */
  administer<T>(
    locator: string,
    work: (client: pg.ClientBase) => Promise<T>,
    { isAwaited = false, partOf }: AdministerOptions = {},
  ): Promise<T> {
    const options = { lockTimeoutMs: isAwaited ? AWAITED_LOCK_MS : LOCK_TIMEOUT_MS, partOf }
    const alone = (client: pg.ClientBase) => aloneWithTimeout(client, locator, () => work(client), options)
    return isAwaited ? this.ownedWithTimeout(alone) : this.owned(alone)
  }

  /** One for migrations, which wait for one another, told what the storage has. @param storage as their records name it */
  async migrating<T>(
    storage: string,
    work: (client: pg.ClientBase, read: StorageRead) => Promise<T>,
    { lockTimeoutMs = LOCK_TIMEOUT_MS, database = OWN_DATABASE, atOnce, hold }: MigratingOptions<T> = {},
  ): Promise<T> {
    const begin = `${beginAlone(storage, lockTimeoutMs)}; ${reading(storage)}`
    const alone = async (client: pg.ClientBase) =>
      (await atOnce?.(client, lockTimeoutMs)) ??
      inTransaction(client, (opened) => work(client, opened.at(-1)?.rows[0]), { begin })
    const held = hold ? (client: pg.ClientBase) => hold(client, () => alone(client)) : alone
    return this.ownedIn(database, held)
  }

  /** A connection of the owner to the placement's database, outside of any transaction. */
  async owned<T>(work: (client: pg.ClientBase) => Promise<T>): Promise<T> {
    this.#prepared ??= this.#prepare()
    await this.#prepared
    const client = await this.#owner.connect()
    let isClean = false
    try {
      const result = await work(client)
      isClean = true
      return result
    } catch (error) {
      await ready(client)
      isClean = error instanceof pg.DatabaseError && isIdle(client)
      throw error
    } finally {
      client.release(!isClean)
    }
  }

  /** The same for work that somebody waits for: fails when the server has not answered all of it in five seconds. */
  ownedWithTimeout<T>(work: (client: pg.ClientBase) => Promise<T>): Promise<T> {
    let isLate = false
    let client: pg.ClientBase | undefined
    const result = this.owned((own) => {
      if (isLate) throw timeoutError()
      client = own
      return work(own).finally(() => {
        client = undefined
      })
    })
    return withTimeout(result, RESPONSE_TIMEOUT_MS, () => {
      isLate = true
      if (client) destroyClient(client, timeoutError())
      return timeoutError()
    })
  }

  /** The same in a database of the server; a connection to one that is not the placement's own is closed afterwards. */
  async ownedIn<T>(database: string, work: (client: pg.ClientBase) => Promise<T>): Promise<T> {
    if (database === OWN_DATABASE) return this.owned(work)
    const client = new pg.Client({
      connectionString: withDatabase(this.#placement.url, database),
      ...OWNER,
    })
    client.on('error', () => undefined)
    await client.connect()
    try {
      return await work(client)
    } finally {
      await closeClient(client)
    }
  }

  /** A connection of the tenant login in addition to its budget, closed afterwards. @param options of `LoginClients.open` */
  async asLogin<T>(work: (client: pg.ClientBase) => Promise<T>, options?: { restores: boolean }): Promise<T> {
    const client = await this.#logins.open(OWN_DATABASE, options)
    try {
      return await work(client)
    } finally {
      await closeClient(client)
    }
  }

  /** Whether the server refuses the login of tenants' queries. */
  isLoginRejected(): Promise<boolean> {
    return this.#logins.isRejected()
  }

  /** Closes everything when the last driver gives it back. */
  async close(): Promise<void> {
    if (--this.#users > 0) return
    servers.delete(this.#placement)
    const timer = setTimeout(() => {
      for (const client of this.#owned) destroyClient(client, timeoutError())
    }, CLOSE_MS)
    await Promise.all([this.#owner.end(), this.connections.close()])
    clearTimeout(timer)
  }

  async #prepare(): Promise<void> {
    try {
      await this.#owner.query(`begin; ${baseObjects(this.scopeRole)}; ${adjustPublicRights(this.#placement)}; commit`)
    } catch (error) {
      this.#prepared = undefined
      throw error
    }
  }
}

const servers = new WeakMap<Placement, PostgresServer>()
