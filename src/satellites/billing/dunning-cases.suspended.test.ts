/** A suspension by dunning: what takes it back and what does not, and that many who do it at once do it once. */
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { ChangeRecorded } from '../../kernel/changes.ts'
import { TenantSuspended } from '../../tenants/events.ts'
import { eventually } from '../../testing/tenancy.ts'
import { type OpenBilling, openBilling } from './billing.fixture.ts'
import { type Debtors, debtorsOf } from './dunning.fixture.ts'

const GRACE = { days: 7 }

let open: OpenBilling & Debtors
beforeAll(async () => {
  const opened = await openBilling(inject('postgresUrl'), {
    options: { dunning: { maxAttempts: 1, graceDays: GRACE.days, action: 'suspend' } },
    provider: { start: new Date('2026-03-31T10:00:00Z'), afterRetries: 'past_due', retryDays: [60] },
  })
  open = Object.assign(opened, debtorsOf(opened))
})
afterEach(async () => {
  await open.clear()
  open.heard.splice(0)
})
afterAll(() => open.end())

const now = async (tenantId: string) => [await open.standing(tenantId), ...(await open.cases(tenantId))]
const lastOf = (event: string) => open.provider.events.findLast(({ type }) => type === event)?.id as string
const pay = (subscriptionId: string, index = 0) =>
  open.provider.payInvoice(open.invoices(subscriptionId)[index]?.id as string)
const setStatus = (tenantId: string, status: string) =>
  open.tenancy.kernel.database.sql('update multitenancy.tenants set status = $2 where id = $1', [tenantId, status])
const activations = (tenantId: string) => open.heardOf(tenantId).filter((name) => name === 'TenantActivated')

/** The grace of what it owes is over. */
async function suspended() {
  const one = await open.debtor()
  await open.pass(GRACE)
  expect(await now(one.tenantId)).toEqual(['suspended pro', 'suspended'])
  return one
}

describe('somebody else has a say', () => {
  test('who was suspended before stays so', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    await open.tenancy.tenants.suspend(tenantId)
    await open.pass(GRACE)
    expect(await now(tenantId)).toEqual(['suspended pro', 'suspended'])
    pay(subscriptionId)
    await open.settle()
    expect(await now(tenantId)).toEqual(['suspended pro', 'recovered'])
  })

  test('whose suspension somebody has repeated stays so', async () => {
    const { tenantId, subscriptionId } = await suspended()
    expect(await open.tenancy.tenants.suspend(tenantId)).toMatchObject({ changed: false })
    pay(subscriptionId)
    await open.settle()
    expect(await now(tenantId)).toEqual(['suspended pro', 'recovered'])
    expect(activations(tenantId)).toEqual([])
  })

  test('whose suspension is repeated while the payment is told stays so', async () => {
    const { tenantId, subscriptionId } = await suspended()
    pay(subscriptionId)
    await open.deliver()
    await Promise.all([open.process(), open.tenancy.tenants.suspend(tenantId)])
    expect(await now(tenantId)).toEqual(['suspended pro', 'recovered'])
  })

  test('who was activated and suspended again by hand stays so', async () => {
    const { tenantId, subscriptionId } = await suspended()
    await open.tenancy.tenants.activate(tenantId)
    await open.pass({ seconds: 1 })
    expect(await now(tenantId)).toEqual(['active pro', 'suspended'])
    await open.tenancy.tenants.suspend(tenantId)
    pay(subscriptionId)
    await open.settle()
    expect(await now(tenantId)).toEqual(['suspended pro', 'recovered'])
    expect(activations(tenantId)).toEqual(['TenantActivated'])
  })

  test('who was activated and suspended again by hand in the same moment stays so', async () => {
    const { tenantId, subscriptionId } = await suspended()
    await open.tenancy.tenants.activate(tenantId)
    await open.tenancy.tenants.suspend(tenantId)
    pay(subscriptionId)
    await open.settle()
    expect(await now(tenantId)).toEqual(['suspended pro', 'recovered'])
    expect(activations(tenantId)).toEqual(['TenantActivated'])
  })

  test.each(['failed', 'provisioning'])('who is %s by then is suspended when it is there', async (status) => {
    const { tenantId, subscriptionId } = await open.debtor()
    await setStatus(tenantId, status)
    await open.pass(GRACE)
    expect(await now(tenantId)).toEqual([`${status} pro`, 'suspended'])
    expect(await open.tenancy.billing.dunning.sweep()).toBe(0)
    await setStatus(tenantId, 'active')
    expect(await open.tenancy.billing.dunning.sweep()).toBe(1)
    expect(await now(tenantId)).toEqual(['suspended pro', 'suspended'])
    expect(await open.tenancy.billing.dunning.sweep()).toBe(0)
    pay(subscriptionId)
    await open.settle()
    expect(await now(tenantId)).toEqual(['active pro', 'recovered'])
  })

  test('who has paid before it is there, and nobody has heard of it, is not suspended', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    await setStatus(tenantId, 'provisioning')
    await open.pass(GRACE)
    pay(subscriptionId)
    await setStatus(tenantId, 'active')
    await open.tenancy.billing.dunning.sweep()
    expect(await now(tenantId)).toEqual(['active pro', 'recovered'])
  })

  test('who was activated by hand is not suspended again for the same', async () => {
    const { tenantId, customerId, subscriptionId } = await suspended()
    await open.tenancy.tenants.activate(tenantId)
    for (const { id } of open.eventsOf(customerId)) await open.tenancy.billing.inbox.replay(id)
    await open.process()
    await open.pass({ days: 10 })
    expect(await now(tenantId)).toEqual(['active pro', 'suspended'])
    pay(subscriptionId)
    await open.settle()
    expect(await now(tenantId)).toEqual(['active pro', 'recovered'])
    expect(activations(tenantId)).toEqual(['TenantActivated'])
  })

  test('who is deleted before is not suspended, and who is deleted after is not activated', async () => {
    const [before, after] = await open.debtors(2)
    if (!before || !after) throw new Error('there are two')
    await open.tenancy.tenants.delete(before.tenantId)
    await open.pass(GRACE)
    await open.tenancy.tenants.delete(after.tenantId)
    for (const { tenantId, subscriptionId } of [before, after]) {
      expect(await now(tenantId)).toEqual(['deleted pro', 'suspended'])
      pay(subscriptionId)
      await open.settle()
      expect(await now(tenantId)).toEqual(['deleted pro', 'recovered'])
    }
  })
})

describe('the subscription has ended', () => {
  test('who was suspended stays so, until a new one is paid', async () => {
    const { tenantId, customerId, subscriptionId } = await suspended()
    open.provider.cancel(subscriptionId)
    await open.pass({ days: 30 })
    expect(await now(tenantId)).toEqual(['suspended free', 'suspended'])
    open.provider.setPaymentMethod(customerId, 'good')
    open.provider.subscribe(customerId, open.prices.scale)
    await open.settle()
    expect(await now(tenantId)).toEqual(['active scale', 'recovered'])
    expect(activations(tenantId)).toEqual(['TenantActivated'])
  })

  test('one payment is enough for all that is left of it', async () => {
    const { tenantId, customerId, subscriptionId } = await suspended()
    await open.pass({ days: 35 })
    expect(await now(tenantId)).toEqual(['suspended pro', 'suspended', 'suspended'])
    open.provider.cancel(subscriptionId)
    open.provider.setPaymentMethod(customerId, 'good')
    open.provider.subscribe(customerId, open.prices.scale)
    await open.settle()
    expect(await now(tenantId)).toEqual(['active scale', 'recovered', 'recovered'])
  })

  test('what was paid before is no payment', async () => {
    const { tenantId, customerId, subscriptionId } = await suspended()
    await open.pass({ days: 1 })
    open.provider.cancel(subscriptionId)
    await open.settle()
    for (const { id, type } of open.eventsOf(customerId)) {
      if (type === 'invoice.payment_succeeded') await open.tenancy.billing.inbox.replay(id)
    }
    await open.process()
    expect(await now(tenantId)).toEqual(['suspended free', 'suspended'])
    open.provider.setPaymentMethod(customerId, 'good')
    pay(subscriptionId)
    await open.settle()
    expect(await now(tenantId)).toEqual(['active free', 'recovered'])
  })
})

describe('what is heard late', () => {
  test('a payment that the provider knows of: nobody is suspended', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    pay(subscriptionId)
    open.provider.advance(GRACE)
    await open.tenancy.billing.dunning.sweep()
    expect(await now(tenantId)).toEqual(['active pro', 'recovered'])
    await open.settle()
    expect(await now(tenantId)).toEqual(['active pro', 'recovered'])
    expect(activations(tenantId)).toEqual([])
  })

  test('nobody is suspended before the provider was asked, which may be away', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    open.provider.advance(GRACE)
    await open.deliver()
    open.provider.faults.answer(500, { path: /invoices/ })
    expect(await open.tenancy.billing.dunning.sweep()).toBe(0)
    expect(open.log.at(-1)).toContain('a grace is over, and the provider cannot be asked')
    expect(await now(tenantId)).toEqual(['active pro', 'grace'])
    open.provider.faults.clear()
    await open.tenancy.billing.dunning.sweep()
    expect(await now(tenantId)).toEqual(['suspended pro', 'suspended'])
    pay(subscriptionId)
    await open.settle()
    expect(await now(tenantId)).toEqual(['active pro', 'recovered'])
  })

  test('a trial is no payment: what was suspended for a subscription that has ended stays so', async () => {
    const { tenantId, customerId, subscriptionId } = await open.debtor()
    open.provider.advance(GRACE)
    await open.settle()
    await open.tenancy.billing.dunning.sweep()
    open.provider.cancel(subscriptionId)
    await open.settle()
    open.provider.subscribe(customerId, open.prices.pro, { trialDays: 14 })
    await open.settle()
    expect((await now(tenantId))[0]).toBe('suspended pro')
  })

  test('an end that came before the grace was over: the suspension is taken back', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    open.provider.advance({ days: 6 })
    open.provider.cancel(subscriptionId)
    open.provider.advance({ days: 1 })
    await open.tenancy.billing.dunning.sweep()
    expect(await now(tenantId)).toEqual(['suspended pro', 'suspended'])
    await open.settle()
    expect(await now(tenantId)).toEqual(['active free', 'ended'])
    expect(activations(tenantId)).toEqual(['TenantActivated'])
  })

  test('an end that came after the grace was over: it stays', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    open.provider.advance(GRACE)
    open.provider.cancel(subscriptionId)
    await open.settle()
    expect(await now(tenantId)).toEqual(['suspended free', 'suspended'])
  })

  test('everything, the payment of a new subscription first: nobody is suspended', async () => {
    const { tenantId, customerId, subscriptionId } = await open.payer()
    const before = open.provider.events.length
    open.provider.setPaymentMethod(customerId, 'declines')
    open.provider.advance({ days: 40 })
    open.provider.cancel(subscriptionId)
    open.provider.setPaymentMethod(customerId, 'good')
    open.provider.subscribe(customerId, open.prices.scale)
    open.heard.splice(0)
    await open.deliver([...open.provider.events.slice(before)].reverse())
    for (const { id } of [...open.provider.events.slice(before)].reverse()) {
      await open.tenancy.billing.processing.process(id, true)
    }
    expect(await now(tenantId)).toEqual(['active scale', 'recovered'])
    expect(open.heardOf(tenantId)).not.toContain('TenantSuspended')
  })

  test('a failure of an invoice that is paid, where the provider has neither any more', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    pay(subscriptionId)
    await open.settle()
    await open.tenancy.kernel.database.sql('delete from multitenancy.billing_dunning where tenant_id = $1', [tenantId])
    for (const { id } of open.invoices(subscriptionId)) open.provider.forget(id as string)
    await open.tenancy.billing.inbox.replay(lastOf('invoice.payment_failed'))
    await open.process()
    expect(await now(tenantId)).toEqual(['active pro', 'recovered'])
  })
})

test('one that cannot be suspended holds up nobody', async () => {
  const debtors = await open.debtors(3)
  const [, stuck] = debtors.map(({ tenantId }) => tenantId)
  const done = open.tenancy.kernel.events.subscribe(TenantSuspended, 'within', ({ tenantId }) => {
    if (tenantId === stuck) throw new Error('not this one')
  })
  open.provider.advance(GRACE)
  await expect(open.tenancy.billing.dunning.sweep()).rejects.toThrow('graces that could not be ended: 1')
  const standings = () => Promise.all(debtors.map(({ tenantId }) => now(tenantId)))
  const suspendedByNow = ['suspended pro', 'suspended']
  expect(await standings()).toEqual([suspendedByNow, ['active pro', 'grace'], suspendedByNow])
  done()
  expect(await open.tenancy.billing.dunning.sweep()).toBe(1)
  expect(await standings()).toEqual([suspendedByNow, suspendedByNow, suspendedByNow])
})

describe('many at once', () => {
  test('ten sweeps of two processes act once', async () => {
    const debtors = await open.debtors(3)
    open.provider.advance(GRACE)
    const other = await open.open({ role: 'api' })
    const heard: string[] = []
    const processes = [open.tenancy, other]
    for (const { kernel } of processes) {
      kernel.events.subscribe(TenantSuspended, 'within', ({ tenantId }) => void heard.push(tenantId))
    }
    const sweeps = Array.from({ length: 10 }, (_, n) => processes[n % processes.length] ?? open.tenancy)
    const done = await Promise.all(sweeps.map(({ billing }) => billing.dunning.sweep()))
    expect(done.reduce((sum, count) => sum + count, 0)).toBe(debtors.length)
    expect(heard.sort()).toEqual(debtors.map(({ tenantId }) => tenantId).sort())
    for (const { tenantId } of debtors) expect((await now(tenantId))[0]).toBe('suspended pro')
    await other.stop()
  })

  test('a payment that is told while it is swept', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    open.provider.advance(GRACE)
    pay(subscriptionId)
    await open.deliver()
    const { billing } = open.tenancy
    await Promise.all([billing.dunning.sweep(), open.process(), billing.dunning.sweep()])
    expect(await now(tenantId)).toEqual(['active pro', 'recovered'])
  })

  test('two customers of one tenant: what one ends does not take away what the other begins', async () => {
    const { tenantId, customerId } = await open.payer()
    open.provider.deleteCustomer(customerId)
    const second = open.provider.customer({ metadata: { tenantId } })
    open.provider.subscribe(second.id, open.prices.pro)
    await open.deliver()
    const { billing, kernel } = open.tenancy
    const process = (type: string) => billing.processing.process(lastOf(type), true)
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
    expect(await open.standing(tenantId)).toBe('active pro')
    open.provider.deleteCustomer(second.id)
  })
})

/** Until somebody waits for the lock of a customer. */
const waitsForLock = () =>
  eventually(async () => {
    const { rows } = await open.tenancy.kernel.database.sql(
      `select from pg_locks where locktype = 'advisory' and not granted
       and database = (select oid from pg_database where datname = current_database())`,
    )
    expect(rows).not.toEqual([])
  })
