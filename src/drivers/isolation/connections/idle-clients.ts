/** Holds idle clients by the database that they are connected to. */
import type { AcquireRequest, PooledClient } from './pooled-client.ts'

export class IdleClients {
  /** The most recently used client is the last one. */
  readonly #byDatabase = new Map<string, PooledClient[]>()

  get isEmpty(): boolean {
    return this.#byDatabase.size === 0
  }

  get count(): number {
    let count = 0
    for (const clients of this.#byDatabase.values()) count += clients.length
    return count
  }

  has(database: string): boolean {
    return this.#byDatabase.has(database)
  }

  of(database: string): readonly PooledClient[] {
    return this.#byDatabase.get(database) ?? []
  }

  all(): PooledClient[] {
    return [...this.#byDatabase.values()].flat()
  }

  /** Returns the client with the longest idle time. */
  oldest(): PooledClient | undefined {
    let oldest: PooledClient | undefined
    for (const [first] of this.#byDatabase.values()) {
      if (first && (!oldest || first.idleSince < oldest.idleSince)) oldest = first
    }
    return oldest
  }

  /** Returns the client that served the tenant last, otherwise the most recently used one. */
  take({ tenantId, database }: AcquireRequest): PooledClient | undefined {
    const clients = this.#byDatabase.get(database)
    if (!clients) return undefined
    const last = clients.findLastIndex(({ request }) => request.tenantId === tenantId)
    const [pooled] = last < 0 ? clients.splice(-1) : clients.splice(last, 1)
    if (clients.length === 0) this.#byDatabase.delete(database)
    return pooled
  }

  put(pooled: PooledClient): void {
    const { database } = pooled.request
    const clients = this.#byDatabase.get(database)
    if (clients) clients.push(pooled)
    else this.#byDatabase.set(database, [pooled])
  }

  /** Returns whether the client was idle. */
  remove(pooled: PooledClient): boolean {
    const { database } = pooled.request
    const clients = this.#byDatabase.get(database)
    const index = clients?.indexOf(pooled) ?? -1
    if (!clients || index < 0) return false
    clients.splice(index, 1)
    if (clients.length === 0) this.#byDatabase.delete(database)
    return true
  }
}
