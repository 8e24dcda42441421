/**
 * A module in the shape of `pg`, for libraries that take a driver module (TypeORM, Sequelize): `tenant.pg` is one tenant's,
 * `tenancy.pg` that of the tenant of the context, asked for with each statement.
 *
 * - Its `Pool` is no `pg.Pool`, and has only settings that reach no server: what makes a pool of its own from it (Prisma) fails. A
 *   pool that queues callbacks would run them in the context of whoever releases a client.
 * - Type parsers are those of the process; changing them is refused, as the backoffice reads with them, too.
 */
import { EventEmitter } from 'node:events'
import pg from 'pg'
import { answered, type Callback } from './queries.ts'
import { REFUSED_SETTINGS, refuseSettings } from './refused-settings.ts'
import type { SourceOf } from './tenant-client.ts'
import { clientClass, connected, ended, execute } from './tenant-pool.ts'

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
  return refuseSettings({
    Client: clientClass(sourceOf),
    Pool: refuseSettings(poolClass(sourceOf)),
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

const poolClass = (sourceOf: SourceOf): typeof pg.Pool =>
  class extends EventEmitter {
    readonly totalCount = 0
    readonly idleCount = 0
    readonly waitingCount = 0
    readonly #config: object | undefined

    constructor(config?: object) {
      super()
      this.#config = config
      Object.assign(refuseSettings(this), { options: { ...REFUSED_SETTINGS } })
    }

    query(...given: unknown[]): unknown {
      const { types } = (this.#config ?? {}) as { types?: unknown }
      return answered(given, types, (statement) => execute(sourceOf, statement))
    }

    connect(callback?: Parameters<typeof connected>[2]): unknown {
      return connected(sourceOf, this.#config, callback)
    }

    end(callback?: Callback<void>): unknown {
      return ended(callback)
    }
  } as unknown as typeof pg.Pool
