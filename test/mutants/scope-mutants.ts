// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what is quoted is source
/** Mutants of code that all PostgreSQL drivers share: scope, connection, session state. */
import type { SourceMutant } from './mutant.ts'

const QUERY = 'drivers/isolation/scope/scoped-query.ts'
const CONNECTION = 'drivers/isolation/scope/scoped-connection.ts'
const SESSION = 'drivers/isolation/scope/session-state.ts'
const TRANSACTION = ['schema-pg, transaction', 'rowscope-pg, transaction', 'database-pg, transaction']

export const SCOPE_MUTANTS: readonly SourceMutant[] = [
  {
    name: 'tenant id set for the session',
    story: 'set_config(.., false): the tenant remains on the connection after its transaction.',
    file: QUERY,
    replace: `set_config('app.tenant_id', $1, true)`,
    by: `set_config('app.tenant_id', $1, false)`,
  },
  {
    name: 'search_path set for the session',
    story: 'A later statement without a scope reads the last tenant’s tables.',
    file: QUERY,
    replace: `set_config('search_path', $2, true)`,
    by: `set_config('search_path', $2, false)`,
  },
  {
    name: 'role set for the session',
    story: 'The connection keeps the rights on tenants’ rows outside any scope.',
    file: QUERY,
    replace: `set_config('role', $3, true)`,
    by: `set_config('role', $3, false)`,
  },
  {
    name: 'temporary tables not looked for',
    story: 'The next tenant on the connection reads a temporary table of the previous one.',
    file: QUERY,
    replace: '1 / (${hasNoTables})::int',
    by: '1',
  },
  {
    name: 'scope after the statement',
    story: 'The statement is sent first and the scope follows it.',
    file: QUERY,
    replace: `    writeScope(connection, this.#scope, this.#form)
    super.prepare(connection)`,
    by: `    super.prepare(connection)
    writeScope(connection, this.#scope, this.#form)
    connection.sync()`,
  },
  {
    name: 'scope in a batch of its own',
    story: 'A Sync between the scope and the statement: the scope is gone when the statement runs.',
    file: QUERY,
    replace: `    writeScope(connection, this.#scope, this.#form)
    super.prepare(connection)`,
    by: `    writeScope(connection, this.#scope, this.#form)
    connection.sync()
    super.prepare(connection)`,
  },
  {
    name: 'sequences’ values kept',
    story: 'lastval() returns a number of another tenant.',
    file: QUERY,
    replace: `writeAll(connection, ['discard sequences', `,
    by: 'writeAll(connection, [',
  },
  {
    name: 'released as it is',
    story: 'A connection is returned to the pool in any state.',
    file: CONNECTION,
    replace: 'destroy || !this.#isClean || !isReusable(this.#pooled.client)',
    by: 'destroy',
  },
  {
    name: 'released inside a transaction',
    story: 'The next tenant runs inside the transaction and scope of the last one.',
    file: CONNECTION,
    replace: 'isIdle(client) && stateOf(client).readyForQuery && isAlive(client)',
    by: 'isAlive(client)',
  },
  {
    name: 'spoiled connections kept',
    story: 'PREPARE, DO and LOAD leave state that the reset does not remove, and the connection is used again.',
    file: CONNECTION,
    replace: 'if (spoils(result.command, statement.text)) this.#isClean = false',
    by: '',
  },
  {
    name: 'used after its release',
    story: 'A host uses a released client, and its statements run in the transaction of the connection’s present user.',
    file: CONNECTION,
    replace: 'if (this.#isReleased) throw new Error(',
    by: 'if (false) throw new Error(',
  },
  {
    name: 'released twice',
    story: 'A second release returns a connection that another caller uses.',
    file: CONNECTION,
    replace: `    if (this.#isReleased) return
    this.#isReleased = true`,
    by: '    this.#isReleased = true',
  },
  {
    name: 'a chained transaction used on',
    story: 'COMMIT AND CHAIN starts a transaction without the scope, and statements run in it.',
    file: CONNECTION,
    replace: 'if (this.inTransaction && hasEnded(result.command, statement.text)) {',
    by: 'if (false) {',
  },
  {
    name: 'a session used on after its own end',
    story: 'Session state of a tenant whose statement ends the transaction reaches the next tenant.',
    file: CONNECTION,
    replace: 'if (!this.inTransaction) this.#isClean = false',
    by: '',
    tests: ['src/drivers/isolation/proof/traps.schema-pg.test.ts'],
  },
  {
    name: 'session not cleaned',
    story: 'Session state of a transaction reaches the next tenant.',
    file: CONNECTION,
    replace: '`${how}; ${this.#cleaning}`',
    by: '`${how}; select 1`',
  },
  {
    name: 'session not cleaned, plain path',
    story: 'The same where each statement has a BEGIN and a COMMIT.',
    file: CONNECTION,
    replace: '`${how}; ${this.#cleaning}`',
    by: '`${how}; select 1`',
    on: TRANSACTION,
  },
  {
    name: 'every statement in a batch',
    story: 'SET, LISTEN and PREPARE are sent in one batch with the scope, after which the session is not reset.',
    file: CONNECTION,
    replace: `this.#scopeMode.mode === 'batch' && leavesNothing(statement.text)`,
    by: `this.#scopeMode.mode === 'batch'`,
  },
  {
    name: 'a failed commit taken for done',
    story: 'COMMIT of an aborted transaction returns ROLLBACK, which is not checked.',
    file: CONNECTION,
    replace: `if (how === 'commit' && ended?.command === 'ROLLBACK') {`,
    by: 'if (false) {',
  },
  {
    name: 'statements of one client not in their order',
    story: 'The scope of a statement is decided before the previous statement has ended.',
    file: CONNECTION,
    replace: 'this.#last ? this.#last.then(held, held) : held()',
    by: 'held()',
  },
  {
    name: 'scope not awaited',
    story:
      'BEGIN, the scope and the statement are sent without waiting: when the scope fails, the statement runs without it.',
    file: CONNECTION,
    replace: '    await this.#begin({})\n',
    by: '    this.#begin({}).catch(() => undefined)\n    await Promise.resolve()\n',
    on: ['schema-pg, transaction', 'rowscope-pg, transaction'],
  },
  {
    name: 'a transaction without a scope',
    story: 'Only BEGIN is sent: later statements run as the login.',
    file: QUERY,
    replace: `    writeAll(connection, this.#modes)
    writeScope(connection, this.#scope, this.#form)`,
    by: '    writeAll(connection, this.#modes)',
  },
  {
    name: 'goes on after the host’s own COMMIT',
    story: 'A statement in an ended Kysely transaction runs without a transaction.',
    file: 'tenants/handles/kysely.ts',
    replace: 'if (!connection.inTransaction) throw endedBefore()',
    by: '',
  },
  {
    name: 'settings not reset',
    story: 'The reset of a session lacks RESET ALL.',
    file: SESSION,
    replace: 'set session authorization default; reset all; select',
    by: 'set session authorization default; select',
  },
  {
    name: 'role not reset',
    story: 'A role that a tenant has set for the session remains.',
    file: SESSION,
    replace: 'set session authorization default; reset all; select',
    by: 'reset all; select',
  },
  {
    name: 'advisory locks kept',
    story: 'Locks of a tenant are held by the connection of the next one.',
    file: SESSION,
    replace: 'select pg_advisory_unlock_all(); close all;',
    by: 'close all;',
  },
  {
    name: 'cursors kept',
    story: 'A cursor WITH HOLD of a tenant is read by the next one.',
    file: SESSION,
    replace: 'select pg_advisory_unlock_all(); close all;',
    by: 'select pg_advisory_unlock_all();',
  },
  {
    name: 'channels kept',
    story: 'A connection continues to receive notifications for a former tenant.',
    file: SESSION,
    replace: 'discard sequences; unlisten *`',
    by: 'discard sequences`',
  },
  {
    name: 'PREPARE spoils nothing',
    story: 'The next tenant can execute a statement that a tenant has prepared.',
    file: SESSION,
    replace: `new Set(['PREPARE', 'DEALLOCATE', `,
    by: `new Set(['DEALLOCATE', `,
  },
  {
    name: 'set_config taken for a read',
    story: 'SELECT set_config(.., false) is sent in a batch, after which the session is not reset.',
    file: SESSION,
    replace: '(set_config|pg_settings|',
    by: '(pg_settings|',
  },
  {
    name: 'advisory locks taken for a read',
    story: 'SELECT pg_advisory_lock(..) is sent in a batch, after which the session is not reset.',
    file: SESSION,
    replace: 'setseed|pg_(try_)?advisory_lock(_shared)?|',
    by: 'setseed|',
  },
]
