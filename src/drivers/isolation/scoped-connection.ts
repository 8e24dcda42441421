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
import { sqlState } from '../../kernel/database.ts'
import {
  type Statement,
  type StatementResult,
  StorageFenced,
  type TenantConnection,
  type TransactionModes,
} from '../../tenants/isolation.ts'
import type { Connections, PooledClient } from './connections.ts'
import {
  BeginQuery,
  HostQuery,
  isAlive,
  type Scope,
  type ScopedConfig,
  ScopedQuery,
  type ScopeForm,
  scopeFault,
  send,
  stateOf,
} from './scoped-query.ts'
import { CLEAN, CLEAN_FOR_OTHERS, endsTransaction, leavesNothing, spoils } from './session-state.ts'

/** How statements are sent. */
export interface Manner {
  /** `batch`: the scope goes before each statement; `transaction`: each has BEGIN and COMMIT around it. */
  readonly path: 'batch' | 'transaction'
  /** Whether statements alone are prepared once on each connection: where a text means the same for every tenant. */
  readonly prepares: boolean
}

/** Statements that keep a name on one connection. */
const MAX_PREPARED = 200
/** Sessions behind a pooler that are met in one go with temporary tables in them; after so many, dropping these does not help. */
const MOST_TIDIED = 100
/** A cached plan whose columns changed under it; a name that the server does not know. */
const UNPREPARED = new Set(['0A000', '26000'])

export class ScopedConnection implements TenantConnection {
  readonly #connections: Connections
  readonly #scope: Scope
  readonly #manner: Manner
  readonly #form: ScopeForm
  #pooled: PooledClient
  #last: Promise<unknown> | undefined
  #isReleased = false
  #isClean = true

  constructor(connections: Connections, pooled: PooledClient, scope: Scope, manner: Manner) {
    this.#form = connections.isPooled ? 'in full' : 'named'
    this.#connections = connections
    this.#pooled = pooled
    this.#scope = scope
    this.#manner = manner
  }

  get inTransaction(): boolean {
    return !isIdle(this.#pooled.client)
  }

  query(statement: Statement): Promise<StatementResult> {
    return this.#inTurn(() => this.#query(statement))
  }

  begin(modes: TransactionModes = {}): Promise<void> {
    return this.#inTurn(() => this.#begin(modes))
  }

  end(how: 'commit' | 'rollback'): Promise<void> {
    return this.#inTurn(() => this.#end(how))
  }

  release(destroy = false): void {
    if (this.#isReleased) return
    this.#isReleased = true
    this.#connections.release(this.#pooled, destroy || !this.#isClean || !isReusable(this.#pooled.client))
  }

  /** One after the other: which scope a statement needs is known when the one before it has been answered. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const held = async () => {
      if (this.#isReleased) throw new Error('the connection was given back; it may be another tenant’s now')
      return work()
    }
    const result = this.#last ? this.#last.then(held, held) : held()
    this.#last = result
    return result
  }

  #query(statement: Statement): Promise<StatementResult> {
    if (this.inTransaction) return this.#inside(statement)
    const alone = this.#manner.path === 'batch' && leavesNothing(statement.text)
    return alone ? this.#alone(statement, this.#manner.prepares && this.#form === 'named') : this.#wrapped(statement)
  }

  async #begin({ isolationLevel, accessMode }: TransactionModes): Promise<void> {
    const modes = [isolationLevel && `isolation level ${isolationLevel}`, accessMode].filter(Boolean).join(', ')
    let sessions = 0
    for (;;) {
      try {
        await send(this.#pooled.client, new BeginQuery(modes, this.#scope, this.#form))
        return
      } catch (error) {
        if (this.inTransaction) await this.#pooled.client.query(`rollback; ${this.#cleaning}`)
        if (!this.#isTidiedUp(error)) await this.#renewUnlessFenced(error)
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
    try {
      const result = await send(this.#pooled.client, new HostQuery(configOf(statement)))
      if (spoils(result.command)) this.#isClean = false
      if (result.command === 'COPY') throw new Error('COPY is not available on a tenant handle')
      return result
    } catch (error) {
      throw fencedOr(error)
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

  async #alone(statement: Statement, isPrepared: boolean): Promise<StatementResult> {
    for (;;) {
      const { client, statements } = this.#pooled
      const { name, unneeded } = isPrepared ? named(statements, statement.text) : {}
      const query = new ScopedQuery(configOf(statement, name), this.#scope, this.#form, unneeded)
      try {
        return await send(client, query)
      } catch (error) {
        if (name) statements.delete(statement.text) // whether it was parsed is not known: another name is tried next time
        if (!query.isScoped && this.#isTidiedUp(error)) return this.#wrapped(statement)
        if (!query.isScoped) await this.#renewUnlessFenced(error)
        else if (name && UNPREPARED.has(sqlState(error) ?? '')) return this.#alone(statement, false)
        else throw fencedOr(error)
      }
    }
  }

  get #cleaning(): string {
    return this.#form === 'named' ? CLEAN : CLEAN_FOR_OTHERS
  }

  /** Whether the end of a transaction removes what a scope has met: through a pooler another connection would meet it again. */
  #isTidiedUp(error: unknown): boolean {
    return this.#form === 'in full' && scopeFault(error) === 'temporary tables'
  }

  /** For a scope that could not be set on this connection: goes on with another one, or says that no other would help. */
  async #renewUnlessFenced(error: unknown): Promise<void> {
    const fault = scopeFault(error)
    if (fault === 'fenced') throw StorageFenced('The storage of the tenant is closed at its server.', { cause: error })
    if (fault === undefined || this.#isReleased) throw fencedOr(error)
    const { lastTenant: tenantId, database } = this.#pooled
    this.#connections.release(this.#pooled, true)
    this.#isReleased = true
    this.#pooled = await this.#connections.acquire({ tenantId, database })
    this.#isReleased = false
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

const endedBefore = () => new Error('a statement ended the transaction it ran in; that is for the handle to do')

const configOf = ({ text, values, rowMode, types }: Statement, name?: string): ScopedConfig => ({
  text,
  values: values ? [...values] : [],
  name,
  rowMode,
  types,
  queryMode: 'extended',
})

let lastName = 0

/** A name for a statement on one connection, and one that the connection may forget for it. */
function named(statements: Map<string, string>, text: string): { name: string; unneeded?: string | undefined } {
  const kept = statements.get(text)
  if (kept) return { name: kept }
  const name = `tenantry_${++lastName}`
  statements.set(text, name)
  if (statements.size <= MAX_PREPARED) return { name }
  const [oldest] = statements
  if (oldest) statements.delete(oldest[0])
  return { name, unneeded: oldest?.[1] }
}
