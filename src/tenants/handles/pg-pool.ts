/**
 * A tenant's storage as node-postgres' `Pool`: for raw SQL and for libraries (Drizzle, Knex). Every statement runs
 * inside the scope of the tenant; the server rejects a text with several statements.
 *
 *   await tenant.pool.query('select * from notes where id = $1', [1])
 *   const db = drizzle({ client: tenant.pool })
 *
 * - It is a real `pg.Pool`, so `instanceof` holds. A library with another copy of `pg` creates its own pool from the
 *   options: they have `Client`, so its statements are in the scope, too. The other settings reach no server.
 * - It holds no connections: it uses those of the tenancy, which logs lost ones.
 */
import pg from 'pg'
import type { Statement, StatementResult } from '../isolation/driver.ts'
import { type SourceOf, TenantClient } from './pg-client.ts'
import { type Callback, calledBack, runQuery } from './query-arguments.ts'
import { REFUSED_SETTINGS, rejectSettings } from './rejected-settings.ts'
import type { TenantSource } from './router.ts'
import { traced } from './stack-trace.ts'

type WithClient = (error: unknown, client?: TenantClient, release?: (destroy?: unknown) => void) => void

/** The `Client` class of node-postgres for one tenant, or for the tenant of the context. */
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

// The overloads of node-postgres are too many to repeat.
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

  /** The connections belong to the tenancy and remain. */
  end(callback?: Callback<void>): unknown {
    return ended(callback)
  }
}

/** An async function that returns the promise of `query`, so that the stack of an error has the line of the host. */
export async function execute(sourceOf: SourceOf, statement: Statement): Promise<StatementResult> {
  try {
    return await sourceOf(statement).execute(statement)
  } catch (error) {
    throw traced(error)
  }
}

/** The result of a pool's `connect`. */
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
