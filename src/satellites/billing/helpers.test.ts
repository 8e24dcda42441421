/**
 * Tests the public API of billing with an available provider: customers, checkouts, portal, plan changes,
 * cancellations; also over HTTP.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { eventually } from '../../testing/base/tenancy.ts'
import { type OpenBilling, openBilling } from './billing.fixture.ts'

const [PRO_MONTHLY, PRO_YEARLY, SCALE] = ['price_pro_monthly', 'price_pro_yearly', 'price_scale']
const urls = { successUrl: 'https://app.example/paid', cancelUrl: 'https://app.example/plans' }
const returnUrl = 'https://app.example/account'

let open: OpenBilling
/** A price that is mapped to the plan `scale` by its product. */
let ofProduct: string

beforeAll(async () => {
  open = await openBilling(inject('postgresUrl'), {
    options: {
      products: { [PRO_MONTHLY]: 'pro', [PRO_YEARLY]: 'pro', [SCALE]: 'scale', prod_scale: 'scale' },
      stripe: { maxNetworkRetries: 3 },
    },
  })
  const { provider } = open
  const product = provider.product({ name: 'Pro' }).id
  provider.price({ id: PRO_MONTHLY, product, amount: 2_900, interval: 'month' })
  provider.price({ id: PRO_YEARLY, product, amount: 29_000, interval: 'year' })
  provider.product({ id: 'prod_scale', name: 'Scale' })
  provider.price({ id: SCALE, product: 'prod_scale', amount: 29_900, interval: 'month' })
  ofProduct = provider.price({ product: 'prod_scale', amount: 299_000, interval: 'year' }).id
})
afterAll(() => open.end())
beforeEach(() => open.provider.faults.clear())

const billing = () => open.tenancy.billing
const tenant = async () => (await open.tenancy.tenants.create({ name: 'Payer' })).id
const errorWith = (code: string, words = '') => ({ code, message: expect.stringContaining(words) })
const requestsTo = (path: string) => open.provider.requests.filter((request) => request.path === path)
const madeFor = (tenantId: string) =>
  open.provider.events.filter(({ type, data }) => {
    const { metadata } = data.object as { metadata?: Record<string, string> }
    return type === 'customer.created' && metadata?.tenantId === tenantId
  })
const subscriber = async (price = PRO_MONTHLY) => {
  const tenantId = await tenant()
  const { id } = await billing().checkout(tenantId, { priceId: price, ...urls })
  const session = open.provider.completeCheckout(id ?? '')
  await open.deliverAndProcess()
  return { tenantId, subscriptionId: session.subscription as string }
}
const planOf = async (tenantId: string) => (await open.tenancy.tenants.get(tenantId)).metadata.plan ?? 'free'

describe('a customer', () => {
  test('is created once by concurrent calls in several processes', async () => {
    const tenantId = await tenant()
    const others = await Promise.all([open.open(), open.open()])
    const posts = requestsTo('/v1/customers').length
    const held = open.provider.faults.hold({ path: '/v1/customers', times: 1 })
    const all = Promise.all(
      Array.from({ length: 12 }, (_, n) =>
        ([open.tenancy, ...others][n % 3] ?? open.tenancy).billing.ensureCustomer(tenantId),
      ),
    )
    // Each process has sent a request, and only the first has been executed before any response.
    await eventually(() => expect(requestsTo('/v1/customers').length).toBeGreaterThanOrEqual(posts + 3))
    held.release()
    const ids = await all
    expect(new Set(ids).size).toBe(1)
    expect(madeFor(tenantId)).toHaveLength(1)
    expect(await billing().ensureCustomer(tenantId)).toBe(ids[0])
    expect(await billing().of(tenantId)).toMatchObject({ customerId: ids[0], subscription: null, plan: 'free' })
    await Promise.all(others.map((other) => other.stop()))
  })

  test('has only the tenant id as metadata', async () => {
    const tenantId = await tenant()
    await billing().ensureCustomer(tenantId)
    expect(requestsTo('/v1/customers').at(-1)?.params).toEqual({ metadata: { tenantId } })
  })

  test('whose response was lost is found by the next call', async () => {
    const tenantId = await tenant()
    open.provider.faults.lose({ path: '/v1/customers' })
    await expect(billing().ensureCustomer(tenantId)).rejects.toMatchObject({ code: 'E_DEPENDENCY_UNAVAILABLE' })
    const customerId = await billing().ensureCustomer(tenantId)
    expect(madeFor(tenantId).map(({ data }) => data.object)).toMatchObject([{ id: customerId }])
  })

  test('that was deleted is replaced, with and without a received event', async () => {
    const tenantId = await tenant()
    const first = await billing().ensureCustomer(tenantId)
    open.provider.deleteCustomer(first)
    await open.deliverAndProcess()
    expect(await billing().of(tenantId)).toMatchObject({ customerId: null })
    const second = await billing().ensureCustomer(tenantId)
    expect(second).not.toBe(first)
    open.provider.deleteCustomer(second)
    expect(await billing().portal(tenantId, { returnUrl })).toMatchObject({ url: expect.stringContaining('http') })
    const third = await billing().ensureCustomer(tenantId)
    expect(new Set([first, second, third]).size).toBe(3)
    await open.deliverAndProcess()
    expect(await billing().ensureCustomer(tenantId)).toBe(third)
    open.provider.deleteCustomer(third)
    const { id } = await billing().checkout(tenantId, { priceId: SCALE, ...urls })
    open.provider.completeCheckout(id ?? '')
    await open.deliverAndProcess()
    expect(await planOf(tenantId)).toBe('scale')
  })

  test('that is the second of a tenant is rejected and published', async () => {
    const { tenantId, subscriptionId } = await subscriber()
    const { customerId } = await billing().of(tenantId)
    open.receivedEvents.splice(0)
    const other = open.provider.customer({ metadata: { tenantId } })
    open.provider.subscribe(other.id, SCALE)
    await open.deliverAndProcess()
    expect(await billing().of(tenantId)).toMatchObject({
      customerId,
      plan: 'pro',
      subscription: { id: subscriptionId },
    })
    expect(open.receivedEvents).toContainEqual([
      'BillingMisconfigured',
      expect.objectContaining({ tenantId, reason: 'second_customer', customerId: other.id }),
    ])
    expect(open.log.join('\n')).toContain('a second customer for a tenant was rejected')
    expect((await open.inbox()).filter(({ status }) => status === 'failed')).toEqual([])
  })
})

describe('a checkout', () => {
  test('sends the requested options, and no others', async () => {
    const tenantId = await tenant()
    const session = await billing().checkout(tenantId, { priceId: PRO_MONTHLY, ...urls })
    const { customerId } = await billing().of(tenantId)
    expect(session).toEqual({ url: expect.stringMatching(/^https?:/), id: expect.stringMatching(/^cs_test_/) })
    const plain = {
      mode: 'subscription',
      customer: customerId,
      client_reference_id: tenantId,
      line_items: [{ price: PRO_MONTHLY, quantity: '1' }],
      success_url: urls.successUrl,
      cancel_url: urls.cancelUrl,
      metadata: { tenantId },
      subscription_data: { metadata: { tenantId } },
    }
    expect(requestsTo('/v1/checkout/sessions').at(-1)?.params).toEqual(plain)
    await billing().checkout(tenantId, { priceId: PRO_YEARLY, ...urls, trialDays: 14, allowPromotionCodes: true })
    expect(requestsTo('/v1/checkout/sessions').at(-1)?.params).toEqual({
      ...plain,
      line_items: [{ price: PRO_YEARLY, quantity: '1' }],
      subscription_data: { metadata: { tenantId }, trial_period_days: '14' },
      allow_promotion_codes: 'true',
    })
  })

  test('accepts a mapped price or a price of a mapped product', async () => {
    const tenantId = await tenant()
    await billing().checkout(tenantId, { priceId: ofProduct, ...urls })
    const sessions = requestsTo('/v1/checkout/sessions').length
    const unmapped = await tenant()
    for (const priceId of [open.prices.unmapped, 'price_unheard_of']) {
      const checkout = billing().checkout(unmapped, { priceId, ...urls })
      await expect(checkout).rejects.toMatchObject(errorWith('E_PRICE_NOT_MAPPED', 'billing.products'))
    }
    expect(requestsTo('/v1/checkout/sessions')).toHaveLength(sessions)
    expect(madeFor(unmapped)).toEqual([])
  })

  test.each([
    [{ priceId: 'the pro price' }, 'priceId'],
    [{ successUrl: 'nowhere' }, 'successUrl'],
    [{ cancelUrl: 'javascript:alert(1)' }, 'cancelUrl'],
    [{ trialDays: 0 }, 'trialDays'],
    [{ coupon: 'FREE' }, 'coupon'],
  ])('is rejected with %j', async (wrong, path) => {
    const request = { priceId: PRO_MONTHLY, ...urls, ...wrong }
    await expect(billing().checkout('unknown', request)).rejects.toMatchObject(errorWith('E_INVALID_REQUEST', path))
  })
})

describe('a plan change', () => {
  let payer: string

  beforeAll(async () => {
    payer = (await subscriber()).tenantId
  })

  test('accepts a price, or a plan with one price', async () => {
    const { tenantId, subscriptionId } = await subscriber()
    expect(await billing().changePlan(tenantId, { priceId: PRO_YEARLY })).toMatchObject({
      plan: 'pro',
      subscription: { id: subscriptionId, items: [{ priceId: PRO_YEARLY }] },
    })
    expect(await billing().changePlan(tenantId, { plan: 'scale' })).toMatchObject({ plan: 'scale' })
    expect(await planOf(tenantId)).toBe('scale')
    expect(await billing().changePlan(tenantId, { priceId: ofProduct })).toMatchObject({ plan: 'scale' })
    await open.deliverAndProcess()
    expect(await billing().of(tenantId)).toMatchObject({
      plan: 'scale',
      subscription: { items: [{ priceId: ofProduct }] },
    })
  })

  test.each([
    [
      { plan: 'pro' },
      'E_INVALID_REQUEST',
      `several prices are mapped to it (${PRO_MONTHLY}, ${PRO_YEARLY}). Use priceId instead`,
    ],
    [{ plan: 'free' }, 'E_INVALID_REQUEST', 'must be the plan of a price in billing.products'],
    [{ plan: 'gold' }, 'E_INVALID_REQUEST', 'must be the plan of a price in billing.products'],
    [{}, 'E_INVALID_REQUEST', 'either priceId or plan'],
    [{ plan: 'pro', priceId: PRO_MONTHLY }, 'E_INVALID_REQUEST', 'either priceId or plan'],
    [{ priceId: 'price_unheard_of' }, 'E_PRICE_NOT_MAPPED', 'price_unheard_of'],
  ])('with %j is rejected with %s', async (request, code, words) => {
    await expect(billing().changePlan(payer, request)).rejects.toMatchObject(errorWith(code, words))
    expect(await planOf(payer)).toBe('pro')
  })
})

describe('a cancellation', () => {
  test('ends the subscription with its period, and then immediately', async () => {
    const { tenantId } = await subscriber()
    expect(await billing().cancel(tenantId)).toMatchObject({
      plan: 'pro',
      subscription: { status: 'active', cancelAtPeriodEnd: true },
    })
    expect(await billing().cancel(tenantId, { atPeriodEnd: false })).toMatchObject({
      plan: 'free',
      subscription: { status: 'canceled', endedAt: expect.any(String) },
    })
    await expect(billing().cancel(tenantId)).rejects.toMatchObject(errorWith('E_SUBSCRIPTION_NOT_FOUND', tenantId))
    await open.deliverAndProcess()
    expect(await planOf(tenantId)).toBe('free')
  })

  test('of a subscription that was canceled at the provider returns its state', async () => {
    const { tenantId, subscriptionId } = await subscriber()
    open.provider.cancel(subscriptionId)
    expect(await billing().cancel(tenantId, { atPeriodEnd: false })).toMatchObject({
      subscription: { status: 'canceled' },
    })
  })
})

test('all operations of billing work over HTTP', async () => {
  const id = await tenant()
  const at = `/tenants/${id}/billing`
  expect(await open.call('GET', at)).toMatchObject({
    status: 200,
    json: { tenantId: id, customerId: null, plan: 'free', subscription: null, dunning: null, unreportedUsage: [] },
  })
  const checkout = await open.call('POST', `${at}/checkout`, { priceId: PRO_MONTHLY, ...urls, trialDays: 7 })
  expect(checkout).toMatchObject({ status: 201, json: { url: expect.any(String), id: expect.any(String) } })
  open.provider.completeCheckout(checkout.json.id)
  await open.deliverAndProcess()
  expect(await open.call('GET', at)).toMatchObject({ json: { plan: 'pro', subscription: { status: 'trialing' } } })
  expect(await open.call('POST', `${at}/portal`, { returnUrl })).toMatchObject({
    status: 201,
    json: { url: expect.stringContaining('http') },
  })
  expect(requestsTo('/v1/billing_portal/sessions').at(-1)?.params).toMatchObject({ return_url: returnUrl })
  expect(await open.call('POST', `${at}/cancel`)).toMatchObject({
    status: 200,
    json: { subscription: { cancelAtPeriodEnd: true } },
  })
  expect(await open.call('POST', `${at}/cancel`, { atPeriodEnd: false })).toMatchObject({ json: { plan: 'free' } })
  expect(await open.call('POST', `${at}/cancel`)).toMatchObject({
    status: 404,
    json: { code: 'E_SUBSCRIPTION_NOT_FOUND' },
  })
})

test('a sum of usage above the safe integer range is returned rounded', async () => {
  const { id } = await open.tenancy.tenants.create({ name: 'Payer' })
  for (const one of ['first', 'second']) {
    await open.tenancy.billing.reportUsage(id, 'calls', Number.MAX_SAFE_INTEGER, { id: one })
  }
  const { status, json } = await open.call('GET', `/tenants/${id}/billing`)
  expect(status).toBe(200)
  expect(json.unreportedUsage).toMatchObject([{ meter: 'calls', quantity: 2 * Number.MAX_SAFE_INTEGER }])
})
