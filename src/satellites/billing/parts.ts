import type { Customers } from './customers.ts'
import type { Departures } from './departures.ts'
import type { DunningCases } from './dunning-cases.ts'
import type { Inbox } from './inbox.ts'
import type { BillingPart } from './part.ts'
import type { Subscriptions } from './subscriptions.ts'

export interface BillingParts {
  readonly part: BillingPart
  readonly inbox: Inbox
  readonly customers: Customers
  readonly subscriptions: Subscriptions
  readonly dunning: DunningCases
  readonly departures: Departures
}
