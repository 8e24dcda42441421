/**
 * A statement in a transaction of a tenant, and after it, in the same batch, a comparison of the scope: when role, search path or
 * tenant are others by then, the batch fails.
 *
 *   [Parse] Bind, Describe, Execute of the statement ─► [Close, Parse] Bind, Execute of the comparison ─► Sync
 */
import { type Connection, HostQuery, type Scope, type ScopedConfig, type ScopeForm, valuesOf } from './scoped-query.ts'

/**
 * Whether the scope is what it was, and strings are still read as the text before was. Names are qualified: the search path may be
 * another one by now. The division fails, as the scope's does.
 */
const KEPT_TEXT = `select 1 operator(pg_catalog./) (
  pg_catalog.current_setting('app.tenant_id') operator(pg_catalog.=) $1 and
  pg_catalog.current_setting('search_path') operator(pg_catalog.=) $2 and
  pg_catalog.current_setting('role') operator(pg_catalog.=) $3 and
  pg_catalog.current_setting('standard_conforming_strings') operator(pg_catalog.=) 'on')::pg_catalog.int4`

const KEPT_NAME = 'tenantry_kept'
/** Connections that are known to have it. */
const knowsKept = new WeakSet<Connection>()

/** One statement in a transaction of a tenant, which fails with the statement when that has changed the scope. */
export class KeepingQuery extends HostQuery {
  readonly #scope: Scope
  readonly #form: ScopeForm
  #hasRun = false

  constructor(config: ScopedConfig, scope: Scope, form: ScopeForm) {
    super(config)
    this.#scope = scope
    this.#form = form
  }

  /** Whether the statement has run: an error after that says that the scope is another one. */
  get hasRun(): boolean {
    return this.#hasRun
  }

  override _getRows(connection: Connection): void {
    connection.execute({ portal: '', rows: 0 })
    const statement = this.#form === 'named' ? KEPT_NAME : ''
    if (!knowsKept.has(connection)) {
      if (statement) connection.close({ type: 'S', name: statement }) // there from a batch that failed
      connection.parse({ name: statement, text: KEPT_TEXT })
    }
    connection.bind({ portal: '', statement, values: valuesOf(this.#scope).slice(0, 3) })
    connection.execute({ portal: '', rows: 0 })
    connection.sync()
  }

  override handleDataRow(message: unknown): void {
    if (!this.#hasRun) super.handleDataRow(message)
  }

  override handleCommandComplete(message: unknown, connection: Connection): void {
    if (this.#hasRun && this.#form === 'named') knowsKept.add(connection)
    if (!this.#hasRun) super.handleCommandComplete(message, connection)
    this.#hasRun = true
  }
}
