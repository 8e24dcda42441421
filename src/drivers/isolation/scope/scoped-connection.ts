/**
 * Sets a tenant's scope (role, search_path, tenant id) on a pooled connection for one transaction.
 *
 *   single statement   scope and statement in one batch (scoped-query.ts). In transaction mode, and for statements that may change
 *                      the session: BEGIN and the scope, the statement, COMMIT and cleaning
 *   transaction        BEGIN and the scope, awaited; the host's statements; COMMIT and cleaning
 *
 * - No statement of the host is sent before its scope is set.
 * - The choice between the two depends on the transaction status that the server last reported, not on the statements
 *   sent: after a statement that ended its transaction, the next one gets a new scope.
 * - A client that is not idle and clean when it is released is destroyed, never reused.
 */
import type pg from 'pg'
import { InvalidRequest } from '../../../kernel/base/errors.ts'
import { sqlState } from '../../../kernel/database/database.ts'
import { chained, endedBefore, transactionInProgress } from '../../../tenants/handles/transaction-errors.ts'
import {
  type Statement,
  type StatementResult,
  StorageFenced,
  type TenantConnection,
  type TransactionModes,
} from '../../../tenants/isolation/driver.ts'
import { isAlive, stateOf } from '../connections/client-state.ts'
import type { Connections } from '../connections/pool.ts'
import type { PooledClient } from '../connections/pooled-client.ts'
import { KeepingQuery } from './keeping-query.ts'
import {
  BeginQuery,
  HostQuery,
  type Scope,
  type ScopedConfig,
  ScopedQuery,
  type ScopeForm,
  scopeFault,
  send,
} from './scoped-query.ts'
import { CLEAN, CLEAN_FOR_OTHERS, endsTransaction, LONGEST_KEPT_TEXT, leavesNothing, spoils } from './session-state.ts'

/** How statements are sent. */
export interface ScopeMode {
  /**
   * `batch`: the scope precedes each statement in one batch; `transaction`: each statement has BEGIN and COMMIT around
   * it.
   */
  readonly mode: 'batch' | 'transaction'
  /** Increases with every change of tenants' tables. Undefined while unknown; then no statement gets a name. */
  readonly generation: () => number | undefined
}

/** Maximum number of sessions behind a pooler, found with temporary tables in one attempt, whose tables are dropped. */
const MOST_TIDIED = 100
/** Maximum number of consecutive connections that are replaced. The next error is thrown. */
const MOST_RENEWED = 3
/** A cached plan whose columns have changed; a statement name that is unknown to the server. */
const UNPREPARED = new Set(['0A000', '26000'])

export class ScopedConnection implements TenantConnection {
  readonly #connections: Connections
  readonly #scope: Scope
  readonly #scopeMode: ScopeMode
  readonly #form: ScopeForm
  #pooled: PooledClient
  #last: Promise<unknown> | undefined
  #isReleased = false
  /** False while waiting for another connection. */
  #isHeld = true
  #isClean = true

  constructor(connections: Connections, pooled: PooledClient, scope: Scope, scopeMode: ScopeMode) {
    this.#form = connections.isPooled ? 'in full' : 'named'
    this.#connections = connections
    this.#pooled = pooled
    this.#scope = scope
    this.#scopeMode = scopeMode
  }

  get inTransaction(): boolean {
    return !isIdle(this.#pooled.client)
  }

  query(statement: Statement): Promise<StatementResult> {
    return this.#inOrder(() => this.#query(statement))
  }

  begin(modes: TransactionModes = {}): Promise<void> {
    return this.#inOrder(() => this.#begin(modes))
  }

  end(how: 'commit' | 'rollback'): Promise<void> {
    return this.#inOrder(() => this.#end(how))
  }

  release(destroy = false): void {
    if (this.#isReleased) return
    this.#isReleased = true
    if (!this.#isHeld) return // The new connection is released when it arrives.
    this.#connections.release(this.#pooled, destroy || !this.#isClean || !isReusable(this.#pooled.client))
  }

  /** Runs statements one after the other: the scope of a statement depends on the result of the previous one. */
  #inOrder<T>(work: () => Promise<T>): Promise<T> {
    const held = async () => {
      this.#assertHeld()
      return work()
    }
    const result = this.#last ? this.#last.then(held, held) : held()
    this.#last = result
    return result
  }

  #query(statement: Statement): Promise<StatementResult> {
    if (this.inTransaction) return this.#inside(statement)
    const alone = this.#scopeMode.mode === 'batch' && leavesNothing(statement.text)
    return alone ? this.#alone(statement) : this.#wrapped(statement)
  }

  async #begin({ isolationLevel, accessMode, deferral }: TransactionModes): Promise<void> {
    if (this.inTransaction) throw transactionInProgress()
    const modes = [isolationLevel && `isolation level ${isolationLevel}`, accessMode, deferral]
      .filter(Boolean)
      .join(', ')
    let [sessions, renewed] = [0, 0]
    for (;;) {
      try {
        await this.#send(new BeginQuery(modes, this.#scope, this.#form))
        return
      } catch (error) {
        if (this.inTransaction) await this.#pooled.client.query(`rollback; ${this.#cleaning}`)
        if (!this.#isTidiedUp(error)) await this.#renewUnlessFenced(error, ++renewed)
        else if (++sessions > MOST_TIDIED) throw error
      }
    }
  }

  async #end(how: 'commit' | 'rollback'): Promise<void> {
    if (how === 'commit' && !this.inTransaction) throw endedBefore()
    const wasClean = this.#isClean
    this.#isClean = false
    const [ended] = (await this.#pooled.client.query(`${how}; ${this.#cleaning}`)) as unknown as pg.QueryResult[]
    this.#isClean = wasClean
    if (how === 'commit' && ended?.command === 'ROLLBACK') {
      throw new Error('The transaction was rolled back because a statement in it had failed')
    }
  }

  async #inside(statement: Statement): Promise<StatementResult> {
    if (this.#form === 'in full' && endsTransaction(statement.text)) throw endedBefore()
    const query = statement.keepsScope
      ? new KeepingQuery(configOf(statement), this.#scope, this.#form)
      : new HostQuery(configOf(statement))
    try {
      const result = await this.#send(query)
      if (spoils(result.command, statement.text)) this.#isClean = false
      if (result.command === 'COPY') throw copyNotAvailable()
      if (this.inTransaction && hasEnded(result.command, statement.text)) {
        await this.#end('rollback')
        throw chained()
      }
      return result
    } catch (error) {
      if (query instanceof KeepingQuery && query.hasRun && sqlState(error) === DIVISION_BY_ZERO)
        throw scopeChanged(error)
      throw fencedOr(error)
    } finally {
      if (!this.inTransaction) this.#isClean = false // A statement ended the transaction, and the session was not cleaned.
    }
  }

  /** Puts BEGIN and COMMIT around one statement and cleans the session after it. */
  async #wrapped(statement: Statement): Promise<StatementResult> {
    await this.#begin({})
    let result: StatementResult
    try {
      result = await this.#inside(statement)
    } catch (error) {
      await this.#end('rollback').catch(() => {
        this.#isClean = false
      })
      throw error
    }
    await this.#end('commit')
    return result
  }

  async #alone(statement: Statement): Promise<StatementResult> {
    const key = this.#keyOf(statement)
    let isNamed = key !== undefined
    for (let renewed = 0; ; ) {
      this.#assertHeld() // Names must not come from a connection that another caller may have.
      const { statements } = this.#pooled
      const generation = isNamed ? this.#scopeMode.generation() : undefined
      const name = key === undefined || generation === undefined ? undefined : statements.nameOf(key, generation)
      const query = new ScopedQuery(configOf(statement, name), this.#scope, this.#form, statements.takeUnneeded())
      try {
        return await this.#send(query)
      } catch (error) {
        if (key !== undefined) statements.forget(key) // Whether the statement was parsed is unknown.
        if (!query.isScoped && this.#isTidiedUp(error)) return this.#wrapped(statement)
        if (!query.isScoped) await this.#renewUnlessFenced(error, ++renewed)
        else if (name && UNPREPARED.has(sqlState(error) ?? '')) isNamed = false
        else throw fencedOr(error)
      }
    }
  }

  /** The text and the search path determine the meaning of a statement. Undefined for a statement without a name. */
  #keyOf({ text }: Statement): string | undefined {
    if (this.#form !== 'named' || text.length > LONGEST_KEPT_TEXT) return undefined
    return `${this.#scope.searchPath} ${text}`
  }

  /** Checked before each sending: the caller may have released the connection in between. */
  #send(query: Parameters<typeof send>[1]): Promise<pg.QueryArrayResult> {
    this.#assertHeld()
    return send(this.#pooled.client, query)
  }

  #assertHeld(): void {
    if (this.#isReleased) throw new Error('The connection was released and may belong to another tenant now')
  }

  get #cleaning(): string {
    return this.#form === 'named' ? CLEAN : CLEAN_FOR_OTHERS
  }

  /**
   * Whether the end of a transaction removes the cause of the scope's error. Through a pooler another connection could
   * meet it again.
   */
  #isTidiedUp(error: unknown): boolean {
    return this.#form === 'in full' && scopeFault(error) === 'temporary tables'
  }

  /**
   * Handles a scope that could not be set: replaces the connection, or throws if another connection would fail, too.
   */
  async #renewUnlessFenced(error: unknown, renewed: number): Promise<void> {
    const fault = scopeFault(error)
    if (fault === 'fenced') throw StorageFenced('The storage of the tenant is closed at its server.', { cause: error })
    if (fault === undefined || this.#isReleased || renewed > MOST_RENEWED) throw fencedOr(error)
    this.#isHeld = false
    this.#connections.release(this.#pooled, true)
    try {
      this.#pooled = await this.#connections.acquire(this.#pooled.request)
      this.#isHeld = true
    } catch (failure) {
      this.#isReleased = true
      throw failure
    }
    if (this.#isReleased) this.#connections.release(this.#pooled, false)
    this.#assertHeld()
  }
}

/** Whether no transaction is open, as the server reported in its last response. */
export const isIdle = (client: pg.ClientBase): boolean => stateOf(client).getTransactionStatus() === 'I'

const isReusable = (client: pg.ClientBase): boolean =>
  isIdle(client) && stateOf(client).readyForQuery && isAlive(client)

/** SQLSTATE that policies raise for a fenced tenant. */
const FENCED = 'TN001'

const fencedOr = (error: unknown): unknown =>
  sqlState(error) === FENCED ? StorageFenced('The storage of the tenant is closed.', { cause: error }) : error

const DIVISION_BY_ZERO = '22012'

const scopeChanged = (cause: unknown) =>
  InvalidRequest(
    'The statement changed role, search_path or tenant by a trigger, a default or a function of its table',
    { cause },
  )

/** After AND CHAIN the connection is in a new transaction. */
const hasEnded = (command: string, text: string): boolean =>
  command === 'COMMIT' || (command === 'ROLLBACK' && endsTransaction(text))

const copyNotAvailable = () => Object.assign(new Error('COPY is not available on a tenant handle'), { code: '0A000' })

const configOf = ({ text, values, rowMode, types }: Statement, name?: string): ScopedConfig => ({
  text,
  values: values ? [...values] : [],
  name,
  rowMode,
  types,
})
