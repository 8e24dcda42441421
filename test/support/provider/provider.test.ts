/**
 * Tests the fake with Stripe's client against Stripe's documentation: keys, objects, errors, lists, idempotency and
 * events.
 *
 * - Keys: https://docs.stripe.com/api/authentication, the request that checks one: https://docs.stripe.com/api/balance
 * - Expansion: https://docs.stripe.com/api/expanding_objects, metadata: https://docs.stripe.com/api/metadata
 * - Search, and its delay: https://docs.stripe.com/search
 * - Errors: https://docs.stripe.com/api/errors, their codes: https://docs.stripe.com/error-codes
 * - Deleted customers: https://docs.stripe.com/api/customers/delete
 * - Pages: https://docs.stripe.com/api/pagination
 * - Events, and the 30 days for which they are listed: https://docs.stripe.com/api/events/list
 * - Subscriptions that a list leaves out: https://docs.stripe.com/api/subscriptions/list
 * - Idempotency keys, and their 24 hours: https://docs.stripe.com/api/idempotent_requests
 * - Signatures, and their 5 minutes: https://docs.stripe.com/webhooks
 */
import Stripe from 'stripe'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Provider, startProvider } from './provider.ts'

let provider: Provider
let stripe: Stripe

beforeEach(async () => {
  provider = await startProvider({ start: new Date('2026-03-10T12:00:00Z') })
  stripe = new Stripe(provider.apiKey, { ...provider.clientOptions, maxNetworkRetries: 0 })
})
afterEach(() => provider.close())

function monthly(amount = 2900): Stripe.Price {
  return provider.price({ product: provider.product({ name: 'Pro' }).id, amount, interval: 'month' })
}

const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: Stripe.errors.StripeError) => error,
  )

describe('a key', () => {
  test('is accepted by the balance request', async () => {
    expect(await stripe.balance.retrieve()).toMatchObject({ object: 'balance', livemode: false })
    expect(await stripe.accounts.retrieveCurrent()).toMatchObject({ object: 'account' })
  })

  test('of another account is rejected with 401', async () => {
    const stranger = new Stripe('sk_test_of_another_account', provider.clientOptions)
    const error = await failure(stranger.balance.retrieve())
    expect(error).toBeInstanceOf(Stripe.errors.StripeAuthenticationError)
    expect(error).toMatchObject({ statusCode: 401, rawType: 'invalid_request_error' })
    expect(error?.message).not.toContain('sk_test_of_another_account')
  })
})

describe('objects', () => {
  test('products, prices and customers can be created, read and changed', async () => {
    const product = await stripe.products.create({ name: 'Pro', metadata: { tier: '2' } })
    const price = await stripe.prices.create({
      product: product.id,
      currency: 'eur',
      unit_amount: 1050,
      recurring: { interval: 'year' },
    })
    expect(price.unit_amount_decimal?.toString()).toBe('1050')
    expect(await stripe.prices.retrieve(price.id, { expand: ['product'] })).toMatchObject({
      recurring: { interval: 'year', interval_count: 1 },
      product: { id: product.id, metadata: { tier: '2' } },
    })
    const customer = await stripe.customers.create({ email: 'a@example.com', address: { city: 'Bern' } })
    await stripe.customers.update(customer.id, { name: 'Ada', metadata: { tenantId: 'acme', gone: 'soon' } })
    await stripe.customers.update(customer.id, { metadata: { gone: '' } })
    expect(await stripe.customers.retrieve(customer.id)).toMatchObject({
      name: 'Ada',
      address: { city: 'Bern', line1: null },
      metadata: { tenantId: 'acme' },
    })
    expect(provider.events.at(-1)).toMatchObject({
      type: 'customer.updated',
      data: { previous_attributes: { metadata: { gone: 'soon' } } },
      request: { id: expect.stringMatching(/^req_/), idempotency_key: expect.any(String) },
    })
  })

  test('search finds customers after a delay', async () => {
    const acme = provider.customer({ metadata: { tenantId: 'acme' } })
    provider.customer({ metadata: { tenantId: 'other' }, email: 'other@example.com' })
    const found = async (query: string) => (await stripe.customers.search({ query })).data.map(({ id }) => id)
    expect(await found(`metadata['tenantId']:'acme'`)).toEqual([acme.id])
    expect(await found(`metadata["tenantId"]:"acme" AND email:"other@example.com"`)).toEqual([])
    expect(await found(`metadata['tenantId']:'acme' OR email~'OTHER'`)).toHaveLength(2)
    provider.settings.searchDelaySeconds = 60
    expect(await found(`metadata['tenantId']:'acme'`)).toEqual([])
    provider.advance({ seconds: 60 })
    expect(await found(`metadata['tenantId']:'acme'`)).toEqual([acme.id])
  })

  test('a deleted customer is returned as deleted, and can no longer be used', async () => {
    const customer = provider.customer({ email: 'a@example.com' })
    expect(await stripe.customers.del(customer.id)).toEqual({ id: customer.id, object: 'customer', deleted: true })
    expect(await stripe.customers.retrieve(customer.id)).toEqual({ id: customer.id, object: 'customer', deleted: true })
    expect((await stripe.customers.list()).data).toEqual([])
    const portal = stripe.billingPortal.sessions.create({ customer: customer.id })
    expect(await failure(portal)).toMatchObject({ statusCode: 400, code: 'resource_missing', param: 'customer' })
    expect(provider.events.at(-1)).toMatchObject({
      type: 'customer.deleted',
      data: { object: { email: 'a@example.com' } },
    })
  })

  test('an unknown object, a missing parameter and an unknown parameter are rejected with their codes', async () => {
    expect(await failure(stripe.subscriptions.retrieve('sub_none'))).toMatchObject({
      type: 'StripeInvalidRequestError',
      statusCode: 404,
      code: 'resource_missing',
      param: 'id',
    })
    expect(await failure(stripe.subscriptions.create({ items: [] }))).toMatchObject({
      statusCode: 400,
      code: 'parameter_missing',
      param: 'customer',
    })
    const unknown = stripe.customers.create({ balance: 5 })
    expect(await failure(unknown)).toMatchObject({ code: 'parameter_unknown', param: 'balance' })
  })
})

describe('lists', () => {
  test('have pages, newest first, in both directions', async () => {
    const ids = Array.from({ length: 25 }, () => provider.customer({}).id).reverse()
    const first = await stripe.customers.list({ limit: 10 })
    expect(first).toMatchObject({ has_more: true, url: '/v1/customers' })
    expect(first.data.map(({ id }) => id)).toEqual(ids.slice(0, 10))
    const last = await stripe.customers.list({ limit: 10, starting_after: ids[19] })
    expect(last.data.map(({ id }) => id)).toEqual(ids.slice(20))
    expect(last.has_more).toBe(false)
    const before = await stripe.customers.list({ limit: 5, ending_before: ids[20] })
    expect(before.data.map(({ id }) => id)).toEqual(ids.slice(15, 20))
    expect(before.has_more).toBe(true)
    const all: string[] = []
    for await (const { id } of stripe.customers.list({ limit: 7 })) all.push(id)
    expect(all).toEqual(ids)
    expect(await failure(stripe.customers.list({ limit: 101 }).then())).toMatchObject({ param: 'limit' })
    const lost = stripe.customers.list({ starting_after: 'cus_none' })
    expect(await failure(lost.then())).toMatchObject({ param: 'starting_after' })
  })

  test('of events have filters by type and time, and cover 30 days', async () => {
    provider.customer()
    provider.advance({ days: 1 })
    const since = provider.now().getTime() / 1000
    provider.customer()
    const types = async (params: Stripe.EventListParams) =>
      (await stripe.events.list(params)).data.map(({ type }) => type)
    expect(await types({ type: 'customer.created' })).toHaveLength(2)
    expect(await types({ type: 'customer.created', created: { gte: since } })).toHaveLength(1)
    expect(await types({ types: ['customer.created', 'payment_method.attached'], created: { lt: since } })).toEqual([
      'payment_method.attached',
      'customer.created',
    ])
    provider.advance({ days: 30 })
    expect(await types({ type: 'customer.created' })).toHaveLength(1)
    expect(provider.events.filter(({ type }) => type === 'customer.created')).toHaveLength(2)
  })

  test('of subscriptions exclude canceled ones, unless all are requested', async () => {
    const customer = provider.customer().id
    const kept = provider.subscribe(customer, monthly().id).id
    const gone = provider.subscribe(customer, monthly().id).id
    provider.cancel(gone)
    const ids = async (status?: 'all' | 'canceled') =>
      (await stripe.subscriptions.list({ customer, status })).data.map(({ id }) => id)
    expect(await ids()).toEqual([kept])
    expect(await ids('all')).toEqual([gone, kept])
    expect(await ids('canceled')).toEqual([gone])
    const expanded = await stripe.subscriptions.list({ customer, expand: ['data.customer', 'data.latest_invoice'] })
    expect(expanded.data[0]).toMatchObject({ customer: { id: customer }, latest_invoice: { status: 'paid' } })
  })
})

describe('an idempotency key', () => {
  test('returns the first response again for a day', async () => {
    const createCustomer = () =>
      stripe.customers.create({ metadata: { tenantId: 'acme' } }, { idempotencyKey: 'acme-1' })
    const first = await createCustomer()
    const again = await createCustomer()
    expect(again).toEqual(first)
    expect(again.lastResponse.headers['idempotent-replayed']).toBe('true')
    expect(provider.events.map(({ type }) => type)).toEqual(['customer.created'])
    expect(
      provider.requests.map(({ method, path, idempotencyKey, params }) => [method, path, idempotencyKey, params]),
    ).toEqual(Array(2).fill(['POST', '/v1/customers', 'acme-1', { metadata: { tenantId: 'acme' } }]))
    provider.advance({ days: 1 })
    expect((await createCustomer()).id).not.toBe(first.id)
  })

  test('is rejected with other parameters', async () => {
    await stripe.customers.create({ name: 'one' }, { idempotencyKey: 'key' })
    const error = await failure(stripe.customers.create({ name: 'two' }, { idempotencyKey: 'key' }))
    expect(error).toBeInstanceOf(Stripe.errors.StripeIdempotencyError)
    expect(error?.statusCode).toBe(400)
  })

  test('is in use until the first response is sent', async () => {
    const held = provider.faults.hold({ path: '/v1/customers' })
    const first = stripe.customers.create({ name: 'one' }, { idempotencyKey: 'key' })
    await held.arrived
    const error = await failure(stripe.customers.create({ name: 'one' }, { idempotencyKey: 'key' }))
    expect(error).toMatchObject({ statusCode: 409, code: 'idempotency_key_in_use' })
    held.release()
    const { id } = await first
    expect((await stripe.customers.create({ name: 'one' }, { idempotencyKey: 'key' })).id).toBe(id)
  })
})

describe('an event', () => {
  const secret = 'whsec_of_a_test'

  test('is a snapshot with previous values and API version, and without a request if no request caused it', () => {
    const { id } = provider.customer({ name: 'Ada' })
    provider.deleteCustomer(id)
    const [created, , updated, deleted] = provider.events
    expect(created).toMatchObject({ type: 'customer.created', api_version: Stripe.API_VERSION, livemode: false })
    expect(created?.data.object).toMatchObject({ invoice_settings: { default_payment_method: null } })
    expect(updated?.data.previous_attributes).toEqual({ invoice_settings: { default_payment_method: null } })
    expect(deleted).toMatchObject({ type: 'customer.deleted', request: { id: null, idempotency_key: null } })
    expect(new Set(provider.events.map((event) => event.id)).size).toBe(provider.events.length)
  })

  test('has a signature that is valid for 5 minutes', () => {
    const event = provider.emit('payout.paid', { id: 'po_1', object: 'payout' })
    const signedAgo = (seconds: number) =>
      provider.signed(event, { secret, at: new Date(Date.now() - seconds * 1_000) })
    const verified = ({ body, headers }: ReturnType<typeof signedAgo>, by = secret) =>
      stripe.webhooks.constructEvent(body, headers['stripe-signature'], by)
    expect(verified(signedAgo(0))).toEqual(event)
    expect(() => verified(signedAgo(0), 'whsec_other')).toThrow('signature')
    expect(() => verified(signedAgo(301))).toThrow('Timestamp')
  })
})
