/** Advances the clock, and runs everything that falls due at its own second, in order. */
import type Stripe from 'stripe'
import { expireSession } from './checkout.ts'
import { collect, finalizeAndCollect } from './invoices/collection.ts'
import { voidInvoice } from './invoices/invoices.ts'
import { AUTOMATIC, type State } from './state.ts'
import {
  cancelWithInvoice,
  endTrial,
  expire,
  renew,
  WARNING_SECONDS,
  warnOfTrialEnd,
  wasWarned,
} from './subscriptions/lifecycle.ts'
import { INCOMPLETE_SECONDS, periodOf, updateSubscription } from './subscriptions/subscriptions.ts'

interface Due {
  readonly at: number
  readonly run: () => void
}

export function moveTo(state: State, target: number): void {
  state.cause = AUTOMATIC
  for (;;) {
    const next = earliest(state)
    if (!next || next.at > target) break
    state.now = Math.max(state.now, next.at)
    next.run()
  }
  state.now = target
}

/** Among entries of the same second, the first in the list. */
function earliest(state: State): Due | undefined {
  let found: Due | undefined
  for (const due of allDue(state)) if (!found || due.at < found.at) found = due
  return found
}

function* allDue(state: State): Generator<Due> {
  for (const invoice of state.invoices.values()) yield* dueOfInvoice(state, invoice)
  for (const subscription of state.subscriptions.values()) yield* dueOfSubscription(state, subscription)
  for (const session of state.sessions.values()) {
    if (session.status === 'open') yield { at: session.expires_at, run: () => expireSession(state, session) }
  }
}

function* dueOfInvoice(state: State, invoice: Stripe.Invoice): Generator<Due> {
  const { automatically_finalizes_at: finalizesAt, next_payment_attempt: attemptAt } = invoice
  if (invoice.status === 'draft' && finalizesAt) {
    yield { at: finalizesAt, run: () => finalizeAndCollect(state, invoice) }
  }
  if (invoice.status !== 'open') return
  if (state.resuming.has(invoice.id)) {
    const run = () => {
      state.resuming.delete(invoice.id)
      voidInvoice(state, invoice)
    }
    yield { at: invoice.created + INCOMPLETE_SECONDS, run }
  } else if (attemptAt && invoice.auto_advance) yield { at: attemptAt, run: () => collect(state, invoice) }
}

const RENEWED: ReadonlySet<Stripe.Subscription.Status> = new Set(['active', 'past_due', 'unpaid'])

function* dueOfSubscription(state: State, subscription: Stripe.Subscription): Generator<Due> {
  const { status, cancel_at: cancelAt, trial_end: trialEnd, pause_collection: pause } = subscription
  const isRunning = status === 'trialing' || RENEWED.has(status)
  if (isRunning && cancelAt) {
    yield { at: cancelAt, run: () => cancelWithInvoice(state, subscription) }
  }
  if (isRunning && pause?.resumes_at) {
    const run = () =>
      updateSubscription(state, subscription, (one) => {
        one.pause_collection = null
      })
    yield { at: pause.resumes_at, run }
  }
  if (status === 'trialing' && trialEnd) {
    if (!wasWarned(state, subscription)) {
      yield { at: trialEnd - WARNING_SECONDS, run: () => warnOfTrialEnd(state, subscription) }
    }
    yield { at: trialEnd, run: () => endTrial(state, subscription) }
  }
  if (status === 'incomplete') {
    yield { at: subscription.created + INCOMPLETE_SECONDS, run: () => expire(state, subscription) }
  }
  if (RENEWED.has(status)) yield { at: periodOf(subscription).end, run: () => renew(state, subscription) }
}
