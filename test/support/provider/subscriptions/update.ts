/** Applies an update of a subscription, and bills its effect. Also used by the test's controls. */
import type Stripe from 'stripe'
import { declined, invalid } from '../errors.ts'
import { emit } from '../events.ts'
import { flag, hash, hashes, metadata, oneOf, type Params, text, whole } from '../form.ts'
import { collect } from '../invoices/collection.ts'
import { draftInvoice, finalize } from '../invoices/invoices.ts'
import { isDeclined, methodFor } from '../invoices/payment-methods.ts'
import { idOf, referred, type State } from '../state.ts'
import { addProrations, periodLines, restOf } from './billing.ts'
import { endTrial } from './lifecycle.ts'
import {
  beginPeriod,
  buildItem,
  cancelLater,
  cancelNever,
  periodOf,
  setReason,
  updateSubscription,
} from './subscriptions.ts'

export const UPDATE = [
  'items',
  'cancel_at_period_end',
  'cancel_at',
  'cancellation_details',
  'default_payment_method',
  'description',
  'metadata',
  'off_session',
  'pause_collection',
  'payment_behavior',
  'proration_behavior',
  'trial_end',
] as const

const AFTER_THE_END: ReadonlySet<string> = new Set(['metadata', 'cancellation_details', 'expand'])

export function applyUpdate(state: State, subscription: Stripe.Subscription, params: Params): void {
  const isFinished = subscription.status === 'canceled' || subscription.status === 'incomplete_expired'
  if (isFinished && Object.keys(params).some((name) => !AFTER_THE_END.has(name))) {
    const message = 'A canceled subscription can only update its cancellation_details and metadata.'
    throw invalid(message, undefined, 'invalid_canceled_subscription_fields')
  }
  const proration = oneOf(params, 'proration_behavior', ['create_prorations', 'always_invoice', 'none'])
  const payment = oneOf(params, 'payment_behavior', ['allow_incomplete', 'error_if_incomplete'])
  const changes = plannedItems(state, subscription, params)
  const isNewCycle = changes !== undefined && cycleOf(changes) !== cycleOf(subscription.items.data)
  const isRunning = subscription.status === 'active' || subscription.status === 'past_due'
  const isInvoiced = changes !== undefined && isRunning && (isNewCycle || proration === 'always_invoice')
  if (isInvoiced && payment === 'error_if_incomplete' && !hasGoodMethod(state, subscription)) throw declined()

  const isProrated = changes !== undefined && isRunning && proration !== 'none'
  const credits = isProrated ? subscription.items.data.flatMap((item) => restOf(state, item, -1)) : []
  let invoice: Stripe.Invoice | undefined
  updateSubscription(state, subscription, (one) => {
    applyFields(state, one, params)
    if (changes) one.items.data = changes
    addProrations(state, one.id, credits)
    if (isNewCycle && isRunning) {
      one.billing_cycle_anchor = state.now
      beginPeriod(state, one)
    } else if (isProrated) {
      const charges = changes.flatMap((item) => restOf(state, item, 1))
      addProrations(state, one.id, charges)
    }
    if (!isInvoiced) return
    const lines = isNewCycle ? periodLines(state, one) : []
    invoice = draftInvoice(state, one, 'subscription_update', lines, 'now')
    one.latest_invoice = invoice.id
  })
  if (invoice) {
    emit(state, 'invoice.created', invoice)
    finalize(state, invoice)
    collect(state, invoice)
  }
  if (text(params, 'trial_end') === 'now' && subscription.status === 'trialing') endTrial(state, subscription)
}

function hasGoodMethod(state: State, subscription: Stripe.Subscription): boolean {
  const method = methodFor(state, idOf(subscription.customer), subscription)
  return method !== undefined && !isDeclined(state, method)
}

function cycleOf(items: readonly Stripe.SubscriptionItem[]): string {
  const recurring = items[0]?.price.recurring
  return `${recurring?.interval_count} ${recurring?.interval}`
}

/** Items after the update, without changing the current ones; undefined if the update contains no items. */
function plannedItems(
  state: State,
  subscription: Stripe.Subscription,
  params: Params,
): Stripe.SubscriptionItem[] | undefined {
  const wanted = hashes(params, 'items')
  if (wanted.length === 0) return undefined
  let items = [...subscription.items.data]
  for (const [index, change] of wanted.entries()) {
    const priceId = text(change, 'price')
    const price = priceId ? referred(state.prices, 'price', priceId, `items[${index}][price]`) : undefined
    const quantity = whole(change, 'quantity')
    const id = text(change, 'id')
    if (!id) {
      if (!price) throw invalid('An item without an id needs a price.', `items[${index}][price]`, 'parameter_missing')
      const { start, end } = periodOf(subscription)
      const made = buildItem(state, subscription, { price, quantity: quantity ?? 1 })
      items.push({ ...made, current_period_start: start, current_period_end: end })
      continue
    }
    const old = items.find((item) => item.id === id)
    if (!old) throw invalid(`No such subscription item: '${id}'`, `items[${index}][id]`, 'resource_missing')
    if (flag(change, 'deleted')) items = items.filter((item) => item !== old)
    else items = items.map((item) => (item === old ? changed(state, subscription, old, price, quantity) : item))
  }
  if (items.length === 0) throw invalid('A subscription must have at least one active item.', 'items')
  return items
}

function changed(
  state: State,
  subscription: Stripe.Subscription,
  old: Stripe.SubscriptionItem,
  price: Stripe.Price | undefined,
  quantity: number | undefined,
): Stripe.SubscriptionItem {
  const { id, created, current_period_start, current_period_end } = old
  const made = buildItem(state, subscription, { price: price ?? old.price, quantity: quantity ?? old.quantity ?? 1 })
  return { ...made, id, created, current_period_start, current_period_end, metadata: old.metadata }
}

function applyFields(state: State, subscription: Stripe.Subscription, params: Params): void {
  subscription.metadata = metadata(params, subscription.metadata)
  const description = text(params, 'description')
  if (description !== undefined) subscription.description = description === '' ? null : description
  const method = text(params, 'default_payment_method')
  if (method) {
    subscription.default_payment_method = referred(
      state.paymentMethods,
      'PaymentMethod',
      method,
      'default_payment_method',
    ).id
  }
  const isCanceledLater = flag(params, 'cancel_at_period_end')
  if (isCanceledLater === true) cancelLater(state, subscription)
  if (isCanceledLater === false) cancelNever(subscription)
  applyCancelAt(state, subscription, params)
  applyPause(subscription, params)
  const trialEnd = text(params, 'trial_end')
  if (trialEnd && trialEnd !== 'now') extendTrial(state, subscription, Number(trialEnd))
  const details = hash(params, 'cancellation_details')
  if (details && subscription.cancellation_details) {
    const { comment, feedback } = subscription.cancellation_details
    subscription.cancellation_details.comment = text(details, 'comment') ?? comment
    subscription.cancellation_details.feedback = text(details, 'feedback') ?? feedback
  }
}

function applyCancelAt(state: State, subscription: Stripe.Subscription, params: Params): void {
  const cancelAt = text(params, 'cancel_at')
  if (cancelAt === undefined) return
  if (cancelAt === '') {
    cancelNever(subscription)
    return
  }
  const at = whole(params, 'cancel_at') ?? 0
  if (at <= state.now) throw invalid('cancel_at must be in the future', 'cancel_at')
  subscription.cancel_at = at
  subscription.canceled_at = state.now
  setReason(subscription, 'cancellation_requested')
}

function applyPause(subscription: Stripe.Subscription, params: Params): void {
  if (params.pause_collection === '') subscription.pause_collection = null
  const pause = hash(params, 'pause_collection')
  if (!pause) return
  subscription.pause_collection = {
    behavior: oneOf(pause, 'behavior', ['keep_as_draft', 'mark_uncollectible', 'void']),
    resumes_at: whole(pause, 'resumes_at') ?? null,
  }
}

function extendTrial(state: State, subscription: Stripe.Subscription, end: number): void {
  if (!(end > state.now)) throw invalid('trial_end must be in the future', 'trial_end')
  subscription.status = 'trialing'
  subscription.trial_start ??= state.now
  subscription.trial_end = end
  subscription.billing_cycle_anchor = end
  for (const item of subscription.items.data) item.current_period_end = end
}
