/** A connection of the pool, and a request for one. */
import type pg from 'pg'
import type { NamedStatements } from './named-statements.ts'

/** A connection with what is known of it. */
export interface PooledClient {
  readonly client: pg.Client
  /** Served last; what it cached may be of use again. */
  request: AcquireRequest
  /** Whose tables its backend has in its cache, which it never empties. */
  readonly schemas: Set<string>
  lentAt: number
  idleSince: number
  /** Until then it is not closed for another database while somebody waits for this one. */
  reservedUntil: number
  readonly statements: NamedStatements
}

export interface AcquireRequest {
  readonly tenantId: string
  /** Whose client it must be; '' for the placement's own. */
  readonly database: string
  /** With tables of the tenant's own, beside those of others. */
  readonly schema: string | null
}
