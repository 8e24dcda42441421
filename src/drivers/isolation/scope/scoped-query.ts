/**
 * Sends a statement and its scope in one protocol batch:
 *
 *   Bind, Execute of the scope ─► [Parse] Bind, Describe, Execute of the statement ─► Sync
 *
 * - PostgreSQL runs all messages before one Sync as one implicit transaction: if the scope fails, the statement is
 *   skipped.
 * - The scope ends with the transaction because it is set only by `set_config(.., true)`. It needs no extra round trip.
 * - The scope is prepared on the connection before (`tryScope`). Its response, one row without columns and one
 *   CommandComplete, is removed from the statement's result here.
 */
import pg from 'pg'
import { sqlState } from '../../../kernel/database/database.ts'
import { ready, stateOf } from '../connections/client-state.ts'
import type { PooledSettings } from './session-settings.ts'

/** The identity under which a statement must run. */
export interface Scope {
  /** Read by `tenantry.current_tenant()`. */
  readonly tenantId: string
  readonly searchPath: string
  readonly role: string
  /** A schema that the role must have the right to use: a fence revokes this right. */
  readonly openSchema: string | null
  /** SQL at the beginning of a transaction that fails if the storage is fenced. */
  readonly probe?: string
  /**
   * Whether its transactions are marked with their tenant: for a database where the drain waits for those of one tenant
   * (drain.ts).
   */
  readonly isMarked?: boolean
  /** Settings behind a pooler, where a session cannot start with them. */
  readonly settings?: PooledSettings
}

const SCOPE_NAME = 'tenantry_scope'
const WHERE = 'current_database() as database, pg_backend_pid() as pid'

/**
 * The scope has conditions only and no columns, so no values are sent. No condition is false. Two fail on purpose, and
 * the batch with them: the division if an earlier caller has left temporary tables on the connection, which the next
 * tenant would find; the logarithm of zero if the storage is fenced.
 */
const scopeText = (hasNoTables: string) => `select where
  set_config('app.tenant_id', $1, true) is not null and set_config('search_path', $2, true) is not null and
  set_config('role', $3, true) is not null and 1 / (${hasNoTables})::int = 1 and
  case when $4::pg_catalog.text is null then 0 else ln(has_schema_privilege($3, $4, 'usage')::int) end = 0`

/**
 * A session that has ever had temporary tables always reports it, and is closed. A session behind a pooler cannot be
 * closed by Tenantry: its tables are dropped (session-state.ts), and the scope checks for remaining ones. Names are
 * qualified because such a table may have the same name.
 */
const SCOPE_TEXTS: Readonly<Record<ScopeForm, string>> = {
  named: scopeText('pg_my_temp_schema() = 0'),
  'in full': scopeText(`pg_my_temp_schema() = 0 or not exists (select from pg_catalog.pg_depend
    where refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass and refobjid = pg_my_temp_schema())`),
}

/** The class of the advisory locks that mark a transaction with its tenant. */
export const MARKS = 1952804449

/** The tenant of a transaction as a number; two tenants may have the same. @param tenantId as SQL */
export const markOf = (tenantId: string): string => `hashtext(${tenantId})`

/**
 * Only tries: an exclusive lock that another session holds by mistake must not block transactions. Released at the
 * transaction's end.
 */
const MARK = `select pg_try_advisory_xact_lock_shared(${MARKS}, ${markOf(`current_setting('app.tenant_id')`)})`

/** Why a scope could not be set. */
export type ScopeFault = 'temporary tables' | 'fenced' | 'not prepared' | 'session ended'

const FAULTS: Readonly<Record<string, ScopeFault>> = {
  '22012': 'temporary tables',
  '2201E': 'fenced',
  '3F000': 'fenced', // the schema is not there at all
  '26000': 'not prepared',
  '57P01': 'session ended', // while it was idle; of what ran on it, the scope would have been answered
  '57P05': 'session ended',
}

export const scopeFault = (error: unknown): ScopeFault | undefined => FAULTS[sqlState(error) ?? '']

/** The protocol writer of node-postgres, which its types do not declare. */
export interface Connection {
  parse(query: { name: string; text: string }): void
  bind(config: { portal: string; statement: string; values: readonly unknown[] }): void
  execute(config: { portal: string; rows: number }): void
  close(config: { type: 'S'; name: string }): void
  sendCopyFail(reason: string): void
  sync(): void
  readonly parsedStatements: Record<string, string>
  readonly submittedNamedStatements: Record<string, string>
}

/** The overridden members of node-postgres' Query, which is a class there and an interface in its types. */
interface QueryBase {
  callback: (error: Error | null, result: pg.QueryArrayResult) => void
  name: string | undefined
  queryMode: 'extended'
  prepare(connection: Connection): void
  _getRows(connection: Connection): void
  handleDataRow(message: unknown): void
  handleCommandComplete(message: unknown, connection: Connection): void
  handleCopyInResponse(connection: Connection): void
}
type QueryClass = new (config: string | object, values?: unknown[]) => QueryBase
const QueryBase = (pg as unknown as { Query: QueryClass }).Query

export const valuesOf = ({ tenantId, searchPath, role, openSchema }: Scope) => [tenantId, searchPath, role, openSchema]

/** A scope without a tenant, to test a new connection. */
const NOWHERE: Scope = { tenantId: '', searchPath: 'pg_catalog', role: 'none', openSchema: null }

/** Properties of the server's end of a new connection. */
export interface Reached {
  readonly database: string
  /** Whether a pooler is in between: it reports an invented process id, or its session had other clients before. */
  readonly isBehindPooler: boolean
}

const NAME_TAKEN = '42P05'

/** Tests a new connection outside of any tenant. With `named`, it also prepares the scope and leaves nothing else. */
export async function tryScope(client: pg.ClientBase, form: ScopeForm): Promise<Reached> {
  try {
    const config = { text: `select ${WHERE}`, values: [] }
    const { rows } = await send(client, form === 'named' ? new FirstQuery(config) : new HostQuery(config))
    const [{ database, pid }] = rows as unknown as [{ database: string; pid: number }]
    return { database, isBehindPooler: pid !== stateOf(client).processID }
  } catch (error) {
    const isUsedBefore = sqlState(error) === NAME_TAKEN || scopeFault(error) === 'temporary tables'
    if (isUsedBefore) return { database: '', isBehindPooler: true }
    throw error
  }
}

export interface ScopedConfig {
  readonly text: string
  readonly values: unknown[]
  readonly name?: string | undefined
  readonly rowMode?: 'array' | undefined
  readonly types?: unknown
}

/**
 * How the scope is sent: by its prepared name, or as full text through a pooler that gives each transaction another
 * session.
 */
export type ScopeForm = 'named' | 'in full'

const modesOf = ({ settings }: Scope): readonly string[] => settings?.modes ?? []

const inFull = ({ settings }: Scope): string =>
  settings ? `${SCOPE_TEXTS['in full']} and ${settings.conditions}` : SCOPE_TEXTS['in full']

/** Sends statements without result rows, before all others of their transaction. */
function writeAll(connection: Connection, texts: readonly string[]): void {
  for (const text of texts) {
    connection.parse({ name: '', text })
    connection.bind({ portal: '', statement: '', values: [] })
    connection.execute({ portal: '', rows: 0 })
  }
}

function writeScope(connection: Connection, scope: Scope, form: ScopeForm): void {
  const statement = form === 'named' ? SCOPE_NAME : ''
  if (form === 'in full') connection.parse({ name: '', text: inFull(scope) })
  connection.bind({ portal: '', statement, values: valuesOf(scope) })
  connection.execute({ portal: '', rows: 0 })
}

/** A single statement of the host. */
export class HostQuery extends QueryBase {
  /** node-postgres processes a config much slower than text and values: used only for properties that need it. */
  constructor(config: ScopedConfig) {
    if (config.rowMode || config.types) super(config)
    else super(config.text, config.values)
    this.name = config.name
    this.queryMode = 'extended'
  }

  /**
   * The server has skipped the Sync that was sent with the statement: without another one it would not respond again.
   */
  override handleCopyInResponse(connection: Connection): void {
    connection.sendCopyFail('COPY is not available on a tenant handle')
    connection.sync()
  }
}

/** One statement of a tenant, outside of a transaction. */
export class ScopedQuery extends HostQuery {
  readonly #scope: Scope
  readonly #form: ScopeForm
  readonly #unneeded: readonly string[]
  /** Number of incomplete statements before the host's; the last of them is the scope. */
  #before: number

  /** @param unneeded names of statements that the connection may close. */
  constructor(config: ScopedConfig, scope: Scope, form: ScopeForm, unneeded: readonly string[] = []) {
    super(config)
    this.#scope = scope
    this.#form = form
    this.#unneeded = unneeded
    this.#before = 1 + modesOf(scope).length
  }

  /** Whether the scope was set: an earlier error came from the scope, and the statement did not run. */
  get isScoped(): boolean {
    return this.#before === 0
  }

  override prepare(connection: Connection): void {
    for (const name of this.#unneeded) {
      connection.close({ type: 'S', name })
      delete connection.parsedStatements[name]
      delete connection.submittedNamedStatements[name]
    }
    writeAll(connection, modesOf(this.#scope))
    writeScope(connection, this.#scope, this.#form)
    super.prepare(connection)
  }

  override handleDataRow(message: unknown): void {
    if (this.#before === 0) super.handleDataRow(message)
  }

  override handleCommandComplete(message: unknown, connection: Connection): void {
    if (this.#before === 0) super.handleCommandComplete(message, connection)
    else this.#before--
  }
}

/** Prepares the scope on a new connection and tests it outside of any tenant. */
class FirstQuery extends ScopedQuery {
  constructor(config: ScopedConfig) {
    super(config, NOWHERE, 'named')
  }

  override prepare(connection: Connection): void {
    connection.parse({ name: SCOPE_NAME, text: SCOPE_TEXTS.named })
    super.prepare(connection)
  }
}

/** BEGIN, the scope, the reset of an earlier tenant's sequence values and the mark with the tenant, in one batch. */
export class BeginQuery extends QueryBase {
  readonly #scope: Scope
  readonly #form: ScopeForm
  readonly #modes: readonly string[]
  #hasStarted = false

  /** @param modes as written after BEGIN: `isolation level serializable, read only` */
  constructor(modes: string, scope: Scope, form: ScopeForm) {
    super(`begin ${modes}`, [])
    this.queryMode = 'extended'
    this.#scope = scope
    this.#form = form
    this.#modes = scope.settings ? [...scope.settings.modes, ...(modes ? [`set transaction ${modes}`] : [])] : []
  }

  override _getRows(connection: Connection): void {
    const { isMarked, probe } = this.#scope
    connection.execute({ portal: '', rows: 0 })
    writeAll(connection, this.#modes)
    writeScope(connection, this.#scope, this.#form)
    writeAll(connection, ['discard sequences', ...(isMarked ? [MARK] : []), ...(probe ? [probe] : [])])
    connection.sync()
  }

  override handleDataRow(): void {}

  override handleCommandComplete(message: unknown, connection: Connection): void {
    if (!this.#hasStarted) super.handleCommandComplete(message, connection)
    this.#hasStarted = true
  }
}

/**
 * Sends a batch and returns its result. Rejects only when the server is ready again: then the state after the batch is
 * known.
 */
export async function send(client: pg.ClientBase, query: QueryBase): Promise<pg.QueryArrayResult> {
  try {
    return await new Promise((resolve, reject) => {
      query.callback = (error, result) => (error ? reject(error) : resolve(result))
      client.query(query as unknown as pg.Submittable)
    })
  } catch (error) {
    await ready(client)
    throw error
  }
}
