/** What becomes of a tenant whose payments fail, from the first failure to the end, or back, with each action. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { OpenBilling } from '../billing.fixture.ts'
import { type Action, DAYS, type Debtors, openDebtors, paysNextPeriod, standingAndCases } from './dunning.fixture.ts'

interface Outcome {
  readonly action: Action
  readonly state: string
  readonly standing: string
  readonly last: readonly string[]
}
type Case = readonly [title: string, run: (open: OpenBilling & Debtors, outcome: Outcome) => Promise<void>]

const WHOLE: Case = [
  'a payment that fails is tried, a grace begins and ends, and a payment takes all of it back',
  async (open, { state, standing, last }) => {
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

    open.receivedEvents.splice(0)
    open.provider.payInvoice(open.invoices(subscriptionId)[0]?.id as string)
    await open.deliverAndProcess()
    expect([await open.standing(tenantId), await open.cases(tenantId), await dunning()]).toEqual([
      'active pro',
      ['recovered'],
      null,
    ])
    expect(open.receivedNamesOf(tenantId).sort()).toEqual(['PaymentSucceeded', 'SubscriptionUpdated', ...last])
  },
]

const UNPAID: Case = [
  'the plan stays while it is tried and in grace, also where the provider calls it unpaid',
  async (open, { action }) => {
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
    await open.deliverAndProcess()
    expect(await open.standing(tenantId)).toBe('active pro')
  },
]

const SECOND_PERIOD: Case = [
  'a second period that is not paid has a case of its own, and its invoice has to be paid as well',
  async (open, { state, standing, last }) => {
    const { tenantId, subscriptionId } = await open.debtor()
    await open.pass({ days: DAYS.retry })
    await open.pass({ days: 40 })
    await open.pass({ days: DAYS.grace })
    expect(await open.cases(tenantId)).toEqual([state, state])
    const [second, first] = open.invoices(subscriptionId)
    open.receivedEvents.splice(0)
    open.provider.payInvoice(first?.id as string)
    await open.deliverAndProcess()
    expect([await open.standing(tenantId), await open.cases(tenantId)]).toEqual([standing, ['recovered', state]])
    open.provider.payInvoice(second?.id as string)
    await open.deliverAndProcess()
    expect([await open.standing(tenantId), await open.cases(tenantId)]).toEqual([
      'active pro',
      ['recovered', 'recovered'],
    ])
    expect(open.receivedNamesOf(tenantId).filter((name) => name === 'TenantActivated')).toEqual(last)
  },
]

const LATER_PERIOD: Case = [
  'a later period that is paid takes all of it back, once',
  async (open, { state, last }) => {
    const { tenantId } = await paysNextPeriod(open, state)
    await open.pass({})
    expect(await standingAndCases(open, tenantId)).toEqual(['active pro', ['recovered']])
    expect(open.receivedNamesOf(tenantId).filter((name) => name === 'TenantActivated')).toEqual(last)
    const [failure] = open.provider.events.filter(({ type }) => type === 'invoice.payment_failed').slice(-1)
    await open.tenancy.billing.inbox.replay(failure?.id as string)
    await open.process()
    expect(await standingAndCases(open, tenantId)).toEqual(['active pro', ['recovered']])
  },
]

const LATER_PAYMENT: Case = [
  'a grace that is over takes nothing away where the provider has a later payment',
  async (open, { action }) => {
    const { tenantId, customerId } = await open.debtor()
    await open.pass({ days: DAYS.retry })
    open.provider.setPaymentMethod(customerId, 'good')
    open.provider.advance({ days: 30 })
    await open.tenancy.billing.dunning.sweep()
    expect(await open.standing(tenantId)).toBe('active pro')
    expect(await open.cases(tenantId)).toEqual([action === 'none' ? 'grace' : 'recovered'])
    await open.deliverAndProcess()
    expect(await open.cases(tenantId)).toEqual(['recovered'])
  },
]

const RECOVERED_ONCE: Case = [
  'it is recovered once, however often a payment is told',
  async (open) => {
    const { tenantId, customerId, subscriptionId } = await open.debtor()
    await open.pass({ days: DAYS.retry })
    await open.pass({ days: DAYS.grace })
    open.provider.payInvoice(open.invoices(subscriptionId)[0]?.id as string)
    await open.deliverAndProcess()
    await open.tenancy.tenants.suspend(tenantId) // by an operator
    const before = [await open.standing(tenantId), await open.cases(tenantId)]
    open.receivedEvents.splice(0)
    const paid = open.eventsOf(customerId).filter(({ type }) => type === 'invoice.payment_succeeded')
    expect(new Set(await open.deliver(paid))).toEqual(new Set([200]))
    for (const { id } of paid) await open.tenancy.billing.inbox.replay(id)
    await open.process()
    const again = open.provider.emit('invoice.payment_succeeded', paid.at(-1)?.data.object as object)
    await open.deliverAndProcess()
    expect(again.id).not.toBe(paid.at(-1)?.id)
    expect(open.receivedNamesOf(tenantId)).toEqual(['PaymentSucceeded'])
    expect([await open.standing(tenantId), await open.cases(tenantId)]).toEqual(before)
  },
]

// A sweep treats the actions downgrade and suspend alike, and only a suspension can be repeated by an operator.
describe.each<[Action, Omit<Outcome, 'action'>, Case[]]>([
  ['none', { state: 'grace', standing: 'active pro', last: [] }, [WHOLE, UNPAID, LATER_PAYMENT]],
  [
    'downgrade',
    { state: 'downgraded', standing: 'active free', last: [] },
    [WHOLE, UNPAID, SECOND_PERIOD, LATER_PERIOD],
  ],
  [
    'suspend',
    { state: 'suspended', standing: 'suspended pro', last: ['TenantActivated'] },
    [WHOLE, UNPAID, SECOND_PERIOD, LATER_PERIOD, LATER_PAYMENT, RECOVERED_ONCE],
  ],
])('where %s follows', (action, outcome, cases) => {
  let open: OpenBilling & Debtors
  beforeAll(async () => {
    open = await openDebtors(action)
  })
  afterAll(() => open.end())
  afterEach(() => open.clear())

  test.each(cases)('%s', (_, run) => run(open, { action, ...outcome }))
})
