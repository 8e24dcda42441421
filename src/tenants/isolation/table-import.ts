/**
 * Port for an import of tables: statements of a file that create and fill the objects of one tenant's storage, in one
 * transaction.
 */

export interface TableImport {
  /** The schema of the tenant's tables, unquoted. */
  readonly schema: string
  /** Whether the transaction is open. */
  readonly inTransaction: boolean
  /**
   * Runs one statement with the rights of a temporary role, which may only create objects in the schema. Returns the
   * number of rows. The position in an error is that of a character in `text`.
   */
  run(text: string): Promise<number>
  /** Sets the savepoint, releases it, or rolls back to it. */
  savepoint(how: 'set' | 'release' | 'roll back'): Promise<void>
}

export interface TableImportOptions {
  /** The last migration whose tables the file contains; undefined if the host has no migrations. */
  readonly baseline: string | undefined
  /** Ends the import, which is rolled back. */
  readonly signal: AbortSignal
  /** Called at the end of the transaction. Calls `commit`; otherwise the import is rolled back. */
  readonly finish: (imported: ImportedTables, commit: () => Promise<void>) => Promise<void>
}

export interface ImportedTables {
  /** The applied migrations of the storage. */
  readonly migrations: readonly string[]
  /**
   * Differences between the tables of the file, after the later migrations, and those of all migrations, as sentences.
   * Empty if the storage had no tables of all migrations to compare with.
   */
  readonly differences: readonly string[]
}
