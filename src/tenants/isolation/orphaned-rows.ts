/** Rows in tables that tenants share whose `tenant_id` is of no storage location: no tenant reaches them, no backup has them. */

/** A location that the registry has, of a tenant or of a transfer. */
export interface RegisteredLocation {
  readonly tenantId: string
  readonly locator: string
}

/** Rows of one table with one `tenant_id`. */
export interface OrphanedRows {
  /** As SQL, with its schema. */
  readonly table: string
  readonly tenantId: string
  readonly rows: number
}
