/** The servers of one driver, by the names of their placements, and how its statements are sent. */
import { type ConnectionCount, type DriverEnvironment, unknownPlacement } from '../../../tenants/isolation/driver.ts'
import type { ScopeMode } from '../scope/scoped-connection.ts'
import { PostgresServer } from './postgres-server.ts'

export interface ScopeOptions {
  /**
   * `batch` (default) sends the scope and the statement in one round trip; `transaction` puts BEGIN and COMMIT around each
   * statement, for what stands between and knows no batches.
   */
  readonly scope?: 'batch' | 'transaction' | undefined
}

export const scopeModeOf = ({ scope = 'batch' }: ScopeOptions, { generation }: DriverEnvironment): ScopeMode => ({
  mode: scope,
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

  server(placement: string): PostgresServer {
    const server = this.#servers.get(placement)
    if (!server) throw unknownPlacement(placement)
    return server
  }

  all(): Iterable<PostgresServer> {
    return this.#servers.values()
  }

  async rejectedLogins(): Promise<string[]> {
    const all = await Promise.all(
      [...this.all()].map(async (server) => ((await server.isLoginRejected()) ? [server.name] : [])),
    )
    return all.flat()
  }

  connections(): ConnectionCount[] {
    return [...this.#servers.values()].map(({ name, placement, connections }) => ({
      placement: name,
      max: placement.connections.max,
      ...connections.count(),
    }))
  }

  async close(): Promise<void> {
    for (const server of this.#servers.values()) await server.close()
    this.#servers.clear()
  }
}
