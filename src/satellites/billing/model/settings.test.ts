/** Tests of the options of billing, and of the checks at start in their order. */
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

/** Message of the thrown error; undefined if the settings are valid. */
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

describe('verifySettings', () => {
  test.each(TEST_KEYS)('rejects the test key %s in production', (apiKey) => {
    expect(rejection({ env: PRODUCTION, stripe: { apiKey } })).toMatch(/test key.*production.*use the live key/)
    expect(rejection({ env: { ...PRODUCTION, ...ALLOWED }, stripe: { apiKey } })).toMatch(/test key/)
  })

  test.each(LIVE_KEYS)(
    'rejects the live key %s outside of production unless STRIPE_ALLOW_LIVE_IN_DEV is true',
    (apiKey) => {
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
    },
  )

  test.each(TEST_KEYS)('accepts the test key %s outside of production', (apiKey) => {
    for (const NODE_ENV of [undefined, 'development', 'test', 'staging']) {
      expect(rejection({ env: { NODE_ENV }, stripe: { apiKey } })).toBeUndefined()
    }
  })

  test('requires a webhook secret, and accepts several', () => {
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
  ])('rejects the malformed webhook secret %j, as the only one and in a list', (webhookSecret) => {
    expect(rejection({ stripe: { webhookSecret } })).toMatch(/not a signing secret.*whsec_ and contains no blanks/)
    expect(rejection({ stripe: { webhookSecret: [SECRET, webhookSecret] } })).toMatch(/not a signing secret/)
  })

  test('rejects and names plans that do not exist', () => {
    const products = { price_pro: 'pro', prod_gold: 'gold' }
    expect(rejection({ more: { products } })).toMatch(/billing\.products: plan "gold" of "prod_gold" not found/)
    expect(rejection({ more: { defaultPlan: 'golden' } })).toMatch(/billing\.defaultPlan: plan "golden" not found/)
    expect(rejection({ more: { defaultPlan: 'free', products: { prod_scale: 'scale' } } })).toBeUndefined()
    expect(rejection({ more: { products: { price_odd: 'toString' } } })).toMatch(/"toString"/)
  })

  test("rejects an endpoint other than the provider's own in production", () => {
    const stripe = { apiKey: 'sk_live_51Abc', endpoint: 'http://127.0.0.1:12111' }
    expect(rejection({ env: PRODUCTION, stripe })).toMatch(/endpoint is only for tests/)
    expect(rejection({ env: ALLOWED, stripe })).toBeUndefined()
  })

  test('reports the most harmful error first', () => {
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

  test('stops the start of a tenancy with invalid settings', async () => {
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
  const validationErrors = (more: object): string => {
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

  test('options have the documented defaults', () => {
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
      /^billing\.stripe\.apiKey: must be a secret or restricted key/,
    ],
    ['an incomplete key', stripe({ apiKey: 'sk_test_' }), /apiKey/],
    ['a key with a line feed', stripe({ apiKey: 'sk_test_51Abc\n' }), /apiKey/],
    ['a key without a mode', stripe({ apiKey: 'sk_51Abc' }), /apiKey/],
    ['an empty list of secrets', stripe({ webhookSecret: [] }), /billing\.stripe\.webhookSecret/],
    ['an endpoint that is not a URL', stripe({ endpoint: 'localhost' }), /billing\.stripe\.endpoint: Invalid URL/],
    ['a timeout of zero', stripe({ timeoutMs: 0 }), /billing\.stripe\.timeoutMs/],
    ['an unknown option', { webhooks: {} }, /Unrecognized key: "webhooks"/],
    ['a misspelled option', { webhook: { allowedIPs: [] } }, /^billing\.webhook: Unrecognized key: "allowedIPs"/],
    [
      'a path without a leading slash',
      { webhook: { path: 'stripe' } },
      /path: must be a path such as \/webhooks\/stripe/,
    ],
    ['a path with a trailing slash', { webhook: { path: '/stripe/' } }, /path: must be a path/],
    ['a path with a query', { webhook: { path: '/stripe?a' } }, /path: must be a path/],
    ['a path with a pattern', { webhook: { path: '/:stripe' } }, /path: must be a path/],
    [
      'a host name in place of an address',
      { webhook: { allowedIps: ['stripe.com'] } },
      /^billing\.webhook\.allowedIps\.0: must be an address/,
    ],
    [
      'an incomplete range',
      { webhook: { allowedIps: ['3.18.12.63', '10/8'] } },
      /allowedIps\.1: .* range such as 10\.0\.0\.0\/8/,
    ],
    ['a range with too many bits', { webhook: { allowedIps: ['10.0.0.0/33'] } }, /allowedIps\.0/],
    ['a link-local address with a zone', { webhook: { allowedIps: ['fe80::1%eth0'] } }, /allowedIps\.0/],
    [
      'trustProxy without a number',
      { webhook: { trustProxy: true } },
      /billing\.webhook\.trustProxy: .*expected number/,
    ],
    ['a negative number of proxies', { webhook: { trustProxy: -1 } }, /trustProxy/],
    ['a retention of zero', { webhook: { retentionDays: 0 } }, /billing\.webhook\.retentionDays/],
    ['a plan for an invalid id', { products: { 'price pro': 'pro' } }, /^billing\.products\.price pro/],
    ['a product without a plan', { products: { price_pro: null } }, /^billing\.products\.price_pro/],
    [
      'an unknown dunning action',
      { dunning: { action: 'delete' } },
      /billing\.dunning\.action: .*"none"\|"downgrade"\|"suspend"/,
    ],
    ['dunning without an attempt', { dunning: { maxAttempts: 0 } }, /billing\.dunning\.maxAttempts/],
    ['a negative grace period', { dunning: { graceDays: -1 } }, /billing\.dunning\.graceDays/],
    ['usage of an invalid quota name', { usage: { 'a b': { meter: 'm' } } }, /^billing\.usage\.a b/],
    ['usage without a meter', { usage: { calls: { flushMs: 10_000 } } }, /^billing\.usage\.calls\.meter/],
    [
      'a flush interval that is too short',
      { usage: { calls: { meter: 'm', flushMs: 10 } } },
      /^billing\.usage\.calls\.flushMs: .*1000/,
    ],
    ['an unknown onTenantDelete', { onTenantDelete: 'keep' }, /"cancel"\|"detach"\|"preserve"/],
  ])('options with %s are rejected with path and reason', (_, more, message) => {
    expect(validationErrors(more)).toMatch(message)
  })

  test('options with several errors are rejected with all errors and without the given values', () => {
    const message = validationErrors({
      stripe: { apiKey: 'sk_hush_hush', webhookSecret: 7 },
      webhook: { path: 'hush', allowedIps: ['hush.example'] },
    })
    for (const where of ['stripe.apiKey', 'stripe.webhookSecret', 'webhook.path', 'webhook.allowedIps.0']) {
      expect(message).toContain(`billing.${where}: `)
    }
    expect(message).not.toContain('hush')
  })

  test.each(['3.18.12.63', '3.130.192.0/18', '2001:db8::1', '2001:db8::/32', '::ffff:3.18.12.63', '0.0.0.0/0'])(
    'options accept the address or range %s',
    (one) => expect(validationErrors({ webhook: { allowedIps: [one] } })).toBe(''),
  )

  test('options may be absent for a description of the satellite, but not at start', async () => {
    expect(billing().receivers).toMatchObject([{ path: '/webhooks/stripe' }])
    const start = testTenancy(inject('postgresUrl'), { satellites: [billing()], plans: PLANS, role: 'api' })
    await expect(start).rejects.toThrow(/billing is not configured\. Set stripe\.apiKey/)
  })
})
