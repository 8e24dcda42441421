/** Tenants that dunning suspends after one failed attempt and the grace period. */
import { afterAll, afterEach, beforeAll, expect, inject } from 'vitest'
import { type OpenBilling, openBilling, type Subscriber } from '../billing.fixture.ts'
import { type Debtors, debtorsOf } from './dunning.fixture.ts'

export const GRACE = { days: 7 }

export interface Suspending extends OpenBilling, Debtors {
  /** Status, plan and cases: `['suspended pro', 'suspended']` */
  now(tenantId: string): Promise<string[]>
  /** The id of the latest event of a type. */
  lastOf(type: string): string
  /** @param index of the invoice, 0: the latest */
  pay(subscriptionId: string, index?: number): void
  /** Published `TenantActivated` events of the tenant. */
  activations(tenantId: string): string[]
  /** A debtor whose grace period has ended. */
  suspended(): Promise<Subscriber>
  /** Test case: an operator repeats the suspension during the processing of the payment. */
  repeatsSuspension(): Promise<void>
  /** Test case: the payment is processed during a sweep. */
  paysDuringSweep(): Promise<void>
}

async function openSuspending(): Promise<Suspending> {
  const opened = await openBilling(inject('postgresUrl'), {
    options: { dunning: { maxAttempts: 1, graceDays: GRACE.days, action: 'suspend' } },
    provider: { start: new Date('2026-03-31T10:00:00Z'), afterRetries: 'past_due', retryDays: [60] },
  })
  const open = Object.assign(opened, debtorsOf(opened))
  const now = async (tenantId: string) => [await open.statusAndPlan(tenantId), ...(await open.cases(tenantId))]
  const pay = (subscriptionId: string, index = 0) => {
    open.provider.payInvoice(open.invoices(subscriptionId)[index]?.id as string)
  }
  const suspended = async () => {
    const one = await open.debtor()
    await open.pass(GRACE)
    expect(await now(one.tenantId)).toEqual(['suspended pro', 'suspended'])
    return one
  }
  return Object.assign(open, {
    now,
    lastOf: (type: string) => open.provider.events.findLast((event) => event.type === type)?.id as string,
    pay,
    activations: (tenantId: string) => open.receivedNamesOf(tenantId).filter((name) => name === 'TenantActivated'),
    suspended,
    async repeatsSuspension() {
      const { tenantId, subscriptionId } = await suspended()
      pay(subscriptionId)
      await open.deliver()
      await Promise.all([open.process(), open.tenancy.tenants.suspend(tenantId)])
      expect(await now(tenantId)).toEqual(['suspended pro', 'recovered'])
    },
    async paysDuringSweep() {
      const { tenantId, subscriptionId } = await open.debtor()
      open.provider.advance(GRACE)
      pay(subscriptionId)
      await open.deliver()
      const { billing } = open.tenancy
      await Promise.all([billing.dunning.sweep(), open.process(), billing.dunning.sweep()])
      expect(await now(tenantId)).toEqual(['active pro', 'recovered'])
    },
  })
}

/** One tenancy for the tests of a file. Each test starts without cases and events. */
export function sharedSuspending(): Suspending {
  const open = {} as Suspending
  beforeAll(async () => {
    Object.assign(open, await openSuspending())
  })
  afterEach(async () => {
    await open.clear()
    open.receivedEvents.splice(0)
  })
  afterAll(() => open.end())
  return open
}
