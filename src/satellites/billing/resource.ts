import { z } from 'zod'
import { SUBSCRIPTION_STATUSES } from './model/provider.ts'
import { Id } from './model/settings.ts'

const moment = z.iso.datetime()
const HttpUrl = z.url({ protocol: /^https?$/ }).max(2_000)
const PriceId = Id

export const CheckoutRequest = z.strictObject({
  priceId: PriceId.meta({ description: 'Of `billing.products`, or of a product there', example: 'price_1Abc' }),
  successUrl: HttpUrl.meta({ description: 'Where the browser goes once it is paid' }),
  cancelUrl: HttpUrl.meta({ description: 'Where it goes when nobody has paid' }),
  trialDays: z.int().min(1).max(730).optional(),
  allowPromotionCodes: z.boolean().optional(),
})
export type CheckoutRequest = z.input<typeof CheckoutRequest>

export const CheckoutSession = z
  .object({
    url: z.string().meta({ description: 'Send the browser there' }),
    id: z
      .string()
      .nullable()
      .meta({ description: 'Of the session; null while the provider does not answer and the policy is to go on' }),
  })
  .meta({ id: 'BillingCheckout' })
export type CheckoutSession = z.output<typeof CheckoutSession>

export const PortalRequest = z.strictObject({
  returnUrl: HttpUrl.meta({ description: 'Where the browser comes back to' }),
})
export type PortalRequest = z.input<typeof PortalRequest>
export const PortalSession = z.object({ url: z.string() }).meta({ id: 'BillingPortal' })

export const CancelRequest = z.strictObject({
  atPeriodEnd: z
    .boolean()
    .default(true)
    .meta({ description: 'Default: it goes on until the end of what is paid; `false` ends it now' }),
})
export type CancelRequest = z.input<typeof CancelRequest>

export const ChangePlanRequest = z
  .strictObject({ priceId: PriceId.optional(), plan: z.string().min(1).max(128).optional() })
  .refine(({ priceId, plan }) => (priceId === undefined) !== (plan === undefined), 'name either priceId or plan')
export type ChangePlanRequest = z.input<typeof ChangePlanRequest>

export const BillingOfTenant = z
  .object({
    tenantId: z.string(),
    customerId: z.string().nullable().meta({ description: 'At the provider' }),
    plan: z.string().meta({ description: 'What the tenant has, whoever has given it' }),
    subscription: z
      .object({
        id: z.string(),
        status: z.enum(SUBSCRIPTION_STATUSES),
        plan: z.string().nullable().meta({ description: 'What its price stands for; null: nothing' }),
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
      .meta({ description: 'The one that runs, else the last one' }),
    dunning: z
      .object({
        subscriptionId: z.string(),
        state: z.enum(['retrying', 'grace', 'downgraded', 'suspended']),
        attempt: z.number().int().meta({ description: 'Payments that have failed' }),
        graceUntil: moment.nullable(),
        since: moment,
      })
      .nullable()
      .meta({ description: 'Null while nothing is owed' }),
    unreportedUsage: z
      .array(
        z.object({
          meter: z.string(),
          quantity: z.number().meta({ description: 'A sum; rounded beyond 2^53' }),
          since: moment,
        }),
      )
      .meta({ description: 'Counted, and not confirmed by the provider' }),
  })
  .meta({ id: 'TenantBilling' })
export type BillingOfTenant = z.output<typeof BillingOfTenant>
