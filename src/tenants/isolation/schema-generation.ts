/**
 * Whether tenants' tables may have changed since, in whichever process that was done. Drivers give names to statements on their
 * connections, and a name is good for as long as the tables are what they were (named-statements.ts).
 *
 *   settled ──a run of migrations begins, ends, or may have been missed──► in doubt ──none is unfinished──► settled, in another generation
 *
 * As long as a run is unfinished nothing is given a name: so it does not matter when, or by whom, what came of a storage is written
 * down. A run says that it begins before it changes anything.
 */

import type { Logger } from '../../kernel/base/logger.ts'
import type { Database } from '../../kernel/database/database.ts'

const CHANNEL = 'multitenancy_tables'
const RETRY_MS = 5_000

/** Tells every process, with the commit of the transaction in progress. */
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

  /** Begins to hear of changes made by other processes. */
  async start(): Promise<void> {
    const onNotification = () => void this.#doubt()
    await this.#database.listen(CHANNEL, onNotification, onNotification)
  }

  stop(): void {
    clearTimeout(this.#retry)
  }

  /** Another one after every change; undefined while tables may be changing, or a change might have been missed. */
  get generation(): number | undefined {
    return this.#isSettled && this.#database.isListening ? this.#count : undefined
  }

  /** Tells every process with the commit of the transaction in progress, and knows of it itself right after that. */
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
      this.#log.warn({ err: error }, 'whether tables are changing could not be read; nothing is prepared meanwhile')
      if (count === this.#count) this.#retry = setTimeout(() => void this.#doubt(), RETRY_MS).unref()
    }
  }
}
