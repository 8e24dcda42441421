/** Invoices as the provider sends them: which billing period they are about, and whose they are. */
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
  if (subject.kind !== 'invoice') throw new Error('it is about an invoice')
  return subject.invoice
}

test.each([
  ['a renewal is about the period that begins', {}],
  [
    'so it is with what was used, and changed, in the one before',
    { lines: [line(day(1), day(32)), line(day(32), day(60))] },
  ],
  [
    'a change in the middle of a period is about that one',
    {
      billing_reason: 'subscription_update',
      period_start: day(40),
      period_end: day(40),
      lines: [line(day(40), day(60)), line(day(40), day(60))],
    },
  ],
  ['one of nothing is about when it was made', { lines: [], period_end: day(60) }],
])('%s', (_, { lines, ...members }: Record<string, unknown>) => {
  const invoice = invoiceOf(rawInvoice({ ...members, ...(lines ? { lines: { object: 'list', data: lines } } : {}) }))
  expect(invoice.periodEnd).toEqual(new Date(day(60) * 1000))
})

test('where only what was used is billed, it is about the period in which it was', () => {
  const invoice = invoiceOf(rawInvoice({ lines: { object: 'list', data: [line(day(1), day(32))] } }))
  expect(invoice.periodEnd).toEqual(new Date(day(32) * 1000))
})

test('one of no subscription says so', () => {
  expect(invoiceOf(rawInvoice({ parent: null })).subscriptionId).toBeNull()
  expect(invoiceOf(rawInvoice({})).subscriptionId).toBe('sub_1')
})

test('one in the shape of an API version that had its subscription elsewhere is not read', () => {
  const { parent: _, ...older } = rawInvoice({ subscription: 'sub_1' })
  expect(() => invoiceOf(older)).toThrow('payload_invalid')
})
