import { z } from 'zod'
import { SUBSCRIPTION_STATUSES } from './model/provider.ts'
import { Id } from './model/settings.ts'

const moment = z.iso.datetime()
const HttpUrl = z.url({ protocol: /^https?$/ }).max(2_000)
const PriceId = Id

export const CheckoutRequest = z.strictObject({
  priceId: PriceId.meta({
    description: 'Price in `billing.products`, or a price of a product in it',
    example: 'price_1Abc',
  }),
  successUrl: HttpUrl.meta({ description: 'URL for the browser after the payment' }),
  cancelUrl: HttpUrl.meta({ description: 'URL for the browser after a canceled checkout' }),
  trialDays: z.int().min(1).max(730).optional(),
  allowPromotionCodes: z.boolean().optional(),
})
export type CheckoutRequest = z.input<typeof CheckoutRequest>

export const CheckoutSession = z
  .object({
    url: z.string().meta({ description: 'URL of the checkout for the browser' }),
    id: z
      .string()
      .nullable()
      .meta({ description: 'Id of the session. Null if the provider is unavailable and the policy is fail-open' }),
  })
  .meta({ id: 'BillingCheckout' })
export type CheckoutSession = z.output<typeof CheckoutSession>

export const PortalRequest = z.strictObject({
  returnUrl: HttpUrl.meta({ description: 'URL for the browser after the portal' }),
})
export type PortalRequest = z.input<typeof PortalRequest>
export const PortalSession = z.object({ url: z.string() }).meta({ id: 'BillingPortal' })

export const CancelRequest = z.strictObject({
  atPeriodEnd: z
    .boolean()
    .default(true)
    .meta({ description: 'Whether the subscription ends with the paid period. `false` ends it immediately' }),
})
export type CancelRequest = z.input<typeof CancelRequest>

export const ChangePlanRequest = z
  .strictObject({ priceId: PriceId.optional(), plan: z.string().min(1).max(128).optional() })
  .refine(
    ({ priceId, plan }) => (priceId === undefined) !== (plan === undefined),
    'must contain either priceId or plan',
  )
export type ChangePlanRequest = z.input<typeof ChangePlanRequest>

/** States of an open dunning case. */
export const DUNNING_STATES = ['retrying', 'grace', 'downgraded', 'suspended'] as const

export const BillingOfTenant = z
  .object({
    tenantId: z.string(),
    customerId: z.string().nullable().meta({ description: 'Id of the customer at the provider' }),
    plan: z.string().meta({ description: 'Current plan of the tenant, from any source' }),
    subscription: z
      .object({
        id: z.string(),
        status: z.enum(SUBSCRIPTION_STATUSES),
        plan: z
          .string()
          .nullable()
          .meta({ description: 'Plan of the subscribed price. Null if the price is not mapped' }),
        items: z.array(z.object({ priceId: z.string(), productId: z.string().nullable(), quantity: z.number().int() })),
        isCollectionPaused: z.boolean(),
        periodStart: moment.nullable(),
        periodEnd: moment.nullable(),
        trialEnd: moment.nullable(),
        cancelAtPeriodEnd: z.boolean(),
        cancelAt: moment.nullable(),
        endedAt: moment.nullable(),
      })
      .nullable()
      .meta({ description: 'Running subscription, or the last one' }),
    dunning: z
      .object({
        subscriptionId: z.string(),
        state: z.enum(DUNNING_STATES),
        attempt: z.number().int().meta({ description: 'Number of failed payments' }),
        graceUntil: moment.nullable(),
        since: moment,
      })
      .nullable()
      .meta({ description: 'Open dunning case. Null without a debt' }),
    unreportedUsage: z
      .array(
        z.object({
          meter: z.string(),
          quantity: z.number().meta({ description: 'Sum of the usage, rounded above 2^53' }),
          since: moment,
        }),
      )
      .meta({ description: 'Usage that the provider has not confirmed' }),
  })
  .meta({ id: 'TenantBilling' })
export type BillingOfTenant = z.output<typeof BillingOfTenant>

export const BillingSummary = BillingOfTenant.omit({ unreportedUsage: true })
  .extend({ name: z.string().meta({ description: 'Name of the tenant' }) })
  .meta({ id: 'BillingSummary' })
export type BillingSummary = z.output<typeof BillingSummary>
