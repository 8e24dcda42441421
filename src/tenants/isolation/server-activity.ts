/** Defines the activity of a placement's server for the doctor. Statement texts are read only on request. */

export interface ActivityOptions {
  /** Duration in ms from which a session is reported. */
  readonly longMs: number
  readonly showsSql: boolean
}

export interface ServerActivity {
  /** All current connections of the server. */
  readonly connections: number
  /** Maximum number of connections without those reserved for administrators. */
  readonly available: number
  /** Longest first; at most a thousand per role. */
  readonly sessions: readonly LongSession[]
}

/** A session of the placement's owner, or of the login of tenants' queries. */
export interface LongSession {
  readonly pid: number
  readonly role: string
  readonly application: string
  /** Null: the placement's own. */
  readonly database: string | null
  readonly state: 'active' | 'idle in transaction' | 'idle in transaction (aborted)'
  /** Start of its statement, or end of the last one in its transaction. */
  readonly since: Date
  /** `Lock: relation` */
  readonly waitsFor: string | null
  /** Whether it creates, copies, migrates or drops storage for Tenantry. */
  readonly isUpkeep: boolean
  /** The beginning of the statement; null unless requested. */
  readonly sql: string | null
}
