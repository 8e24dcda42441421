/**
 * Defines orphaned rows: rows in shared tables whose tenant has no storage location. No tenant or backup has them.
 */

/** A storage location in the registry, of a tenant or of a transfer. */
export interface RegisteredLocation {
  readonly tenantId: string
  readonly locator: string
}

/** Rows of one table with one tenant id. */
export interface OrphanedRows {
  /** Qualified SQL name. */
  readonly table: string
  /** The column with the tenant, as SQL. */
  readonly column: string
  readonly tenantId: string
  readonly rows: number
}
