/**
 * Whether tenants' tables have changed since, in whichever process that was done. Drivers give names to statements on their
 * connections, and a name is good for as long as the tables are what they were (named-statements.ts).
 *
 * It is said with the commit of what is known of a storage, right after the storage's own; and for all tenants at once, as names
 * are cheap to make again. While this process cannot hear of it, nothing is given a name.
 */
import type { Database } from '../kernel/database.ts'

const CHANNEL = 'multitenancy_tables'

export class TableChanges {
  readonly #database: Database
  #count = 0

  constructor(database: Database) {
    this.#database = database
  }

  /** Begins to hear of changes made by other processes. */
  async start(): Promise<void> {
    const heard = () => void this.#count++
    await this.#database.listen(CHANNEL, heard, heard)
  }

  /** Rises with every change; undefined when one might have been missed. */
  get generation(): number | undefined {
    return this.#database.isListening ? this.#count : undefined
  }

  /** Tells every process, this one included, with the commit of the transaction in progress. */
  async tell(): Promise<void> {
    await this.#database.notify(CHANNEL, '')
    this.#database.afterCommit(() => this.#count++)
  }
}
