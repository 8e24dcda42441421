/** A suspension by dunning where the subscription has ended, or where events are received late. */
import { describe, expect, test } from 'vitest'
import { GRACE, sharedSuspending } from './suspending.fixture.ts'

const open = sharedSuspending()

describe('the subscription has ended', () => {
  test('who was suspended stays so, until a new one is paid', async () => {
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

  test('one payment is enough for all that is left of it', async () => {
    const { tenantId, customerId, subscriptionId } = await open.suspended()
    await open.pass({ days: 35 })
    expect(await open.now(tenantId)).toEqual(['suspended pro', 'suspended', 'suspended'])
    open.provider.cancel(subscriptionId)
    open.provider.setPaymentMethod(customerId, 'good')
    open.provider.subscribe(customerId, open.prices.scale)
    await open.deliverAndProcess()
    expect(await open.now(tenantId)).toEqual(['active scale', 'recovered', 'recovered'])
  })

  test('what was paid before is no payment', async () => {
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

describe('what is heard late', () => {
  test('a payment that the provider knows of: nobody is suspended', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    open.pay(subscriptionId)
    open.provider.advance(GRACE)
    await open.tenancy.billing.dunning.sweep()
    expect(await open.now(tenantId)).toEqual(['active pro', 'recovered'])
    await open.deliverAndProcess()
    expect(await open.now(tenantId)).toEqual(['active pro', 'recovered'])
    expect(open.activations(tenantId)).toEqual([])
  })

  test('nobody is suspended before the provider was asked, which may be away', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    open.provider.advance(GRACE)
    await open.deliver()
    open.provider.faults.respond(500, { path: /invoices/ })
    expect(await open.tenancy.billing.dunning.sweep()).toBe(0)
    expect(open.log.at(-1)).toContain('a grace is over, and the provider cannot be asked')
    expect(await open.now(tenantId)).toEqual(['active pro', 'grace'])
    open.provider.faults.clear()
    await open.tenancy.billing.dunning.sweep()
    expect(await open.now(tenantId)).toEqual(['suspended pro', 'suspended'])
    open.pay(subscriptionId)
    await open.deliverAndProcess()
    expect(await open.now(tenantId)).toEqual(['active pro', 'recovered'])
  })

  test('a trial is no payment: what was suspended for a subscription that has ended stays so', async () => {
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

  test('an end that came before the grace was over: the suspension is taken back', async () => {
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

  test('an end that came after the grace was over: it stays', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    open.provider.advance(GRACE)
    open.provider.cancel(subscriptionId)
    await open.deliverAndProcess()
    expect(await open.now(tenantId)).toEqual(['suspended free', 'suspended'])
  })

  test('everything, the payment of a new subscription first: nobody is suspended', async () => {
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

  test('a failure of an invoice that is paid, where the provider has neither any more', async () => {
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
