import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { DependencyDegraded } from '../../kernel/resilience/resilience.ts'
import { type OpenBilling, openBilling } from './billing.fixture.ts'
import { billing } from './index.ts'

const urls = { successUrl: 'https://app.example/paid', cancelUrl: 'https://app.example/plans' }
const returnUrl = 'https://app.example/account'
const UNKNOWN_TENANT = 'unknown'

let open: OpenBilling
const degraded: Record<string, unknown>[] = []

beforeAll(async () => {
  open = await openBilling(inject('postgresUrl'))
  open.tenancy.on(DependencyDegraded, (event) => void degraded.push(event))
})
afterAll(() => open.end())
afterEach(() => {
  open.provider.faults.clear()
  degraded.splice(0)
})

const tenant = async () => (await open.tenancy.tenants.create({ name: 'Payer' })).id
const checkout = (id: string, of = open) =>
  of.call('POST', `/tenants/${id}/billing/checkout`, { priceId: of.prices.pro, ...urls })
const portal = (id: string, of = open) => of.call('POST', `/tenants/${id}/billing/portal`, { returnUrl })
const cancel = (id: string, of = open) => of.call('POST', `/tenants/${id}/billing/cancel`, { atPeriodEnd: false })

describe('a tenant', () => {
  test('that is unknown: every call responds 404', async () => {
    const requestsBefore = open.provider.requests.length
    const calls = [
      open.call('GET', `/tenants/${UNKNOWN_TENANT}/billing`),
      checkout(UNKNOWN_TENANT),
      portal(UNKNOWN_TENANT),
      cancel(UNKNOWN_TENANT),
    ]
    for (const { status, json } of await Promise.all(calls)) {
      expect({ status, code: json.code }).toEqual({ status: 404, code: 'E_TENANT_NOT_FOUND' })
    }
    const { billing } = open.tenancy
    const unknown = { code: 'E_TENANT_NOT_FOUND' }
    await expect(billing.ensureCustomer(UNKNOWN_TENANT)).rejects.toMatchObject(unknown)
    await expect(billing.changePlan(UNKNOWN_TENANT, { plan: 'pro' })).rejects.toMatchObject(unknown)
    expect(open.provider.requests).toHaveLength(requestsBefore)
  })

  test('that is deleted keeps its state and cannot start a checkout', async () => {
    const id = await open.tenant()
    await open.tenancy.billing.ensureCustomer(id)
    await open.tenancy.tenants.delete(id)
    expect((await open.call('GET', `/tenants/${id}/billing`)).status).toBe(200)
    for (const call of [checkout(id), portal(id)]) {
      expect(await call).toMatchObject({ status: 409, json: { code: 'E_TENANT_STATE' } })
    }
    await expect(open.tenancy.billing.ensureCustomer(id)).rejects.toMatchObject({ code: 'E_TENANT_STATE' })
  })

  test('without a subscription cannot cancel or change it', async () => {
    const id = await tenant()
    expect(await cancel(id)).toMatchObject({ status: 404, json: { code: 'E_SUBSCRIPTION_NOT_FOUND' } })
    const change = open.tenancy.billing.changePlan(id, { priceId: open.prices.pro })
    await expect(change).rejects.toMatchObject({ code: 'E_SUBSCRIPTION_NOT_FOUND' })
  })
})

describe('billing calls while the provider is unusable', () => {
  const wrongKey = 'sk_test_another'
  const ways: [string, (of: OpenBilling) => unknown][] = [
    ['is down', ({ provider }) => provider.down()],
    ['responds 500', ({ provider }) => provider.faults.respond(500)],
    ['has a conflicting request', ({ provider }) => provider.faults.respond(409)],
    ['responds 429', ({ provider }) => provider.faults.respond(429, { headers: { 'retry-after': '60' } })],
    ['rejects the key', ({ provider }) => Object.assign(provider.settings, { apiKey: wrongKey })],
  ]
  const repair = async ({ provider }: OpenBilling, isDown: boolean) => {
    if (isDown) await provider.up()
    provider.faults.clear()
    Object.assign(provider.settings, { apiKey: provider.apiKey })
  }

  test.each(ways)(
    'respond 503 with retry-after and publish DependencyDegraded, without an effect, when it %s',
    async (how, spoil) => {
      const { tenantId } = await open.subscriber()
      const other = await tenant()
      await spoil(open)
      const responses = await Promise.all([checkout(other), portal(tenantId), cancel(tenantId)])
      for (const { status, json, headers } of responses) {
        expect({ status, code: json.code }).toEqual({ status: 503, code: 'E_DEPENDENCY_UNAVAILABLE' })
        expect(headers.get('retry-after')).toBe('5')
      }
      expect(degraded).toMatchObject([
        { dependency: 'provider', operation: 'billing.checkout', tenantId: other, policy: 'fail-closed' },
      ])
      expect((await open.call('GET', `/tenants/${tenantId}/billing`)).status).toBe(200)
      await repair(open, how === 'is down')
      expect(await checkout(other)).toMatchObject({ status: 201 })
      expect((await cancel(tenantId)).status).toBe(200)
    },
  )

  test('fail with E_DEPENDENCY_UNAVAILABLE after stripe.timeoutMs, without an effect', async () => {
    const { tenantId } = await open.subscriber()
    const stripe = { ...open.options.stripe, timeoutMs: 100 }
    const withShortTimeout = await open.open({ satellites: [billing({ ...open.options, stripe })] })
    open.provider.faults.hold({ times: Infinity })
    const calls = [
      withShortTimeout.billing.checkout(tenantId, { priceId: open.prices.pro, ...urls }),
      withShortTimeout.billing.portal(tenantId, { returnUrl }),
      withShortTimeout.billing.cancel(tenantId, { atPeriodEnd: false }),
    ]
    const unavailable = { code: 'E_DEPENDENCY_UNAVAILABLE' }
    expect((await Promise.allSettled(calls)).map((one) => 'reason' in one && one.reason)).toMatchObject(
      Array(3).fill(unavailable),
    )
    open.provider.faults.clear()
    expect(await open.tenancy.billing.of(tenantId)).toMatchObject({ plan: 'pro', subscription: { status: 'active' } })
    expect((await cancel(tenantId)).status).toBe(200)
    await withShortTimeout.stop()
  })

  test('return cancelUrl for a checkout with fail-open, and publish DependencyDegraded', async () => {
    const lenient = await open.open({ resilience: { provider: { checkout: 'fail-open' } } })
    const published: Record<string, unknown>[] = []
    lenient.on(DependencyDegraded, (event) => void published.push(event))
    const begin = (tenantId: string) => lenient.billing.checkout(tenantId, { priceId: open.prices.pro, ...urls })
    const id = await tenant()
    await open.provider.down()
    expect(await begin(id)).toEqual({ url: urls.cancelUrl, id: null })
    await expect(lenient.billing.portal(id, { returnUrl })).rejects.toMatchObject({ code: 'E_DEPENDENCY_UNAVAILABLE' })
    expect(published).toMatchObject([{ dependency: 'provider', policy: 'fail-open', tenantId: id }])
    await expect(begin(UNKNOWN_TENANT)).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
    await open.provider.up()
    expect(await begin(id)).toMatchObject({ id: expect.any(String) })
    open.provider.faults.respond(400, { path: '/v1/checkout' })
    await expect(begin(id)).rejects.toMatchObject({ code: 'E_PAYMENT_REJECTED' })
    expect(published).toHaveLength(1)
    await lenient.stop()
  })
})

describe('a call that the provider rejects', () => {
  test('responds 422, without an effect', async () => {
    const { tenantId } = await open.subscriber()
    open.provider.faults.respond(400, { method: 'POST' })
    open.provider.faults.respond(402, { method: 'DELETE' })
    for (const response of [await checkout(tenantId), await portal(tenantId), await cancel(tenantId)]) {
      expect(response).toMatchObject({ status: 422, json: { code: 'E_PAYMENT_REJECTED' } })
    }
    const change = open.tenancy.billing.changePlan(tenantId, { priceId: open.prices.scale })
    await expect(change).rejects.toMatchObject({ code: 'E_PAYMENT_REJECTED' })
    expect(await open.tenancy.billing.of(tenantId)).toMatchObject({ plan: 'pro', subscription: { status: 'active' } })
  })

  test('responds 404 if the provider no longer has the subscription', async () => {
    const { tenantId, subscriptionId } = await open.subscriber()
    open.provider.forget(subscriptionId)
    expect(await cancel(tenantId)).toMatchObject({ status: 404, json: { code: 'E_SUBSCRIPTION_NOT_FOUND' } })
  })

  test('responds 503 if the key belongs to another account, and keeps the mapping of the customer', async () => {
    const { tenantId, customerId } = await open.subscriber()
    open.provider.forget(customerId)
    const { status, json } = await portal(tenantId)
    expect({ status, detail: json.detail }).toEqual({
      status: 503,
      detail: expect.stringContaining('the API key belongs to another account'),
    })
    const { billing } = open.tenancy
    await expect(Array.fromAsync(billing.sync.run(tenantId))).rejects.toMatchObject({ code: 'customer_not_found' })
    await expect(billing.tenantDeletion.cancelAll(customerId)).resolves.toBeUndefined() // the tenant is not deleted
    expect(await billing.of(tenantId)).toMatchObject({ customerId, plan: 'pro' })
  })
})

describe('a lost response', () => {
  test('to a cancellation is repeated, and the call returns the ended subscription', async () => {
    const { tenantId } = await open.subscriber()
    open.provider.faults.cut({ path: '/v1/subscriptions', method: 'DELETE' })
    expect(await cancel(tenantId)).toMatchObject({ status: 200, json: { subscription: { status: 'canceled' } } })
    expect(open.provider.faults.counts.cut).toBeGreaterThan(0)
  })
})
