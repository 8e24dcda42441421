/** Input of each chapter of the tour. */
import type { Tenancy } from 'tenantry'
import type { AdminApi } from '../admin-api.ts'
import type { Service } from '../service.ts'

export interface Tour {
  readonly api: AdminApi
  readonly service: Service
  /** The library, on the service's database. */
  readonly tenancy: Tenancy
}
