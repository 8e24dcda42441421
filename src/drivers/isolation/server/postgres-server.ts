/**
 * One PostgreSQL server (a placement) for the drivers of a tenancy, which share it: a small pool of the owner for DDL,
 * and the connections of the tenant login for tenants' queries. A login with too many rights is rejected.
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
import { beginAlone, inTransaction, type TransactionOptions } from '../transactions/owner-transaction.ts'
import { type AloneOptions, aloneWithTimeout } from '../transactions/storage-lock.ts'

/**
 * Maximum of concurrent exports and of concurrent imports, equal to the workers of a process. Each holds a connection.
 */
export const COPIES = 6
/** Enough for a run of migrations concurrent with copies; opened on demand. */
const OWNER_CONNECTIONS = 16 + 2 * COPIES
const CONNECT_TIMEOUT_MS = 5_000
export const DDL_APPLICATION = 'tenantry ddl'
const OWNER = { connectionTimeoutMillis: CONNECT_TIMEOUT_MS, ...KEEP_ALIVE, application_name: DDL_APPLICATION }
const LOCK_TIMEOUT_MS = 10_000
/** The search path of an adopted database is that of its former owner: a function there could replace one of PostgreSQL. */
const PINNED_PATH = 'set search_path = pg_catalog'
/** Shorter than the timeout of an awaited response, so that the caller receives the cause. */
const AWAITED_LOCK_MS = 4_000
/** The cache of a backend grows by some 60 KB for each five tables. */
const SCHEMAS_PER_CONNECTION = 1_000

/** Time for work on the owner's connections to end at `close`. */
const CLOSE_MS = 10_000

export interface AdministerOptions extends Pick<AloneOptions, 'partOf'> {
  /** Whether a caller awaits it: then it has the timeout of `ownedWithTimeout`. */
  readonly isAwaited?: boolean | undefined
}

export interface MigratingOptions<T> extends Pick<TransactionOptions<T>, 'finish'> {
  /** How long a statement may wait for a lock, in ms; default 10,000. */
  readonly lockTimeoutMs?: number | undefined
  /** Database of the work and of the lock; default the placement's own. */
  readonly database?: string | undefined
  /** Tried first, with its own transaction; returns undefined if it has done nothing. */
  readonly atOnce?: ((client: pg.ClientBase, lockTimeoutMs: number) => Promise<T | undefined>) | undefined
  /** For a copy that may be aborted, even while it waits for the lock. */
  readonly hold?: Holding | undefined
  /** Whether the connection is closed afterwards, because the work may leave locks or settings in its session. */
  readonly isTemporary?: boolean | undefined
}

export class PostgresServer {
  readonly name: string
  readonly scopeRole: string
  readonly connections: Connections
  /** Separate from `imports`, because an import may wait for the export that feeds it. */
  readonly exports = new Semaphore(COPIES)
  readonly imports = new Semaphore(COPIES)
  readonly #placement: Placement
  readonly #log: Logger
  readonly #owner: pg.Pool
  readonly #logins: LoginClients
  readonly #owned = new Set<pg.ClientBase>()
  #users = 0
  #prepared: Promise<void> | undefined

  /** Returns the server of a placement, one for all drivers of a tenancy. Release it with `close`. */
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
    // A client that is lost in use fails the next statement; without a listener, its 'error' event would end the
    // process.
    this.#owner.on('connect', (client) => {
      client.on('error', () => undefined)
      this.#owned.add(client)
    })
    this.#owner.on('remove', (client) => this.#owned.delete(client))
    this.#owner.on('error', (error) => {
      if (!this.#owner.ending)
        log.debug({ err: error, placement: this.name }, 'an idle connection of a placement was lost')
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

  /** URL with the login of tenants' queries and its password. @param database one that belongs to a tenant */
  loginUrl(database = OWN_DATABASE): Promise<string> {
    return this.#logins.urlOf(database)
  }

  /** Runs one statement of a tenant, on a connection that is held only for this statement. */
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

  /** @param database one that belongs to the tenant */
  async connect(scope: Scope, scopeMode: ScopeMode, database = OWN_DATABASE): Promise<ScopedConnection> {
    const taken = this.connections.acquire({ tenantId: scope.tenantId, database, schema: scope.openSchema })
    const pooled = taken instanceof Promise ? await taken : taken
    const settings = this.#logins.pooled
    return new ScopedConnection(this.connections, pooled, settings ? { ...scope, settings } : scope, scopeMode)
  }

  /**
   * Runs one transaction of the owner in the placement's database with the lock of this storage, like
   * `aloneWithTimeout`.
   */
  administer<T>(
    locator: string,
    work: (client: pg.ClientBase) => Promise<T>,
    { isAwaited = false, partOf }: AdministerOptions = {},
  ): Promise<T> {
    const options = { lockTimeoutMs: isAwaited ? AWAITED_LOCK_MS : LOCK_TIMEOUT_MS, partOf }
    const alone = (client: pg.ClientBase) => aloneWithTimeout(client, locator, () => work(client), options)
    return isAwaited ? this.ownedWithTimeout(alone) : this.owned(alone)
  }

  /**
   * Runs a transaction for migrations, serialized by storage, with the records of the storage.
   * @param storage as in the records
   */
  async migrating<T>(
    storage: string,
    work: (client: pg.ClientBase, read: StorageRead) => Promise<T>,
    {
      lockTimeoutMs = LOCK_TIMEOUT_MS,
      database = OWN_DATABASE,
      atOnce,
      hold,
      finish,
      isTemporary,
    }: MigratingOptions<T> = {},
  ): Promise<T> {
    const begin = `${beginAlone(storage, lockTimeoutMs)}; ${reading(storage)}`
    const alone = async (client: pg.ClientBase) =>
      (await atOnce?.(client, lockTimeoutMs)) ??
      inTransaction(client, (opened) => work(client, opened.at(-1)?.rows[0]), { begin, finish })
    const held = hold ? (client: pg.ClientBase) => hold(client, () => alone(client)) : alone
    return isTemporary ? this.#temporarily(database, held) : this.ownedIn(database, held)
  }

  /** Runs work on a connection of the owner to the placement's database, outside of any transaction. */
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

  /** Like `owned` for awaited work: fails if the server has not responded to all of it within five seconds. */
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

  /** Runs work on a connection of the owner to a database of the server. The connection to another database is temporary. */
  async ownedIn<T>(database: string, work: (client: pg.ClientBase) => Promise<T>): Promise<T> {
    return database === OWN_DATABASE ? this.owned(work) : this.#temporarily(database, work)
  }

  async #temporarily<T>(database: string, work: (client: pg.ClientBase) => Promise<T>): Promise<T> {
    const { url } = this.#placement
    const connectionString = database === OWN_DATABASE ? url : withDatabase(url, database)
    const client = new pg.Client({ connectionString, ...OWNER })
    client.on('error', () => undefined)
    await client.connect()
    try {
      if (database !== OWN_DATABASE) await client.query(PINNED_PATH)
      return await work(client)
    } finally {
      await closeClient(client)
    }
  }

  /**
   * Runs work on a temporary connection of the tenant login outside of its budget.
   * @param options of `LoginClients.open`
   */
  async asLogin<T>(work: (client: pg.ClientBase) => Promise<T>, options?: { restores: boolean }): Promise<T> {
    const client = await this.#logins.open(OWN_DATABASE, options)
    try {
      return await work(client)
    } finally {
      await closeClient(client)
    }
  }

  /** Whether the server rejects the login of tenants' queries. */
  isLoginRejected(): Promise<boolean> {
    return this.#logins.isRejected()
  }

  /** Closes everything when the last driver has released it. */
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
