/**
 * A tenant's storage in the shape of node-postgres' `Pool`: for raw SQL, and for libraries that want one (Drizzle). Every
 * statement runs inside the tenant's scope; of several statements in one text the server refuses all.
 *
 *   await tenant.pool.query('select * from notes where id = $1', [1])
 *   const db = drizzle({ client: tenant.pool })
 *
 * A client of `connect()` stays the same connection until its `release()`; `begin`, `commit` and `rollback` are sent as
 * statements, as with any client. Cursors and COPY are refused: one statement at a time cannot keep them inside a scope. Names
 * of prepared statements are not needed, what can be prepared is; and there are no events: lost connections are the tenancy's.
 */
import type { Pool } from 'pg'
import { invalid } from '../kernel/errors.ts'
import type { Statement, StatementResult, TenantConnection, TransactionModes } from './isolation.ts'
import type { TenantSource } from './tenant-source.ts'

interface QueryConfig {
  readonly text: string
  readonly values?: readonly unknown[] | undefined
  readonly rowMode?: string | undefined
  readonly types?: unknown
}
type Callback<T> = (error: Error | null, result?: T) => void
type Values = readonly unknown[]

interface Queryable {
  query(text: string | QueryConfig, values?: Values): Promise<StatementResult>
  query(text: string | QueryConfig, callback: Callback<StatementResult>): void
  query(text: string | QueryConfig, values: Values | undefined, callback: Callback<StatementResult>): void
}

/** Typed as the pool that it stands for, so that whatever takes one takes it. */
export const tenantPool = (source: TenantSource): Pool => new TenantPool(source) as unknown as Pool

class TenantPool implements Queryable {
  readonly #source: TenantSource

  constructor(source: TenantSource) {
    this.#source = source
  }

  query(text: string | QueryConfig, values?: Values): Promise<StatementResult>
  query(text: string | QueryConfig, callback: Callback<StatementResult>): void
  query(text: string | QueryConfig, values: Values | undefined, callback: Callback<StatementResult>): void
  query(...given: unknown[]): unknown {
    return answered(given, (statement) => this.#source.execute(statement))
  }

  connect(): Promise<TenantClient>
  connect(callback: (error: Error | null, client?: TenantClient, release?: (destroy?: unknown) => void) => void): void
  connect(callback?: Function): unknown {
    const client = this.#source.connect().then((connection) => new TenantClient(connection))
    if (!callback) return client
    client.then(
      (client) => callback(null, client, (destroy?: unknown) => client.release(destroy)),
      (error) => callback(error),
    )
    return undefined
  }

  /** The connections belong to the tenancy and outlive this. */
  async end(): Promise<void> {}

  /** For callers that listen to a pool: this one has no events, the tenancy logs lost connections. */
  on(_event: string, _listener: Function): this {
    return this
  }
}

class TenantClient implements Queryable {
  readonly #connection: TenantConnection

  constructor(connection: TenantConnection) {
    this.#connection = connection
  }

  query(text: string | QueryConfig, values?: Values): Promise<StatementResult>
  query(text: string | QueryConfig, callback: Callback<StatementResult>): void
  query(text: string | QueryConfig, values: Values | undefined, callback: Callback<StatementResult>): void
  query(...given: unknown[]): unknown {
    return answered(given, (statement) => this.#run(statement))
  }

  /** @param destroy an error, or true: the connection is not to be used again. */
  release(destroy?: unknown): void {
    this.#connection.release(Boolean(destroy))
  }

  on(_event: string, _listener: Function): this {
    return this
  }

  async #run(statement: Statement): Promise<StatementResult> {
    const control = transactionControl(statement.text)
    if (!control) return this.#connection.query(statement)
    if (control.what === 'begin') await this.#connection.begin(control.modes)
    else await this.#connection.end(control.what)
    return { rows: [], rowCount: null, command: control.what.toUpperCase(), fields: [] }
  }
}

/** node-postgres' two ways to be called: with a callback, or for a promise. */
function answered(given: readonly unknown[], run: (statement: Statement) => Promise<StatementResult>): unknown {
  const callback = typeof given.at(-1) === 'function' ? (given.at(-1) as Callback<StatementResult>) : undefined
  const result = run(statementOf(given[0], Array.isArray(given[1]) ? given[1] : undefined))
  if (!callback) return result
  result.then(
    (result) => callback(null, result),
    (error) => callback(error),
  )
  return undefined
}

function statementOf(query: unknown, values: Values | undefined): Statement {
  if (typeof query === 'string') return { text: query, values }
  const { text, values: own, rowMode, types, submit } = query as QueryConfig & { submit?: unknown }
  if (submit !== undefined || typeof text !== 'string') {
    throw invalid([
      { path: 'query', message: 'a text or { text, values }; cursors, streams and COPY are not available' },
    ])
  }
  return { text, values: values ?? own, types, rowMode: rowMode === 'array' ? 'array' : undefined }
}

type Control = { what: 'begin'; modes: TransactionModes } | { what: 'commit' | 'rollback' }

/** Comments before a statement, as tracing tools write them. */
const COMMENTS = /^(?:\s+|--[^\n]*(?:\n|$)|\/\*[\s\S]*?\*\/)+/
const BEGIN = /^(?:begin|start\s+transaction)(?:\s+(?:work|transaction))?\b(?<modes>[^;]*);?\s*$/i
const END = /^(?<word>commit|end|rollback|abort)(?:\s+(?:work|transaction))?\s*;?\s*$/i
const MODE =
  /^(?:isolation\s+level\s+(?<level>serializable|repeatable\s+read|read\s+committed|read\s+uncommitted)|(?<access>read\s+(?:only|write)))$/i

/** What a text does to the transaction; undefined for a statement like any other. */
function transactionControl(text: string): Control | undefined {
  const bare = text.replace(COMMENTS, '')
  const { modes } = BEGIN.exec(bare)?.groups ?? {}
  if (modes !== undefined) return { what: 'begin', modes: modesOf(modes) }
  const { word } = END.exec(bare)?.groups ?? {}
  if (word === undefined) return undefined
  return { what: /^(commit|end)$/i.test(word) ? 'commit' : 'rollback' }
}

function modesOf(text: string): TransactionModes {
  const parts = text.trim() === '' ? [] : text.trim().split(/\s*,\s*|\s+(?=read\s+(?:only|write)$)/i)
  let isolationLevel: string | undefined
  let accessMode: string | undefined
  for (const part of parts) {
    const { level, access } = MODE.exec(part)?.groups ?? {}
    if (!level && !access)
      throw invalid([{ path: 'query', message: `"${part}" is not a mode that a transaction can have here` }])
    isolationLevel = level ?? isolationLevel
    accessMode = access ?? accessMode
  }
  return { isolationLevel, accessMode }
}
