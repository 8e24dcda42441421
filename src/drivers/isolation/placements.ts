/** The servers of one driver, by the names of their placements, and how its statements are sent. */
import { DependencyUnavailable } from '../../kernel/errors.ts'
import type { ConnectionCount, DriverEnvironment } from '../../tenants/isolation.ts'
import { PostgresServer } from './postgres-server.ts'
import type { Manner } from './scoped-connection.ts'

export interface ScopeOptions {
  /**
   * `batch` (default) sends the scope and the statement in one round trip; `transaction` puts BEGIN and COMMIT around each
   * statement, for what stands between and knows no batches.
   */
  readonly scope?: 'batch' | 'transaction' | undefined
}

export const mannerOf = ({ scope = 'batch' }: ScopeOptions, { generation }: DriverEnvironment): Manner => ({
  path: scope,
  generation,
})

export class Placements {
  readonly #maker: string
  readonly #servers = new Map<string, PostgresServer>()

  /** @param maker how a driver of this kind is made, for who uses one twice. */
  constructor(maker: string) {
    this.#maker = maker
  }

  open({ placements, log }: DriverEnvironment): void {
    if (this.#servers.size > 0) throw new Error(`a driver serves one tenancy: make another with ${this.#maker}`)
    for (const placement of placements.values()) this.#servers.set(placement.name, PostgresServer.of(placement, log))
  }

  /** That of a placement which is no longer configured cannot be reached; its name is for the log, not for who asked. */
  server(placement: string): PostgresServer {
    const server = this.#servers.get(placement)
    if (server) return server
    throw DependencyUnavailable('The database server of the tenant is not configured in this process.', {
      cause: new Error(`the placement "${placement}" is not configured in this process`),
    })
  }

  all(): Iterable<PostgresServer> {
    return this.#servers.values()
  }

  connections(): ConnectionCount[] {
    return [...this.#servers.values()].map(({ name, connections }) => ({ placement: name, ...connections.count() }))
  }

  async close(): Promise<void> {
    for (const server of this.#servers.values()) await server.close()
    this.#servers.clear()
  }
}
