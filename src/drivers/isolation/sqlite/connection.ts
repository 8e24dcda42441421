/**
 * A connection to one tenant's storage, as PostgreSQL has them. What is sent to it runs in the order in which it was sent.
 *
 *   closed ─begin─► begun ─first statement─► open ─commit, rollback─► closed
 *                                            │  ▲
 *                         a statement fails  │  rollback to a savepoint
 *                                            ▼  │
 *                                           failed ─rollback─► closed      takes no statement, cannot be committed
 *
 * Behind a fence one that stays open is lost: its work is undone, and it takes no statement more.
 *
 * It has the storage for itself from the first statement of a transaction to its end, and otherwise for one statement: who
 * holds a connection, and asks nothing, keeps nobody waiting. SQLite would go on after a failed statement; a host that relied
 * on it would find out on a PostgreSQL driver.
 */
import {
  type Statement,
  type StatementResult,
  StorageFenced,
  type TenantConnection,
  type TransactionModes,
} from '../../../tenants/isolation/driver.ts'
import { IN_FAILED_TRANSACTION, IN_TRANSACTION, SqliteError } from './errors.ts'
import type { SqliteStorage } from './storage.ts'

export interface SqliteConnectionOptions {
  /** For migrations: the storage of a suspended tenant is migrated too. */
  readonly passesFence?: boolean
  /** How long a transaction may wait for its turn. */
  readonly waitMs?: number | undefined
}

const ROLLBACK_TO = /^\s*rollback\s+(transaction\s+)?to\b/i
const READ_ONLY = /^\s*read\s+only\s*$/i

export class SqliteConnection implements TenantConnection {
  readonly #storage: SqliteStorage
  readonly #options: SqliteConnectionOptions
  #state: 'closed' | 'begun' | 'open' | 'failed' | 'lost' = 'closed'
  #isReadOnly = false
  /** Whether the storage is ours until the transaction ends. */
  #holdsStorage = false
  #isReleased = false
  #last: Promise<unknown> = Promise.resolve()

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

  get isLost(): boolean {
    return this.#state === 'lost'
  }

  query(statement: Statement): Promise<StatementResult> {
    return this.#inOrder(() => (this.inTransaction ? this.#inside(statement) : alone(this.#storage, statement)))
  }

  /** Every transaction here is serializable: whatever level is asked for, it is kept. */
  begin({ accessMode }: TransactionModes = {}): Promise<void> {
    return this.#inOrder(() => {
      if (this.inTransaction) throw new SqliteError(IN_TRANSACTION, 'there is already a transaction in progress')
      this.#assertNotFenced()
      this.#isReadOnly = READ_ONLY.test(accessMode ?? '')
      this.#state = 'begun'
    })
  }

  /** Has the storage from now on, before the first statement of the transaction. */
  async enter(): Promise<void> {
    if (this.#state !== 'begun') return
    await this.#storage.take(this.#options.waitMs, () => this.#lose())
    try {
      this.#assertNotReleased()
      this.#assertNotFenced()
      this.#storage.database.begin(this.#isReadOnly)
    } catch (error) {
      this.#storage.give()
      throw error
    }
    this.#holdsStorage = true
    this.#state = 'open'
  }

  end(how: 'commit' | 'rollback'): Promise<void> {
    return this.#inOrder(() => {
      if (how === 'rollback') return this.#leave(() => this.#storage.database.rollback())
      if (!this.inTransaction) throw new Error('the transaction was ended before; there is nothing to commit')
      const { hasFailed, isLost } = this
      this.#leave(() => (hasFailed ? this.#storage.database.rollback() : this.#commit()))
      if (isLost) throw lost()
      if (hasFailed) throw new Error('the transaction was rolled back: a statement in it had failed')
    })
  }

  release(): void {
    this.#isReleased = true
    this.#leave(() => this.#storage.database.rollback())
  }

  async #inside(statement: Statement): Promise<StatementResult> {
    if (this.isLost) throw lost()
    if (this.hasFailed && !ROLLBACK_TO.test(statement.text)) {
      throw new SqliteError(
        IN_FAILED_TRANSACTION,
        'current transaction is aborted, commands ignored until end of transaction block',
      )
    }
    try {
      await this.enter()
      this.#assertNotFenced()
      const result = this.#storage.database.run(statement)
      this.#state = 'open'
      return result
    } catch (error) {
      if (!this.#isReleased) this.#state = 'failed'
      throw error
    }
  }

  #commit(): void {
    try {
      this.#assertNotFenced()
    } catch (error) {
      this.#storage.database.rollback()
      throw error
    }
    this.#storage.database.commit()
  }

  /** Ended in the host's stead; what passes the fence is no host's. */
  #lose(): void {
    if (!this.#holdsStorage || this.#options.passesFence) return
    this.#leave(() => this.#storage.database.rollback())
    this.#state = 'lost'
  }

  #leave(finish: () => void): void {
    this.#state = 'closed'
    if (!this.#holdsStorage) return
    this.#holdsStorage = false
    try {
      finish()
    } finally {
      this.#storage.give()
    }
  }

  #inOrder<T>(work: () => T | Promise<T>): Promise<T> {
    const result = this.#last.then(() => {
      this.#assertNotReleased()
      return work()
    })
    this.#last = result.catch(() => undefined) // whoever asked has it
    return result
  }

  #assertNotFenced(): void {
    if (!this.#options.passesFence) this.#storage.assertNotFenced()
  }

  #assertNotReleased(): void {
    if (this.#isReleased) throw new Error('the connection was given back before')
  }
}

const lost = () => StorageFenced('The transaction was ended when the storage of the tenant had been closed.')

/** One statement, in a transaction of its own. */
export async function alone(storage: SqliteStorage, statement: Statement): Promise<StatementResult> {
  await storage.take()
  const { database } = storage
  try {
    storage.assertNotFenced()
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
