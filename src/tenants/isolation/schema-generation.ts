/**
 * Detects changes of tenants' tables by any process. Drivers name statements on their connections, and a name is valid
 * only while the tables are unchanged (named-statements.ts).
 *
 *   settled ──a run of migrations starts, ends, or may have been missed──► in doubt ──no unfinished run──► settled, next generation
 *
 * While a run is unfinished, statements are not named: so the time and the process of recorded results do not matter. A
 * run notifies before its first change.
 */

import type { Logger } from '../../kernel/base/logger.ts'
import type { Database } from '../../kernel/database/database.ts'

const CHANNEL = 'multitenancy_tables'
const RETRY_MS = 5_000

/** Notifies every process with the commit of the current transaction. */
export const notifyTableChanges = (database: Database): Promise<void> => database.notify(CHANNEL, '')

export class TableChanges {
  readonly #database: Database
  readonly #log: Logger
  #count = 0
  #isSettled = false
  #retry: NodeJS.Timeout | undefined

  constructor(database: Database, log: Logger) {
    this.#database = database
    this.#log = log
  }

  /** Subscribes to changes of other processes. */
  async start(): Promise<void> {
    const onNotification = () => void this.#doubt()
    await this.#database.listen(CHANNEL, onNotification, onNotification)
  }

  stop(): void {
    clearTimeout(this.#retry)
  }

  /** Different after each change; undefined while tables may be changing, or a change may have been missed. */
  get generation(): number | undefined {
    return this.#isSettled && this.#database.isListening ? this.#count : undefined
  }

  /** Notifies every process with the commit of the current transaction, and this process directly after it. */
  async notify(): Promise<void> {
    await notifyTableChanges(this.#database)
    this.#database.afterCommit(() => this.#doubt())
  }

  async #doubt(): Promise<void> {
    this.#count++
    this.#isSettled = false
    clearTimeout(this.#retry)
    const count = this.#count
    try {
      const { rows } = await this.#database.sql(
        `select exists (select from multitenancy.migration_runs where state = 'running') as unfinished`,
      )
      if (count === this.#count) this.#isSettled = !rows[0].unfinished
    } catch (error) {
      this.#log.warn(
        { err: error },
        'could not read whether tables are changing; statements are not prepared until then',
      )
      if (count === this.#count) this.#retry = setTimeout(() => void this.#doubt(), RETRY_MS).unref()
    }
  }
}
