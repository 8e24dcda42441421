/** Tests which payments and operator actions end a suspension by dunning, and that concurrent sweeps act once. */
import { describe, expect, test } from 'vitest'
import { ChangeRecorded } from '../../../kernel/events/changes.ts'
import { TenantSuspended } from '../../../tenants/tenant/events.ts'
import { WAITING_LOCKS } from '../../../testing/base/database.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { GRACE, sharedSuspending } from './suspending.fixture.ts'

const open = sharedSuspending()

const setStatus = (tenantId: string, status: string) =>
  open.tenancy.kernel.database.sql('update multitenancy.tenants set status = $2 where id = $1', [tenantId, status])

describe('dunning and operators', () => {
  test('a tenant that an operator suspended before stays suspended after the payment', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    await open.tenancy.tenants.suspend(tenantId)
    await open.pass(GRACE)
    expect(await open.now(tenantId)).toEqual(['suspended pro', 'suspended'])
    open.pay(subscriptionId)
    await open.deliverAndProcess()
    expect(await open.now(tenantId)).toEqual(['suspended pro', 'recovered'])
  })

  test('a tenant whose suspension an operator repeated stays suspended after the payment', async () => {
    const { tenantId, subscriptionId } = await open.suspended()
    expect(await open.tenancy.tenants.suspend(tenantId)).toMatchObject({ changed: false })
    open.pay(subscriptionId)
    await open.deliverAndProcess()
    expect(await open.now(tenantId)).toEqual(['suspended pro', 'recovered'])
    expect(open.activations(tenantId)).toEqual([])
  })

  test('a tenant whose suspension an operator repeats during the processing of the payment stays suspended', () =>
    open.repeatsSuspension())

  test('a tenant that an operator activated and suspended again stays suspended', async () => {
    const { tenantId, subscriptionId } = await open.suspended()
    await open.tenancy.tenants.activate(tenantId)
    await open.pass({ seconds: 1 })
    expect(await open.now(tenantId)).toEqual(['active pro', 'suspended'])
    await open.tenancy.tenants.suspend(tenantId)
    open.pay(subscriptionId)
    await open.deliverAndProcess()
    expect(await open.now(tenantId)).toEqual(['suspended pro', 'recovered'])
    expect(open.activations(tenantId)).toEqual(['TenantActivated'])
  })

  test('a tenant that an operator activated and suspended again in the same millisecond stays suspended', async () => {
    const { tenantId, subscriptionId } = await open.suspended()
    await open.tenancy.tenants.activate(tenantId)
    await open.tenancy.tenants.suspend(tenantId)
    open.pay(subscriptionId)
    await open.deliverAndProcess()
    expect(await open.now(tenantId)).toEqual(['suspended pro', 'recovered'])
    expect(open.activations(tenantId)).toEqual(['TenantActivated'])
  })

  test.each(['failed', 'provisioning'])(
    'a tenant with the status %s is suspended as soon as it is active',
    async (status) => {
      const { tenantId, subscriptionId } = await open.debtor()
      await setStatus(tenantId, status)
      await open.pass(GRACE)
      expect(await open.now(tenantId)).toEqual([`${status} pro`, 'suspended'])
      expect(await open.tenancy.billing.dunning.sweep()).toBe(0)
      await setStatus(tenantId, 'active')
      expect(await open.tenancy.billing.dunning.sweep()).toBe(1)
      expect(await open.now(tenantId)).toEqual(['suspended pro', 'suspended'])
      expect(await open.tenancy.billing.dunning.sweep()).toBe(0)
      open.pay(subscriptionId)
      await open.deliverAndProcess()
      expect(await open.now(tenantId)).toEqual(['active pro', 'recovered'])
    },
  )

  test('a tenant that paid before it is active is not suspended, although the payment was not received', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    await setStatus(tenantId, 'provisioning')
    await open.pass(GRACE)
    open.pay(subscriptionId)
    await setStatus(tenantId, 'active')
    await open.tenancy.billing.dunning.sweep()
    expect(await open.now(tenantId)).toEqual(['active pro', 'recovered'])
  })

  test('a tenant that an operator activated is not suspended again for the same case', async () => {
    const { tenantId, customerId, subscriptionId } = await open.suspended()
    await open.tenancy.tenants.activate(tenantId)
    for (const { id } of open.eventsOf(customerId)) await open.tenancy.billing.inbox.replay(id)
    await open.process()
    await open.pass({ days: 10 })
    expect(await open.now(tenantId)).toEqual(['active pro', 'suspended'])
    open.pay(subscriptionId)
    await open.deliverAndProcess()
    expect(await open.now(tenantId)).toEqual(['active pro', 'recovered'])
    expect(open.activations(tenantId)).toEqual(['TenantActivated'])
  })

  test('a deleted tenant is not suspended, and a suspended tenant that is deleted is not activated', async () => {
    const [before, after] = await open.debtors(2)
    if (!before || !after) throw new Error('two debtors expected')
    await open.tenancy.tenants.delete(before.tenantId)
    await open.pass(GRACE)
    await open.tenancy.tenants.delete(after.tenantId)
    for (const { tenantId, subscriptionId } of [before, after]) {
      expect(await open.now(tenantId)).toEqual(['deleted pro', 'suspended'])
      open.pay(subscriptionId)
      await open.deliverAndProcess()
      expect(await open.now(tenantId)).toEqual(['deleted pro', 'recovered'])
    }
  })
})

test('a tenant whose suspension fails does not block others', async () => {
  const debtors = await open.debtors(3)
  const [, stuck] = debtors.map(({ tenantId }) => tenantId)
  const done = open.tenancy.kernel.events.subscribe(TenantSuspended, 'within', ({ tenantId }) => {
    if (tenantId === stuck) throw new Error('the suspension fails for the test')
  })
  open.provider.advance(GRACE)
  await expect(open.tenancy.billing.dunning.sweep()).rejects.toThrow('grace periods that could not be ended: 1')
  const statuses = () => Promise.all(debtors.map(({ tenantId }) => open.now(tenantId)))
  const suspendedByNow = ['suspended pro', 'suspended']
  expect(await statuses()).toEqual([suspendedByNow, ['active pro', 'grace'], suspendedByNow])
  done()
  expect(await open.tenancy.billing.dunning.sweep()).toBe(1)
  expect(await statuses()).toEqual([suspendedByNow, suspendedByNow, suspendedByNow])
})

describe('concurrent dunning', () => {
  test('ten sweeps of two processes suspend each tenant once', async () => {
    const debtors = await open.debtors(3)
    open.provider.advance(GRACE)
    const other = await open.open({ role: 'api' })
    const received: string[] = []
    const processes = [open.tenancy, other]
    for (const { kernel } of processes) {
      kernel.events.subscribe(TenantSuspended, 'within', ({ tenantId }) => void received.push(tenantId))
    }
    const sweeps = Array.from({ length: 10 }, (_, n) => processes[n % processes.length] ?? open.tenancy)
    const done = await Promise.all(sweeps.map(({ billing }) => billing.dunning.sweep()))
    expect(done.reduce((sum, count) => sum + count, 0)).toBe(debtors.length)
    expect(received.sort()).toEqual(debtors.map(({ tenantId }) => tenantId).sort())
    for (const { tenantId } of debtors) expect((await open.now(tenantId))[0]).toBe('suspended pro')
    await other.stop()
  })

  test('a payment that is processed during a sweep prevents the suspension', () => open.paysDuringSweep())

  test('the end of one customer does not remove the plan that a second customer of the tenant starts concurrently', async () => {
    const { tenantId, customerId } = await open.payer()
    open.provider.deleteCustomer(customerId)
    const second = open.provider.customer({ metadata: { tenantId } })
    open.provider.subscribe(second.id, open.prices.pro)
    await open.deliver()
    const { billing, kernel } = open.tenancy
    const process = (type: string) => billing.processing.process(open.lastOf(type), true)
    await process('customer.deleted')
    const [arrived, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const done = kernel.events.subscribe(ChangeRecorded, 'within', async ({ action }) => {
      if (action !== 'tenants.setPlan') return
      arrived.resolve()
      await gate.promise
    })
    const ending = process('customer.subscription.deleted')
    await arrived.promise
    const beginning = process('customer.subscription.created')
    await Promise.race([waitsForLock(), beginning])
    gate.resolve()
    await Promise.all([ending, beginning])
    done()
    expect(await open.statusAndPlan(tenantId)).toBe('active pro')
    open.provider.deleteCustomer(second.id)
  })
})

/** Waits until a session waits for the lock of a customer. */
const waitsForLock = () =>
  eventually(async () => {
    const { rows } = await open.tenancy.kernel.database.sql(`select from ${WAITING_LOCKS} where locktype = 'advisory'`)
    expect(rows).not.toEqual([])
  })
