/** What may be configured of billing; and the guard that is asked at the start, row by row, in its order. */
import { describe, expect, inject, test, vi } from 'vitest'
import { TenancyError } from '../../../kernel/base/errors.ts'
import { testTenancy } from '../../../testing/base/tenancy.ts'
import { PLANS } from '../billing.fixture.ts'
import { type BillingOptions, billing } from '../index.ts'
import { BillingNotUsable, Options, type Surroundings, verifySettings } from './settings.ts'

const TEST_KEYS = ['sk_test_51Abc', 'rk_test_51Abc']
const LIVE_KEYS = ['sk_live_51Abc', 'rk_live_51Abc']
const SECRET = 'whsec_51Abc'
const ALLOWED = { STRIPE_ALLOW_LIVE_IN_DEV: 'true' }
const PRODUCTION = { NODE_ENV: 'production' }

interface Given {
  readonly env?: Surroundings['env']
  readonly stripe?: Partial<BillingOptions['stripe']>
  readonly more?: Partial<BillingOptions>
}

const optionsOf = ({ stripe = {}, more = {} }: Given): BillingOptions => ({
  stripe: { apiKey: 'sk_test_51Abc', webhookSecret: SECRET, ...stripe },
  products: { price_pro: 'pro' },
  ...more,
})

/** What the guard throws; undefined when it lets it through. */
function rejection(given: Given): string | undefined {
  const isPlan = (name: string) => Object.hasOwn(PLANS.definitions, name)
  try {
    verifySettings(Options.parse(optionsOf(given)), { env: given.env ?? {}, isPlan })
    return undefined
  } catch (error) {
    if (!(error instanceof BillingNotUsable)) throw error
    return error.message
  }
}

describe('the guard', () => {
  test.each(TEST_KEYS)('refuses a test key in production: %s', (apiKey) => {
    expect(rejection({ env: PRODUCTION, stripe: { apiKey } })).toMatch(/test key.*production.*use the live key/)
    expect(rejection({ env: { ...PRODUCTION, ...ALLOWED }, stripe: { apiKey } })).toMatch(/test key/)
  })

  test.each(LIVE_KEYS)('refuses a live key outside of production, unless it is allowed: %s', (apiKey) => {
    const stripe = { apiKey }
    for (const NODE_ENV of [undefined, '', 'development', 'test', 'staging', 'Production', 'production ']) {
      const message = rejection({ env: { NODE_ENV }, stripe })
      expect(message).toMatch(/live key.*not production.*STRIPE_ALLOW_LIVE_IN_DEV=true/)
      expect(rejection({ env: { NODE_ENV, ...ALLOWED }, stripe })).toBeUndefined()
    }
    for (const almost of ['1', 'yes', 'TRUE', ' true', '']) {
      expect(rejection({ env: { STRIPE_ALLOW_LIVE_IN_DEV: almost }, stripe })).toMatch(/live key/)
    }
    expect(rejection({ env: PRODUCTION, stripe })).toBeUndefined()
  })

  test.each(TEST_KEYS)('lets a test key through outside of production: %s', (apiKey) => {
    for (const NODE_ENV of [undefined, 'development', 'test', 'staging']) {
      expect(rejection({ env: { NODE_ENV }, stripe: { apiKey } })).toBeUndefined()
    }
  })

  test('wants a webhook secret, and takes several', () => {
    expect(rejection({ stripe: { webhookSecret: undefined } })).toMatch(
      /webhookSecret is missing.*signing secret.*whsec_/,
    )
    expect(rejection({ stripe: { webhookSecret: [SECRET, 'whsec_before'] } })).toBeUndefined()
  })

  test.each([
    '',
    'whsec_',
    'sk_test_51Abc',
    'WHSEC_51Abc',
    'we_51Abc',
    ' whsec_51Abc',
    'whsec_51Abc ',
    'whsec_51Abc\n',
    '\twhsec_51Abc\t',
    'whsec_51 Abc',
    'whsec_ ',
  ])('refuses what is no webhook secret, alone or beside one: %j', (webhookSecret) => {
    expect(rejection({ stripe: { webhookSecret } })).toMatch(/not a signing secret.*whsec_, without blanks/)
    expect(rejection({ stripe: { webhookSecret: [SECRET, webhookSecret] } })).toMatch(/not a signing secret/)
  })

  test('refuses plans that do not exist, and names them', () => {
    const products = { price_pro: 'pro', prod_gold: 'gold' }
    expect(rejection({ more: { products } })).toMatch(/billing\.products: "prod_gold" names the plan "gold"/)
    expect(rejection({ more: { defaultPlan: 'golden' } })).toMatch(/billing\.defaultPlan: there is no plan "golden"/)
    expect(rejection({ more: { defaultPlan: 'free', products: { prod_scale: 'scale' } } })).toBeUndefined()
    expect(rejection({ more: { products: { price_odd: 'toString' } } })).toMatch(/"toString"/)
  })

  test('refuses another server than the provider’s own in production', () => {
    const stripe = { apiKey: 'sk_live_51Abc', endpoint: 'http://127.0.0.1:12111' }
    expect(rejection({ env: PRODUCTION, stripe })).toMatch(/endpoint is for tests/)
    expect(rejection({ env: ALLOWED, stripe })).toBeUndefined()
  })

  test('says what is wrong in the order in which it would do harm', () => {
    const wrong = { webhookSecret: undefined, endpoint: 'http://127.0.0.1:12111' }
    const plans = { products: { price_pro: 'gold' }, defaultPlan: 'golden' }
    const repaired: readonly [Given, RegExp][] = [
      [{ env: PRODUCTION, stripe: wrong, more: plans }, /test key/],
      [{ stripe: { ...wrong, apiKey: 'sk_live_1' }, more: plans }, /live key/],
      [{ env: PRODUCTION, stripe: { ...wrong, apiKey: 'sk_live_1' }, more: plans }, /webhookSecret is missing/],
      [
        { env: PRODUCTION, stripe: { ...wrong, apiKey: 'sk_live_1', webhookSecret: 'none' }, more: plans },
        /not a signing secret/,
      ],
      [
        { env: PRODUCTION, stripe: { ...wrong, apiKey: 'sk_live_1', webhookSecret: SECRET }, more: plans },
        /billing\.products/,
      ],
      [
        {
          env: PRODUCTION,
          stripe: { ...wrong, apiKey: 'sk_live_1', webhookSecret: SECRET },
          more: { defaultPlan: 'golden' },
        },
        /billing\.defaultPlan/,
      ],
      [{ env: PRODUCTION, stripe: { ...wrong, apiKey: 'sk_live_1', webhookSecret: SECRET } }, /endpoint/],
    ]
    for (const [given, message] of repaired) expect(rejection(given)).toMatch(message)
  })

  test('is asked at the start: nothing runs that it refuses', async () => {
    const start = (options: BillingOptions) =>
      testTenancy(inject('postgresUrl'), { satellites: [billing(options)], plans: PLANS, role: 'api' })
    await expect(start(optionsOf({ stripe: { apiKey: 'sk_live_51Abc' } }))).rejects.toThrow(/is a live key/)
    await expect(start(optionsOf({ stripe: { webhookSecret: undefined } }))).rejects.toThrow(/webhookSecret is missing/)
    await expect(start(optionsOf({ more: { products: { price_pro: 'gold' } } }))).rejects.toThrow(/plan "gold"/)
    vi.stubEnv('NODE_ENV', 'production')
    await expect(start(optionsOf({}))).rejects.toThrow(/is a test key/)
  })
})

describe('options', () => {
  const faults = (more: object): string => {
    try {
      billing({ ...optionsOf({}), ...more } as BillingOptions)
      return ''
    } catch (error) {
      if (!(error instanceof TenancyError)) throw error
      expect(error.code).toBe('E_INVALID_REQUEST')
      return error.message
    }
  }
  const stripe = (of: object) => ({ stripe: { ...optionsOf({}).stripe, ...of } })

  test('that are left out are what the guide says', () => {
    expect(Options.parse(optionsOf({ stripe: { webhookSecret: undefined } }))).toEqual({
      stripe: { apiKey: 'sk_test_51Abc', webhookSecret: undefined, timeoutMs: 10_000, maxNetworkRetries: 3 },
      products: { price_pro: 'pro' },
      webhook: { path: '/webhooks/stripe', trustProxy: 0, retentionDays: 90 },
      dunning: { maxAttempts: 3, graceDays: 7, action: 'none' },
      usage: {},
      onTenantDelete: 'cancel',
    })
    expect(Options.parse(optionsOf({ more: { usage: { calls: { meter: 'api_calls' } } } })).usage).toEqual({
      calls: { meter: 'api_calls', flushMs: 10_000 },
    })
  })

  test.each<[string, object, RegExp]>([
    [
      'a publishable key',
      stripe({ apiKey: 'pk_test_51Abc' }),
      /^billing\.stripe\.apiKey: not a secret or restricted key/,
    ],
    ['half a key', stripe({ apiKey: 'sk_test_' }), /apiKey/],
    ['a key with a line end', stripe({ apiKey: 'sk_test_51Abc\n' }), /apiKey/],
    ['a key of no mode', stripe({ apiKey: 'sk_51Abc' }), /apiKey/],
    ['no secret in a list of them', stripe({ webhookSecret: [] }), /billing\.stripe\.webhookSecret/],
    ['an endpoint that is no URL', stripe({ endpoint: 'localhost' }), /billing\.stripe\.endpoint: Invalid URL/],
    ['a time-out of nothing', stripe({ timeoutMs: 0 }), /billing\.stripe\.timeoutMs/],
    ['an option that there is not', { webhooks: {} }, /Unrecognized key: "webhooks"/],
    ['a misspelt option', { webhook: { allowedIPs: [] } }, /^billing\.webhook: Unrecognized key: "allowedIPs"/],
    ['a path without its slash', { webhook: { path: 'stripe' } }, /path: not a path like \/webhooks\/stripe/],
    ['a path that ends with a slash', { webhook: { path: '/stripe/' } }, /path: not a path/],
    ['a path with a query', { webhook: { path: '/stripe?a' } }, /path: not a path/],
    ['a path with a pattern', { webhook: { path: '/:stripe' } }, /path: not a path/],
    [
      'a name for an address',
      { webhook: { allowedIps: ['stripe.com'] } },
      /^billing\.webhook\.allowedIps\.0: not an address/,
    ],
    [
      'half a range',
      { webhook: { allowedIps: ['3.18.12.63', '10/8'] } },
      /allowedIps\.1: .* range like 10\.0\.0\.0\/8/,
    ],
    ['a range of too many bits', { webhook: { allowedIps: ['10.0.0.0/33'] } }, /allowedIps\.0/],
    ['an address of one link', { webhook: { allowedIps: ['fe80::1%eth0'] } }, /allowedIps\.0/],
    ['trust without a number', { webhook: { trustProxy: true } }, /billing\.webhook\.trustProxy: .*expected number/],
    ['fewer proxies than none', { webhook: { trustProxy: -1 } }, /trustProxy/],
    ['a retention of nothing', { webhook: { retentionDays: 0 } }, /billing\.webhook\.retentionDays/],
    ['a plan for something that is no id', { products: { 'price pro': 'pro' } }, /^billing\.products\.price pro/],
    ['a product without a plan', { products: { price_pro: null } }, /^billing\.products\.price_pro/],
    [
      'dunning with another end',
      { dunning: { action: 'delete' } },
      /billing\.dunning\.action: .*"none"\|"downgrade"\|"suspend"/,
    ],
    ['dunning without an attempt', { dunning: { maxAttempts: 0 } }, /billing\.dunning\.maxAttempts/],
    ['a grace before the end', { dunning: { graceDays: -1 } }, /billing\.dunning\.graceDays/],
    ['usage of what cannot be counted', { usage: { 'a b': { meter: 'm' } } }, /^billing\.usage\.a b/],
    ['usage of no meter', { usage: { calls: { flushMs: 10_000 } } }, /^billing\.usage\.calls\.meter/],
    [
      'usage all the time',
      { usage: { calls: { meter: 'm', flushMs: 10 } } },
      /^billing\.usage\.calls\.flushMs: .*1000/,
    ],
    ['another thing to do with a deleted tenant', { onTenantDelete: 'keep' }, /"cancel"\|"detach"\|"preserve"/],
  ])('are refused with where and why: %s', (_, more, message) => {
    expect(faults(more)).toMatch(message)
  })

  test('are refused with all their faults at once, and without what was given', () => {
    const message = faults({
      stripe: { apiKey: 'sk_hush_hush', webhookSecret: 7 },
      webhook: { path: 'hush', allowedIps: ['hush.example'] },
    })
    for (const where of ['stripe.apiKey', 'stripe.webhookSecret', 'webhook.path', 'webhook.allowedIps.0']) {
      expect(message).toContain(`billing.${where}: `)
    }
    expect(message).not.toContain('hush')
  })

  test.each(['3.18.12.63', '3.130.192.0/18', '2001:db8::1', '2001:db8::/32', '::ffff:3.18.12.63', '0.0.0.0/0'])(
    'take the address or range %s',
    (one) => expect(faults({ webhook: { allowedIps: [one] } })).toBe(''),
  )

  test('may be absent where billing is only described, and not where it is started', async () => {
    expect(billing().receivers).toMatchObject([{ path: '/webhooks/stripe' }])
    const start = testTenancy(inject('postgresUrl'), { satellites: [billing()], plans: PLANS, role: 'api' })
    await expect(start).rejects.toThrow(/billing is not configured: it needs stripe\.apiKey/)
  })
})
