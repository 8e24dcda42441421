/**
 * A module in the shape of `pg`, for libraries that take a driver module (TypeORM, Sequelize): `tenant.pg` is one tenant's,
 * `tenancy.pg` that of the tenant of the context, asked for with each statement.
 *
 * - Its `Pool` is no `pg.Pool`, and has only settings that reach no server. Its `Client` refuses to be the client of a `pg.Pool`. So a
 *   library that makes such a pool (Prisma) fails: it could answer one tenant with rows of another, as Prisma merges the queries of one
 *   tick, and a pool calls back in the context of the work that releases a client.
 * - Type parsers are those of the process; changing them is refused, as the backoffice reads with them, too.
 */
import { EventEmitter } from 'node:events'
import pg from 'pg'
import type { SourceOf } from './pg-client.ts'
import { clientClass, connected, ended, execute } from './pg-pool.ts'
import { type Callback, runQuery } from './query-arguments.ts'
import { REFUSED_SETTINGS, rejectSettings } from './rejected-settings.ts'

/** `pg`, without `native`: what libraries use of it. */
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
      'setTypeParser is not available here: it would change how the whole process reads. Give `types` instead.',
    )
  },
}

const moduleClientClass = (sourceOf: SourceOf): typeof pg.Client =>
  class extends clientClass(sourceOf) {
    constructor(config?: string | pg.ClientConfig) {
      // A `pg.Pool` gives its own options to its clients, with their class.
      if (typeof config === 'object' && 'Client' in config) {
        throw new Error(
          'This Client cannot be that of a pg.Pool, which could answer one tenant with rows of another. Build one client of the library for each tenant, on tenant.pool, with tenancy.perTenant: see docs/embedding.md, "Libraries and ORMs".',
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
