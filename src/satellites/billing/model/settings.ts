/**
 * Options of billing, and the checks at start: mode of the API key, form of the webhook secrets, existence of the
 * plans.
 */
import { z } from 'zod'
import { isAddressRange } from '../../../kernel/egress/addresses.ts'
import { COUNTER_NAME } from '../../../kernel/store/counters.ts'

export const DEFAULT_PATH = '/webhooks/stripe'

const SIGNING_SECRET = /^whsec_\S+$/
const AddressRange = z.string().refine(isAddressRange, 'must be an address or a range such as 10.0.0.0/8')
const Path = z.string().regex(/^(\/[A-Za-z0-9._~-]+)+$/, 'must be a path such as /webhooks/stripe')

export const Id = z.string().regex(/^[A-Za-z0-9_.-]{1,255}$/, 'must be an id of the provider')

export const Usage = z.strictObject({
  /** `event_name` of the provider's meter. */
  meter: z.string().min(1).max(100),
  /** Price that bills the meter. Checkouts add it to the price of the plan. */
  priceId: Id.optional(),
  /** Interval between two usage reports, in ms. */
  flushMs: z.int().min(1_000).max(3_600_000).default(10_000),
})

export const DUNNING_ACTIONS = ['none', 'downgrade', 'suspend'] as const

export const DunningPolicy = z.strictObject({
  /** Failed payments in a billing period before the grace period begins. */
  maxAttempts: z.int().min(1).max(20).default(3),
  /** Days from the last failed attempt to `action`. The tenant keeps its plan during the grace period. */
  graceDays: z.number().min(0).max(365).default(7),
  /** Action at the end of the grace period. */
  action: z.enum(DUNNING_ACTIONS).default('none'),
})
export type DunningPolicy = z.output<typeof DunningPolicy>

export const Options = z.strictObject({
  stripe: z.strictObject({
    /** `sk_…` or `rk_…`. */
    apiKey: z.string().regex(/^(sk|rk)_(test|live)_\w+$/, 'must be a secret or restricted key such as sk_test_…'),
    /** Signing secret of the endpoint, `whsec_…`; several during a rotation. A signature with any of them is valid. */
    webhookSecret: z.union([z.string(), z.array(z.string()).min(1)]).optional(),
    apiVersion: z.string().optional(),
    timeoutMs: z.int().min(100).max(80_000).default(10_000),
    maxNetworkRetries: z.int().min(0).max(10).default(3),
    /** For tests: a server in place of Stripe's, such as `http://127.0.0.1:12111`. Rejected in production. */
    endpoint: z.url().optional(),
  }),
  /** Plans by the id of a product or a price. A price takes precedence over its product. */
  products: z.record(Id, z.string()),
  /** Plan of a tenant without an effective subscription. Default: `plans.defaultPlan`. */
  defaultPlan: z.string().optional(),
  webhook: z
    .strictObject({
      path: Path.default(DEFAULT_PATH),
      /** Addresses and ranges that may send events. Default: any. */
      allowedIps: z.array(AddressRange).optional(),
      /**
       * Number of own proxies in front of Tenantry. The sender is that entry of `x-forwarded-for`, counted from the
       * end.
       */
      trustProxy: z.int().min(0).max(10).default(0),
      /** At least as long as the provider lists events: an event that is fetched again must be recognized. */
      retentionDays: z.number().min(30).max(3_650).default(90),
    })
    .prefault({}),
  dunning: DunningPolicy.prefault({}),
  /** Meter for each quota whose usage is billed. */
  usage: z.record(z.string().regex(COUNTER_NAME), Usage).default({}),
  /** Handling of subscriptions when their tenant is deleted. */
  onTenantDelete: z.enum(['cancel', 'detach', 'preserve']).default('cancel'),
})
export type BillingOptions = z.input<typeof Options>
export type Settings = z.output<typeof Options>

export interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly isPlan: (name: string) => boolean
}

export class BillingNotUsable extends Error {}

/** Throws BillingNotUsable for the most harmful error first. */
export function verifySettings({ stripe, products, defaultPlan }: Settings, { env, isPlan }: Surroundings): void {
  const isProduction = env.NODE_ENV === 'production'
  const isLive = isLiveKey(stripe.apiKey)
  if (isProduction && !isLive) {
    throw new BillingNotUsable('billing.stripe.apiKey is a test key, and NODE_ENV is production; use the live key')
  }
  if (!isProduction && isLive && env.STRIPE_ALLOW_LIVE_IN_DEV !== 'true') {
    throw new BillingNotUsable(
      'billing.stripe.apiKey is a live key, and NODE_ENV is not production. Use a test key, or set STRIPE_ALLOW_LIVE_IN_DEV=true to charge real cards from this environment',
    )
  }
  const secrets = secretsOf(stripe.webhookSecret)
  if (secrets.length === 0) {
    throw new BillingNotUsable(
      'billing.stripe.webhookSecret is missing: copy the signing secret of the endpoint (whsec_…)',
    )
  }
  if (!secrets.every((secret) => SIGNING_SECRET.test(secret))) {
    throw new BillingNotUsable(
      'billing.stripe.webhookSecret is not a signing secret. A signing secret starts with whsec_ and contains no blanks',
    )
  }
  for (const [id, plan] of Object.entries(products)) {
    if (!isPlan(plan))
      throw new BillingNotUsable(`billing.products: plan "${plan}" of "${id}" not found; add it to plans.definitions`)
  }
  if (defaultPlan !== undefined && !isPlan(defaultPlan)) {
    throw new BillingNotUsable(`billing.defaultPlan: plan "${defaultPlan}" not found; add it to plans.definitions`)
  }
  if (isProduction && stripe.endpoint !== undefined) {
    throw new BillingNotUsable('billing.stripe.endpoint is only for tests and is rejected in production; remove it')
  }
}

export const isLiveKey = (apiKey: string): boolean => /^(sk|rk)_live_/.test(apiKey)

export const secretsOf = (given: string | readonly string[] | undefined): readonly string[] =>
  given === undefined ? [] : typeof given === 'string' ? [given] : given
