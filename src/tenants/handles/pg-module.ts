/**
 * A module with the interface of `pg`, for libraries that accept a driver module (TypeORM, Sequelize): `tenant.pg` for
 * one tenant, `tenancy.pg` for the tenant of the context of each statement.
 *
 * - Its `Pool` is not a `pg.Pool` and has only settings that reach no server. Its `Client` rejects use in a `pg.Pool`.
 *   So a library that creates such a pool (Prisma) fails. Otherwise, one tenant could receive rows of another: Prisma
 *   merges queries of one tick, and a pool calls back in the context of the code that releases a client.
 * - Type parsers are global to the process and cannot be changed here, as the backoffice uses them, too.
 */
import { EventEmitter } from 'node:events'
import pg from 'pg'
import type { SourceOf } from './pg-client.ts'
import { clientClass, connected, ended, execute } from './pg-pool.ts'
import { type Callback, runQuery } from './query-arguments.ts'
import { REFUSED_SETTINGS, rejectSettings } from './rejected-settings.ts'

/** The used part of `pg`, without `native`. */
export interface TenantPg {
  readonly Client: typeof pg.Client
  readonly Pool: typeof pg.Pool
  readonly types: typeof pg.types
  readonly defaults: typeof pg.defaults
  readonly DatabaseError: typeof pg.DatabaseError
  readonly TypeOverrides: typeof pg.TypeOverrides
  readonly escapeIdentifier: typeof pg.escapeIdentifier
  readonly escapeLiteral: typeof pg.escapeLiteral
}

export function tenantPg(sourceOf: SourceOf): TenantPg {
  const { DatabaseError, TypeOverrides, escapeIdentifier, escapeLiteral } = pg
  return rejectSettings({
    Client: rejectSettings(moduleClientClass(sourceOf)),
    Pool: rejectSettings(poolClass(sourceOf)),
    types: TYPES,
    defaults: { ...pg.defaults, ...REFUSED_SETTINGS },
    DatabaseError,
    TypeOverrides,
    escapeIdentifier,
    escapeLiteral,
  })
}

const TYPES: typeof pg.types = {
  ...pg.types,
  setTypeParser() {
    throw new Error(
      'setTypeParser is not available here, as it would change all parsers of the process. Pass `types` instead.',
    )
  },
}

const moduleClientClass = (sourceOf: SourceOf): typeof pg.Client =>
  class extends clientClass(sourceOf) {
    constructor(config?: string | pg.ClientConfig) {
      // A `pg.Pool` passes its own options and its class to its clients.
      if (typeof config === 'object' && 'Client' in config) {
        throw new Error(
          'This Client cannot be used in a pg.Pool, which could return rows of one tenant to another. Build one client of the library per tenant, on tenant.pool, with tenancy.perTenant: see docs/embedding.md, "Libraries and ORMs".',
        )
      }
      super(config)
    }
  }

const poolClass = (sourceOf: SourceOf): typeof pg.Pool =>
  class extends EventEmitter {
    readonly totalCount = 0
    readonly idleCount = 0
    readonly waitingCount = 0
    readonly #config: object | undefined

    constructor(config?: object) {
      super()
      this.#config = config
      Object.assign(rejectSettings(this), { options: { ...REFUSED_SETTINGS } })
    }

    query(...given: unknown[]): unknown {
      const { types } = (this.#config ?? {}) as { types?: unknown }
      return runQuery(given, types, (statement) => execute(sourceOf, statement))
    }

    connect(callback?: Parameters<typeof connected>[2]): unknown {
      return connected(sourceOf, this.#config, callback)
    }

    end(callback?: Callback<void>): unknown {
      return ended(callback)
    }
  } as unknown as typeof pg.Pool
