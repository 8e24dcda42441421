/**
 * A statement and the scope before it, in one protocol batch:
 *
 *   Bind, Execute of the scope ─► [Parse] Bind, Describe, Execute of the statement ─► Sync
 *
 * PostgreSQL runs what stands before one Sync as one implicit transaction: when the scope fails, the statement is skipped; when
 * it ends, the scope is gone, because it is set with `set_config(.., true)` only. It costs no round trip of its own.
 *
 * The scope's statement has been prepared on the connection before (`tryScope`). Its answer is one row without columns and one
 * CommandComplete, which are taken out of the statement's result here.
 */
import pg from 'pg'
import { sqlState } from '../../../kernel/database/database.ts'
import { ready, stateOf } from '../connections/client-state.ts'
import type { PooledSettings } from './session-settings.ts'

/** What a statement must run as. */
export interface Scope {
  /** Read by `tenantry.current_tenant()`. */
  readonly tenantId: string
  readonly searchPath: string
  readonly role: string
  /** A schema that the role must have the right to use: storage that is fenced has lost it. */
  readonly openSchema: string | null
  /** Asked at the beginning of a transaction: fails when the storage is fenced. */
  readonly probe?: string
  /** Whether its transactions say whose they are: where other tenants have transactions too, and one is waited for (drain.ts). */
  readonly isMarked?: boolean
  /** Behind a pooler, where a session cannot begin with them. */
  readonly settings?: PooledSettings
}

const SCOPE_NAME = 'tenantry_scope'
const WHERE = 'current_database() as database, pg_backend_pid() as pid'

/**
 * It has no columns, which would be written out, sent and read for nobody: what it does are conditions. None of them is ever false;
 * two fail on purpose, and with them the batch. The division: somebody has left temporary tables on the connection, which the next
 * tenant would find. The logarithm of zero: the storage is fenced.
 */
const scopeText = (hasNoTables: string) => `select where
  set_config('app.tenant_id', $1, true) is not null and set_config('search_path', $2, true) is not null and
  set_config('role', $3, true) is not null and 1 / (${hasNoTables})::int = 1 and
  case when $4::pg_catalog.text is null then 0 else ln(has_schema_privilege($3, $4, 'usage')::int) end = 0`

/**
 * A session that has had temporary tables says so for ever, and is closed. Through a pooler it is not ours to close: there its
 * tables are dropped (session-state.ts), and it is asked whether any are left. Names are qualified, as such a table may have them.
 */
const SCOPE_TEXTS: Readonly<Record<ScopeForm, string>> = {
  named: scopeText('pg_my_temp_schema() = 0'),
  'in full': scopeText(`pg_my_temp_schema() = 0 or not exists (select from pg_catalog.pg_depend
    where refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass and refobjid = pg_my_temp_schema())`),
}

/** The class of the advisory locks that say whose a transaction is. */
export const MARKS = 1952804449

/** Whose a transaction is, as a number: two tenants may have the same. @param tenantId as SQL */
export const markOf = (tenantId: string): string => `hashtext(${tenantId})`

/** Tries: a lock that somebody else holds alone, by whatever mistake, must not keep transactions from beginning. It goes with them. */
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

/** node-postgres' protocol writer, of which its types say nothing. */
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

/** The part of node-postgres' Query that is written over; it is a class there, and an interface in its types. */
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

/** Outside of any tenant: what a new connection is tried with. */
const NOWHERE: Scope = { tenantId: '', searchPath: 'pg_catalog', role: 'none', openSchema: null }

/** What the answer on a new connection tells of the server's end of it. */
export interface Reached {
  readonly database: string
  /** Whether somebody stands between who makes up the process of a connection, or has given its session to others before. */
  readonly isBehindPooler: boolean
}

const NAME_TAKEN = '42P05'

/** Tries a new connection, outside of any transaction. With `named`, the scope is prepared on it then, which leaves nothing else. */
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

/** How the scope is written: by its name on this connection, or in full for a pooler that gives each transaction another one. */
export type ScopeForm = 'named' | 'in full'

const modesOf = ({ settings }: Scope): readonly string[] => settings?.modes ?? []

const inFull = ({ settings }: Scope): string =>
  settings ? `${SCOPE_TEXTS['in full']} and ${settings.conditions}` : SCOPE_TEXTS['in full']

/** Statements that answer no rows, before anything else of their transaction. */
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

/** A statement of the host, one in its text. */
export class HostQuery extends QueryBase {
  /** A config costs node-postgres far more than text and values do: it is given one where nothing else can say what is in it. */
  constructor(config: ScopedConfig) {
    if (config.rowMode || config.types) super(config)
    else super(config.text, config.values)
    this.name = config.name
    this.queryMode = 'extended'
  }

  /** The server has passed over the Sync that was sent with the statement: without another it would answer no more. */
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
  /** Statements before that of the host that are yet to complete; the last one is the scope. */
  #before: number

  /** @param unneeded names of statements that the connection may forget. */
  constructor(config: ScopedConfig, scope: Scope, form: ScopeForm, unneeded: readonly string[] = []) {
    super(config)
    this.#scope = scope
    this.#form = form
    this.#unneeded = unneeded
    this.#before = 1 + modesOf(scope).length
  }

  /** Whether the scope was set: an error before that came from the scope, and the statement did not run. */
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

/** Prepares the scope on a new connection, and tries it outside of any tenant. */
class FirstQuery extends ScopedQuery {
  constructor(config: ScopedConfig) {
    super(config, NOWHERE, 'named')
  }

  override prepare(connection: Connection): void {
    connection.parse({ name: SCOPE_NAME, text: SCOPE_TEXTS.named })
    super.prepare(connection)
  }
}

/** BEGIN, the scope, the end of what an earlier tenant's sequences had answered, and the mark of whose it is, in one batch. */
export class BeginQuery extends QueryBase {
  readonly #scope: Scope
  readonly #form: ScopeForm
  readonly #modes: readonly string[]
  #hasStarted = false

  /** @param modes as they stand after BEGIN: `isolation level serializable, read only` */
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

/** Sends a batch and answers its result. It rejects when the server is ready again: only then is it known what the batch left. */
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
