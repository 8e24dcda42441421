/**
 * What becomes of a tenant whose payment fails, as a pure function: of what is known of the invoices of a billing period, the end of the
 * subscription, the policy, and the time.
 *
 *   good --payment failed--> retrying --maxAttempts, or the provider gives up--> grace --its time over--> downgraded | suspended
 *     ^                         |                                                  |                            |
 *     +------------------------ all that has failed is paid, in any state: recovered, once ---------------------+
 *
 * A subscription that ends before its grace is over ends this as well; one that ends later has been downgraded or suspended by then.
 *
 * What is known only grows: more attempts, an earlier end of the attempts, paid, ended. So it comes to the same in whatever order it is
 * heard, however late, and however often.
 */
import type { ProviderInvoice } from '../model/provider.ts'
import type { DunningPolicy } from '../model/settings.ts'
import type { InvoiceRecord, Records } from '../model/tables.ts'

const DAY_MS = 86_400_000

export type Standing =
  | { readonly state: 'good' }
  | { readonly state: 'retrying'; readonly attempt: number }
  | { readonly state: 'grace'; readonly attempt: number; readonly until: Date }
  | { readonly state: 'over'; readonly attempt: number; readonly until: Date }
  | { readonly state: 'ended'; readonly attempt: number }

const UNKNOWN: InvoiceRecord = { attempt: 0, exhaustedAt: null, isSettled: false }

/** Whether nothing is tried any more after this attempt, by the policy or by the provider. */
export const isFinal = ({ attempt, nextAttemptAt }: ProviderInvoice, { maxAttempts }: DunningPolicy): boolean =>
  attempt >= maxAttempts || nextAttemptAt === null

/** @param at when its last attempt has failed, or when that became known */
export function withFailure(records: Records, invoice: ProviderInvoice, policy: DunningPolicy, at: Date): Records {
  const known = records[invoice.id] ?? UNKNOWN
  const exhaustedAt = isFinal(invoice, policy) ? at.toISOString() : null
  const [earliest = null] = [known.exhaustedAt, exhaustedAt].flatMap((time) => time ?? []).sort()
  const record = { ...known, attempt: Math.max(known.attempt, invoice.attempt), exhaustedAt: earliest }
  return { ...records, [invoice.id]: record }
}

/** Paid, or not owed any more. */
export const withSettlement = (records: Records, invoiceId: string): Records => ({
  ...records,
  [invoiceId]: { ...(records[invoiceId] ?? UNKNOWN), isSettled: true },
})

/** A later period is paid for: who goes on with the subscription owes nothing of it any more, whatever becomes of the invoices. */
export const withLaterPayment = (records: Records): Records =>
  Object.fromEntries(Object.entries(records).map(([id, record]) => [id, { ...record, isSettled: true }]))

/** @param endedAt when the subscription has ended */
export function standingOf(records: Records, endedAt: Date | null, { graceDays }: DunningPolicy, now: Date): Standing {
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
