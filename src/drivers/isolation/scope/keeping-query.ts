/**
 * Runs a statement in a tenant's transaction and checks the scope after it, in the same batch. The batch fails if the
 * statement has changed role, search path or tenant.
 *
 *   [Parse] Bind, Describe, Execute of the statement ─► [Close, Parse] Bind, Execute of the comparison ─► Sync
 */
import { type Connection, HostQuery, type Scope, type ScopedConfig, type ScopeForm, valuesOf } from './scoped-query.ts'

/**
 * Checks that the scope and the parsing of strings are unchanged. Names are qualified because the search path may have
 * changed. A change fails the division, as in the statement of the scope.
 */
const KEPT_TEXT = `select 1 operator(pg_catalog./) (
  pg_catalog.current_setting('app.tenant_id') operator(pg_catalog.=) $1 and
  pg_catalog.current_setting('search_path') operator(pg_catalog.=) $2 and
  pg_catalog.current_setting('role') operator(pg_catalog.=) $3 and
  pg_catalog.current_setting('standard_conforming_strings') operator(pg_catalog.=) 'on')::pg_catalog.int4`

const KEPT_NAME = 'tenantry_kept'
/** Connections on which the comparison is prepared. */
const knowsKept = new WeakSet<Connection>()

/** One statement in a tenant's transaction. Fails if the statement changes the scope. */
export class KeepingQuery extends HostQuery {
  readonly #scope: Scope
  readonly #form: ScopeForm
  #hasRun = false

  constructor(config: ScopedConfig, scope: Scope, form: ScopeForm) {
    super(config)
    this.#scope = scope
    this.#form = form
  }

  /** Whether the statement has run: an error after that means that the scope has changed. */
  get hasRun(): boolean {
    return this.#hasRun
  }

  override _getRows(connection: Connection): void {
    connection.execute({ portal: '', rows: 0 })
    const statement = this.#form === 'named' ? KEPT_NAME : ''
    if (!knowsKept.has(connection)) {
      if (statement) connection.close({ type: 'S', name: statement }) // It exists after a failed batch.
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
