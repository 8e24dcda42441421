/** Tests dunning from the first failed payment to the end or the recovery, with each action. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { OpenBilling } from '../billing.fixture.ts'
import { type Action, DAYS, type Debtors, openDebtors, paysNextPeriod, statusAndCases } from './dunning.fixture.ts'

interface Outcome {
  readonly action: Action
  readonly state: string
  readonly statusAndPlan: string
  readonly last: readonly string[]
}
type Case = readonly [title: string, run: (open: OpenBilling & Debtors, outcome: Outcome) => Promise<void>]

const WHOLE: Case = [
  'a failed payment is retried, the grace period begins and ends, and a payment recovers the tenant',
  async (open, { state, statusAndPlan, last }) => {
    const { tenantId, subscriptionId } = await open.debtor()
    const dunning = async () => (await open.tenancy.billing.of(tenantId)).dunning
    expect([await open.statusAndPlan(tenantId), await dunning()]).toMatchObject([
      'active pro',
      { state: 'retrying', attempt: 1, graceUntil: null },
    ])
    await open.pass({ days: DAYS.retry, seconds: -1 })
    expect([await open.statusAndPlan(tenantId), await dunning()]).toMatchObject([
      'active pro',
      { state: 'retrying', attempt: 1 },
    ])

    await open.pass({ seconds: 1 })
    const graceUntil = new Date(open.provider.now().getTime() + DAYS.grace * 86_400_000).toISOString()
    expect([await open.statusAndPlan(tenantId), await dunning()]).toMatchObject([
      'active pro',
      { state: 'grace', attempt: 2, graceUntil },
    ])
    await open.pass({ days: DAYS.grace, seconds: -1 })
    expect([await open.statusAndPlan(tenantId), await dunning()]).toMatchObject([
      'active pro',
      { state: 'grace', attempt: 2, graceUntil },
    ])

    await open.pass({ seconds: 1 })
    expect([await open.statusAndPlan(tenantId), await dunning()]).toMatchObject([
      statusAndPlan,
      { state, attempt: 2, graceUntil, subscriptionId },
    ])
    await open.pass({ hours: 1 })
    expect([await open.statusAndPlan(tenantId), await open.cases(tenantId)]).toEqual([statusAndPlan, [state]])

    open.receivedEvents.splice(0)
    open.provider.payInvoice(open.invoices(subscriptionId)[0]?.id as string)
    await open.deliverAndProcess()
    expect([await open.statusAndPlan(tenantId), await open.cases(tenantId), await dunning()]).toEqual([
      'active pro',
      ['recovered'],
      null,
    ])
    expect(open.receivedNamesOf(tenantId).sort()).toEqual(['PaymentSucceeded', 'SubscriptionUpdated', ...last])
  },
]

const UNPAID: Case = [
  'the plan stays during retries and grace period, also with the status unpaid',
  async (open, { action }) => {
    open.provider.settings.retryDays = [DAYS.retry]
    open.provider.settings.afterRetries = 'unpaid'
    const { tenantId, subscriptionId } = await open.debtor()
    await open.pass({ days: DAYS.retry })
    open.provider.settings.retryDays = [DAYS.retry, 60]
    open.provider.settings.afterRetries = 'past_due'
    const { subscription, dunning } = await open.tenancy.billing.of(tenantId)
    expect([subscription?.id, subscription?.status, dunning?.state]).toEqual([subscriptionId, 'unpaid', 'grace'])
    expect(await open.statusAndPlan(tenantId)).toBe('active pro')
    await open.pass({ days: DAYS.grace })
    const plan = action === 'none' ? 'pro' : 'free'
    expect(await open.statusAndPlan(tenantId)).toBe(`${action === 'suspend' ? 'suspended' : 'active'} ${plan}`)
    open.provider.payInvoice(open.invoices(subscriptionId)[0]?.id as string)
    await open.deliverAndProcess()
    expect(await open.statusAndPlan(tenantId)).toBe('active pro')
  },
]

const SECOND_PERIOD: Case = [
  'an unpaid second period has a separate case, and its invoice has to be paid, too',
  async (open, { state, statusAndPlan, last }) => {
    const { tenantId, subscriptionId } = await open.debtor()
    await open.pass({ days: DAYS.retry })
    await open.pass({ days: 40 })
    await open.pass({ days: DAYS.grace })
    expect(await open.cases(tenantId)).toEqual([state, state])
    const [second, first] = open.invoices(subscriptionId)
    open.receivedEvents.splice(0)
    open.provider.payInvoice(first?.id as string)
    await open.deliverAndProcess()
    expect([await open.statusAndPlan(tenantId), await open.cases(tenantId)]).toEqual([
      statusAndPlan,
      ['recovered', state],
    ])
    open.provider.payInvoice(second?.id as string)
    await open.deliverAndProcess()
    expect([await open.statusAndPlan(tenantId), await open.cases(tenantId)]).toEqual([
      'active pro',
      ['recovered', 'recovered'],
    ])
    expect(open.receivedNamesOf(tenantId).filter((name) => name === 'TenantActivated')).toEqual(last)
  },
]

const LATER_PERIOD: Case = [
  'a paid later period recovers the tenant once',
  async (open, { state, last }) => {
    const { tenantId } = await paysNextPeriod(open, state)
    await open.pass({})
    expect(await statusAndCases(open, tenantId)).toEqual(['active pro', ['recovered']])
    expect(open.receivedNamesOf(tenantId).filter((name) => name === 'TenantActivated')).toEqual(last)
    const [failure] = open.provider.events.filter(({ type }) => type === 'invoice.payment_failed').slice(-1)
    await open.tenancy.billing.inbox.replay(failure?.id as string)
    await open.process()
    expect(await statusAndCases(open, tenantId)).toEqual(['active pro', ['recovered']])
  },
]

const LATER_PAYMENT: Case = [
  'the end of a grace period has no effect if the provider has a later payment',
  async (open, { action }) => {
    const { tenantId, customerId } = await open.debtor()
    await open.pass({ days: DAYS.retry })
    open.provider.setPaymentMethod(customerId, 'good')
    open.provider.advance({ days: 30 })
    await open.tenancy.billing.dunning.sweep()
    expect(await open.statusAndPlan(tenantId)).toBe('active pro')
    expect(await open.cases(tenantId)).toEqual([action === 'none' ? 'grace' : 'recovered'])
    await open.deliverAndProcess()
    expect(await open.cases(tenantId)).toEqual(['recovered'])
  },
]

const RECOVERED_ONCE: Case = [
  'repeated payment events recover the tenant once',
  async (open) => {
    const { tenantId, customerId, subscriptionId } = await open.debtor()
    await open.pass({ days: DAYS.retry })
    await open.pass({ days: DAYS.grace })
    open.provider.payInvoice(open.invoices(subscriptionId)[0]?.id as string)
    await open.deliverAndProcess()
    await open.tenancy.tenants.suspend(tenantId) // by an operator
    const before = [await open.statusAndPlan(tenantId), await open.cases(tenantId)]
    open.receivedEvents.splice(0)
    const paid = open.eventsOf(customerId).filter(({ type }) => type === 'invoice.payment_succeeded')
    expect(new Set(await open.deliver(paid))).toEqual(new Set([200]))
    for (const { id } of paid) await open.tenancy.billing.inbox.replay(id)
    await open.process()
    const again = open.provider.emit('invoice.payment_succeeded', paid.at(-1)?.data.object as object)
    await open.deliverAndProcess()
    expect(again.id).not.toBe(paid.at(-1)?.id)
    expect(open.receivedNamesOf(tenantId)).toEqual(['PaymentSucceeded'])
    expect([await open.statusAndPlan(tenantId), await open.cases(tenantId)]).toEqual(before)
  },
]

// A sweep handles downgrade and suspend alike, and an operator can only repeat a suspension.
describe.each<[Action, Omit<Outcome, 'action'>, Case[]]>([
  ['none', { state: 'grace', statusAndPlan: 'active pro', last: [] }, [WHOLE, UNPAID, LATER_PAYMENT]],
  [
    'downgrade',
    { state: 'downgraded', statusAndPlan: 'active free', last: [] },
    [WHOLE, UNPAID, SECOND_PERIOD, LATER_PERIOD],
  ],
  [
    'suspend',
    { state: 'suspended', statusAndPlan: 'suspended pro', last: ['TenantActivated'] },
    [WHOLE, UNPAID, SECOND_PERIOD, LATER_PERIOD, LATER_PAYMENT, RECOVERED_ONCE],
  ],
])('dunning with the action %s', (action, outcome, cases) => {
  let open: OpenBilling & Debtors
  beforeAll(async () => {
    open = await openDebtors(action)
  })
  afterAll(() => open.end())
  afterEach(() => open.clear())

  test.each(cases)('dunning: %s', (_, run) => run(open, { action, ...outcome }))
})
