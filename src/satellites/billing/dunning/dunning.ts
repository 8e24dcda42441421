/**
 * Computes the dunning state of a billing period, as a pure function of its invoices, the end of the subscription, the
 * policy and the time.
 *
 *   good ──payment failed──► retrying ──maxAttempts, or no further attempt──► grace ──graceDays──► over
 *     ▲                         │                                               │                    │
 *     └─────────────────────────┴────── all failed invoices are paid ───────────┴────────────────────┘
 *
 * - The policy's action turns `over` into downgraded or suspended.
 * - A subscription that ends before its grace period ends the case. One that ends later is already downgraded or
 *   suspended.
 * - Facts are only added (attempts, an earlier last attempt, a payment, an end), so the result does not depend on their
 *   order.
 */
import type { ProviderInvoice } from '../model/provider.ts'
import type { DunningPolicy } from '../model/settings.ts'
import type { InvoiceRecord, Records } from '../model/tables.ts'

const DAY_MS = 86_400_000

export type DunningState =
  | { readonly state: 'good' }
  | { readonly state: 'retrying'; readonly attempt: number }
  | { readonly state: 'grace'; readonly attempt: number; readonly until: Date }
  | { readonly state: 'over'; readonly attempt: number; readonly until: Date }
  | { readonly state: 'ended'; readonly attempt: number }

const UNKNOWN: InvoiceRecord = { attempt: 0, exhaustedAt: null, isSettled: false }

/** Whether no further attempt counts, by the policy or by the provider. */
export const isFinal = ({ attempt, nextAttemptAt }: ProviderInvoice, { maxAttempts }: DunningPolicy): boolean =>
  attempt >= maxAttempts || nextAttemptAt === null

/** @param at time of the last failed attempt, or time at which it became known */
export function withFailure(records: Records, invoice: ProviderInvoice, policy: DunningPolicy, at: Date): Records {
  const known = records[invoice.id] ?? UNKNOWN
  const exhaustedAt = isFinal(invoice, policy) ? at.toISOString() : null
  const [earliest = null] = [known.exhaustedAt, exhaustedAt].flatMap((time) => time ?? []).sort()
  const record = { ...known, attempt: Math.max(known.attempt, invoice.attempt), exhaustedAt: earliest }
  return { ...records, [invoice.id]: record }
}

/** Marks an invoice as paid or no longer owed. */
export const withSettlement = (records: Records, invoiceId: string): Records => ({
  ...records,
  [invoiceId]: { ...(records[invoiceId] ?? UNKNOWN), isSettled: true },
})

/** A payment for a later period settles all invoices of this period, regardless of their status. */
export const withLaterPayment = (records: Records): Records =>
  Object.fromEntries(Object.entries(records).map(([id, record]) => [id, { ...record, isSettled: true }]))

/** @param endedAt end of the subscription */
export function dunningStateOf(
  records: Records,
  endedAt: Date | null,
  { graceDays }: DunningPolicy,
  now: Date,
): DunningState {
  const open = Object.values(records).filter(({ isSettled, attempt }) => !isSettled && attempt > 0)
  if (open.length === 0) return { state: 'good' }
  const attempt = Math.max(...open.map((one) => one.attempt))
  const [exhaustedAt] = open.flatMap((one) => one.exhaustedAt ?? []).sort()
  if (exhaustedAt === undefined) return { state: endedAt ? 'ended' : 'retrying', attempt }
  const until = new Date(Date.parse(exhaustedAt) + graceDays * DAY_MS)
  const isFinished = now >= until && (endedAt === null || endedAt >= until)
  if (isFinished) return { state: 'over', attempt, until }
  return endedAt ? { state: 'ended', attempt } : { state: 'grace', attempt, until }
}
