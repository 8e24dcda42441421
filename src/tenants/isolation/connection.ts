/** Statements of a tenant, and the connection that takes them: a part of the port in driver.ts. */

/** One statement: of several in one text, the server refuses all. */
export interface Statement {
  readonly text: string
  readonly values?: readonly unknown[] | undefined
  /** `array` answers each row as an array of its columns. */
  readonly rowMode?: 'array' | undefined
  /** Parsers of column values, as node-postgres takes them. */
  readonly types?: unknown
  /** Fails when role, search path or tenant are others after it than its scope has set; on a server, and inside of a transaction. */
  readonly keepsScope?: boolean | undefined
}

export interface StatementResult {
  readonly rows: any[]
  readonly rowCount: number | null
  /** `SELECT`, `INSERT` .. */
  readonly command: string
  readonly fields: readonly { readonly name: string }[]
}

export interface TransactionModes {
  readonly isolationLevel?: string | undefined
  readonly accessMode?: string | undefined
  /** `deferrable` or `not deferrable`; of effect with `serializable` and `read only`. */
  readonly deferral?: string | undefined
}

/** A connection inside one tenant's scope. */
export interface TenantConnection {
  /** Outside of a transaction the statement is one by itself. */
  query(statement: Statement): Promise<StatementResult>
  begin(modes?: TransactionModes): Promise<void>
  end(how: 'commit' | 'rollback'): Promise<void>
  /** Whether the server has a transaction open, whoever opened it. */
  readonly inTransaction: boolean
  /** Gives it back. A transaction still open is lost with the connection; so is one that is to be destroyed. */
  release(destroy?: boolean): void
}
