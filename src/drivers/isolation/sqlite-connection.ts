/**
 * A connection to one tenant's storage, as PostgreSQL has them. It has the storage from the beginning of a transaction to its
 * end, and otherwise for one statement at a time: a host that holds a connection, and does nothing, keeps nobody waiting.
 *
 *   closed ─begin─► open ─commit, rollback─► closed
 *                   │  ▲
 *     a statement fails │  rollback to a savepoint
 *                   ▼  │
 *                  failed ─rollback─► closed      takes no statement, cannot be committed
 *
 * SQLite would go on after a failed statement; a host that relied on it would find out on a PostgreSQL driver.
 */
import type { Statement, StatementResult, TenantConnection, TransactionModes } from '../../tenants/isolation.ts'
import { IN_FAILED_TRANSACTION, IN_TRANSACTION, SqliteError } from './sqlite-errors.ts'
import type { SqliteStorage } from './sqlite-storage.ts'

export interface SqliteConnectionOptions {
  /** For migrations: the storage of a suspended tenant is migrated too. */
  readonly passesFence?: boolean
  /** How long a transaction may wait for its turn. */
  readonly waitMs?: number | undefined
}

const ROLLBACK_TO = /^\s*rollback\s+(transaction\s+)?to\b/i

export class SqliteConnection implements TenantConnection {
  readonly #storage: SqliteStorage
  readonly #options: SqliteConnectionOptions
  #state: 'closed' | 'open' | 'failed' = 'closed'
  #beginning: Promise<void> | undefined
  #isReleased = false

  constructor(storage: SqliteStorage, options: SqliteConnectionOptions = {}) {
    this.#storage = storage
    this.#options = options
  }

  get inTransaction(): boolean {
    return this.#state !== 'closed'
  }

  get hasFailed(): boolean {
    return this.#state === 'failed'
  }

  async query(statement: Statement): Promise<StatementResult> {
    await this.#beginning
    this.#refuseReleased()
    return this.inTransaction ? this.#inside(statement) : alone(this.#storage, statement)
  }

  async begin({ accessMode }: TransactionModes = {}): Promise<void> {
    this.#refuseReleased()
    if (this.inTransaction || this.#beginning) {
      throw new SqliteError(IN_TRANSACTION, 'there is already a transaction in progress')
    }
    this.#beginning = this.#begin(/^\s*read\s+only\s*$/i.test(accessMode ?? ''))
    try {
      await this.#beginning
    } finally {
      this.#beginning = undefined
    }
  }

  async end(how: 'commit' | 'rollback'): Promise<void> {
    if (!this.inTransaction) {
      if (how === 'commit') throw new Error('the transaction was ended before; there is nothing to commit')
      return
    }
    const hasFailed = this.hasFailed
    this.#state = 'closed'
    try {
      if (how === 'commit' && !hasFailed) this.#commit()
      else this.#storage.database.rollback()
    } finally {
      this.#storage.give()
    }
    if (how === 'commit' && hasFailed) {
      throw new Error('the transaction was rolled back: a statement in it had failed')
    }
  }

  release(): void {
    if (this.#isReleased) return
    this.#isReleased = true
    if (!this.inTransaction) return
    this.#state = 'closed'
    this.#storage.database.rollback()
    this.#storage.give()
  }

  /** Every transaction here is serializable: whatever level was asked for, it is kept. */
  async #begin(isReadOnly: boolean): Promise<void> {
    await this.#storage.take(this.#options.waitMs)
    try {
      this.#refuseReleased()
      this.#refuseFenced()
      this.#storage.database.begin(isReadOnly)
      this.#state = 'open'
    } catch (error) {
      this.#storage.give()
      throw error
    }
  }

  #inside(statement: Statement): StatementResult {
    const mends = ROLLBACK_TO.test(statement.text)
    if (this.hasFailed && !mends) {
      throw new SqliteError(
        IN_FAILED_TRANSACTION,
        'current transaction is aborted, commands ignored until end of transaction block',
      )
    }
    try {
      this.#refuseFenced()
      const result = this.#storage.database.run(statement)
      this.#state = 'open'
      return result
    } catch (error) {
      this.#state = 'failed'
      throw error
    }
  }

  #commit(): void {
    try {
      this.#refuseFenced()
    } catch (error) {
      this.#storage.database.rollback()
      throw error
    }
    this.#storage.database.commit()
  }

  #refuseFenced(): void {
    if (!this.#options.passesFence) this.#storage.refuseIfFenced()
  }

  #refuseReleased(): void {
    if (this.#isReleased) throw new Error('the connection was given back before')
  }
}

/** One statement, in a transaction of its own. */
export async function alone(storage: SqliteStorage, statement: Statement): Promise<StatementResult> {
  await storage.take()
  const { database } = storage
  try {
    storage.refuseIfFenced()
    database.begin()
    let result: StatementResult
    try {
      result = database.run(statement)
    } catch (error) {
      database.rollback()
      throw error
    }
    database.commit()
    return result
  } finally {
    storage.give()
  }
}
