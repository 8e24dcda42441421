/** Tenants that are deleted while their subscriptions go on: detached from the tenant, or preserved for it. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { OpenBilling } from '../billing.fixture.ts'
import { atProvider, openWith, planOf, receivedOf, sendUsage, statusOf, track } from './tenant-deletion.fixture.ts'

describe('detached from its tenant', () => {
  let open: OpenBilling

  beforeAll(async () => {
    open = await openWith('detach')
  })
  afterAll(() => open.end())

  test('a subscription goes on, and what was used until then is paid for', async () => {
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

  test('a tenant that is back begins with a customer of its own', async () => {
    const payer = await open.subscriber()
    await open.tenancy.tenants.delete(payer.tenantId)
    await open.tenancy.tenants.restore(payer.tenantId)
    const next = await open.tenancy.billing.ensureCustomer(payer.tenantId)
    expect(next).not.toBe(payer.customerId)
    expect(await open.tenancy.billing.of(payer.tenantId)).toMatchObject({ customerId: next })
    expect(await atProvider(open, payer)).toBe('active')
  })

  test('a tenant that is back has not what somebody else pays for, whatever is heard of it', async () => {
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

  test('what it owed is nothing to a tenant that is back', async () => {
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

  test('what it pays for next counts', async () => {
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

describe('left as it is', () => {
  let open: OpenBilling

  beforeAll(async () => {
    open = await openWith('preserve')
  })
  afterAll(() => open.end())

  test('a subscription counts again for a tenant that is back, as it is by then', async () => {
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
