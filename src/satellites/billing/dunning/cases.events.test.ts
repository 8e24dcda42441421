/** Tests events and ends of dunning cases that do not depend on the action. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { OpenBilling } from '../billing.fixture.ts'
import { DAYS, type Debtors, openDebtors, paysNextPeriod, statusAndCases } from './dunning.fixture.ts'

const [state, statusAndPlan] = ['suspended', 'suspended pro']
let open: OpenBilling & Debtors
beforeAll(async () => {
  open = await openDebtors('suspend')
})
afterEach(() => open.clear())
afterAll(() => open.end())

test('failed payments are published with attempt, invoice and time of the next attempt', async () => {
  open.receivedEvents.splice(0)
  const { tenantId, subscriptionId } = await open.debtor('scale')
  const [invoice] = open.invoices(subscriptionId)
  await open.pass({ days: DAYS.retry })
  const failures = open.receivedEvents.flatMap(([name, event]) =>
    name === 'PaymentFailed' && event.tenantId === tenantId ? [event] : [],
  )
  const one = { subscriptionId, invoiceId: invoice?.id, amount: 29_900, currency: 'usd' }
  const finalized = (invoice?.status_transitions.finalized_at ?? 0) * 1000
  const since = (days: number) => new Date(finalized + days * 86_400_000).toISOString()
  expect(failures).toMatchObject([
    { ...one, attempt: 1, final: false, at: since(0), nextAttemptAt: since(DAYS.retry) },
    { ...one, attempt: 2, final: true, at: since(DAYS.retry), nextAttemptAt: since(60) },
  ])
})

test('the grace period begins when the provider exhausts its retries before maxAttempts', async () => {
  open.provider.settings.retryDays = []
  const { tenantId } = await open.debtor()
  open.provider.settings.retryDays = [DAYS.retry, 60]
  expect(await open.cases(tenantId)).toEqual(['grace'])
  await open.pass({ days: DAYS.grace })
  expect(await open.statusAndPlan(tenantId)).toBe(statusAndPlan)
})

test.each([
  ['during the retries', 0],
  ['in its grace period', DAYS.retry],
])('a subscription that ends %s ends its dunning case', async (_, days) => {
  const { tenantId, subscriptionId } = await open.debtor()
  await open.pass({ days })
  open.provider.cancel(subscriptionId)
  await open.pass({})
  await open.pass({ days: 60 })
  expect([await open.statusAndPlan(tenantId), await open.cases(tenantId)]).toEqual(['active free', ['ended']])
  expect((await open.tenancy.billing.of(tenantId)).dunning).toBeNull()
})

test('a voided invoice is no debt: the tenant recovers', async () => {
  const { tenantId, subscriptionId } = await open.debtor()
  await open.pass({ days: DAYS.retry })
  await open.pass({ days: DAYS.grace })
  const [invoice] = open.invoices(subscriptionId)
  open.provider.emit('invoice.voided', { ...invoice, status: 'void' })
  await open.deliverAndProcess()
  expect([await open.statusAndPlan(tenantId), await open.cases(tenantId)]).toEqual(['active pro', ['recovered']])
})

test('a failed first payment of a subscription opens no case', async () => {
  const { tenantId, customerId, subscriptionId } = await open.payer()
  open.provider.cancel(subscriptionId)
  open.provider.setPaymentMethod(customerId, 'declines')
  open.receivedEvents.splice(0)
  open.provider.subscribe(customerId, open.prices.pro)
  await open.pass({ hours: 1 })
  expect(open.receivedNamesOf(tenantId)).toContain('PaymentFailed')
  expect([await open.statusAndPlan(tenantId), await open.cases(tenantId)]).toEqual(['active free', []])
})

test('a paid later period that only a sync finds recovers the tenant', async () => {
  const { tenantId } = await paysNextPeriod(open, state)
  await Array.fromAsync(open.tenancy.billing.sync.run(tenantId))
  expect(await statusAndCases(open, tenantId)).toEqual(['active pro', ['recovered']])
  await open.deliverAndProcess()
})

test('a failure that is received after the payment of a later period has no effect', async () => {
  const { tenantId, customerId } = await open.payer()
  const before = open.provider.events.length
  open.provider.setPaymentMethod(customerId, 'declines')
  open.provider.advance({ days: 32 })
  open.provider.setPaymentMethod(customerId, 'good')
  open.provider.advance({ days: 30 })
  await open.deliver(open.provider.events.slice(before).toReversed())
  for (const { id } of open.provider.events.slice(before).toReversed()) {
    await open.tenancy.billing.processing.process(id, true)
  }
  await open.pass({ days: DAYS.grace })
  expect(await statusAndCases(open, tenantId)).toEqual(['active pro', ['recovered']])
  expect(open.receivedNamesOf(tenantId)).not.toContain('TenantSuspended')
})

test('an unpaid invoice for a change during the period joins the case of the period', async () => {
  const { tenantId, subscriptionId } = await open.debtor()
  await open.pass({ days: 1 })
  open.provider.changePrice(subscriptionId, open.prices.scale, 'always_invoice')
  await open.pass({})
  const [change, renewal] = open.invoices(subscriptionId)
  expect([change?.billing_reason, change?.status]).toEqual(['subscription_update', 'open'])
  expect(await open.cases(tenantId)).toEqual(['retrying'])
  await open.pass({ days: DAYS.retry })
  await open.pass({ days: DAYS.grace })
  expect(await open.cases(tenantId)).toEqual([state])
  open.provider.payInvoice(renewal?.id as string)
  await open.deliverAndProcess()
  expect(await open.cases(tenantId)).toEqual([state])
  open.provider.payInvoice(change?.id as string)
  await open.deliverAndProcess()
  expect([await open.statusAndPlan(tenantId), await open.cases(tenantId)]).toEqual(['active scale', ['recovered']])
})

test('an invoice that was paid by other means recovers the tenant, although no money was collected', async () => {
  const { tenantId, subscriptionId } = await open.debtor()
  await open.pass({ days: DAYS.retry })
  await open.pass({ days: DAYS.grace })
  const [owed] = open.invoices(subscriptionId)
  open.provider.emit('invoice.paid', { ...owed, status: 'paid' })
  await open.deliverAndProcess()
  expect([await open.statusAndPlan(tenantId), await open.cases(tenantId)]).toEqual(['active pro', ['recovered']])
  // the first invoice
  expect(open.receivedNamesOf(tenantId).filter((name) => name === 'PaymentSucceeded')).toHaveLength(1)
})

test('a replay of events publishes nothing and changes nothing, also after the provider has forgotten the objects', async () => {
  const { tenantId, customerId, subscriptionId } = await open.debtor()
  await open.pass({ days: DAYS.retry })
  open.provider.changePrice(subscriptionId, open.prices.scale)
  open.provider.pause(subscriptionId)
  open.provider.resume(subscriptionId)
  await open.pass({ days: DAYS.grace })
  const other = await open.debtor()
  open.provider.payInvoice(open.invoices(other.subscriptionId)[0]?.id as string)
  open.provider.cancel(other.subscriptionId, { atPeriodEnd: true })
  await open.pass({})
  const ids = [tenantId, other.tenantId]
  const known = async () =>
    Promise.all(
      ids.map(async (id) => [await open.statusAndPlan(id), await open.cases(id), await open.tenancy.billing.of(id)]),
    )
  const before = await known()
  open.receivedEvents.splice(0)
  const customers = [customerId, other.customerId]
  const events = (await open.inbox())
    .filter(({ payload }) => customers.includes(payload.data.object.customer))
    .map(({ eventId }) => eventId)
    .reverse()
  expect(events.length).toBeGreaterThan(20)
  const replay = async () => {
    for (const eventId of events) await open.tenancy.billing.inbox.replay(eventId)
    for (const eventId of events) await open.tenancy.billing.processing.process(eventId, true)
    expect((await open.inbox()).filter(({ status }) => status !== 'completed')).toEqual([])
    expect(open.receivedEvents).toEqual([])
    expect(await known()).toEqual(before)
  }
  await replay()

  for (const { id } of [...open.provider.events]) open.provider.forget(id)
  const invoices = [...open.invoices(subscriptionId), ...open.invoices(other.subscriptionId)]
  for (const { id } of invoices) open.provider.forget(id as string)
  for (const id of [subscriptionId, other.subscriptionId]) open.provider.forget(id)
  await replay()
})
