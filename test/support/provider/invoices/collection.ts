/**
 * Collects invoices, and updates their subscriptions:
 *
 *   incomplete ──paid──► active ──declined──► past_due ──paid──► active
 *                                                 └──declined at the last retry──► canceled | unpaid | past_due
 *   paused, with an invoice that resumes it ──paid──► active
 *
 * Only the latest invoice of a subscription changes its status.
 */
import type Stripe from 'stripe'
import { emit, update } from '../events.ts'
import { DAY_SECONDS, idOf, type State } from '../state.ts'
import { cancel, setStatus, updateSubscription } from '../subscriptions/subscriptions.ts'
import { finalize, markPaid, markUncollectible, subscriptionIdOf, voidInvoice } from './invoices.ts'
import { charge, isDeclined, methodFor } from './payment-methods.ts'

export interface Collecting {
  /** Outcome set by the test; undefined: decided by the card. */
  readonly outcome?: 'paid' | 'declined'
  /** Whether a request caused the attempt, not the schedule of retries. */
  readonly isManual?: boolean
}

/** Returns whether the invoice was paid. */
export function collect(state: State, invoice: Stripe.Invoice, { outcome, isManual }: Collecting = {}): boolean {
  const subscription = state.subscriptions.get(subscriptionIdOf(invoice) ?? '')
  if (invoice.amount_remaining === 0) {
    paid(state, invoice, subscription)
    return true
  }
  const method = invoice.customer ? methodFor(state, idOf(invoice.customer), subscription) : undefined
  const isPaid = outcome ? outcome === 'paid' : method !== undefined && !isDeclined(state, method)
  charge(state, invoice, method, isPaid)
  if (isPaid) {
    if (!isManual || invoice.attempt_count === 0) invoice.attempt_count += 1
    paid(state, invoice, subscription)
  } else failed(state, invoice, subscription, isManual === true)
  return isPaid
}

function paid(state: State, invoice: Stripe.Invoice, subscription: Stripe.Subscription | undefined): void {
  markPaid(state, invoice)
  if (!subscription || !isLatest(invoice, subscription)) return
  const isResumed = state.resuming.delete(invoice.id)
  if (FOLLOWING.has(subscription.status) || isResumed) {
    updateSubscription(state, subscription, (one) => setStatus(state, one, 'active'))
  }
  if (isResumed) emit(state, 'customer.subscription.resumed', subscription)
}

const FOLLOWING: ReadonlySet<Stripe.Subscription.Status> = new Set(['incomplete', 'past_due', 'unpaid'])

function failed(
  state: State,
  invoice: Stripe.Invoice,
  subscription: Stripe.Subscription | undefined,
  isManual: boolean,
): void {
  update(state, 'invoice.updated', invoice, (one) => {
    one.attempted = true
    if (isManual && one.attempt_count > 0) return
    one.attempt_count += 1
    one.next_payment_attempt = nextAttempt(state, one)
    if (one.next_payment_attempt === null) one.auto_advance = false
  })
  emit(state, 'invoice.payment_failed', invoice)
  if (!subscription || !isLatest(invoice, subscription)) return
  if (subscription.status === 'active') {
    updateSubscription(state, subscription, (one) => setStatus(state, one, 'past_due'))
  }
  if (subscription.status === 'past_due' && invoice.next_payment_attempt === null) exhaustRetries(state, subscription)
}

/** The first invoice of a subscription, and an invoice that resumes one, are not retried. */
function nextAttempt(state: State, invoice: Stripe.Invoice): number | null {
  if (invoice.billing_reason === 'subscription_create' || state.resuming.has(invoice.id)) return null
  const days = state.settings.retryDays[invoice.attempt_count - 1]
  return days === undefined ? null : (invoice.status_transitions.finalized_at ?? state.now) + days * DAY_SECONDS
}

function exhaustRetries(state: State, subscription: Stripe.Subscription): void {
  const { afterRetries } = state.settings
  if (afterRetries === 'cancel') cancel(state, subscription, 'payment_failed')
  if (afterRetries === 'unpaid') updateSubscription(state, subscription, (one) => setStatus(state, one, 'unpaid'))
}

function isLatest(invoice: Stripe.Invoice, { latest_invoice: latest }: Stripe.Subscription): boolean {
  return latest !== null && idOf(latest) === invoice.id
}

/** Finalizes a due draft, and collects it or handles it as `pause_collection` of the subscription requires. */
export function finalizeAndCollect(state: State, invoice: Stripe.Invoice, how: Collecting = {}): boolean {
  const subscription = state.subscriptions.get(subscriptionIdOf(invoice) ?? '')
  const pause = subscription?.pause_collection?.behavior
  if (pause === 'void') {
    voidInvoice(state, invoice)
    return false
  }
  finalize(state, invoice)
  if (pause === 'mark_uncollectible') {
    markUncollectible(state, invoice)
    return false
  }
  return collect(state, invoice, how)
}
