/** What a placement's server is doing, as its driver reads it for the doctor. Texts of statements are read only when they are asked for. */

export interface ActivityOptions {
  /** What runs or rests for longer is told. */
  readonly longMs: number
  readonly showsSql: boolean
}

export interface ServerActivity {
  /** Connections that the server has now, whoever made them. */
  readonly connections: number
  /** How many it accepts of anybody but administrators. */
  readonly available: number
  /** The longest first; at most a thousand of each role. */
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
  /** When its statement was begun, or the last one of its transaction had ended. */
  readonly since: Date
  /** `Lock: relation` */
  readonly waitsFor: string | null
  /** Whether it makes, copies, migrates or drops storage for us. */
  readonly isUpkeep: boolean
  /** The beginning of it; null unless it was asked for. */
  readonly sql: string | null
}
