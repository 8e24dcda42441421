/**
 * Kysely on a tenant's storage, for every driver. A single statement uses any free connection. A transaction holds one
 * connection and belongs to the tenant it was started for.
 *
 * A dialect consists of plain methods: another copy of Kysely, as in MikroORM, recognizes it by its shape.
 */
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type TransactionSettings,
} from 'kysely'
import type { Capabilities, StatementResult, TenantConnection, TransactionModes } from '../isolation/driver.ts'
import { assertAgrees } from './agreement.ts'
import type { SourceOf } from './pg-client.ts'
import { rejectSettings } from './rejected-settings.ts'
import { traced } from './stack-trace.ts'
import { endedBefore } from './transaction-errors.ts'

const ENGINES = {
  postgres: {
    createAdapter: () => new PostgresAdapter(),
    createQueryCompiler: () => new PostgresQueryCompiler(),
    createIntrospector: (db: Kysely<any>) => new PostgresIntrospector(db),
  },
  sqlite: {
    // Otherwise, Kysely queues statements without a timeout; the driver has its own queue.
    createAdapter: () => Object.defineProperty(new SqliteAdapter(), 'supportsMultipleConnections', { value: true }),
    createQueryCompiler: () => new SqliteQueryCompiler(),
    createIntrospector: (db: Kysely<any>) => new SqliteIntrospector(db),
  },
}

export const tenantDialect = (sourceOf: SourceOf, engine: Capabilities['engine']): Dialect =>
  rejectSettings({ ...ENGINES[engine], createDriver: () => new TenantDriver(sourceOf) })

const COUNTING = new Set(['INSERT', 'UPDATE', 'DELETE', 'MERGE'])

export const kyselyResult = ({ rows, rowCount, command }: StatementResult): QueryResult<any> =>
  COUNTING.has(command) ? { rows, numAffectedRows: BigInt(rowCount ?? 0) } : { rows: rows ?? [] }

class TenantDriver implements Driver {
  readonly #sourceOf: SourceOf

  constructor(sourceOf: SourceOf) {
    this.#sourceOf = sourceOf
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<LazyConnection> {
    return new LazyConnection(this.#sourceOf)
  }

  async beginTransaction(
    connection: LazyConnection,
    { isolationLevel, accessMode }: TransactionSettings,
  ): Promise<void> {
    try {
      await connection.begin({ isolationLevel, accessMode })
    } catch (error) {
      throw traced(error)
    }
  }

  async commitTransaction(connection: LazyConnection): Promise<void> {
    try {
      await connection.commit()
    } catch (error) {
      throw traced(error)
    }
  }

  rollbackTransaction(connection: LazyConnection): Promise<void> {
    return connection.rollback()
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

  /** No effect: the connections belong to the tenancy. */
  async destroy(): Promise<void> {}
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** The connection of Kysely: it holds a real connection only during a transaction. */
class LazyConnection implements DatabaseConnection {
  readonly #sourceOf: SourceOf
  #held: { readonly tenantId: string; readonly connection: TenantConnection } | undefined

  constructor(sourceOf: SourceOf) {
    this.#sourceOf = sourceOf
  }

  async executeQuery<Row>({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> {
    const statement = { text: sql, values: parameters }
    try {
      return kyselyResult(await (this.#held ? this.#inside(statement) : this.#sourceOf().execute(statement)))
    } catch (error) {
      throw traced(error)
    }
  }

  // biome-ignore lint/correctness/useYield: streams need a cursor, which a scope of one statement does not keep open
  async *streamQuery<Row>(): AsyncIterableIterator<QueryResult<Row>> {
    throw new Error('streaming is not available on a tenant handle; page through the rows by key instead')
  }

  async begin(modes: TransactionModes): Promise<void> {
    const source = this.#sourceOf()
    this.#held = { tenantId: source.id, connection: await source.begin(modes) }
  }

  async commit(): Promise<void> {
    await this.#agreed().end('commit')
  }

  async rollback(): Promise<void> {
    await this.#held?.connection.end('rollback')
  }

  async statement(text: string): Promise<void> {
    await this.#inside({ text })
  }

  release(): void {
    this.#held?.connection.release()
    this.#held = undefined
  }

  async #inside(statement: { text: string; values?: readonly unknown[] }): Promise<StatementResult> {
    const connection = this.#agreed()
    if (!connection.inTransaction) throw endedBefore()
    return connection.query(statement)
  }

  /** The connection of the transaction. Throws if the context belongs to another tenant. */
  #agreed(): TenantConnection {
    if (!this.#held) throw new Error('no transaction was started')
    assertAgrees(this.#held.tenantId)
    return this.#held.connection
  }
}
