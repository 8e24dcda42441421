/**
 * Pools the connections of this process to one server for tenants' queries: one budget, shared by all drivers and
 * tenants.
 *
 *   acquire ─► idle client of that database ──────────────────────────────► taken (the one that served the tenant last)
 *          ─► free budget ─► connect ────────────────────────────────────► taken
 *          ─► no free budget, idle client of another database ─► closed ─► connect ─► taken
 *          ─► otherwise, or if the tenant has used its share ─► waits ───► taken | E_TENANT_CONNECTION_LIMIT
 *
 * - Requests of a tenant wait in its own queue (fair-queue.ts).
 * - A connection that replaced one of another database serves only its own database until `reservedUntil`, about as
 *   long as it took to open.
 * - The budget counts a connection until the server has closed it, so that the server never sees more than `max`.
 */
import type pg from 'pg'
import type { Logger } from '../../../kernel/base/logger.ts'
import type { ConnectionLimits } from '../../../tenants/isolation/driver.ts'
import { closeClient, destroyClient } from './close-client.ts'
import { ConnectLimiter } from './connect-limiter.ts'
import { FairQueue } from './fair-queue.ts'
import { IdleClients } from './idle-clients.ts'
import { NamedStatements } from './named-statements.ts'
import type { AcquireRequest, PooledClient } from './pooled-client.ts'
import type { ProbeResult } from './server-probe.ts'
import { timeoutError } from './timeouts.ts'
import { UnresponsiveServerCheck } from './unresponsive-server.ts'

const IDLE_MS = 30_000
/** A few times the cost of a connection. */
const RESERVED_MS = 25
/** Time in use after which a client's server is probed. */
const PROBE_AFTER_MS = 5_000
/** How long `close` waits for clients in use. */
const DRAIN_MS = 10_000

export interface ConnectionsOptions {
  readonly limits: ConnectionLimits
  /** A connection is replaced after this number of schemas. */
  readonly maxSchemas: number
  /** Opens and checks a connection. */
  readonly open: (database: string) => Promise<pg.Client>
  /** Probes the server. */
  readonly probe: () => Promise<ProbeResult>
  /** Whether a pooler in transaction mode is used, so that each transaction may have another session of the server. */
  readonly isPooled: boolean
  readonly log: Logger
}

export class Connections {
  readonly #options: ConnectionsOptions
  readonly #queue: FairQueue<AcquireRequest, PooledClient>
  readonly #connectLimiter = new ConnectLimiter(() => this.#serve())
  readonly #serverCheck: UnresponsiveServerCheck
  readonly #idle = new IdleClients()
  readonly #inUse = new Map<string, number>()
  readonly #lent = new Set<PooledClient>()
  /** Number of open, opening and closing connections. */
  #total = 0
  #busy = 0
  #ending = 0
  #hits = 0
  #misses = 0
  #isClosed = false
  #sweep: NodeJS.Timeout | undefined
  #watch: NodeJS.Timeout | undefined
  #drained: (() => void) | undefined
  readonly #mayHave = ({ tenantId }: AcquireRequest): boolean =>
    (this.#inUse.get(tenantId) ?? 0) < this.#options.limits.perTenant
  readonly #mayUse = (request: AcquireRequest): boolean => this.#mayHave(request) && this.#idle.has(request.database)
  readonly #mayGoOn = (request: AcquireRequest): boolean => {
    if (!this.#mayUse(request)) return false
    return this.#idle.of(request.database).some(({ reservedUntil }) => reservedUntil > performance.now())
  }

  constructor(options: ConnectionsOptions) {
    this.#options = options
    this.#queue = new FairQueue(options.limits)
    this.#serverCheck = new UnresponsiveServerCheck(options.probe)
  }

  get isPooled(): boolean {
    return this.#options.isPooled
  }

  /** Returns an idle client immediately. */
  acquire(request: AcquireRequest): PooledClient | Promise<PooledClient> {
    if (this.#isClosed) throw new Error('The connections are closed')
    if (this.#mayHave(request)) {
      const idle = this.#idle.take(request)
      if (idle) return this.#lend(idle, request)
      if (this.#hasRoom && this.#connectLimiter.hasCapacity) return this.#connect(request)
    }
    const waiting = this.#queue.wait(request)
    this.#serve()
    return waiting
  }

  /** @param destroy whether the client may have leftover state and must be closed */
  release(pooled: PooledClient, destroy: boolean): void {
    if (!this.#lent.delete(pooled)) return // destroyed by `close`
    this.#freePlace(pooled.request.tenantId)
    if (destroy || this.#isClosed || pooled.schemas.size > this.#options.maxSchemas) this.#end(pooled)
    else this.#park(pooled)
    this.#serve()
  }

  /** Counts connections, and how often one was idle (`hits`) or had to be opened (`misses`). */
  count(): { idle: number; busy: number; waiting: number; hits: number; misses: number } {
    return {
      idle: this.#idle.count,
      busy: this.#busy,
      waiting: this.#queue.size,
      hits: this.#hits,
      misses: this.#misses,
    }
  }

  /** Closes the idle clients of one database. */
  forget(database: string): void {
    this.#endAll(this.#idle.of(database))
  }

  /**
   * Closes idle clients and rejects waiting requests. Resolves when clients in use are released, or destroyed after ten
   * seconds.
   */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#sweep)
    this.#queue.rejectAll(new Error('The connections are closed'))
    const drained = new Promise<void>((resolve) => {
      this.#drained = resolve
    })
    this.#endAll(this.#idle.all())
    const timer = setTimeout(() => {
      for (const pooled of this.#lent) this.release(pooled, true)
    }, DRAIN_MS)
    if (this.#total > 0) await drained
    clearTimeout(timer)
    clearTimeout(this.#watch)
  }

  get #hasRoom(): boolean {
    return this.#total < this.#options.limits.max
  }

  #lend(pooled: PooledClient, request: AcquireRequest): PooledClient {
    this.#hits++
    this.#take(request.tenantId)
    pooled.request = request
    this.#give(pooled)
    return pooled
  }

  #give(pooled: PooledClient): void {
    if (pooled.request.schema !== null) pooled.schemas.add(pooled.request.schema)
    pooled.lentAt = performance.now()
    this.#lent.add(pooled)
    this.#watch ??= setTimeout(() => void this.#checkServer(), PROBE_AFTER_MS).unref()
  }

  async #connect(request: AcquireRequest): Promise<PooledClient> {
    this.#misses++
    this.#total++
    this.#take(request.tenantId)
    const releasePermit = this.#connectLimiter.acquire()
    const client = await this.#options.open(request.database).catch((error) => {
      releasePermit()
      this.#freePlace(request.tenantId)
      this.#gone()
      this.#serve()
      throw error
    })
    releasePermit()
    const now = performance.now()
    const known = { schemas: new Set<string>(), statements: new NamedStatements() }
    const pooled = { client, request, ...known, lentAt: now, idleSince: 0, reservedUntil: now + RESERVED_MS }
    client.on('error', (error) => this.#lost(pooled, error))
    this.#give(pooled)
    this.#serve()
    return pooled
  }

  #take(tenantId: string): void {
    this.#busy++
    this.#inUse.set(tenantId, (this.#inUse.get(tenantId) ?? 0) + 1)
  }

  #freePlace(tenantId: string): void {
    this.#busy--
    const left = (this.#inUse.get(tenantId) ?? 1) - 1
    if (left > 0) this.#inUse.set(tenantId, left)
    else this.#inUse.delete(tenantId)
  }

  /** Serves waiting requests with free clients or budget. */
  #serve(): void {
    for (;;) {
      const mayConnect = this.#hasRoom && this.#connectLimiter.hasCapacity
      if (!mayConnect && this.#idle.isEmpty) return
      const first = this.#queue.first(this.#mayHave)
      if (!first) return
      const isServed = mayConnect || this.#idle.has(first.request.database)
      const waiter = isServed
        ? first
        : this.#queue.first(this.#connectLimiter.hasCapacity ? this.#mayGoOn : this.#mayUse)
      if (!waiter) {
        if (!this.#hasRoom && this.#connectLimiter.hasCapacity) this.#evict()
        return
      }
      this.#queue.take(waiter)
      const idle = this.#idle.take(waiter.request)
      if (!idle) this.#connect(waiter.request).then(waiter.resolve, waiter.reject)
      else {
        if (isServed) idle.reservedUntil = performance.now() + RESERVED_MS
        waiter.resolve(this.#lend(idle, waiter.request))
      }
    }
  }

  /** Closes the client with the longest idle time; a waiting request is served when its socket is closed. */
  #evict(): void {
    if (this.#ending >= this.#queue.size) return // enough budget will be free
    const oldest = this.#idle.oldest()
    if (oldest) this.#endAll([oldest])
  }

  #park(pooled: PooledClient): void {
    pooled.idleSince = performance.now()
    this.#idle.put(pooled)
    this.#sweep ??= setTimeout(() => this.#endIdle(), IDLE_MS).unref()
  }

  #endIdle(): void {
    this.#sweep = undefined
    const before = performance.now() - IDLE_MS
    this.#endAll(this.#idle.all().filter(({ idleSince }) => idleSince <= before))
    if (!this.#idle.isEmpty) this.#sweep = setTimeout(() => this.#endIdle(), IDLE_MS / 2).unref()
  }

  #lost(pooled: PooledClient, error: Error): void {
    if (!this.#idle.remove(pooled)) return // in use: its statement fails, and it is destroyed at its release
    this.#options.log.debug({ err: error }, 'an idle connection of a placement was lost')
    this.#end(pooled)
  }

  #endAll(idle: readonly PooledClient[]): void {
    for (const pooled of [...idle]) if (this.#idle.remove(pooled)) this.#end(pooled)
  }

  /** @param isDestroyed closes without a Terminate message, which an unresponsive server would not read */
  #end({ client }: PooledClient, isDestroyed = false): void {
    this.#ending++
    const releasePermit = this.#connectLimiter.acquire()
    if (isDestroyed) destroyClient(client, timeoutError())
    closeClient(client)
      .catch((error) => this.#options.log.debug({ err: error }, 'a connection was not closed cleanly'))
      .finally(() => {
        releasePermit()
        this.#ending--
        this.#gone()
        this.#serve()
      })
  }

  /**
   * Detects an unresponsive server, and fails the clients in use as if they were closed. Without it, a caller would
   * wait for TCP's timeout of a quarter of an hour. Statements on a responsive server may take any time.
   */
  async #checkServer(): Promise<void> {
    const probedAt = performance.now()
    const waiting = [...this.#lent].filter(({ lentAt }) => lentAt <= probedAt - PROBE_AFTER_MS / 2)
    if (waiting.length > 0 && (await this.#serverCheck.isUnresponsive())) {
      this.#options.log.warn('a server stopped responding; its connections were destroyed')
      for (const pooled of waiting)
        if (this.#lent.has(pooled) && pooled.lentAt <= probedAt) destroyClient(pooled.client, timeoutError())
      for (const pooled of this.#idle.all()) if (this.#idle.remove(pooled)) this.#end(pooled, true)
    }
    this.#watch = this.#lent.size > 0 ? setTimeout(() => void this.#checkServer(), PROBE_AFTER_MS).unref() : undefined
  }

  #gone(): void {
    this.#total--
    if (this.#total === 0) this.#drained?.()
  }
}
