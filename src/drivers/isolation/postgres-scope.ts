/**
 * A tenant's scope on a pooled connection: role, search_path and tenant id, set for one transaction and gone with it.
 *
 *   a query alone   BEGIN, scope, the query, COMMIT
 *   a transaction   BEGIN (with its isolation level), scope, the host's statements, COMMIT
 *
 * The scope is awaited before anything of the host is sent, and nothing more is sent once the host has ended the transaction
 * itself, so no statement ever runs without it. It is set with `set_config(.., true)` only. With the end of the transaction goes
 * what a session would keep (settings, advisory locks, cursors, prepared statements). A client that does not come back idle and
 * clean is destroyed, never reused; so is one on which a tenant has left temporary tables, which the next would find.
 */
import type { CompiledQuery, DatabaseConnection, Driver, QueryResult, TransactionSettings } from 'kysely'
import type pg from 'pg'

export interface Scope {
  readonly tenantId: string
  readonly searchPath: string
  readonly role: string
}

const SET_SCOPE = `select set_config('app.tenant_id', $1, true), set_config('search_path', $2, true), set_config('role', $3, true),
  pg_my_temp_schema() <> 0 as has_temporary`

/** What a session keeps beyond a transaction, and the next tenant would meet: settings, locks, cursors, statements. */
const CLEAN = `set session authorization default; reset all; select pg_advisory_unlock_all(); close all; deallocate all;
  discard sequences; unlisten *`

/** Kysely over a pool, every statement inside a tenant's scope. */
export class ScopedDriver implements Driver {
  readonly #pool: pg.Pool
  readonly #scope: Scope

  constructor(pool: pg.Pool, scope: Scope) {
    this.#pool = pool
    this.#scope = scope
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<ScopedConnection> {
    return new ScopedConnection(this.#pool, await this.#pool.connect(), this.#scope)
  }

  beginTransaction(connection: ScopedConnection, settings: TransactionSettings): Promise<void> {
    return connection.begin(settings)
  }

  commitTransaction(connection: ScopedConnection): Promise<void> {
    return connection.end('commit')
  }

  rollbackTransaction(connection: ScopedConnection): Promise<void> {
    return connection.end('rollback')
  }

  async savepoint(connection: ScopedConnection, name: string): Promise<void> {
    await connection.statement(`savepoint "${name.replaceAll('"', '""')}"`)
  }

  async rollbackToSavepoint(connection: ScopedConnection, name: string): Promise<void> {
    await connection.statement(`rollback to savepoint "${name.replaceAll('"', '""')}"`)
  }

  async releaseSavepoint(connection: ScopedConnection, name: string): Promise<void> {
    await connection.statement(`release savepoint "${name.replaceAll('"', '""')}"`)
  }

  async releaseConnection(connection: ScopedConnection): Promise<void> {
    connection.release()
  }

  /** The pool outlives the handle. */
  async destroy(): Promise<void> {}
}

class ScopedConnection implements DatabaseConnection {
  readonly #pool: pg.Pool
  readonly #scope: Scope
  #client: pg.PoolClient
  #isReleased = false
  /** Whether it may still turn out that somebody else's temporary tables are on it. */
  #isUntried = true
  #isClean = true
  #inTransaction = false

  constructor(pool: pg.Pool, client: pg.PoolClient, scope: Scope) {
    this.#pool = pool
    this.#client = client
    this.#scope = scope
  }

  async executeQuery<Row>(query: CompiledQuery): Promise<QueryResult<Row>> {
    if (this.#inTransaction) {
      this.#refuseEnded()
      return run<Row>(this.#client, query, { alone: true })
    }
    await this.begin({})
    try {
      const result = await run<Row>(this.#client, query, { alone: true })
      await this.end('commit')
      return result
    } catch (error) {
      if (this.#inTransaction) await this.end('rollback').catch(() => undefined) // `release` destroys it
      throw error
    }
  }

  // biome-ignore lint/correctness/useYield: streams need a cursor, which a scoped pool does not offer
  async *streamQuery<Row>(): AsyncIterableIterator<QueryResult<Row>> {
    throw new Error('streaming is not available on a tenant handle; page through the rows by key instead')
  }

  async begin({ isolationLevel, accessMode }: TransactionSettings): Promise<void> {
    const modes = [isolationLevel && `isolation level ${isolationLevel}`, accessMode].filter(Boolean).join(', ')
    const { tenantId, searchPath, role } = this.#scope
    for (;;) {
      await this.#client.query(modes ? `begin ${modes}` : 'begin')
      this.#inTransaction = true
      const { rows } = await this.#client.query(SET_SCOPE, [tenantId, searchPath, role])
      if (!this.#isUntried || !rows[0].has_temporary) break
      this.release(true)
      this.#client = await this.#pool.connect()
      this.#isReleased = false
    }
    this.#isUntried = false
  }

  async end(how: 'commit' | 'rollback'): Promise<void> {
    this.#inTransaction = false
    if (how === 'commit') this.#refuseEnded()
    this.#isClean = false
    const [ended] = (await this.#client.query(`${how}; ${CLEAN}`)) as unknown as pg.QueryResult[]
    this.#isClean = true
    if (how === 'commit' && ended?.command === 'ROLLBACK') {
      throw new Error('the transaction was rolled back: a statement in it had failed')
    }
  }

  async statement(sql: string): Promise<void> {
    this.#refuseEnded()
    await this.#client.query(sql)
  }

  release(destroy = !this.#isClean || !isIdle(this.#client)): void {
    if (this.#isReleased) return
    this.#isReleased = true
    this.#client.release(destroy)
  }

  #refuseEnded(): void {
    if (isIdle(this.#client))
      throw new Error('a statement ended the transaction it ran in; that is for the handle to do')
  }
}

/** Whether no transaction is open, as the server said with its last answer. */
export const isIdle = (client: pg.ClientBase): boolean =>
  (client as unknown as { getTransactionStatus(): string | null }).getTransactionStatus() === 'I'

/** Kysely over one client inside a transaction that somebody else ends: for migrations written in TypeScript. */
export class SingleClientDriver implements Driver {
  readonly #client: pg.ClientBase

  constructor(client: pg.ClientBase) {
    this.#client = client
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    return {
      executeQuery: (query) => run(this.#client, query, { alone: false }),
      streamQuery: () => {
        throw new Error('streaming is not available in a migration')
      },
    }
  }

  beginTransaction(): Promise<void> {
    throw new Error('a migration already runs in a transaction')
  }

  async commitTransaction(): Promise<void> {}
  async rollbackTransaction(): Promise<void> {}
  async releaseConnection(): Promise<void> {}
  async destroy(): Promise<void> {}
}

/** @param alone refuses several statements in one text: one of them could end the transaction, and the next run without scope. */
async function run<Row>(
  client: pg.ClientBase,
  { sql, parameters }: CompiledQuery,
  { alone }: { alone: boolean },
): Promise<QueryResult<Row>> {
  const query = { text: sql, values: [...parameters], ...(alone ? { queryMode: 'extended' } : {}) }
  const { rows, rowCount, command } = await client.query(query)
  const counts = command === 'INSERT' || command === 'UPDATE' || command === 'DELETE' || command === 'MERGE'
  return counts ? { rows, numAffectedRows: BigInt(rowCount ?? 0) } : { rows: rows ?? [] }
}
