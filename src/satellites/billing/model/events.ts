import { z } from 'zod'
import { event } from '../../../kernel/events/events.ts'
import { ERROR_CODES, SUBSCRIPTION_STATUSES } from './provider.ts'

const at = z.iso.datetime()

const ofSubscription = {
  tenantId: z.string(),
  subscriptionId: z.string(),
  status: z.enum(SUBSCRIPTION_STATUSES).describe('Status at the time of the event'),
  plan: z.string().describe('Plan of the subscribed price'),
  at: at.describe("Time of the event by the provider's clock"),
}

export const SubscriptionActivated = event(
  'SubscriptionActivated',
  'A subscription has started, possibly on trial',
  z.object(ofSubscription),
)
export const SubscriptionUpdated = event(
  'SubscriptionUpdated',
  'Status, price, quantity, trial end or planned end of a subscription has changed',
  z.object({
    ...ofSubscription,
    changed: z.array(z.enum(['status', 'items', 'trialEnd', 'cancelAtPeriodEnd', 'cancelAt'])),
  }),
)
export const SubscriptionPaused = event(
  'SubscriptionPaused',
  'Collection for a subscription has stopped: its trial ended without a payment method, or an operator or customer paused it',
  z.object(ofSubscription),
)
export const SubscriptionResumed = event(
  'SubscriptionResumed',
  'A paused subscription has resumed',
  z.object(ofSubscription),
)
export const SubscriptionCanceled = event('SubscriptionCanceled', 'A subscription has ended', z.object(ofSubscription))
export const TrialEnding = event(
  'TrialEnding',
  'A trial ends soon',
  z.object({ ...ofSubscription, daysLeft: z.int().min(0) }),
)

const ofInvoice = {
  tenantId: z.string(),
  subscriptionId: z.string().nullable(),
  invoiceId: z.string(),
  amount: z.int().describe('Amount in the smallest unit of the currency'),
  currency: z.string().describe('Lowercase ISO code of the currency'),
  at,
}

export const PaymentSucceeded = event('PaymentSucceeded', 'An invoice has been paid', z.object(ofInvoice))
export const PaymentFailed = event(
  'PaymentFailed',
  'An attempt to collect an invoice has failed',
  z.object({
    ...ofInvoice,
    attempt: z.int(),
    final: z.boolean().describe('Whether the grace period begins with this failure'),
    nextAttemptAt: at.nullable().describe('Time of the next attempt by the provider'),
  }),
)

export const BillingMisconfigured = event(
  'BillingMisconfigured',
  'The configuration of billing does not match the data at the provider',
  z.object({
    tenantId: z.string().nullable(),
    reason: z
      .enum(['plan_unmapped', 'second_customer', 'plan_resolved_by_host'])
      .describe(
        '`plan_unmapped`: no price of a subscription is in billing.products. `second_customer`: another customer is mapped to the tenant. `plan_resolved_by_host`: plans.getPlan decides, so billing writes no plan',
      ),
    subscriptionId: z.string().nullable(),
    customerId: z.string().nullable(),
  }),
)

export const BillingEventDeadLettered = event(
  'BillingEventDeadLettered',
  'Processing of a provider event has failed permanently; billing:replay processes it again',
  z.object({ tenantId: z.string().nullable(), eventId: z.string(), errorCode: z.enum(ERROR_CODES) }),
)

export const events = [
  SubscriptionActivated,
  SubscriptionUpdated,
  SubscriptionPaused,
  SubscriptionResumed,
  SubscriptionCanceled,
  TrialEnding,
  PaymentSucceeded,
  PaymentFailed,
  BillingMisconfigured,
  BillingEventDeadLettered,
]
