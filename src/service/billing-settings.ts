/** What may be configured of billing. The key and the secret may come from the environment instead, which is the better place. */
import { z } from 'zod'
import { isAddressRange } from '../kernel/egress/addresses.ts'
import { COUNTER_NAME } from '../kernel/store/counters.ts'

const NOT_A_KEY = 'not a secret or restricted key like sk_test_…'
const ApiKey = z.string().regex(/^(sk|rk)_(test|live)_\w+$/, NOT_A_KEY)
const SIGNING_SECRET = /^whsec_\S+$/
const NOT_A_SECRET = 'not a signing secret: those begin with whsec_, without blanks in or around them'
const AddressRange = z.string().refine(isAddressRange, 'not an address or a range like 10.0.0.0/8')
const Path = z.string().regex(/^(\/[A-Za-z0-9._~-]+)+$/, 'not a path like /webhooks/stripe')
const Id = z.string().regex(/^[A-Za-z0-9_.-]{1,255}$/, 'not an id of the provider')

const Usage = z.strictObject({
  meter: z.string().min(1).max(100).describe("The `event_name` of the provider's meter"),
  priceId: Id.optional().describe("The price that bills the meter: checkouts add it beside the plan's"),
  flushMs: z.int().min(1_000).max(3_600_000).default(10_000).describe('How often what was used is handed on'),
})

export const BillingSettings = z
  .strictObject({
    stripe: z
      .strictObject({
        apiKey: ApiKey.optional().describe('Secret or restricted key; better in `STRIPE_API_KEY`'),
        webhookSecret: z
          .union([z.string(), z.array(z.string()).min(1)])
          .optional()
          .describe(
            'Signing secret of the endpoint, or several while one is rolled over; better in `STRIPE_WEBHOOK_SECRET`',
          ),
        apiVersion: z.string().optional().describe('Default: the one that Tenantry was written against'),
        timeoutMs: z.int().min(100).max(80_000).default(10_000).describe('Of one request to the provider'),
        maxNetworkRetries: z.int().min(0).max(10).default(3).describe('Of a request that had no answer'),
        endpoint: z.url().optional().describe("For tests: another server than Stripe's own; refused in production"),
      })
      .prefault({})
      .describe('The account at the provider'),
    products: z.record(Id, z.string()).describe('Plans by id of a product or a price'),
    defaultPlan: z
      .string()
      .optional()
      .describe('Of whoever has no subscription that counts; default `plans.defaultPlan`'),
    webhook: z
      .strictObject({
        path: Path.default('/webhooks/stripe').describe('Where the provider sends its events to'),
        allowedIps: z.array(AddressRange).optional().describe('Addresses and ranges it may send from; default any'),
        trustProxy: z
          .int()
          .min(0)
          .max(10)
          .default(0)
          .describe('How many proxies of yours add to `x-forwarded-for`, for `allowedIps`'),
        retentionDays: z
          .number()
          .min(30)
          .max(3_650)
          .default(90)
          .describe('How long events that are done with are kept'),
      })
      .prefault({})
      .describe('The receiver of events'),
    dunning: z
      .strictObject({
        maxAttempts: z.int().min(1).max(20).default(3).describe('Failed payments after which the grace begins'),
        graceDays: z.number().min(0).max(365).default(7).describe('How long everything stays as it is then'),
        action: z
          .enum(['none', 'downgrade', 'suspend'])
          .default('none')
          .describe('What happens to the tenant when that is over'),
      })
      .prefault({})
      .describe('What follows when a payment fails'),
    usage: z
      .record(z.string().regex(COUNTER_NAME), Usage)
      .default({})
      .describe('Quotas whose usage is reported, each to a meter'),
    onTenantDelete: z
      .enum(['cancel', 'detach', 'preserve'])
      .default('cancel')
      .describe(
        'What becomes of the subscriptions of a tenant that is deleted: cancelled, left without a tenant, or left as they are',
      ),
  })
  .describe('Billing at Stripe; absent: off')

type Billing = z.output<typeof BillingSettings>

interface FromEnvironment {
  readonly STRIPE_API_KEY?: string | undefined
  readonly STRIPE_WEBHOOK_SECRET?: string | undefined
  readonly NODE_ENV?: string | undefined
  readonly STRIPE_ALLOW_LIVE_IN_DEV?: string | undefined
}

/** What the environment says goes before the file. */
export function billingOf(billing: Billing, env: FromEnvironment): Billing {
  const { stripe } = billing
  const secrets = secretsIn(env)
  const webhookSecret = secrets.length > 0 ? secrets : stripe.webhookSecret
  return { ...billing, stripe: { ...stripe, apiKey: env.STRIPE_API_KEY ?? stripe.apiKey, webhookSecret } }
}

const secretsIn = ({ STRIPE_WEBHOOK_SECRET = '' }: FromEnvironment): string[] =>
  STRIPE_WEBHOOK_SECRET.split(',').flatMap((secret) => secret.trim() || [])

/** What no key can know alone. @param plans the names of those that there are, where that is known */
export function billingErrors(billing: Billing, env: FromEnvironment, plans: readonly string[] | undefined): string[] {
  const { stripe, products, defaultPlan } = billingOf(billing, env)
  const { apiKey, webhookSecret } = stripe
  const isKey = apiKey === undefined || ApiKey.safeParse(apiKey).success
  const areSecrets = [webhookSecret ?? []].flat().every((secret) => SIGNING_SECRET.test(secret))
  const secretsFrom = secretsIn(env).length > 0 ? 'STRIPE_WEBHOOK_SECRET' : 'billing.stripe.webhookSecret'
  const named = [
    ...Object.entries(products).map(([id, plan]) => ({ path: `billing.products.${id}`, plan })),
    ...(defaultPlan === undefined ? [] : [{ path: 'billing.defaultPlan', plan: defaultPlan }]),
  ]
  const wrong = plans ? named.filter(({ plan }) => !plans.includes(plan)) : []
  return [
    ...(apiKey === undefined ? ['STRIPE_API_KEY or billing.stripe.apiKey: billing needs one'] : []),
    ...(isKey ? modeErrors(apiKey, env) : [`STRIPE_API_KEY: ${NOT_A_KEY}`]),
    ...(webhookSecret === undefined
      ? ['STRIPE_WEBHOOK_SECRET or billing.stripe.webhookSecret: billing needs one']
      : []),
    ...(areSecrets ? [] : [`${secretsFrom}: ${NOT_A_SECRET}`]),
    ...wrong.map(({ path, plan }) => `${path}: there is no plan "${plan}", only ${plans?.join(', ')}`),
  ]
}

/** A key of the wrong mode: test money in production, or real cards outside of it. */
function modeErrors(apiKey = '', { STRIPE_API_KEY, NODE_ENV, STRIPE_ALLOW_LIVE_IN_DEV }: FromEnvironment): string[] {
  const where = STRIPE_API_KEY === undefined ? 'billing.stripe.apiKey' : 'STRIPE_API_KEY'
  const isLive = /^(sk|rk)_live_/.test(apiKey)
  if (NODE_ENV === 'production') {
    return isLive || apiKey === '' ? [] : [`${where}: a test key, and NODE_ENV is production; use the live key`]
  }
  if (!isLive || STRIPE_ALLOW_LIVE_IN_DEV === 'true') return []
  return [
    `${where}: a live key, and NODE_ENV is not production; use a test key, or set STRIPE_ALLOW_LIVE_IN_DEV=true to charge real cards`,
  ]
}
