/** Defines a placement: a server of tenants, as used by its drivers. */
import type { OwnLogins } from './own-logins.ts'

/** A PostgreSQL server of tenants. All drivers share its connections. */
export interface Placement {
  readonly name: string
  /** URL of the role that owns all objects and runs DDL. */
  readonly url: string
  /** URL for tenants' queries: neither superuser, nor owner, nor exempt from row security. */
  readonly tenantUrl: string
  /** The role with the rights on tenants' rows; the login takes it for a scope. */
  readonly scopeRole: string
  readonly connections: ConnectionLimits
  /** Whether `tenantUrl` names a pooler in transaction mode (PgBouncer): then statements are not prepared. */
  readonly pooler: boolean
  /** Rights that PUBLIC keeps in the databases of the placement; default none of these. */
  readonly publicRights?: readonly PublicRight[] | undefined
  /** Settings of tenants' sessions, by name; default: those of a session of `url`. */
  readonly settings?: Readonly<Record<string, string>> | undefined
  /**
   * Called when the server rejects the login, or that of one tenant's database. Restores a login created by Tenantry;
   * false if nothing could be restored.
   */
  readonly restoreLogin?: ((database?: string) => Promise<boolean>) | undefined
  /** Logins of tenants with their own database; absent if all of them use the login of the placement. */
  readonly ownLogins?: OwnLogins | undefined
}

/**
 * Rights that PostgreSQL grants to PUBLIC and that reach beyond a tenant's scope, so that a placement revokes them:
 *
 *   temporary       temporary objects, which stay in the session; in the placement's own database
 *   large-objects   `lo_create(…)` and similar: large objects belong to the role shared by all tenants
 *   signals         `pg_cancel_backend(…)` and `pg_terminate_backend(…)`, for sessions of the same login
 *   wal-messages    `pg_logical_emit_message(…)`, to the readers of logical replication
 *   dblink          the functions of that extension, which connect to other servers
 */
export const PUBLIC_RIGHTS = ['temporary', 'large-objects', 'signals', 'wal-messages', 'dblink'] as const
export type PublicRight = (typeof PUBLIC_RIGHTS)[number]

/** Limits of one process for tenants' queries on one server. */
export interface ConnectionLimits {
  /** Maximum number of connections of all drivers and tenants; default 10. */
  readonly max: number
  /** Maximum number of connections of one tenant; default half of `max`. */
  readonly perTenant: number
  /** Maximum number of waiting statements of one tenant; further ones are rejected immediately. Default 100. */
  readonly queuePerTenant: number
  /** Maximum wait for a connection in ms; default 5,000. */
  readonly waitMs: number
}
