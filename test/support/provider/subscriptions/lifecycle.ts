/**
 * Start, renewal, pause and end of a subscription:
 *
 *   created ──► trialing ──trial ends──► active ──period ends──► active, in the next period, with a draft invoice
 *      │            └──no card──► active | paused | canceled, according to `trial_settings`
 *      └──► active, or incomplete while the first invoice is not paid ──23 hours──► incomplete_expired
 *   active ──pause──► paused ──resume──► active, in a new period
 */
import type Stripe from 'stripe'
import { declined, invalid } from '../errors.ts'
import { emit } from '../events.ts'
import { collect } from '../invoices/collection.ts'
import { draftInvoice, finalize, voidInvoice } from '../invoices/invoices.ts'
import { isDeclined, methodFor } from '../invoices/payment-methods.ts'
import { DAY_SECONDS, idOf, type State } from '../state.ts'
import { addProrations, lastLines, periodLines, restOf, trialLines } from './billing.ts'
import {
  beginPeriod,
  buildSubscription,
  cancel,
  periodOf,
  type SubscriptionDraft,
  setStatus,
  updateSubscription,
} from './subscriptions.ts'

export const WARNING_SECONDS = 3 * DAY_SECONDS

export type FirstPayment = 'allow_incomplete' | 'default_incomplete' | 'error_if_incomplete'

export function createSubscription(
  state: State,
  draft: SubscriptionDraft,
  payment: FirstPayment = 'allow_incomplete',
): Stripe.Subscription {
  const subscription = buildSubscription(state, draft)
  const isTrial = subscription.status === 'trialing'
  const method = methodFor(state, draft.customer, subscription)
  const isFree = isTrial || draft.items.every(({ price }) => priceAhead(price) === 0)
  if (!isFree && payment !== 'default_incomplete' && !method) throw noMethod()
  const isGood = method !== undefined && !isDeclined(state, method)
  if (!isFree && payment === 'error_if_incomplete' && !isGood) throw declined()

  state.subscriptions.set(subscription.id, subscription)
  const lines = isTrial ? trialLines(state, subscription) : periodLines(state, subscription)
  const isCollected = isFree || payment !== 'default_incomplete'
  const invoice = draftInvoice(state, subscription, 'subscription_create', lines, isCollected ? 'now' : 'never')
  subscription.latest_invoice = invoice.id
  if (!isTrial && (isFree || (isCollected && isGood))) subscription.status = 'active'
  emit(state, 'customer.subscription.created', subscription)
  emit(state, 'invoice.created', invoice)
  finalize(state, invoice)
  if (isCollected) collect(state, invoice)
  if (isTrial && (subscription.trial_end ?? 0) - state.now <= WARNING_SECONDS) warnOfTrialEnd(state, subscription)
  return subscription
}

function priceAhead(price: Stripe.Price): number {
  return price.recurring?.usage_type === 'metered' ? 0 : (price.unit_amount ?? 0)
}

function noMethod(): Error {
  const message = 'This customer has no attached payment source or default payment method.'
  return invalid(message, undefined, 'resource_missing')
}

export function warnOfTrialEnd(state: State, subscription: Stripe.Subscription): void {
  state.warned.add(`${subscription.id} ${subscription.trial_end}`)
  emit(state, 'customer.subscription.trial_will_end', subscription)
}

export function wasWarned(state: State, { id, trial_end }: Stripe.Subscription): boolean {
  return state.warned.has(`${id} ${trial_end}`)
}

/**
 * Ends the trial now and starts the first paid period, unless there is no card and `trial_settings` requires another
 * action.
 */
export function endTrial(state: State, subscription: Stripe.Subscription): void {
  const behavior = subscription.trial_settings?.end_behavior.missing_payment_method
  const hasMethod = methodFor(state, idOf(subscription.customer), subscription) !== undefined
  if (!hasMethod && behavior === 'cancel') {
    cancel(state, subscription, 'cancellation_requested')
    return
  }
  if (!hasMethod && behavior === 'pause') {
    updateSubscription(state, subscription, (one) =>
      setStatus(state, one, 'paused', 'trial_end_without_payment_method'),
    )
    emit(state, 'customer.subscription.paused', subscription)
    return
  }
  enterPeriod(state, subscription, (one) => {
    one.status = 'active'
    one.trial_end = Math.min(one.trial_end ?? state.now, state.now)
    one.billing_cycle_anchor = state.now
  })
}

/** Ends the period now, and starts the next one; its invoice contains the usage of the past one. */
export function renew(state: State, subscription: Stripe.Subscription): void {
  enterPeriod(state, subscription, () => undefined, periodOf(subscription))
}

function enterPeriod(
  state: State,
  subscription: Stripe.Subscription,
  edit: (subscription: Stripe.Subscription) => void,
  before?: Stripe.InvoiceLineItem.Period,
): void {
  let invoice: Stripe.Invoice | undefined
  updateSubscription(state, subscription, (one) => {
    edit(one)
    beginPeriod(state, one)
    const isKept = one.status === 'unpaid' || one.pause_collection?.behavior === 'keep_as_draft'
    const finalizes = isKept ? 'never' : state.now + state.settings.draftSeconds
    invoice = draftInvoice(state, one, 'subscription_cycle', periodLines(state, one, before), finalizes)
    one.latest_invoice = invoice.id
  })
  if (invoice) emit(state, 'invoice.created', invoice)
}

/**
 * Ends the subscription now, with an invoice for the usage of the last period and pending prorations, if there are any.
 */
export function cancelWithInvoice(state: State, subscription: Stripe.Subscription): void {
  const lines = [...(state.prorations.get(subscription.id) ?? []), ...lastLines(state, subscription)]
  cancel(state, subscription, 'cancellation_requested')
  if (lines.length === 0) return
  const invoice = draftInvoice(state, subscription, 'subscription_update', lines, 'now')
  subscription.latest_invoice = invoice.id
  emit(state, 'invoice.created', invoice)
  finalize(state, invoice)
  collect(state, invoice)
}

/** Expires a subscription whose first invoice was not paid in time. */
export function expire(state: State, subscription: Stripe.Subscription): void {
  const invoice = state.invoices.get(subscription.latest_invoice ? idOf(subscription.latest_invoice) : '')
  if (invoice?.status === 'open') voidInvoice(state, invoice)
  updateSubscription(state, subscription, (one) => {
    one.status = 'incomplete_expired'
    one.ended_at = state.now
  })
}

/** Adds a credit for unused time to the next invoice. */
export function pause(state: State, subscription: Stripe.Subscription): void {
  if (subscription.status !== 'active' && subscription.status !== 'past_due') {
    throw invalid(`Only an active or past due subscription can be paused, and this one is ${subscription.status}.`)
  }
  const credits = subscription.items.data.flatMap((item) => restOf(state, item, -1))
  addProrations(state, subscription.id, subscription.status === 'active' ? credits : [])
  updateSubscription(state, subscription, (one) => setStatus(state, one, 'paused'))
  emit(state, 'customer.subscription.paused', subscription)
}

export type ResumePayment = 'resume_on_payment_attempt' | 'resume_on_payment_success'

/** Starts and invoices a period now. The subscription is active immediately, or, if requested, after the payment. */
export function resume(state: State, subscription: Stripe.Subscription, payment: ResumePayment): void {
  if (subscription.status !== 'paused') {
    throw invalid(`Only a paused subscription can be resumed, and this one is ${subscription.status}.`)
  }
  const isImmediate = payment === 'resume_on_payment_attempt'
  let invoice: Stripe.Invoice | undefined
  updateSubscription(state, subscription, (one) => {
    if (isImmediate) setStatus(state, one, 'active')
    one.billing_cycle_anchor = state.now
    beginPeriod(state, one)
    invoice = draftInvoice(state, one, 'subscription_update', periodLines(state, one), 'now')
    one.latest_invoice = invoice.id
  })
  if (!invoice) return
  if (isImmediate) emit(state, 'customer.subscription.resumed', subscription)
  else state.resuming.add(invoice.id)
  emit(state, 'invoice.created', invoice)
  finalize(state, invoice)
  collect(state, invoice)
}
