/**
 * Kysely over one tenant's storage, whichever driver keeps it. A statement alone goes to any free connection; a transaction has
 * one for as long as it lasts.
 */
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type TransactionSettings,
} from 'kysely'
import type { Capabilities, StatementResult, TenantConnection, TransactionModes } from './isolation.ts'
import type { TenantSource } from './tenant-source.ts'

const ENGINES = {
  postgres: {
    createAdapter: () => new PostgresAdapter(),
    createQueryCompiler: () => new PostgresQueryCompiler(),
    createIntrospector: (db: Kysely<any>) => new PostgresIntrospector(db),
  },
  sqlite: {
    // Else Kysely itself lets one statement wait for another, without an end; the driver has the turns.
    createAdapter: () => Object.defineProperty(new SqliteAdapter(), 'supportsMultipleConnections', { value: true }),
    createQueryCompiler: () => new SqliteQueryCompiler(),
    createIntrospector: (db: Kysely<any>) => new SqliteIntrospector(db),
  },
}

export const tenantDb = (source: TenantSource, engine: Capabilities['engine']): Kysely<any> =>
  new Kysely<any>({ dialect: { ...ENGINES[engine], createDriver: () => new TenantDriver(source) } })

const COUNTING = new Set(['INSERT', 'UPDATE', 'DELETE', 'MERGE'])

export const kyselyResult = ({ rows, rowCount, command }: StatementResult): QueryResult<any> =>
  COUNTING.has(command) ? { rows, numAffectedRows: BigInt(rowCount ?? 0) } : { rows: rows ?? [] }

class TenantDriver implements Driver {
  readonly #source: TenantSource

  constructor(source: TenantSource) {
    this.#source = source
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<LazyConnection> {
    return new LazyConnection(this.#source)
  }

  beginTransaction(connection: LazyConnection, { isolationLevel, accessMode }: TransactionSettings): Promise<void> {
    return connection.begin({ isolationLevel, accessMode })
  }

  commitTransaction(connection: LazyConnection): Promise<void> {
    return connection.held.end('commit')
  }

  rollbackTransaction(connection: LazyConnection): Promise<void> {
    return connection.held.end('rollback')
  }

  async savepoint(connection: LazyConnection, name: string): Promise<void> {
    await connection.statement(`savepoint ${quoted(name)}`)
  }

  async rollbackToSavepoint(connection: LazyConnection, name: string): Promise<void> {
    await connection.statement(`rollback to savepoint ${quoted(name)}`)
  }

  async releaseSavepoint(connection: LazyConnection, name: string): Promise<void> {
    await connection.statement(`release savepoint ${quoted(name)}`)
  }

  async releaseConnection(connection: LazyConnection): Promise<void> {
    connection.release()
  }

  /** The connections outlive the handle. */
  async destroy(): Promise<void> {}
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** What Kysely calls a connection: it holds a real one from the beginning of a transaction on. */
class LazyConnection implements DatabaseConnection {
  readonly #source: TenantSource
  #held: TenantConnection | undefined

  constructor(source: TenantSource) {
    this.#source = source
  }

  get held(): TenantConnection {
    if (!this.#held) throw new Error('no transaction has been begun')
    return this.#held
  }

  async executeQuery<Row>({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> {
    const statement = { text: sql, values: parameters }
    return kyselyResult(await (this.#held ? this.#inside(statement) : this.#source.execute(statement)))
  }

  // biome-ignore lint/correctness/useYield: streams need a cursor, which a scope of one statement does not keep open
  async *streamQuery<Row>(): AsyncIterableIterator<QueryResult<Row>> {
    throw new Error('streaming is not available on a tenant handle; page through the rows by key instead')
  }

  async begin(modes: TransactionModes): Promise<void> {
    this.#held = await this.#source.begin(modes)
  }

  async statement(text: string): Promise<void> {
    await this.#inside({ text })
  }

  release(): void {
    this.#held?.release()
  }

  async #inside(statement: { text: string; values?: readonly unknown[] }): Promise<StatementResult> {
    if (!this.held.inTransaction) {
      throw new Error('a statement ended the transaction it ran in; that is for the handle to do')
    }
    return this.held.query(statement)
  }
}
