import type { DunningCases } from '../dunning/cases.ts'
import type { Inbox } from '../inbox/inbox.ts'
import type { BillingDependencies } from '../model/dependencies.ts'
import type { Customers } from '../subscriptions/customers.ts'
import type { Subscriptions } from '../subscriptions/subscriptions.ts'
import type { TenantDeletion } from './tenant-deletion.ts'

export interface BillingServices {
  readonly dependencies: BillingDependencies
  readonly inbox: Inbox
  readonly customers: Customers
  readonly subscriptions: Subscriptions
  readonly dunning: DunningCases
  readonly tenantDeletion: TenantDeletion
}
