/** Tests suspensions by dunning after the subscription has ended, and with late events. */
import { describe, expect, test } from 'vitest'
import { GRACE, sharedSuspending } from './suspending.fixture.ts'

const open = sharedSuspending()

describe('dunning suspension of an ended subscription', () => {
  test('continues until a new subscription is paid', async () => {
    const { tenantId, customerId, subscriptionId } = await open.suspended()
    open.provider.cancel(subscriptionId)
    await open.pass({ days: 30 })
    expect(await open.now(tenantId)).toEqual(['suspended free', 'suspended'])
    open.provider.setPaymentMethod(customerId, 'good')
    open.provider.subscribe(customerId, open.prices.scale)
    await open.deliverAndProcess()
    expect(await open.now(tenantId)).toEqual(['active scale', 'recovered'])
    expect(open.activations(tenantId)).toEqual(['TenantActivated'])
  })

  test('ends for all open cases with one payment', async () => {
    const { tenantId, customerId, subscriptionId } = await open.suspended()
    await open.pass({ days: 35 })
    expect(await open.now(tenantId)).toEqual(['suspended pro', 'suspended', 'suspended'])
    open.provider.cancel(subscriptionId)
    open.provider.setPaymentMethod(customerId, 'good')
    open.provider.subscribe(customerId, open.prices.scale)
    await open.deliverAndProcess()
    expect(await open.now(tenantId)).toEqual(['active scale', 'recovered', 'recovered'])
  })

  test('is not affected by a replayed payment from before the suspension', async () => {
    const { tenantId, customerId, subscriptionId } = await open.suspended()
    await open.pass({ days: 1 })
    open.provider.cancel(subscriptionId)
    await open.deliverAndProcess()
    for (const { id, type } of open.eventsOf(customerId)) {
      if (type === 'invoice.payment_succeeded') await open.tenancy.billing.inbox.replay(id)
    }
    await open.process()
    expect(await open.now(tenantId)).toEqual(['suspended free', 'suspended'])
    open.provider.setPaymentMethod(customerId, 'good')
    open.pay(subscriptionId)
    await open.deliverAndProcess()
    expect(await open.now(tenantId)).toEqual(['active free', 'recovered'])
  })
})

describe('dunning with late events', () => {
  test('suspends no tenant whose payment is known only to the provider', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    open.pay(subscriptionId)
    open.provider.advance(GRACE)
    await open.tenancy.billing.dunning.sweep()
    expect(await open.now(tenantId)).toEqual(['active pro', 'recovered'])
    await open.deliverAndProcess()
    expect(await open.now(tenantId)).toEqual(['active pro', 'recovered'])
    expect(open.activations(tenantId)).toEqual([])
  })

  test('suspends no tenant before a request to the provider, also while the provider is unavailable', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    open.provider.advance(GRACE)
    await open.deliver()
    open.provider.faults.respond(500, { path: /invoices/ })
    expect(await open.tenancy.billing.dunning.sweep()).toBe(0)
    expect(open.log.at(-1)).toContain(
      'the end of a grace period was postponed, because the payment provider was unavailable',
    )
    expect(await open.now(tenantId)).toEqual(['active pro', 'grace'])
    open.provider.faults.clear()
    await open.tenancy.billing.dunning.sweep()
    expect(await open.now(tenantId)).toEqual(['suspended pro', 'suspended'])
    open.pay(subscriptionId)
    await open.deliverAndProcess()
    expect(await open.now(tenantId)).toEqual(['active pro', 'recovered'])
  })

  test('does not count a trial as a payment for an ended subscription', async () => {
    const { tenantId, customerId, subscriptionId } = await open.debtor()
    open.provider.advance(GRACE)
    await open.deliverAndProcess()
    await open.tenancy.billing.dunning.sweep()
    open.provider.cancel(subscriptionId)
    await open.deliverAndProcess()
    open.provider.subscribe(customerId, open.prices.pro, { trialDays: 14 })
    await open.deliverAndProcess()
    expect((await open.now(tenantId))[0]).toBe('suspended pro')
  })

  test('rolls back the suspension when the subscription ended before the end of the grace period', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    open.provider.advance({ days: 6 })
    open.provider.cancel(subscriptionId)
    open.provider.advance({ days: 1 })
    await open.tenancy.billing.dunning.sweep()
    expect(await open.now(tenantId)).toEqual(['suspended pro', 'suspended'])
    await open.deliverAndProcess()
    expect(await open.now(tenantId)).toEqual(['active free', 'ended'])
    expect(open.activations(tenantId)).toEqual(['TenantActivated'])
  })

  test('keeps the suspension when the subscription ended after the end of the grace period', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    open.provider.advance(GRACE)
    open.provider.cancel(subscriptionId)
    await open.deliverAndProcess()
    expect(await open.now(tenantId)).toEqual(['suspended free', 'suspended'])
  })

  test('suspends no tenant when the payment of a new subscription is received first', async () => {
    const { tenantId, customerId, subscriptionId } = await open.payer()
    const before = open.provider.events.length
    open.provider.setPaymentMethod(customerId, 'declines')
    open.provider.advance({ days: 40 })
    open.provider.cancel(subscriptionId)
    open.provider.setPaymentMethod(customerId, 'good')
    open.provider.subscribe(customerId, open.prices.scale)
    open.receivedEvents.splice(0)
    await open.deliver([...open.provider.events.slice(before)].reverse())
    for (const { id } of [...open.provider.events.slice(before)].reverse()) {
      await open.tenancy.billing.processing.process(id, true)
    }
    expect(await open.now(tenantId)).toEqual(['active scale', 'recovered'])
    expect(open.receivedNamesOf(tenantId)).not.toContain('TenantSuspended')
  })

  test('ignores a failed payment of a paid invoice that the provider no longer has', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    open.pay(subscriptionId)
    await open.deliverAndProcess()
    await open.tenancy.kernel.database.sql('delete from multitenancy.billing_dunning where tenant_id = $1', [tenantId])
    for (const { id } of open.invoices(subscriptionId)) open.provider.forget(id as string)
    await open.tenancy.billing.inbox.replay(open.lastOf('invoice.payment_failed'))
    await open.process()
    expect(await open.now(tenantId)).toEqual(['active pro', 'recovered'])
  })
})
