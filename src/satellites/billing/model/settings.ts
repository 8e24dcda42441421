/**
 * What may be configured of billing, and what is refused at start: a key of the wrong mode, a secret that is none, a plan that does
 * not exist.
 */
import { z } from 'zod'
import { isAddressRange } from '../../../kernel/egress/addresses.ts'
import { COUNTER_NAME } from '../../../kernel/store/counters.ts'

export const DEFAULT_PATH = '/webhooks/stripe'

const SIGNING_SECRET = /^whsec_\S+$/
const AddressRange = z.string().refine(isAddressRange, 'not an address or a range like 10.0.0.0/8')
const Path = z.string().regex(/^(\/[A-Za-z0-9._~-]+)+$/, 'not a path like /webhooks/stripe')

export const Id = z.string().regex(/^[A-Za-z0-9_.-]{1,255}$/, 'not an id of the provider')

export const Usage = z.strictObject({
  /** The `event_name` of the provider's meter. */
  meter: z.string().min(1).max(100),
  /** The price that bills the meter: checkouts add it beside the plan's. */
  priceId: Id.optional(),
  /** How often usage is flushed. */
  flushMs: z.int().min(1_000).max(3_600_000).default(10_000),
})

export const DUNNING_ACTIONS = ['none', 'downgrade', 'suspend'] as const

export const DunningPolicy = z.strictObject({
  /** Failed payments of a billing period after which its grace begins. */
  maxAttempts: z.int().min(1).max(20).default(3),
  /** How long everything stays as it is after the last one. */
  graceDays: z.number().min(0).max(365).default(7),
  /** What happens when that is over. */
  action: z.enum(DUNNING_ACTIONS).default('none'),
})
export type DunningPolicy = z.output<typeof DunningPolicy>

export const Options = z.strictObject({
  stripe: z.strictObject({
    /** `sk_…` or `rk_…`. */
    apiKey: z.string().regex(/^(sk|rk)_(test|live)_\w+$/, 'not a secret or restricted key like sk_test_…'),
    /** Of the endpoint, `whsec_…`; several while one is rolled over: any of them may have signed. */
    webhookSecret: z.union([z.string(), z.array(z.string()).min(1)]).optional(),
    apiVersion: z.string().optional(),
    timeoutMs: z.int().min(100).max(80_000).default(10_000),
    maxNetworkRetries: z.int().min(0).max(10).default(3),
    /** Another server than Stripe's own, for tests: `http://127.0.0.1:12111`. Refused in production. */
    endpoint: z.url().optional(),
  }),
  /** Plans by id of a product or a price; that of a price goes before that of its product. */
  products: z.record(Id, z.string()),
  /** Of whoever has no subscription that counts; default `plans.defaultPlan`. */
  defaultPlan: z.string().optional(),
  webhook: z
    .strictObject({
      path: Path.default(DEFAULT_PATH),
      /** Where the provider may send from: addresses and ranges; absent: from anywhere. */
      allowedIps: z.array(AddressRange).optional(),
      /** How many proxies of yours stand before it: the address is then taken from `x-forwarded-for`, so many from its end. */
      trustProxy: z.int().min(0).max(10).default(0),
      /** At least as long as the provider has events: what is fetched again must be known. */
      retentionDays: z.number().min(30).max(3_650).default(90),
    })
    .prefault({}),
  dunning: DunningPolicy.prefault({}),
  /** By quota: what of it is reported to which meter. */
  usage: z.record(z.string().regex(COUNTER_NAME), Usage).default({}),
  /** What becomes of the subscriptions of a tenant that is deleted. */
  onTenantDelete: z.enum(['cancel', 'detach', 'preserve']).default('cancel'),
})
export type BillingOptions = z.input<typeof Options>
export type Settings = z.output<typeof Options>

export interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly isPlan: (name: string) => boolean
}

export class BillingNotUsable extends Error {}

/** Throws what is wrong, in the order in which it would do harm. */
export function verifySettings({ stripe, products, defaultPlan }: Settings, { env, isPlan }: Surroundings): void {
  const isProduction = env.NODE_ENV === 'production'
  const isLive = isLiveKey(stripe.apiKey)
  if (isProduction && !isLive) {
    throw new BillingNotUsable('billing.stripe.apiKey is a test key, and NODE_ENV is production; use the live key')
  }
  if (!isProduction && isLive && env.STRIPE_ALLOW_LIVE_IN_DEV !== 'true') {
    throw new BillingNotUsable(
      'billing.stripe.apiKey is a live key, and NODE_ENV is not production; use a test key, or set STRIPE_ALLOW_LIVE_IN_DEV=true to charge real cards from here',
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
      'billing.stripe.webhookSecret is not a signing secret: those begin with whsec_, without blanks in or around them',
    )
  }
  for (const [id, plan] of Object.entries(products)) {
    if (!isPlan(plan))
      throw new BillingNotUsable(`billing.products: "${id}" names the plan "${plan}", which does not exist`)
  }
  if (defaultPlan !== undefined && !isPlan(defaultPlan)) {
    throw new BillingNotUsable(`billing.defaultPlan: there is no plan "${defaultPlan}"`)
  }
  if (isProduction && stripe.endpoint !== undefined) {
    throw new BillingNotUsable('billing.stripe.endpoint is for tests, and refused in production')
  }
}

export const isLiveKey = (apiKey: string): boolean => /^(sk|rk)_live_/.test(apiKey)

export const secretsOf = (given: string | readonly string[] | undefined): readonly string[] =>
  given === undefined ? [] : typeof given === 'string' ? [given] : given
