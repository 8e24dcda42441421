import { z } from 'zod'
import { event } from '../../../kernel/events/events.ts'
import { ERROR_CODES, SUBSCRIPTION_STATUSES } from './provider.ts'

const at = z.iso.datetime()

const ofSubscription = {
  tenantId: z.string(),
  subscriptionId: z.string(),
  status: z.enum(SUBSCRIPTION_STATUSES).describe('As it was when this happened'),
  plan: z.string().describe('Of the price that is subscribed to'),
  at: at.describe("When it happened, by the provider's clock"),
}

export const SubscriptionActivated = event(
  'SubscriptionActivated',
  'A subscription has begun; it may be on trial',
  z.object(ofSubscription),
)
export const SubscriptionUpdated = event(
  'SubscriptionUpdated',
  'Status, price, quantity, trial or planned end of a subscription have changed',
  z.object({
    ...ofSubscription,
    changed: z.array(z.enum(['status', 'items', 'trialEnd', 'cancelAtPeriodEnd', 'cancelAt'])),
  }),
)
export const SubscriptionPaused = event(
  'SubscriptionPaused',
  'Nothing is collected for a subscription any more: its trial has ended without a means of payment, or somebody has paused it',
  z.object(ofSubscription),
)
export const SubscriptionResumed = event(
  'SubscriptionResumed',
  'A subscription that was paused goes on',
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
  amount: z.int().describe('In the smallest unit of the currency'),
  currency: z.string().describe('Lowercase ISO code'),
  at,
}

export const PaymentSucceeded = event('PaymentSucceeded', 'An invoice was paid', z.object(ofInvoice))
export const PaymentFailed = event(
  'PaymentFailed',
  'An attempt to collect an invoice has failed',
  z.object({
    ...ofInvoice,
    attempt: z.int(),
    final: z.boolean().describe('Whether the grace begins with it'),
    nextAttemptAt: at.nullable().describe('When the provider tries again'),
  }),
)

export const BillingMisconfigured = event(
  'BillingMisconfigured',
  'Something at the provider, or in the configuration, does not fit the other',
  z.object({
    tenantId: z.string().nullable(),
    reason: z
      .enum(['plan_unmapped', 'second_customer', 'plan_resolved_by_host'])
      .describe(
        '`plan_unmapped`: no price of a subscription is in billing.products; `second_customer`: another customer is mapped to the tenant; `plan_resolved_by_host`: plans.getPlan decides, so billing writes no plan',
      ),
    subscriptionId: z.string().nullable(),
    customerId: z.string().nullable(),
  }),
)

export const BillingEventDeadLettered = event(
  'BillingEventDeadLettered',
  'An event of the provider could not be processed; billing:replay does it again',
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
