/**
 * A tenant's storage as node-postgres' `Pool`: for raw SQL, and for libraries that want one (Drizzle, Knex). Every statement runs
 * inside the tenant's scope; of several statements in one text the server refuses all.
 *
 *   await tenant.pool.query('select * from notes where id = $1', [1])
 *   const db = drizzle({ client: tenant.pool })
 *
 * - It is a real `pg.Pool`, so `instanceof` holds. A library with another copy of `pg` makes a pool of its own from the options: they
 *   have `Client`, so that its statements are in the scope, too. Whatever uses the other settings reaches no server.
 * - It holds no connections: those of the tenancy are used, and lost ones are logged there.
 */
import pg from 'pg'
import type { Statement, StatementResult } from '../isolation/driver.ts'
import { type SourceOf, TenantClient } from './pg-client.ts'
import { type Callback, calledBack, runQuery } from './query-arguments.ts'
import { REFUSED_SETTINGS, rejectSettings } from './rejected-settings.ts'
import type { TenantSource } from './router.ts'
import { traced } from './stack-trace.ts'

type WithClient = (error: unknown, client?: TenantClient, release?: (destroy?: unknown) => void) => void

/** node-postgres' `Client`, of one tenant, or of that of the context: a class that libraries make clients of. */
export const clientClass = (sourceOf: SourceOf): typeof pg.Client =>
  rejectSettings(
    class extends TenantClient {
      constructor(config?: { readonly types?: unknown } | string) {
        super(sourceOf, config)
      }
    },
  ) as unknown as typeof pg.Client

export function tenantPool(source: TenantSource): pg.Pool {
  const sourceOf = () => source
  const pool = new TenantPool(sourceOf, { ...REFUSED_SETTINGS, Client: clientClass(sourceOf) })
  return rejectSettings(pool) as unknown as pg.Pool
}

// Its overloads are node-postgres' own, which are too many to be written again.
const Pool = pg.Pool as unknown as new (options: object) => { readonly ended: boolean }

class TenantPool extends Pool {
  readonly #sourceOf: SourceOf

  constructor(sourceOf: SourceOf, options: object) {
    super(options)
    this.#sourceOf = sourceOf
  }

  query(...given: unknown[]): unknown {
    return runQuery(given, undefined, (statement) => execute(this.#sourceOf, statement))
  }

  connect(callback?: WithClient): unknown {
    return connected(this.#sourceOf, undefined, callback)
  }

  /** The connections belong to the tenancy and outlive this. */
  end(callback?: Callback<void>): unknown {
    return ended(callback)
  }
}

/** An async function whose promise is that of `query`: so the host's line is in the stack of an error. */
export async function execute(sourceOf: SourceOf, statement: Statement): Promise<StatementResult> {
  try {
    return await sourceOf().execute(statement)
  } catch (error) {
    throw traced(error)
  }
}

/** What a pool's `connect` answers. */
export function connected(sourceOf: SourceOf, config: object | undefined, callback?: WithClient): unknown {
  const client = new TenantClient(sourceOf, config)
  const connecting = client.connect() as Promise<TenantClient>
  if (!callback) return connecting
  connecting.then(
    () => callback(null, client, (destroy) => client.release(destroy)),
    (error) => callback(error),
  )
  return undefined
}

export function ended(callback?: Callback<void>): unknown {
  const done = Promise.resolve()
  return callback ? calledBack(done, callback) : done
}
