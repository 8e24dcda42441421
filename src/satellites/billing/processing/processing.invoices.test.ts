/**
 * Tests failed payments: the provider's current invoice counts, or the invoice of the event if the provider no longer
 * has it.
 */
import type Stripe from 'stripe'
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest'
import { type OpenBilling, openBilling } from '../billing.fixture.ts'
import { type Debtors, debtorsOf } from '../dunning/dunning.fixture.ts'

const RETRY_DAYS = 3

let open: OpenBilling & Debtors
beforeAll(async () => {
  const opened = await openBilling(inject('postgresUrl'), {
    options: { dunning: { maxAttempts: 2, graceDays: 7, action: 'suspend' } },
    provider: { start: new Date('2026-03-31T10:00:00Z'), afterRetries: 'past_due', retryDays: [RETRY_DAYS, 60] },
  })
  open = Object.assign(opened, debtorsOf(opened))
})
afterEach(() => open.clear())
afterAll(() => open.end())

const failures = () => open.provider.events.filter(({ type }) => type === 'invoice.payment_failed')
const process = (eventId: string) => open.tenancy.billing.processing.process(eventId, true)
const casesOf = async (tenantId: string) => {
  const { rows } = await open.tenancy.kernel.database.sql(
    'select state, invoices from multitenancy.billing_dunning where tenant_id = $1',
    [tenantId],
  )
  return rows.map(({ state, invoices }) => ({ state, invoices: Object.values(invoices) }))
}
const publishedFailures = (tenantId: string) =>
  open.receivedEvents.flatMap(([name, event]) =>
    name === 'PaymentFailed' && event.tenantId === tenantId
      ? [{ attempt: event.attempt, final: event.final, nextAttemptAt: event.nextAttemptAt }]
      : [],
  )

/** A tenant whose renewal was declined that many times, with received, unprocessed events. */
async function declined(times: 1 | 2) {
  const payer = await open.payer()
  const before = failures().length
  open.provider.setPaymentMethod(payer.customerId, 'declines')
  open.provider.advance({ days: 31, hours: 2 })
  if (times === 2) open.provider.advance({ days: RETRY_DAYS })
  await open.deliver()
  const [first, second] = failures().slice(before) as [Stripe.Event, Stripe.Event]
  return { ...payer, first, second, invoice: first.data.object as Stripe.Invoice }
}

test('an attempt without a received event counts from the time at which it becomes known', async () => {
  const { tenantId, first, second } = await declined(2)
  await process(first.id)
  const now = open.provider.now().toISOString()
  expect(await casesOf(tenantId)).toEqual([
    { state: 'grace', invoices: [{ attempt: 2, exhaustedAt: now, isSettled: false }] },
  ])
  await process(second.id)
  const at = new Date(second.created * 1000).toISOString()
  expect(at < now).toBe(true)
  expect(await casesOf(tenantId)).toEqual([
    { state: 'grace', invoices: [{ attempt: 2, exhaustedAt: at, isSettled: false }] },
  ])
  expect(publishedFailures(tenantId).map(({ attempt, final }) => [attempt, final])).toEqual([
    [1, false],
    [2, true],
  ])
})

test('the invoice of the event counts if the provider no longer has the invoice', async () => {
  const { tenantId, first, invoice } = await declined(2)
  open.provider.forget(invoice.id as string)
  await process(first.id)
  expect(await casesOf(tenantId)).toEqual([
    { state: 'retrying', invoices: [{ attempt: 1, exhaustedAt: null, isSettled: false }] },
  ])
})

test('an attempt is not final if the provider has scheduled another one since the event', async () => {
  const { tenantId, first, invoice } = await declined(1)
  expect(invoice.next_payment_attempt).not.toBeNull()
  const early = open.provider.emit('invoice.payment_failed', { ...invoice, next_payment_attempt: null })
  await open.deliver([early])
  await process(early.id)
  const nextAttemptAt = new Date((invoice.next_payment_attempt ?? 0) * 1000).toISOString()
  expect(publishedFailures(tenantId)).toEqual([{ attempt: 1, final: false, nextAttemptAt }])
  expect((await casesOf(tenantId)).map(({ state }) => state)).toEqual(['retrying'])
  await process(first.id)
})

test('an invoice event of an API version with another member for the subscription fails with payload_invalid', async () => {
  const { tenantId, subscriptionId, first, invoice } = await declined(1)
  const { parent: _, ...older } = invoice
  const event = open.provider.emit('invoice.payment_failed', { ...older, subscription: subscriptionId })
  await open.deliver([event])
  open.receivedEvents.splice(0)
  await open.tenancy.billing.processing.process(event.id, false)
  const row = (await open.inbox()).find(({ eventId }) => eventId === event.id)
  expect([row.status, row.errorCode]).toEqual(['failed', 'payload_invalid'])
  expect(open.receivedNamesOf(tenantId)).toEqual(['BillingEventDeadLettered'])
  await process(first.id)
})
