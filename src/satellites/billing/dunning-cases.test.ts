/** What becomes of a tenant whose payments fail, from the first failure to the end, or back. */
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { type OpenBilling, openBilling } from './billing.fixture.ts'
import { type Debtors, debtorsOf } from './dunning.fixture.ts'

const DAYS = { retry: 3, grace: 7 }
type Action = 'none' | 'downgrade' | 'suspend'

const opened = new Map<Action, OpenBilling & Debtors>()

/** One for all tests with the same action. */
async function openWith(action: Action): Promise<OpenBilling & Debtors> {
  const present = opened.get(action)
  if (present) return present
  const open = await openBilling(inject('postgresUrl'), {
    options: { dunning: { maxAttempts: 2, graceDays: DAYS.grace, action } },
    provider: { start: new Date('2026-03-31T10:00:00Z'), afterRetries: 'past_due', retryDays: [DAYS.retry, 60] },
  })
  const all = Object.assign(open, debtorsOf(open))
  opened.set(action, all)
  return all
}
afterAll(async () => {
  for (const open of opened.values()) await open.end()
})

const standingAndCases = async (open: OpenBilling & Debtors, tenantId: string) => [
  await open.standing(tenantId),
  await open.cases(tenantId),
]

/** The grace of a debtor ends, and the next period is paid, while the invoice of the one before stays open. */
async function paysNextPeriod(open: OpenBilling & Debtors, state: string) {
  const one = await open.debtor()
  await open.pass({ days: DAYS.retry })
  await open.pass({ days: DAYS.grace })
  expect(await open.cases(one.tenantId)).toEqual([state])
  open.provider.setPaymentMethod(one.customerId, 'good')
  open.heard.splice(0)
  open.provider.advance({ days: 30 })
  const [latest, owed] = open.invoices(one.subscriptionId)
  expect([latest?.status, owed?.status]).toEqual(['paid', 'open'])
  return one
}

describe.each<[Action, { state: string; standing: string; last: string[] }]>([
  ['none', { state: 'grace', standing: 'active pro', last: [] }],
  ['downgrade', { state: 'downgraded', standing: 'active free', last: [] }],
  ['suspend', { state: 'suspended', standing: 'suspended pro', last: ['TenantActivated'] }],
])('where %s follows', (action, { state, standing, last }) => {
  let open: OpenBilling & Debtors
  beforeAll(async () => {
    open = await openWith(action)
  })

  afterEach(() => open.clear())

  test('a payment that fails is tried, a grace begins and ends, and a payment takes all of it back', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    const dunning = async () => (await open.tenancy.billing.of(tenantId)).dunning
    expect([await open.standing(tenantId), await dunning()]).toMatchObject([
      'active pro',
      { state: 'retrying', attempt: 1, graceUntil: null },
    ])
    await open.pass({ days: DAYS.retry, seconds: -1 })
    expect([await open.standing(tenantId), await dunning()]).toMatchObject([
      'active pro',
      { state: 'retrying', attempt: 1 },
    ])

    await open.pass({ seconds: 1 })
    const graceUntil = new Date(open.provider.now().getTime() + DAYS.grace * 86_400_000).toISOString()
    expect([await open.standing(tenantId), await dunning()]).toMatchObject([
      'active pro',
      { state: 'grace', attempt: 2, graceUntil },
    ])
    await open.pass({ days: DAYS.grace, seconds: -1 })
    expect([await open.standing(tenantId), await dunning()]).toMatchObject([
      'active pro',
      { state: 'grace', attempt: 2, graceUntil },
    ])

    await open.pass({ seconds: 1 })
    expect([await open.standing(tenantId), await dunning()]).toMatchObject([
      standing,
      { state, attempt: 2, graceUntil, subscriptionId },
    ])
    await open.pass({ hours: 1 })
    expect([await open.standing(tenantId), await open.cases(tenantId)]).toEqual([standing, [state]])

    open.heard.splice(0)
    open.provider.payInvoice(open.invoices(subscriptionId)[0]?.id as string)
    await open.settle()
    expect([await open.standing(tenantId), await open.cases(tenantId), await dunning()]).toEqual([
      'active pro',
      ['recovered'],
      null,
    ])
    expect(open.heardOf(tenantId).sort()).toEqual(['PaymentSucceeded', 'SubscriptionUpdated', ...last])
  })

  test('the plan stays while it is tried and in grace, also where the provider calls it unpaid', async () => {
    open.provider.settings.retryDays = [DAYS.retry]
    open.provider.settings.afterRetries = 'unpaid'
    const { tenantId, subscriptionId } = await open.debtor()
    await open.pass({ days: DAYS.retry })
    open.provider.settings.retryDays = [DAYS.retry, 60]
    open.provider.settings.afterRetries = 'past_due'
    const { subscription, dunning } = await open.tenancy.billing.of(tenantId)
    expect([subscription?.id, subscription?.status, dunning?.state]).toEqual([subscriptionId, 'unpaid', 'grace'])
    expect(await open.standing(tenantId)).toBe('active pro')
    await open.pass({ days: DAYS.grace })
    const plan = action === 'none' ? 'pro' : 'free'
    expect(await open.standing(tenantId)).toBe(`${action === 'suspend' ? 'suspended' : 'active'} ${plan}`)
    open.provider.payInvoice(open.invoices(subscriptionId)[0]?.id as string)
    await open.settle()
    expect(await open.standing(tenantId)).toBe('active pro')
  })

  test('a second period that is not paid has a case of its own, and its invoice has to be paid as well', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    await open.pass({ days: DAYS.retry })
    await open.pass({ days: 40 })
    await open.pass({ days: DAYS.grace })
    expect(await open.cases(tenantId)).toEqual([state, state])
    const [second, first] = open.invoices(subscriptionId)
    open.heard.splice(0)
    open.provider.payInvoice(first?.id as string)
    await open.settle()
    expect([await open.standing(tenantId), await open.cases(tenantId)]).toEqual([standing, ['recovered', state]])
    open.provider.payInvoice(second?.id as string)
    await open.settle()
    expect([await open.standing(tenantId), await open.cases(tenantId)]).toEqual([
      'active pro',
      ['recovered', 'recovered'],
    ])
    expect(open.heardOf(tenantId).filter((name) => name === 'TenantActivated')).toEqual(last)
  })

  test('a later period that is paid takes all of it back, once', async () => {
    const { tenantId } = await paysNextPeriod(open, state)
    await open.pass({})
    expect(await standingAndCases(open, tenantId)).toEqual(['active pro', ['recovered']])
    expect(open.heardOf(tenantId).filter((name) => name === 'TenantActivated')).toEqual(last)
    const [failure] = open.provider.events.filter(({ type }) => type === 'invoice.payment_failed').slice(-1)
    await open.tenancy.billing.inbox.replay(failure?.id as string)
    await open.process()
    expect(await standingAndCases(open, tenantId)).toEqual(['active pro', ['recovered']])
  })

  test('a grace that is over takes nothing away where the provider has a later payment', async () => {
    const { tenantId, customerId } = await open.debtor()
    await open.pass({ days: DAYS.retry })
    open.provider.setPaymentMethod(customerId, 'good')
    open.provider.advance({ days: 30 })
    await open.tenancy.billing.dunning.sweep()
    expect(await open.standing(tenantId)).toBe('active pro')
    expect(await open.cases(tenantId)).toEqual([action === 'none' ? 'grace' : 'recovered'])
    await open.settle()
    expect(await open.cases(tenantId)).toEqual(['recovered'])
  })

  test('it is recovered once, however often a payment is told', async () => {
    const { tenantId, customerId, subscriptionId } = await open.debtor()
    await open.pass({ days: DAYS.retry })
    await open.pass({ days: DAYS.grace })
    open.provider.payInvoice(open.invoices(subscriptionId)[0]?.id as string)
    await open.settle()
    if (action === 'suspend') await open.tenancy.tenants.suspend(tenantId) // by somebody who has reasons of their own
    const before = [await open.standing(tenantId), await open.cases(tenantId)]
    open.heard.splice(0)
    const paid = open.eventsOf(customerId).filter(({ type }) => type === 'invoice.payment_succeeded')
    expect(new Set(await open.deliver(paid))).toEqual(new Set([200]))
    for (const { id } of paid) await open.tenancy.billing.inbox.replay(id)
    await open.process()
    const again = open.provider.emit('invoice.payment_succeeded', paid.at(-1)?.data.object as object)
    await open.settle()
    expect(again.id).not.toBe(paid.at(-1)?.id)
    expect(open.heardOf(tenantId)).toEqual(['PaymentSucceeded'])
    expect([await open.standing(tenantId), await open.cases(tenantId)]).toEqual(before)
  })
})

/** What does not depend on the action. */
describe('a case', () => {
  const [state, standing] = ['suspended', 'suspended pro']
  let open: OpenBilling & Debtors
  beforeAll(async () => {
    open = await openWith('suspend')
  })
  afterEach(() => open.clear())

  test('failures are told with what is to be known of them', async () => {
    open.heard.splice(0)
    const { tenantId, subscriptionId } = await open.debtor('scale')
    const [invoice] = open.invoices(subscriptionId)
    await open.pass({ days: DAYS.retry })
    const failures = open.heard.flatMap(([name, event]) =>
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

  test('the provider gives up earlier', async () => {
    open.provider.settings.retryDays = []
    const { tenantId } = await open.debtor()
    open.provider.settings.retryDays = [DAYS.retry, 60]
    expect(await open.cases(tenantId)).toEqual(['grace'])
    await open.pass({ days: DAYS.grace })
    expect(await open.standing(tenantId)).toBe(standing)
  })

  test.each([
    ['while it is tried', 0],
    ['in its grace', DAYS.retry],
  ])('a subscription that ends %s ends it', async (_, days) => {
    const { tenantId, subscriptionId } = await open.debtor()
    await open.pass({ days })
    open.provider.cancel(subscriptionId)
    await open.pass({})
    await open.pass({ days: 60 })
    expect([await open.standing(tenantId), await open.cases(tenantId)]).toEqual(['active free', ['ended']])
    expect((await open.tenancy.billing.of(tenantId)).dunning).toBeNull()
  })

  test('what was asked for and is not owed any more is no debt', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    await open.pass({ days: DAYS.retry })
    await open.pass({ days: DAYS.grace })
    const [invoice] = open.invoices(subscriptionId)
    open.provider.emit('invoice.voided', { ...invoice, status: 'void' })
    await open.settle()
    expect([await open.standing(tenantId), await open.cases(tenantId)]).toEqual(['active pro', ['recovered']])
  })

  test('the first payment of a subscription has no case: nothing has begun', async () => {
    const { tenantId, customerId, subscriptionId } = await open.payer()
    open.provider.cancel(subscriptionId)
    open.provider.setPaymentMethod(customerId, 'declines')
    open.heard.splice(0)
    open.provider.subscribe(customerId, open.prices.pro)
    await open.pass({ hours: 1 })
    expect(open.heardOf(tenantId)).toContain('PaymentFailed')
    expect([await open.standing(tenantId), await open.cases(tenantId)]).toEqual(['active free', []])
  })

  test('a later period that is paid takes all of it back when only a sync finds it', async () => {
    const { tenantId } = await paysNextPeriod(open, state)
    await Array.fromAsync(open.tenancy.billing.sync.run(tenantId))
    expect(await standingAndCases(open, tenantId)).toEqual(['active pro', ['recovered']])
    await open.settle()
  })

  test('a failure that is heard after the payment of a later period takes nothing away', async () => {
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
    expect(await standingAndCases(open, tenantId)).toEqual(['active pro', ['recovered']])
    expect(open.heardOf(tenantId)).not.toContain('TenantSuspended')
  })

  test('what is billed in the middle of a period that is not paid joins its case', async () => {
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
    await open.settle()
    expect(await open.cases(tenantId)).toEqual([state])
    open.provider.payInvoice(change?.id as string)
    await open.settle()
    expect([await open.standing(tenantId), await open.cases(tenantId)]).toEqual(['active scale', ['recovered']])
  })

  test('an invoice that was paid by other means takes all of it back, though nothing was collected', async () => {
    const { tenantId, subscriptionId } = await open.debtor()
    await open.pass({ days: DAYS.retry })
    await open.pass({ days: DAYS.grace })
    const [owed] = open.invoices(subscriptionId)
    open.provider.emit('invoice.paid', { ...owed, status: 'paid' })
    await open.settle()
    expect([await open.standing(tenantId), await open.cases(tenantId)]).toEqual(['active pro', ['recovered']])
    expect(open.heardOf(tenantId).filter((name) => name === 'PaymentSucceeded')).toHaveLength(1) // its first invoice
  })

  test.each(['that the provider still has', 'that the provider has forgotten, and all it was about'])(
    'a replay of events %s says nothing and changes nothing',
    async (which) => {
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
          ids.map(async (id) => [await open.standing(id), await open.cases(id), await open.tenancy.billing.of(id)]),
        )
      const before = await known()
      if (which.includes('forgotten')) {
        for (const { id } of [...open.provider.events]) open.provider.forget(id)
        for (const { id } of [...open.invoices(subscriptionId), ...open.invoices(other.subscriptionId)])
          open.provider.forget(id as string)
        for (const id of [subscriptionId, other.subscriptionId]) open.provider.forget(id)
      }
      open.heard.splice(0)
      const customers = [customerId, other.customerId]
      const events = (await open.inbox())
        .filter(({ payload }) => customers.includes(payload.data.object.customer))
        .map(({ eventId }) => eventId)
      expect(events.length).toBeGreaterThan(20)
      for (const eventId of [...events].reverse()) await open.tenancy.billing.inbox.replay(eventId)
      for (const eventId of [...events].reverse()) await open.tenancy.billing.processing.process(eventId, true)
      expect((await open.inbox()).filter(({ status }) => status !== 'completed')).toEqual([])
      expect(open.heard).toEqual([])
      expect(await known()).toEqual(before)
    },
  )
})
