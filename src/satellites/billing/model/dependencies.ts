/** Dependencies that all modules of billing share. */
import type { Kernel } from '../../../kernel/kernel.ts'
import type { Tenants } from '../../../tenants/tenants.ts'
import type { PlanMap } from './entitlement.ts'
import type { Payments } from './provider.ts'
import type { Settings } from './settings.ts'
import type { BillingTables } from './tables.ts'

export interface BillingDependencies {
  readonly kernel: Kernel
  readonly tenants: Tenants
  readonly payments: Payments
  readonly settings: Settings
  readonly plans: PlanMap
}

export const queryOf = ({ kernel }: BillingDependencies) => kernel.database.query<BillingTables>()

/** Held until the transaction ends, so that only one transaction at a time changes the data of a customer. */
export async function lockCustomer({ kernel }: BillingDependencies, customerId: string): Promise<void> {
  await kernel.database.sql(`select pg_advisory_xact_lock(hashtextextended('tenantry billing ' || $1, 0))`, [
    customerId,
  ])
}
