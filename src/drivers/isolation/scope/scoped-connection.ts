/**
 * A tenant's scope on a pooled connection: role, search_path and tenant id, set for one transaction and gone with it.
 *
 *   a statement alone   the scope and the statement in one batch (scoped-query.ts); with the plain path, and for what may keep
 *                       something in the session: BEGIN and the scope, the statement, COMMIT and cleaning
 *   a transaction       BEGIN and the scope, awaited; the host's statements; COMMIT and cleaning
 *
 * No statement of the host is sent before its scope is set, and which of the two it needs is decided by what the server said
 * last, not by what was sent: when a statement has ended the transaction it ran in, the next one gets a scope of its own.
 * A client that does not come back idle and clean is destroyed, never reused.
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
  /** `batch`: the scope goes before each statement; `transaction`: each has BEGIN and COMMIT around it. */
  readonly mode: 'batch' | 'transaction'
  /** Rises whenever tenants' tables change; undefined while that cannot be known, and no statement is given a name. */
  readonly generation: () => number | undefined
}

/** Sessions behind a pooler that are met in one go with temporary tables in them; after so many, dropping these does not help. */
const MOST_TIDIED = 100
/** Connections that are found unfit one after the other; the next error is told. */
const MOST_RENEWED = 3
/** A cached plan whose columns changed under it; a name that the server does not know. */
const UNPREPARED = new Set(['0A000', '26000'])

export class ScopedConnection implements TenantConnection {
  readonly #connections: Connections
  readonly #scope: Scope
  readonly #scopeMode: ScopeMode
  readonly #form: ScopeForm
  #pooled: PooledClient
  #last: Promise<unknown> | undefined
  #isReleased = false
  /** Not while another connection is waited for. */
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
    if (!this.#isHeld) return // given back when it comes
    this.#connections.release(this.#pooled, destroy || !this.#isClean || !isReusable(this.#pooled.client))
  }

  /** One after the other: which scope a statement needs is known when the one before it has been answered. */
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
      throw new Error('the transaction was rolled back: a statement in it had failed')
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
      if (!this.inTransaction) this.#isClean = false // a statement ended the transaction, and the session was not cleaned
    }
  }

  /** BEGIN and COMMIT around one statement, and the session cleaned after it. */
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
      this.#assertHeld() // before names are taken from a connection that may be another's now
      const { statements } = this.#pooled
      const generation = isNamed ? this.#scopeMode.generation() : undefined
      const name = key === undefined || generation === undefined ? undefined : statements.nameOf(key, generation)
      const query = new ScopedQuery(configOf(statement, name), this.#scope, this.#form, statements.takeUnneeded())
      try {
        return await this.#send(query)
      } catch (error) {
        if (key !== undefined) statements.forget(key) // whether it was parsed is not known
        if (!query.isScoped && this.#isTidiedUp(error)) return this.#wrapped(statement)
        if (!query.isScoped) await this.#renewUnlessFenced(error, ++renewed)
        else if (name && UNPREPARED.has(sqlState(error) ?? '')) isNamed = false
        else throw fencedOr(error)
      }
    }
  }

  /** What a statement means is its text and where its names are looked up; undefined for one that is to have no name. */
  #keyOf({ text }: Statement): string | undefined {
    if (this.#form !== 'named' || text.length > LONGEST_KEPT_TEXT) return undefined
    return `${this.#scope.searchPath} ${text}`
  }

  /** Looked at before each sending: the caller may have given the connection back between two. */
  #send(query: Parameters<typeof send>[1]): Promise<pg.QueryArrayResult> {
    this.#assertHeld()
    return send(this.#pooled.client, query)
  }

  #assertHeld(): void {
    if (this.#isReleased) throw new Error('the connection was given back; it may be another tenant’s now')
  }

  get #cleaning(): string {
    return this.#form === 'named' ? CLEAN : CLEAN_FOR_OTHERS
  }

  /** Whether the end of a transaction removes what a scope has met: through a pooler another connection would meet it again. */
  #isTidiedUp(error: unknown): boolean {
    return this.#form === 'in full' && scopeFault(error) === 'temporary tables'
  }

  /** For a scope that could not be set on this connection: goes on with another one, or says that no other would help. */
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

/** Whether no transaction is open, as the server said with its last answer. */
export const isIdle = (client: pg.ClientBase): boolean => stateOf(client).getTransactionStatus() === 'I'

const isReusable = (client: pg.ClientBase): boolean =>
  isIdle(client) && stateOf(client).readyForQuery && isAlive(client)

/** What policies raise for a tenant that is fenced. */
const FENCED = 'TN001'

const fencedOr = (error: unknown): unknown =>
  sqlState(error) === FENCED ? StorageFenced('The storage of the tenant is closed.', { cause: error }) : error

const DIVISION_BY_ZERO = '22012'

const scopeChanged = (cause: unknown) =>
  InvalidRequest(
    'the statement has changed role, search_path or tenant, by a trigger, a default or a function of its table',
    { cause },
  )

/** In a transaction that goes on: AND CHAIN has begun it. */
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
