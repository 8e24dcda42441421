/** Settings of billing. The environment is the better source of the API key and the signing secrets. */
import { z } from 'zod'
import { isAddressRange } from '../../kernel/egress/addresses.ts'
import { COUNTER_NAME } from '../../kernel/store/counters.ts'

const NOT_A_KEY = 'must be a secret or restricted key such as sk_test_…'
const ApiKey = z.string().regex(/^(sk|rk)_(test|live)_\w+$/, NOT_A_KEY)
const SIGNING_SECRET = /^whsec_\S+$/
const NOT_A_SECRET = 'must be a signing secret: it starts with whsec_ and contains no blanks'
const AddressRange = z.string().refine(isAddressRange, 'must be an address or a range such as 10.0.0.0/8')
const Path = z.string().regex(/^(\/[A-Za-z0-9._~-]+)+$/, 'must be a path such as /webhooks/stripe')
const Id = z.string().regex(/^[A-Za-z0-9_.-]{1,255}$/, 'must be an id of the provider')

const Usage = z.strictObject({
  meter: z.string().min(1).max(100).describe("`event_name` of the provider's meter"),
  priceId: Id.optional().describe("Price that bills the meter. Checkouts add it to the plan's price"),
  flushMs: z
    .int()
    .min(1_000)
    .max(3_600_000)
    .default(10_000)
    .describe('Interval between two usage reports to the provider'),
})

export const BillingSettings = z
  .strictObject({
    stripe: z
      .strictObject({
        apiKey: ApiKey.optional().describe('Secret or restricted key. Prefer `STRIPE_API_KEY`'),
        webhookSecret: z
          .union([z.string(), z.array(z.string()).min(1)])
          .optional()
          .describe('Signing secret of the endpoint, or several during a rotation. Prefer `STRIPE_WEBHOOK_SECRET`'),
        apiVersion: z.string().optional().describe('API version. Default: the version that Tenantry is tested with'),
        timeoutMs: z.int().min(100).max(80_000).default(10_000).describe('Time limit of one request to the provider'),
        maxNetworkRetries: z.int().min(0).max(10).default(3).describe('Retries of a request without a response'),
        endpoint: z.url().optional().describe("For tests: a server in place of Stripe's. Rejected in production"),
      })
      .prefault({})
      .describe('Account at the provider'),
    products: z.record(Id, z.string()).describe('Plans by the id of a product or a price'),
    defaultPlan: z
      .string()
      .optional()
      .describe('Plan of a tenant without an effective subscription. Default: `plans.defaultPlan`'),
    webhook: z
      .strictObject({
        path: Path.default('/webhooks/stripe').describe("Path that receives the provider's events"),
        allowedIps: z
          .array(AddressRange)
          .optional()
          .describe('Addresses and ranges that may send events. Default: any'),
        trustProxy: z
          .int()
          .min(0)
          .max(10)
          .default(0)
          .describe('Number of trusted proxies that add to `x-forwarded-for`, for `allowedIps`'),
        retentionDays: z.number().min(30).max(3_650).default(90).describe('Days to keep processed events'),
      })
      .prefault({})
      .describe('Receiver of events'),
    dunning: z
      .strictObject({
        maxAttempts: z.int().min(1).max(20).default(3).describe('Failed payments before the grace period starts'),
        graceDays: z
          .number()
          .min(0)
          .max(365)
          .default(7)
          .describe('Length of the grace period, in which the tenant keeps its plan'),
        action: z
          .enum(['none', 'downgrade', 'suspend'])
          .default('none')
          .describe('Consequence for the tenant at the end of the grace period'),
      })
      .prefault({})
      .describe('Consequences of failed payments'),
    usage: z
      .record(z.string().regex(COUNTER_NAME), Usage)
      .default({})
      .describe('Quotas whose usage is reported, each to a meter'),
    onTenantDelete: z
      .enum(['cancel', 'detach', 'preserve'])
      .default('cancel')
      .describe('Subscriptions of a deleted tenant: cancelled, detached from the tenant, or unchanged'),
  })
  .describe('Billing with Stripe. Absent: disabled')

type Billing = z.output<typeof BillingSettings>

interface FromEnvironment {
  readonly STRIPE_API_KEY?: string | undefined
  readonly STRIPE_WEBHOOK_SECRET?: string | undefined
  readonly NODE_ENV?: string | undefined
  readonly STRIPE_ALLOW_LIVE_IN_DEV?: string | undefined
}

/** Settings with the values of the environment where they have none. */
export function billingOf(billing: Billing, env: FromEnvironment): Billing {
  const { stripe } = billing
  const secrets = secretsIn(env)
  const webhookSecret = stripe.webhookSecret ?? (secrets.length > 0 ? secrets : undefined)
  return { ...billing, stripe: { ...stripe, apiKey: stripe.apiKey ?? env.STRIPE_API_KEY, webhookSecret } }
}

export const secretsIn = ({ STRIPE_WEBHOOK_SECRET = '' }: FromEnvironment): string[] =>
  STRIPE_WEBHOOK_SECRET.split(',').flatMap((secret) => secret.trim() || [])

/** Errors that involve several keys. @param plans names of the existing plans, if known */
export function billingErrors(billing: Billing, env: FromEnvironment, plans: readonly string[] | undefined): string[] {
  const { stripe, products, defaultPlan } = billingOf(billing, env)
  const keyFrom = billing.stripe.apiKey === undefined ? 'STRIPE_API_KEY' : 'billing.stripe.apiKey'
  const { apiKey, webhookSecret } = stripe
  const isKey = apiKey === undefined || ApiKey.safeParse(apiKey).success
  const areSecrets = [webhookSecret ?? []].flat().every((secret) => SIGNING_SECRET.test(secret))
  const secretsFrom =
    billing.stripe.webhookSecret === undefined ? 'STRIPE_WEBHOOK_SECRET' : 'billing.stripe.webhookSecret'
  const named = [
    ...Object.entries(products).map(([id, plan]) => ({ path: `billing.products.${id}`, plan })),
    ...(defaultPlan === undefined ? [] : [{ path: 'billing.defaultPlan', plan: defaultPlan }]),
  ]
  const wrong = plans ? named.filter(({ plan }) => !plans.includes(plan)) : []
  return [
    ...(apiKey === undefined ? ['STRIPE_API_KEY or billing.stripe.apiKey is required for billing'] : []),
    ...(isKey ? modeErrors(keyFrom, apiKey, env) : [`${keyFrom}: ${NOT_A_KEY}`]),
    ...(webhookSecret === undefined
      ? ['STRIPE_WEBHOOK_SECRET or billing.stripe.webhookSecret is required for billing']
      : []),
    ...(areSecrets ? [] : [`${secretsFrom}: ${NOT_A_SECRET}`]),
    ...wrong.map(({ path, plan }) => `${path}: plan "${plan}" not found; the plans are ${plans?.join(', ')}`),
  ]
}

/** Errors of a key of the wrong mode: a test key in production, or a live key outside of production. */
function modeErrors(where: string, apiKey = '', { NODE_ENV, STRIPE_ALLOW_LIVE_IN_DEV }: FromEnvironment): string[] {
  const isLive = /^(sk|rk)_live_/.test(apiKey)
  if (NODE_ENV === 'production') {
    return isLive || apiKey === '' ? [] : [`${where}: must be a live key when NODE_ENV is production`]
  }
  if (!isLive || STRIPE_ALLOW_LIVE_IN_DEV === 'true') return []
  return [
    `${where}: must be a test key unless NODE_ENV is production; set STRIPE_ALLOW_LIVE_IN_DEV=true to charge real cards`,
  ]
}
