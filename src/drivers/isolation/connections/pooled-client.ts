/** A connection of the pool, and a request for one. */
import type pg from 'pg'
import type { NamedStatements } from './named-statements.ts'

export interface PooledClient {
  readonly client: pg.Client
  /** Last served request; the caches of the session may be useful again. */
  request: AcquireRequest
  /** Schemas whose tables are in the cache of the backend, which never shrinks. */
  readonly schemas: Set<string>
  lentAt: number
  idleSince: number
  /** Until then, the client is not closed for another database while a request for this one waits. */
  reservedUntil: number
  readonly statements: NamedStatements
}

export interface AcquireRequest {
  readonly tenantId: string
  /** Database of the client; '' for the placement's own. */
  readonly database: string
  /** Schema with the tenant's own tables, next to those of others. */
  readonly schema: string | null
}
