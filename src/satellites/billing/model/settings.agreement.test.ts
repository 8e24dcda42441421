/**
 * Compares the service's settings of billing with the options of the satellite: same rules, same defaults, same errors.
 * Only the API key may come from another source in the service.
 */
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { BillingSettings, billingErrors } from '../../../service/settings/billing.ts'
import { BillingNotUsable, Options, verifySettings } from './settings.ts'

type Json = Record<string, any>

const MINIMAL = { stripe: { apiKey: 'sk_test_1', webhookSecret: 'whsec_1' }, products: { price_1: 'pro' } }

/** JSON schema without descriptions. */
function rulesOf(schema: z.ZodType): Json {
  const bare = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(bare)
    if (typeof value !== 'object' || value === null) return value
    const members = Object.entries(value).filter(([name, one]) => name !== 'description' || typeof one !== 'string')
    return Object.fromEntries(members.map(([name, one]) => [name, bare(one)]))
  }
  return bare(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })) as Json
}

test('service settings and options have the same rules and defaults', () => {
  const [file, own] = [rulesOf(BillingSettings), rulesOf(Options)]
  const { stripe: fileStripe, ...fileRest } = file.properties
  const { stripe: ownStripe, ...ownRest } = own.properties
  expect(fileRest).toEqual(ownRest)
  expect(fileStripe.properties).toEqual(ownStripe.properties)
  expect([ownStripe.required, fileStripe.required]).toEqual([['apiKey'], undefined])
  expect([own.required, file.required]).toEqual([['stripe', 'products'], ['products']])
})

test('service settings and options parse the same input to the same result', () => {
  const all = {
    stripe: {
      ...MINIMAL.stripe,
      webhookSecret: ['whsec_1', 'whsec_2'],
      apiVersion: '2026-10-28.endive',
      timeoutMs: 1_000,
    },
    products: { 'price_1.a-b': 'pro', prod_2: 'free' },
    defaultPlan: 'free',
    webhook: { path: '/hooks', allowedIps: ['10.0.0.0/8', '2001:db8::1'], trustProxy: 2, retentionDays: 31 },
    dunning: { maxAttempts: 2, graceDays: 0.5, action: 'suspend' },
    usage: { calls: { meter: 'api_calls', priceId: 'price_3', flushMs: 5_000 }, other: { meter: 'm' } },
    onTenantDelete: 'detach',
  }
  for (const given of [MINIMAL, all]) expect(BillingSettings.parse(given)).toEqual(Options.parse(given))
})

/** Paths and messages of validation errors. */
const errorsOf = (schema: z.ZodType, given: object): string[] => {
  const { error } = schema.safeParse(given)
  return (error?.issues ?? []).map(({ path, message }) => `${path.join('.')}: ${message}`)
}

test.each<[string, object]>([
  ['an invalid address', { webhook: { allowedIps: ['stripe.com'] } }],
  ['an invalid range', { webhook: { allowedIps: ['10/8', '10.0.0.0/33'] } }],
  ['an invalid path', { webhook: { path: 'stripe' } }],
  ['a retention that is too short', { webhook: { retentionDays: 29 } }],
  ['invalid ids', { products: { 'price 1': 'pro' }, usage: { calls: { meter: 'm', priceId: 'price 3' } } }],
  ['an invalid quota name', { usage: { 'a b': { meter: 'm' } } }],
  ['a meter without a name', { usage: { calls: { meter: '', flushMs: 1 } } }],
  ['an invalid API key', { stripe: { apiKey: 'pk_test_1', webhookSecret: [] } }],
  ['an invalid endpoint', { stripe: { apiKey: 'sk_test_1', endpoint: 'localhost', timeoutMs: 1 } }],
  ['an invalid dunning policy', { dunning: { maxAttempts: 0, graceDays: 366, action: 'shout' } }],
  ['an unknown onTenantDelete', { onTenantDelete: 'forget' }],
  ['an unknown option', { price: 1 }],
])('service settings and options reject %s with the same messages', (_, more) => {
  const words = errorsOf(Options, { ...MINIMAL, ...more })
  expect(words.length).toBeGreaterThan(0)
  expect(errorsOf(BillingSettings, { ...MINIMAL, ...more })).toEqual(words)
})

describe('service settings and options agree on rules across members', () => {
  const PLANS = ['free', 'pro']
  const byGuard = (given: object, env = {}): boolean => {
    try {
      verifySettings(Options.parse(given), { env, isPlan: (name) => PLANS.includes(name) })
      return false
    } catch (error) {
      if (!(error instanceof BillingNotUsable)) throw error
      return true
    }
  }
  const byFile = (given: object, env = {}): boolean =>
    billingErrors(BillingSettings.parse(given), env, PLANS).length > 0
  const withSecret = (webhookSecret: unknown) => ({ ...MINIMAL, stripe: { ...MINIMAL.stripe, webhookSecret } })

  test.each<[boolean, object]>([
    [false, MINIMAL],
    [false, withSecret(['whsec_1', 'whsec_2'])],
    [true, withSecret(undefined)],
    ...['', 'whsec_', ' whsec_1', 'whsec_1 ', 'whsec_1\n', 'whsec_1 2', 'sk_test_1', ['whsec_1', ' whsec_2']].map(
      (secret): [boolean, object] => [true, withSecret(secret)],
    ),
    [true, { ...MINIMAL, products: { price_1: 'gold' } }],
    [true, { ...MINIMAL, products: { price_1: 'toString' } }],
    [true, { ...MINIMAL, defaultPlan: 'gold' }],
    [false, { ...MINIMAL, defaultPlan: 'free' }],
  ])('%j: %j', (isRejected, given) => {
    expect([byGuard(given), byFile(given)]).toEqual([isRejected, isRejected])
  })

  const [PRODUCTION, ALLOWED] = [{ NODE_ENV: 'production' }, { STRIPE_ALLOW_LIVE_IN_DEV: 'true' }]
  test.each<[boolean, string, object]>([
    [false, 'sk_test_1', {}],
    [true, 'sk_live_1', {}],
    [true, 'rk_live_1', { STRIPE_ALLOW_LIVE_IN_DEV: '1' }],
    [false, 'rk_live_1', ALLOWED],
    [false, 'sk_live_1', PRODUCTION],
    [true, 'sk_test_1', PRODUCTION],
    [true, 'rk_test_1', { ...PRODUCTION, ...ALLOWED }],
  ])('rejected is %j: key %s with %j', (isRejected, apiKey, env) => {
    const given = { ...MINIMAL, stripe: { ...MINIMAL.stripe, apiKey } }
    expect([byGuard(given, env), byFile(given, env)]).toEqual([isRejected, isRejected])
  })
})
