/** Defines statements of a tenant and their connection: a part of the port in driver.ts. */

/** One statement. The server rejects a text with several statements. */
export interface Statement {
  readonly text: string
  readonly values?: readonly unknown[] | undefined
  /** `array` returns each row as an array of its columns. */
  readonly rowMode?: 'array' | undefined
  /** Parsers of column values, as in node-postgres. */
  readonly types?: unknown
  /** Fails if role, search path or tenant differ from the scope after it; on a server, inside of a transaction. */
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
  /** `deferrable` or `not deferrable`; only with `serializable` and `read only`. */
  readonly deferral?: string | undefined
}

/** A connection inside one tenant's scope. */
export interface TenantConnection {
  /** Outside of a transaction, the statement is its own transaction. */
  query(statement: Statement): Promise<StatementResult>
  begin(modes?: TransactionModes): Promise<void>
  end(how: 'commit' | 'rollback'): Promise<void>
  /** Whether the server has an open transaction, regardless of its origin. */
  readonly inTransaction: boolean
  /** Returns the connection. An open transaction is closed with the connection, as is a connection to be destroyed. */
  release(destroy?: boolean): void
}
