/**
 * Keeps connections without an exchange. The connection used last is taken first, so that unneeded connections stay idle until they are
 * closed. Beyond the limit, the connection that has waited longest is returned to be closed.
 */
import type { EgressConnection } from './connection.ts'

const MAX_IDLE = 1_000

export class IdleConnections {
  readonly #byOrigin = new Map<string, EgressConnection[]>()
  /** In the order of `add`. */
  readonly #all = new Set<EgressConnection>()

  get size(): number {
    return this.#all.size
  }

  /** @returns the connection beyond the limit. */
  add(connection: EgressConnection): EgressConnection | undefined {
    const connections = this.#byOrigin.get(connection.origin)
    if (connections) connections.push(connection)
    else this.#byOrigin.set(connection.origin, [connection])
    this.#all.add(connection)
    const [oldest] = this.#all.size > MAX_IDLE ? this.#all : []
    if (oldest) this.remove(oldest)
    return oldest
  }

  take(origin: string): EgressConnection | undefined {
    const connections = this.#byOrigin.get(origin)
    const connection = connections?.pop()
    if (!connection) return undefined
    this.#all.delete(connection)
    if (connections?.length === 0) this.#byOrigin.delete(origin)
    return connection
  }

  /** Returns whether the connection was idle. */
  remove(connection: EgressConnection): boolean {
    if (!this.#all.delete(connection)) return false
    const connections = this.#byOrigin.get(connection.origin) ?? []
    connections.splice(connections.indexOf(connection), 1)
    if (connections.length === 0) this.#byOrigin.delete(connection.origin)
    return true
  }
}
