/**
 * The connections of this process to one server, for tenants' queries: one budget, shared by all drivers and tenants.
 *
 *   acquire ─► a client of that database is idle ──────────────────────────► taken (the one that served the tenant last)
 *          ─► room in the budget ─► connect ─────────────────────────────► taken
 *          ─► all room taken, another database's client idle ─► closed ─► connect ─► taken
 *          ─► else, or the tenant has its share already ─► waits ─► taken | E_TENANT_CONNECTION_LIMIT
 *
 * A tenant waits behind itself: each has a queue of its own, bounded in length and time, and those who wait take turns. A turn
 * that another database has to make room for is worth what the connection costs: until it is over, its client goes on with whoever
 * waits for that database. The budget holds a connection until the server has closed it, so the server never sees more than `max`.
 */
import type { Socket } from 'node:net'
import type pg from 'pg'
import type { Logger } from '../../kernel/logger.ts'
import type { ConnectionLimits } from '../../tenants/isolation.ts'
import { Turns } from './turns.ts'

const IDLE_MS = 30_000
/** A few times what a connection costs. */
const TURN_MS = 25
/** For the server to answer a goodbye, before the socket is closed all the same. */
const END_MS = 5_000

/** A connection with what is known of it. */
export interface PooledClient {
  readonly client: pg.Client
  readonly database: string
  /** Served last; what it cached may be of use again. */
  lastTenant: string
  /** How many times it changed hands: each tenant's tables stay in the backend's cache. */
  tenants: number
  idleSince: number
  /** Until then it is not closed for another database while somebody waits for this one. */
  turnEndsAt: number
  /** Statements that have a name on this connection, by text; the oldest first. */
  readonly statements: Map<string, string>
}

export interface Wish {
  readonly tenantId: string
  /** Whose client it must be; '' for the placement's own. */
  readonly database: string
}

export interface ConnectionsOptions {
  readonly limits: ConnectionLimits
  /** After so many tenants a connection is replaced: a backend keeps what it read of every schema. */
  readonly maxTenants: number
  /** Opens and checks one. */
  readonly open: (database: string) => Promise<pg.Client>
  /** Whether a pooler in transaction mode stands between: then each transaction may have another session of the server. */
  readonly isPooled: boolean
  readonly log: Logger
}

export class Connections {
  readonly #options: ConnectionsOptions
  readonly #turns: Turns<Wish, PooledClient>
  /** By database; the one used last is at the end. */
  readonly #idle = new Map<string, PooledClient[]>()
  readonly #inUse = new Map<string, number>()
  /** Connected, connecting, and closing ones. */
  #total = 0
  #busy = 0
  #ending = 0
  #hits = 0
  #misses = 0
  #isClosed = false
  #sweep: NodeJS.Timeout | undefined
  #drained: (() => void) | undefined
  readonly #mayHave = ({ tenantId }: Wish): boolean => (this.#inUse.get(tenantId) ?? 0) < this.#options.limits.perTenant
  readonly #mayGoOn = (wish: Wish): boolean => {
    const clients = this.#mayHave(wish) ? this.#idle.get(wish.database) : undefined
    return clients?.some(({ turnEndsAt }) => turnEndsAt > performance.now()) ?? false
  }

  constructor(options: ConnectionsOptions) {
    this.#options = options
    this.#turns = new Turns(options.limits)
  }

  get isPooled(): boolean {
    return this.#options.isPooled
  }

  /** At once when one is idle. */
  acquire(wish: Wish): PooledClient | Promise<PooledClient> {
    if (this.#isClosed) throw new Error('the connections are closed')
    if (this.#mayHave(wish)) {
      const idle = this.#takeIdle(wish)
      if (idle) return this.#lend(idle, wish.tenantId)
      if (this.#total < this.#options.limits.max) return this.#connect(wish)
    }
    const waiting = this.#turns.wait(wish)
    this.#serve()
    return waiting
  }

  /** @param destroy when it is not known to be clean. */
  release(pooled: PooledClient, destroy: boolean): void {
    this.#giveBack(pooled.lastTenant)
    if (destroy || this.#isClosed || pooled.tenants > this.#options.maxTenants) this.#end(pooled)
    else this.#park(pooled)
    this.#serve()
  }

  count(): { idle: number; busy: number; waiting: number } {
    let idle = 0
    for (const clients of this.#idle.values()) idle += clients.length
    return { idle, busy: this.#busy, waiting: this.#turns.size }
  }

  /** How often a connection was there, and how often one had to be made. */
  get uses(): { readonly hits: number; readonly misses: number } {
    return { hits: this.#hits, misses: this.#misses }
  }

  /** Closes what is idle of one database. */
  forget(database: string): void {
    for (const pooled of this.#idle.get(database)?.splice(0) ?? []) this.#end(pooled)
    this.#idle.delete(database)
  }

  /** Ends what is idle, refuses who waits, and resolves when the last one in use has come back. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#sweep)
    this.#turns.refuseAll(new Error('the connections are closed'))
    const drained = new Promise<void>((resolve) => {
      this.#drained = resolve
    })
    for (const database of [...this.#idle.keys()]) this.forget(database)
    if (this.#total > 0) await drained
  }

  #takeIdle({ tenantId, database }: Wish): PooledClient | undefined {
    const clients = this.#idle.get(database)
    if (!clients) return undefined
    const last = clients.findLastIndex(({ lastTenant }) => lastTenant === tenantId)
    const [pooled] = last < 0 ? clients.splice(-1) : clients.splice(last, 1)
    if (clients.length === 0) this.#idle.delete(database)
    return pooled
  }

  #lend(pooled: PooledClient, tenantId: string): PooledClient {
    this.#hits++
    this.#take(tenantId)
    if (pooled.lastTenant !== tenantId) pooled.tenants++
    pooled.lastTenant = tenantId
    return pooled
  }

  async #connect({ tenantId, database }: Wish): Promise<PooledClient> {
    this.#misses++
    this.#total++
    this.#take(tenantId)
    try {
      const client = await this.#options.open(database)
      const statements = new Map<string, string>()
      const turnEndsAt = performance.now() + TURN_MS
      const pooled = { client, database, lastTenant: tenantId, tenants: 1, idleSince: 0, turnEndsAt, statements }
      client.on('error', (error) => this.#lost(pooled, error))
      return pooled
    } catch (error) {
      this.#giveBack(tenantId)
      this.#gone()
      this.#serve()
      throw error
    }
  }

  #take(tenantId: string): void {
    this.#busy++
    this.#inUse.set(tenantId, (this.#inUse.get(tenantId) ?? 0) + 1)
  }

  #giveBack(tenantId: string): void {
    this.#busy--
    const left = (this.#inUse.get(tenantId) ?? 1) - 1
    if (left > 0) this.#inUse.set(tenantId, left)
    else this.#inUse.delete(tenantId)
  }

  /** Gives what is free to those who wait. */
  #serve(): void {
    for (;;) {
      const hasRoom = this.#total < this.#options.limits.max
      if (!hasRoom && this.#idle.size === 0) return
      const first = this.#turns.first(this.#mayHave)
      if (!first) return
      const isServed = hasRoom || this.#idle.has(first.wish.database)
      const waiter = isServed ? first : this.#turns.first(this.#mayGoOn)
      if (!waiter) {
        this.#evict()
        return
      }
      this.#turns.take(waiter)
      const idle = this.#takeIdle(waiter.wish)
      if (!idle) this.#connect(waiter.wish).then(waiter.resolve, waiter.reject)
      else {
        if (isServed) idle.turnEndsAt = performance.now() + TURN_MS
        waiter.resolve(this.#lend(idle, waiter.wish.tenantId))
      }
    }
  }

  /** Closes the client that has been idle the longest; who waits is served when its socket is closed. */
  #evict(): void {
    if (this.#ending >= this.#turns.size) return // enough room is on its way
    let oldest: PooledClient | undefined
    for (const [first] of this.#idle.values()) {
      if (first && (!oldest || first.idleSince < oldest.idleSince)) oldest = first
    }
    if (oldest && this.#unpark(oldest)) this.#end(oldest)
  }

  #park(pooled: PooledClient): void {
    pooled.idleSince = performance.now()
    const clients = this.#idle.get(pooled.database)
    if (clients) clients.push(pooled)
    else this.#idle.set(pooled.database, [pooled])
    this.#sweep ??= setTimeout(() => this.#endIdle(), IDLE_MS).unref()
  }

  #unpark(pooled: PooledClient): boolean {
    const clients = this.#idle.get(pooled.database)
    const index = clients?.indexOf(pooled) ?? -1
    if (!clients || index < 0) return false
    clients.splice(index, 1)
    if (clients.length === 0) this.#idle.delete(pooled.database)
    return true
  }

  #endIdle(): void {
    this.#sweep = undefined
    const before = performance.now() - IDLE_MS
    for (const pooled of [...this.#idle.values()].flat()) {
      if (pooled.idleSince <= before && this.#unpark(pooled)) this.#end(pooled)
    }
    if (this.#idle.size > 0) this.#sweep = setTimeout(() => this.#endIdle(), IDLE_MS / 2).unref()
  }

  #lost(pooled: PooledClient, error: Error): void {
    if (!this.#unpark(pooled)) return // in use: its statement fails, and it is destroyed when it comes back
    this.#options.log.warn({ err: error }, 'an idle connection of a placement was lost')
    this.#end(pooled)
  }

  #end({ client }: PooledClient): void {
    this.#ending++
    const timer = setTimeout(() => socketOf(client).destroy(), END_MS)
    client
      .end()
      .catch((error) => this.#options.log.debug({ err: error }, 'a connection was not ended in order'))
      .finally(() => {
        clearTimeout(timer)
        this.#ending--
        this.#gone()
        this.#serve()
      })
  }

  #gone(): void {
    this.#total--
    if (this.#total === 0) this.#drained?.()
  }
}

const socketOf = (client: pg.Client): Socket =>
  (client as unknown as { connection: { stream: Socket } }).connection.stream
