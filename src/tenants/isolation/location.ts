/** Defines the storage location of a tenant: a part of the port in driver.ts. */

export interface StorageLocation {
  readonly tenantId: string
  /** Name of the driver. */
  readonly isolation: string
  readonly placement: string
  readonly locator: string
  readonly epoch: number
}
