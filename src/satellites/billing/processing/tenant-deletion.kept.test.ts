/** Tests deleted tenants whose subscriptions continue: detached from the tenant, or preserved for it. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { OpenBilling } from '../billing.fixture.ts'
import { atProvider, openWith, planOf, receivedOf, sendUsage, statusOf, track } from './tenant-deletion.fixture.ts'

describe('tenant deletion with onTenantDelete: detach', () => {
  let open: OpenBilling

  beforeAll(async () => {
    open = await openWith('detach')
  })
  afterAll(() => open.end())

  test('the subscription continues, and usage before the deletion is billed', async () => {
    const payer = await open.subscriber()
    await track(open, payer, 4)
    await sendUsage(open)
    await track(open, payer, 3)
    await open.tenancy.tenants.delete(payer.tenantId)
    await sendUsage(open)
    expect(open.provider.usage('api_calls', payer.customerId)).toBe(7)
    expect(await atProvider(open, payer)).toBe('active')
    expect(await open.tenancy.billing.of(payer.tenantId)).toMatchObject({ customerId: null, unreportedUsage: [] })
  })

  test('a restored tenant gets a new customer', async () => {
    const payer = await open.subscriber()
    await open.tenancy.tenants.delete(payer.tenantId)
    await open.tenancy.tenants.restore(payer.tenantId)
    const next = await open.tenancy.billing.ensureCustomer(payer.tenantId)
    expect(next).not.toBe(payer.customerId)
    expect(await open.tenancy.billing.of(payer.tenantId)).toMatchObject({ customerId: next })
    expect(await atProvider(open, payer)).toBe('active')
  })

  test('a restored tenant is not affected by events of the detached subscription', async () => {
    const payer = await open.subscriber()
    await open.tenancy.tenants.delete(payer.tenantId)
    await open.tenancy.tenants.restore(payer.tenantId)
    expect(await planOf(open, payer)).toBe('free')
    open.receivedEvents.splice(0)
    open.provider.changePrice(payer.subscriptionId, open.prices.scale, 'always_invoice')
    open.provider.setPaymentMethod(payer.customerId, 'declines')
    open.provider.advance({ days: 31, hours: 2 })
    await open.deliverAndProcess()
    expect(await planOf(open, payer)).toBe('free')
    expect(receivedOf(open, payer)).toEqual([])
    expect((await open.inbox()).filter(({ status }) => status !== 'completed')).toEqual([])
    expect(await open.tenancy.billing.of(payer.tenantId)).toMatchObject({ subscription: null, dunning: null })
  })

  test('a restored tenant has no debt from before the deletion', async () => {
    const payer = await open.subscriber()
    open.provider.setPaymentMethod(payer.customerId, 'declines')
    open.provider.advance({ days: 31, hours: 2 })
    await open.deliverAndProcess()
    expect((await open.tenancy.billing.of(payer.tenantId)).dunning?.state).toBe('retrying')
    await open.tenancy.tenants.delete(payer.tenantId)
    await open.tenancy.tenants.restore(payer.tenantId)
    expect(await open.tenancy.billing.of(payer.tenantId)).toMatchObject({ subscription: null, dunning: null })
    expect((await open.tenancy.tenants.get(payer.tenantId)).status).toBe('active')
  })

  test('a new subscription of a restored tenant is effective', async () => {
    const payer = await open.subscriber()
    await open.tenancy.tenants.delete(payer.tenantId)
    await open.tenancy.tenants.restore(payer.tenantId)
    const { id } = await open.tenancy.billing.checkout(payer.tenantId, {
      priceId: open.prices.scale,
      successUrl: 'https://app.example/paid',
      cancelUrl: 'https://app.example/plans',
    })
    open.provider.completeCheckout(id ?? '')
    open.provider.cancel(payer.subscriptionId)
    await open.deliverAndProcess()
    expect(await planOf(open, payer)).toBe('scale')
    expect(await statusOf(open, payer)).toBe('active')
  })
})

describe('tenant deletion with onTenantDelete: preserve', () => {
  let open: OpenBilling

  beforeAll(async () => {
    open = await openWith('preserve')
  })
  afterAll(() => open.end())

  test('a restored tenant has the current plan of its subscription', async () => {
    const payer = await open.subscriber()
    await open.tenancy.tenants.delete(payer.tenantId)
    open.provider.changePrice(payer.subscriptionId, open.prices.scale)
    await open.deliverAndProcess()
    expect(await planOf(open, payer)).toBe('pro')
    await open.tenancy.tenants.restore(payer.tenantId)
    expect(await planOf(open, payer)).toBe('scale')
    expect(await open.tenancy.billing.of(payer.tenantId)).toMatchObject({ customerId: payer.customerId })
  })
})
