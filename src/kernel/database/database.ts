/**
 * The backoffice database: PostgreSQL through Kysely, all tables in the schema `multitenancy`. `query()` is the Kysely handle of the
 * transaction in progress, if there is one. A nested `transaction()` opens a savepoint. `afterCommit()` runs after the outermost commit,
 * outside of transaction and deadline, and is dropped on rollback. Columns are snake_case in SQL and camelCase in code; a bigint is a number.
 */
import { CamelCasePlugin, CompiledQuery, type ControlledTransaction, Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { currentDeadline } from '../base/deadline.ts'
import type { Logger } from '../base/logger.ts'
import { TransactionFrames } from '../outbox/joining.ts'
import { QUERY_TIMEOUT } from './availability.ts'
import { AfterCommit, type Collect, CommitHooks } from './commit-hooks.ts'
import { type Connection, connectionUntil, queryOnce } from './deadline-connection.ts'
import { type Listening, Notifications } from './notifications.ts'
import { OutageLog } from './outage-log.ts'

export { isDatabaseUnavailable, sqlState, violatedConstraint } from './availability.ts'

export const SCHEMA = 'multitenancy'

const BIGINT = 20
/** An idle connection keeps its plans. */
const IDLE_TIMEOUT_MS = 60_000
const CONNECT_TIMEOUT_MS = 5_000
const PROBE_TIMEOUT_MS = 2_000

export interface DatabaseOptions {
  /** `postgres://user:password@host:port/database`; this role owns the backoffice and does DDL. */
  readonly url: string
  /** Connections at most; default 10. */
  readonly max?: number
}

/** A frequent statement. Name its columns: the meaning of `*` must not change while a connection has it prepared. */
export interface Prepared {
  /** Absent: no connection keeps it prepared. */
  readonly name?: string
  readonly text: string
  /** Timeout outside of a transaction. Its connection is closed: an unresponsive one would use the pool for minutes. */
  readonly timeoutMs?: number
}

/** A client that has a session to itself. */
export type Session = pg.ClientBase

export interface SqlResult {
  readonly rows: any[]
}

/** One open transaction or savepoint. */
interface Frame {
  readonly transaction: ControlledTransaction<any>
  readonly depth: number
  readonly hooks: CommitHooks
  hasOpenSavepoint: boolean
}

export class Database {
  readonly url: string
  readonly #pool: pg.Pool
  readonly #root: Kysely<any>
  readonly #notifications: Notifications
  readonly #frames = new TransactionFrames<Frame>()
  readonly #afterCommit: AfterCommit
  readonly #parts: Database[] = []
  readonly #outage: OutageLog
  readonly #isPart: boolean
  /** A deadline that expires during an outage expires because of it. */
  readonly #markTimeout = (error: Error): void => this.#outage.mark(error, 'connection')

  /** @param outage of the database that this one is a part of */
  constructor({ url, max = 10 }: DatabaseOptions, log: Logger, outage?: OutageLog) {
    this.url = url
    this.#isPart = outage !== undefined
    this.#outage = outage ?? new OutageLog({ log, probe: (statement) => this.#probe(statement) })
    this.#pool = new pg.Pool({
      connectionString: url,
      max,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      idleTimeoutMillis: IDLE_TIMEOUT_MS,
      keepAlive: true,
      application_name: 'tenantry',
      types: { getTypeParser: typeParser },
    })
    // A lost connection fails its next statement. Without a listener, its 'error' event would end the process.
    this.#pool.on('connect', (client) => {
      this.#outage.connected()
      client.on('error', (error) => this.#outage.note(error))
    })
    this.#pool.on('error', (error) => this.#outage.note(error))
    this.#root = new Kysely<any>({
      dialect: new PostgresDialect({
        pool: { connect: () => this.#connect(), end: () => this.#pool.end(), options: {} },
      }),
      plugins: [new CamelCasePlugin({ maintainNestedObjectKeys: true })],
      log: (event) => {
        if (event.level === 'error') this.#note(event.error)
      },
    }).withSchema(SCHEMA)
    this.#afterCommit = new AfterCommit(this.log, (work) => this.outside(work))
    this.#notifications = new Notifications(url, this.log, (error) => this.#outage.note(error))
  }

  /** The log for users of the database: an outage has one line at its start and one at its end. */
  get log(): Logger {
    return this.#outage.log
  }

  /** The handle for tables of `Tables`; joins the transaction in the async context, if there is one. */
  query<Tables>(): Kysely<Tables> {
    const frame = this.#frames.getStore()
    return (frame?.transaction ?? this.#root) as Kysely<Tables>
  }

  /**
   * Plain SQL with `$1` parameters, in the transaction of the async context if there is one. Names are as in SQL. Outside of
   * a transaction a `Prepared` one is parsed once on each connection.
   */
  async sql(statement: string | Prepared, values: readonly unknown[] = []): Promise<SqlResult> {
    const { name, text, timeoutMs }: Partial<Prepared> & { text: string } =
      typeof statement === 'string' ? { text: statement } : statement
    const frame = this.#frames.getStore()
    if (!frame) {
      // The types of `pg` lack the timeout of a query.
      const query = { name, text, values: values as unknown[], query_timeout: timeoutMs }
      return this.#runAlone(query).catch((error) => this.#noteFailure(error))
    }
    const { rows } = await frame.transaction.withoutPlugins().executeQuery<any>(CompiledQuery.raw(text, [...values]))
    return { rows }
  }

  /** Whether the work in progress is inside `transaction()`. */
  get inTransaction(): boolean {
    return this.#frames.getStore() !== undefined
  }

  /** Runs `work` outside of the transaction in progress: its changes stay if that rolls back. */
  outside<T>(work: () => T): T {
    return this.#frames.run(undefined, work)
  }

  async transaction<T>(work: () => Promise<T>): Promise<T> {
    const outer = this.#frames.getStore()
    return outer ? this.#savepoint(outer, work) : this.#begin(work)
  }

  /** Runs `hook` once the outermost transaction has committed, or now when there is none. Its failure is only logged. */
  afterCommit(hook: () => unknown): void {
    const frame = this.#frames.getStore()
    if (frame && !frame.transaction.isCommitted) frame.hooks.after.push(hook)
    else this.#afterCommit.run(hook)
  }

  /** Calls `collect` once for all items of the transaction in progress, before its commit; with a late item after it; now when there is none. */
  async beforeCommit<Item>(collect: Collect<Item>, item: Item): Promise<void> {
    const frame = this.#frames.getStore()
    if (!frame) await collect([item])
    else if (frame.hooks.isClosed) this.afterCommit(() => collect([item]))
    else frame.hooks.before(collect, [item])
  }

  /** Sends with the commit of the transaction in progress (or immediately); payload at most 8,000 bytes. */
  async notify(channel: string, payload: string): Promise<void> {
    await this.sql('select pg_notify($1, $2)', [channel, payload])
  }

  /**
   * Hears every notification of a channel, from every process. `onGap` is called after each (re)connection:
   * earlier messages may be lost.
   */
  listen(channel: string, onMessage: (payload: string) => void, onGap: () => void): Promise<Listening> {
    return this.#notifications.listen(channel, onMessage, onGap)
  }

  /** Whether notifications arrive at present; while they do not, caches must live shortly. */
  get isListening(): boolean {
    return this.#notifications.isConnected
  }

  /** When the connection for notifications was last lost, by `performance.now()`. */
  get lostListeningAt(): number {
    return this.#notifications.lostAt
  }

  /** Runs work on a separate session (advisory locks), which is destroyed afterwards. */
  async session<T>(work: (client: Session) => Promise<T>): Promise<T> {
    const client = await this.#client()
    try {
      return await work(client).catch((error) => this.#noteFailure(error))
    } finally {
      client.release(true)
    }
  }

  /**
   * The same database with separate connections, for work that must neither join nor wait for transactions of this one. It is closed
   * with this one.
   */
  apart(max: number): Database {
    const part = new Database({ url: this.url, max }, this.log, this.#outage)
    this.#parts.push(part)
    return part
  }

  /** Throws when the server does not answer. */
  async ping(): Promise<void> {
    await this.#pool.query('select 1').catch((error) => this.#noteFailure(error))
  }

  async close(): Promise<void> {
    if (!this.#isPart) this.#outage.close()
    await this.#afterCommit.idle()
    await Promise.all(this.#parts.map((part) => part.close()))
    await this.#notifications.close()
    // Kysely ends only a pool that it has used.
    if (!this.#pool.ending) await this.#pool.end()
  }

  #noteFailure(error: unknown): never {
    this.#note(error)
    throw error
  }

  /** A statement with its own timeout may fail because it is slow. An expired deadline closes the connection of its statement. */
  #note(error: unknown): void {
    if ((error as Error).message === QUERY_TIMEOUT || currentDeadline()?.isExpired) this.#outage.mark(error)
    else this.#outage.note(error)
  }

  async #runAlone(query: pg.QueryConfig): Promise<SqlResult> {
    return currentDeadline() ? queryOnce(await this.#connect(), query) : this.#pool.query(query)
  }

  async #probe(text: string): Promise<void> {
    const query = { text, query_timeout: PROBE_TIMEOUT_MS } // the types of `pg` lack the timeout
    await this.#pool.query(query)
  }

  /** A connection of the pool, which is closed if the deadline of the work in progress expires. */
  async #connect(): Promise<Connection> {
    const deadline = currentDeadline()
    deadline?.assertOpen()
    deadline?.onExpiry(this.#markTimeout)
    const client = await this.#client()
    return deadline ? connectionUntil(deadline, client) : client
  }

  #client(): Promise<pg.PoolClient> {
    return this.#pool.connect().catch((error) => this.#noteFailure(error))
  }

  async #begin<T>(work: () => Promise<T>): Promise<T> {
    const transaction = await this.#root.startTransaction().execute()
    const frame: Frame = { transaction, depth: 0, hooks: new CommitHooks(), hasOpenSavepoint: false }
    let result: T
    try {
      result = await this.#frames.run(frame, work)
      await this.#frames.run(frame, () => frame.hooks.runBefore())
      await transaction.commit().execute()
    } catch (error) {
      if (!transaction.isCommitted && !transaction.isRolledBack) {
        await transaction
          .rollback()
          .execute()
          .catch((failure) => this.log.debug({ err: failure }, 'rollback failed; the connection is gone'))
      }
      throw error
    }
    for (const hook of frame.hooks.after) this.#afterCommit.run(hook)
    return result
  }

  async #savepoint<T>(outer: Frame, work: () => Promise<T>): Promise<T> {
    if (outer.hasOpenSavepoint) throw new Error('two nested transactions at once: await the first before the second')
    outer.hasOpenSavepoint = true
    const inner: Frame = { ...outer, depth: outer.depth + 1, hooks: new CommitHooks(), hasOpenSavepoint: false }
    const name = `nested_${inner.depth}`
    const run = (sql: string) => outer.transaction.withoutPlugins().executeQuery(CompiledQuery.raw(sql))
    try {
      await run(`savepoint ${name}`)
      try {
        const result = await this.#frames.run(inner, work)
        await run(`release savepoint ${name}`)
        outer.hooks.take(inner.hooks)
        return result
      } catch (error) {
        await run(`rollback to savepoint ${name}`).catch((failure) =>
          this.log.debug({ err: failure }, 'rollback to a savepoint failed; the connection is gone'),
        )
        throw error
      }
    } finally {
      outer.hasOpenSavepoint = false
    }
  }
}

const typeParser = (oid: number, format?: any): any => (oid === BIGINT ? Number : pg.types.getTypeParser(oid, format))
