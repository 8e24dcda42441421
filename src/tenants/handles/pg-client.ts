/**
 * A client with the interface of node-postgres' `Client`, without its own connection.
 *
 *   idle ──BEGIN──► begun ──first statement──► open (one scoped connection) ──COMMIT, ROLLBACK──► idle
 *                     └── SET TRANSACTION: joins BEGIN       └──own error──► failed ──ROLLBACK──► idle
 *
 * - Outside of a transaction, each statement uses any free connection of the tenant that `sourceOf` returns.
 * - A transaction belongs to the tenant it was started for. Each of its statements is compared with the context.
 * - Statements of one client are serialized.
 */
import { EventEmitter } from 'node:events'
import pg from 'pg'
import type { Statement, StatementResult, TenantConnection, TransactionModes } from '../isolation/driver.ts'
import { TenantMismatch } from '../tenant/errors.ts'
import { assertAgrees } from './agreement.ts'
import { type Callback, calledBack, runQuery } from './query-arguments.ts'
import { rejectSettings } from './rejected-settings.ts'
import type { TenantSource } from './router.ts'
import { traced } from './stack-trace.ts'
import { type Control, transactionControl } from './transaction-control.ts'
import { transactionInProgress } from './transaction-errors.ts'

/**
 * The tenant of a statement: a fixed one, or that of the context. Throws if there is none.
 *
 * @param statement absent in a transaction
 */
export type SourceOf = (statement?: Statement) => TenantSource

interface Transaction {
  readonly source: TenantSource
  modes: TransactionModes
  connection?: TenantConnection
  isFailed: boolean
}

export class TenantClient extends EventEmitter {
  readonly #sourceOf: SourceOf
  readonly #types: unknown
  #transaction: Transaction | undefined
  #last: Promise<unknown> | undefined
  #connection: EventEmitter | undefined
  #isReleased = false
  _ending = false

  /** @param config only its `types` are used: parsers of column values */
  constructor(sourceOf: SourceOf, config?: { readonly types?: unknown } | string) {
    super()
    rejectSettings(this)
    this.#sourceOf = sourceOf
    this.#types = typeof config === 'object' ? config.types : undefined
  }

  get _queryable(): boolean {
    return !this._ending
  }

  /** For libraries that listen to protocol events: there are none. */
  get connection(): EventEmitter {
    this.#connection ??= new EventEmitter()
    return this.#connection
  }

  query(...given: unknown[]): any {
    return runQuery(given, this.#types, (statement) => this.#inOrder(statement, this.#last))
  }

  connect(callback?: Callback<this>): any {
    const connected = Promise.resolve().then(() => {
      this.emit('connect')
      return this
    })
    return callback ? calledBack(connected, callback) : connected
  }

  /** Rolls back a transaction in progress. */
  end(callback?: Callback<void>): any {
    this._ending = true
    this.#drop(false)
    const ended = Promise.resolve().then(() => {
      this.emit('end')
    })
    return callback ? calledBack(ended, callback) : ended
  }

  /** Rolls back a transaction in progress. @param destroy an error, or true: its connection must not be used again */
  release(destroy?: unknown): void {
    this.#drop(Boolean(destroy))
  }

  getTransactionStatus(): 'I' | 'T' | 'E' {
    if (!this.#transaction) return 'I'
    return this.#transaction.isFailed ? 'E' : 'T'
  }

  escapeIdentifier(text: string): string {
    return pg.escapeIdentifier(text)
  }

  escapeLiteral(text: string): string {
    return pg.escapeLiteral(text)
  }

  getTypeParser(oid: number, format?: 'text' | 'binary'): unknown {
    const types = this.#types as typeof pg.types | undefined
    return (types ?? pg.types).getTypeParser(oid, format as 'text')
  }

  setTypeParser(): never {
    throw new Error('setTypeParser is not available on a tenant client: pass `types` with the query, or to the client')
  }

  copyFrom(): never {
    throw new Error('COPY is not available on a tenant client')
  }

  copyTo(): never {
    throw new Error('COPY is not available on a tenant client')
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }

  /** An async function that returns the promise of `query`, so that the stack of an error has the line of the host. */
  async #inOrder(statement: Statement, before: Promise<unknown> | undefined): Promise<StatementResult> {
    const completion = Promise.withResolvers<void>()
    this.#last = completion.promise
    try {
      if (before) await before
      if (this.#isReleased) throw released()
      return await this.#run(statement)
    } catch (error) {
      throw traced(error)
    } finally {
      if (this.#last === completion.promise) this.#last = undefined
      completion.resolve()
    }
  }

  async #run(statement: Statement): Promise<StatementResult> {
    const control = transactionControl(statement.text)
    if (control) return this.#control(control, statement)
    if (!this.#transaction) return this.#source(statement).execute(statement)
    return this.#inside(this.#transaction, statement)
  }

  async #inside(transaction: Transaction, statement: Statement): Promise<StatementResult> {
    const connection = await this.#opened(transaction)
    try {
      return await connection.query(statement)
    } finally {
      if (!connection.inTransaction) this.#close(transaction) // a statement has ended the transaction
    }
  }

  async #control(control: Control, statement: Statement): Promise<StatementResult> {
    const transaction = this.#transaction
    if (control.what === 'begin') {
      if (transaction) throw transactionInProgress()
      this.#transaction = { source: this.#source(), modes: control.modes, isFailed: false }
      return done('BEGIN')
    }
    if (control.what === 'modes') {
      if (!transaction) return this.#source().execute(statement)
      if (transaction.connection || transaction.isFailed) return this.#inside(transaction, statement)
      this.#assertSame(transaction)
      transaction.modes = merged(transaction.modes, control.modes)
      return done('SET')
    }
    if (transaction) await this.#end(transaction, control.what)
    else if (control.what === 'commit') throw noneInProgress()
    return done(control.what.toUpperCase())
  }

  /** The connection of a transaction, with its scope; starts it for the first statement. */
  async #opened(transaction: Transaction): Promise<TenantConnection> {
    if (transaction.isFailed) throw aborted()
    try {
      this.#assertSame(transaction)
      if (!transaction.connection) {
        const connection = await transaction.source.begin(transaction.modes)
        if (this.#isReleased) {
          connection.release(true)
          throw released()
        }
        transaction.connection = connection
      }
      return transaction.connection
    } catch (error) {
      transaction.isFailed = true
      throw error
    }
  }

  async #end(transaction: Transaction, how: 'commit' | 'rollback'): Promise<void> {
    const isRejected = transaction.isFailed && how === 'commit'
    try {
      if (how === 'commit' && !isRejected) this.#assertSame(transaction)
      await transaction.connection?.end(isRejected ? 'rollback' : how)
    } finally {
      this.#close(transaction)
    }
    if (isRejected) throw new Error('The transaction was rolled back because a statement in it had failed')
  }

  #drop(destroy: boolean): void {
    this.#isReleased = true
    this.#transaction?.connection?.release(destroy)
    this.#transaction = undefined
  }

  #close(transaction: Transaction): void {
    transaction.connection?.release()
    if (this.#transaction === transaction) this.#transaction = undefined
  }

  #source(statement?: Statement): TenantSource {
    const source = this.#sourceOf(statement)
    assertAgrees(source.id)
    return source
  }

  #assertSame({ source }: Transaction): void {
    if (this.#source().id !== source.id) {
      throw TenantMismatch('The transaction was started for another tenant than that of the context.')
    }
  }
}

const done = (command: string): StatementResult => ({ rows: [], rowCount: null, command, fields: [] })

const merged = (before: TransactionModes, after: TransactionModes): TransactionModes => ({
  isolationLevel: after.isolationLevel ?? before.isolationLevel,
  accessMode: after.accessMode ?? before.accessMode,
  deferral: after.deferral ?? before.deferral,
})

const released = () => new Error('the client was released or ended, and cannot be used again')

const noneInProgress = () =>
  Object.assign(new Error('there is no transaction in progress: it has ended, or was not started'), {
    code: '25P01',
  })

const aborted = () =>
  Object.assign(new Error('current transaction is aborted, commands ignored until end of transaction block'), {
    code: '25P02',
  })
