/** A server that tenants may be put on, as its drivers use it. */
import type { OwnLogins } from './own-logins.ts'

/** A PostgreSQL server that tenants may be put on. All drivers share its connections. */
export interface Placement {
  readonly name: string
  /** Owns DDL. */
  readonly url: string
  /** What tenants' queries use: neither superuser, nor owner, nor exempt from row security. */
  readonly tenantUrl: string
  /** The role that has the rights on tenants' rows; the login takes it for the length of a scope. */
  readonly scopeRole: string
  readonly connections: ConnectionLimits
  /** Whether a pooler in transaction mode (PgBouncer) stands before `tenantUrl`: nothing is prepared on a connection then. */
  readonly pooler: boolean
  /** Rights that PUBLIC keeps in the placement's databases; default none of these. */
  readonly publicRights?: readonly PublicRight[] | undefined
  /** Settings of tenants' sessions, by name, in place of those that a session of `url` has. */
  readonly settings?: Readonly<Record<string, string>> | undefined
  /**
   * Called when the server refuses the login, or that of one tenant's database. Restores one that was made here; false where nothing
   * could be restored.
   */
  readonly restoreLogin?: ((database?: string) => Promise<boolean>) | undefined
  /** Of tenants with a database each; absent where all of them use the login of the placement. */
  readonly ownLogins?: OwnLogins | undefined
}

/**
 * Rights that PostgreSQL gives to PUBLIC and that reach beyond a tenant's scope, so that a placement takes them away:
 *
 *   temporary       temporary objects, which stay in the session; in the placement's own database
 *   large-objects   `lo_create(…)` and the like: large objects belong to the role that all tenants share
 *   signals         `pg_cancel_backend(…)` and `pg_terminate_backend(…)`, for sessions of the same login
 *   wal-messages    `pg_logical_emit_message(…)`, to the readers of logical replication
 *   dblink          the functions of that extension, which connect to other servers
 */
export const PUBLIC_RIGHTS = ['temporary', 'large-objects', 'signals', 'wal-messages', 'dblink'] as const
export type PublicRight = (typeof PUBLIC_RIGHTS)[number]

/** Of one process, for tenants' queries on one server. */
export interface ConnectionLimits {
  /** Connections at most, over all drivers and tenants; default 10. */
  readonly max: number
  /** Of those, at most so many for one tenant; default half of them. */
  readonly perTenant: number
  /** Statements of one tenant that may wait for a connection; one more is refused at once. Default 100. */
  readonly queuePerTenant: number
  /** How long one may wait; default 5,000. */
  readonly waitMs: number
}
