/**
 * A connection to the storage of one tenant, with transactions as PostgreSQL has them. Calls run in the order in which
 * they were made.
 *
 *   closed ─begin─► begun ─first statement─► open ─commit, rollback─► closed
 *                                            │  ▲ rollback to a savepoint
 *                         a statement fails  ▼  │
 *                                           failed ─rollback─► closed      accepts no statement and no commit
 *
 * A transaction has the storage exclusively from its first statement to its end. A transaction that a drain ends is
 * `failed`.
 */
import { transactionInProgress } from '../../../tenants/handles/transaction-errors.ts'
import {
  type Statement,
  type StatementResult,
  StorageFenced,
  type TenantConnection,
  type TransactionModes,
} from '../../../tenants/isolation/driver.ts'
import { SqliteError } from './errors.ts'
import type { SqliteStorage } from './storage.ts'

const ROLLBACK_TO = /^\s*rollback\s+(transaction\s+)?to\b/i

export class SqliteConnection implements TenantConnection {
  readonly #storage: SqliteStorage
  readonly #passesFence: boolean
  readonly #waitMs: number | undefined
  #state: 'closed' | 'begun' | 'open' | 'failed' = 'closed'
  #isReadOnly = false
  #holdsStorage = false
  #isReleased = false
  #isEvicted = false
  #last: Promise<unknown> = Promise.resolve()

  /** @param waitMs how long a transaction may wait for the storage */
  constructor(
    storage: SqliteStorage,
    { passesFence = false, waitMs }: { passesFence?: boolean; waitMs?: number } = {},
  ) {
    this.#storage = storage
    this.#passesFence = passesFence
    this.#waitMs = waitMs
  }

  get inTransaction(): boolean {
    return this.#state !== 'closed'
  }

  get hasFailed(): boolean {
    return this.#state === 'failed'
  }

  query(statement: Statement): Promise<StatementResult> {
    return this.#inOrder(() => (this.inTransaction ? this.#inside(statement) : execute(this.#storage, statement)))
  }

  /** Every transaction is serializable, regardless of the requested isolation level. */
  begin({ accessMode = '' }: TransactionModes = {}): Promise<void> {
    return this.#inOrder(() => {
      if (this.inTransaction) throw transactionInProgress()
      this.#assertUsable()
      this.#isReadOnly = accessMode.trim().toLowerCase() === 'read only'
      this.#state = 'begun'
      this.#isEvicted = false
    })
  }

  /** Takes the storage before the first statement of the transaction. */
  async enter(): Promise<void> {
    if (this.#state !== 'begun') return
    await this.#storage.take(() => this.#evict(), this.#waitMs)
    this.#holdsStorage = true
    try {
      this.#assertUsable()
      this.#storage.database.begin(this.#isReadOnly)
      this.#state = 'open'
    } catch (error) {
      this.#leave()
      throw error
    }
  }

  /** @param committed runs after the commit and before the next transaction */
  end(how: 'commit' | 'rollback', committed?: () => void): Promise<void> {
    return this.#inOrder(() => {
      if (how === 'rollback') return this.#leave()
      if (!this.inTransaction) throw new Error('The transaction has ended before; there is nothing to commit')
      if (this.hasFailed) {
        this.#leave()
        this.#assertNotEvicted()
        throw new Error('The transaction was rolled back because a statement in it had failed')
      }
      this.#leave(() => {
        this.#assertUsable()
        this.#storage.database.commit()
        committed?.()
      })
    })
  }

  release(): void {
    this.#isReleased = true
    this.#leave()
  }

  async #inside(statement: Statement): Promise<StatementResult> {
    if (this.hasFailed && !(this.#holdsStorage && ROLLBACK_TO.test(statement.text))) {
      this.#assertNotEvicted()
      throw new SqliteError('25P02', 'current transaction is aborted, commands ignored until end of transaction block')
    }
    try {
      await this.enter()
      this.#assertUsable()
      const result = this.#storage.database.run(statement)
      this.#state = 'open'
      return result
    } catch (error) {
      if (!this.#isReleased) this.#state = 'failed'
      throw error
    }
  }

  /** Called by a drain, which waits for migrations. */
  #evict(): void {
    if (this.#passesFence) return
    this.#leave()
    this.#state = 'failed'
    this.#isEvicted = true
  }

  #leave(commit?: () => void): void {
    this.#state = 'closed'
    if (!this.#holdsStorage) return
    this.#holdsStorage = false
    try {
      commit?.()
    } finally {
      this.#storage.database.rollback()
      this.#storage.give()
    }
  }

  #inOrder<T>(work: () => T | Promise<T>): Promise<T> {
    const result = this.#last.then(() => {
      this.#assertNotReleased()
      return work()
    })
    this.#last = result.catch(() => undefined) // the caller has the error
    return result
  }

  #assertUsable(): void {
    this.#assertNotReleased()
    this.#storage.assertUsable(this.#passesFence)
  }

  #assertNotEvicted(): void {
    if (this.#isEvicted) throw StorageFenced('The storage of the tenant was closed during the transaction.')
  }

  #assertNotReleased(): void {
    if (this.#isReleased) throw new Error('The connection was released before')
  }
}

/** Runs one statement in its own transaction. */
export async function execute(
  storage: SqliteStorage,
  statement: Statement,
  options?: { passesFence?: boolean },
): Promise<StatementResult> {
  const connection = new SqliteConnection(storage, options)
  try {
    await connection.begin()
    const result = await connection.query(statement)
    await connection.end('commit')
    return result
  } finally {
    connection.release()
  }
}
