/** Tests of the conversion of invoices: billing period and subscription. */
import { expect, test } from 'vitest'
import type { ProviderInvoice } from '../model/provider.ts'
import { toSubject } from './objects.ts'
import { redact } from './redaction.ts'

const day = (number: number): number => Date.UTC(2026, 0, number) / 1000
const line = (start: number, end: number) => ({ id: `il_${start}`, object: 'line_item', period: { start, end } })
const parent = { type: 'subscription_details', subscription_details: { subscription: 'sub_1', metadata: {} } }

const rawInvoice = (members: Readonly<Record<string, unknown>>) => ({
  id: 'in_1',
  object: 'invoice',
  customer: 'cus_1',
  status: 'open',
  billing_reason: 'subscription_cycle',
  attempt_count: 1,
  next_payment_attempt: day(35),
  amount_due: 2_900,
  amount_paid: 0,
  currency: 'usd',
  period_start: day(1),
  period_end: day(32),
  parent,
  lines: { object: 'list', data: [line(day(32), day(60))] },
  ...members,
})

function invoiceOf(object: Readonly<Record<string, unknown>>): ProviderInvoice {
  const event = { id: 'evt_1', object: 'event', type: 'invoice.payment_failed', created: day(32), data: { object } }
  const subject = toSubject('invoice.payment_failed', redact(event))
  if (subject.kind !== 'invoice') throw new Error('the event is not about an invoice')
  return subject.invoice
}

test.each([
  ['a renewal', {}],
  [
    'a renewal with usage and changes of the previous period',
    { lines: [line(day(1), day(32)), line(day(32), day(60))] },
  ],
  [
    'a change during the period',
    {
      billing_reason: 'subscription_update',
      period_start: day(40),
      period_end: day(40),
      lines: [line(day(40), day(60)), line(day(40), day(60))],
    },
  ],
  ['an invoice without lines (its own period end)', { lines: [], period_end: day(60) }],
])('%s belongs to the billing period that ends last', (_, { lines, ...members }: Record<string, unknown>) => {
  const invoice = invoiceOf(rawInvoice({ ...members, ...(lines ? { lines: { object: 'list', data: lines } } : {}) }))
  expect(invoice.periodEnd).toEqual(new Date(day(60) * 1000))
})

test('an invoice with only usage belongs to the period of the usage', () => {
  const invoice = invoiceOf(rawInvoice({ lines: { object: 'list', data: [line(day(1), day(32))] } }))
  expect(invoice.periodEnd).toEqual(new Date(day(32) * 1000))
})

test('an invoice without a subscription has a null subscriptionId', () => {
  expect(invoiceOf(rawInvoice({ parent: null })).subscriptionId).toBeNull()
  expect(invoiceOf(rawInvoice({})).subscriptionId).toBe('sub_1')
})

test('rejects an invoice of an API version that stores the subscription in another member', () => {
  const { parent: _, ...older } = rawInvoice({ subscription: 'sub_1' })
  expect(() => invoiceOf(older)).toThrow('payload_invalid')
})
