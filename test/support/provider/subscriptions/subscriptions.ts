/** Subscriptions: items, periods, invoice lines, and the end. */
import type Stripe from 'stripe'
import { planOf } from '../catalog.ts'
import { emit, update } from '../events.ts'
import { stopCollecting } from '../invoices/invoices.ts'
import { whollyListed } from '../lists.ts'
import { HOUR_SECONDS, idOf, type State, type Wanted } from '../state.ts'
import { periodEnd } from './periods.ts'

export const INCOMPLETE_SECONDS = 23 * HOUR_SECONDS

export interface SubscriptionDraft {
  readonly customer: string
  readonly items: readonly Wanted[]
  readonly trialEnd: number | null
  readonly missingPaymentMethod: 'create_invoice' | 'pause' | 'cancel'
  readonly metadata: Record<string, string>
  readonly description: string | null
  readonly cancelAtPeriodEnd: boolean
  readonly defaultPaymentMethod: string | null
}

/** Builds a subscription without storing it or emitting an event. */
export function buildSubscription(state: State, draft: SubscriptionDraft): Stripe.Subscription {
  const id = state.id('sub')
  const { trialEnd } = draft
  const subscription: Stripe.Subscription = {
    id,
    object: 'subscription',
    application: null,
    application_fee_percent: null,
    automatic_tax: { disabled_reason: null, enabled: false, liability: null },
    billing_cycle_anchor: trialEnd ?? state.now,
    billing_cycle_anchor_config: null,
    billing_mode: { flexible: null, type: 'classic' },
    billing_schedules: [],
    billing_thresholds: null,
    cancel_at: null,
    cancel_at_period_end: false,
    canceled_at: null,
    cancellation_details: { comment: null, feedback: null, feedback_option: null, reason: null },
    collection_method: 'charge_automatically',
    created: state.now,
    currency: draft.items[0]?.price.currency ?? 'usd',
    customer: draft.customer,
    customer_account: null,
    days_until_due: null,
    default_payment_method: draft.defaultPaymentMethod,
    default_source: null,
    default_tax_rates: [],
    description: draft.description,
    discounts: [],
    ended_at: null,
    invoice_settings: {
      account_tax_ids: null,
      custom_fields: null,
      description: null,
      footer: null,
      issuer: { type: 'self' },
    },
    items: whollyListed<Stripe.SubscriptionItem>([], `/v1/subscription_items?subscription=${id}`),
    latest_invoice: null,
    livemode: state.livemode,
    managed_payments: null,
    metadata: draft.metadata,
    next_pending_invoice_item_invoice: null,
    on_behalf_of: null,
    pause_collection: null,
    payment_settings: {
      payment_method_options: null,
      payment_method_types: null,
      save_default_payment_method: 'off',
    },
    pending_invoice_item_interval: null,
    pending_setup_intent: null,
    pending_update: null,
    schedule: null,
    start_date: state.now,
    status: trialEnd === null ? 'incomplete' : 'trialing',
    test_clock: null,
    transfer_data: null,
    trial_end: trialEnd,
    trial_settings: {
      end_behavior: { billing_cycle_anchor: null, missing_payment_method: draft.missingPaymentMethod },
    },
    trial_start: trialEnd === null ? null : state.now,
  }
  subscription.items.data = draft.items.map((item) => buildItem(state, subscription, item))
  if (draft.cancelAtPeriodEnd) cancelLater(state, subscription)
  return subscription
}

export function buildItem(
  state: State,
  subscription: Stripe.Subscription,
  { price, quantity }: Wanted,
): Stripe.SubscriptionItem {
  const isTrialing = subscription.status === 'trialing'
  return {
    id: state.id('si'),
    object: 'subscription_item',
    billing_thresholds: null,
    created: state.now,
    current_period_end:
      isTrialing || !price.recurring
        ? (subscription.trial_end ?? state.now)
        : periodEnd(subscription.billing_cycle_anchor, price.recurring, state.now),
    current_period_start: state.now,
    current_trial: null,
    discounts: [],
    metadata: {},
    plan: planOf(price),
    price,
    ...(price.recurring?.usage_type === 'metered' ? {} : { quantity }),
    subscription: subscription.id,
    tax_rates: [],
  }
}

export function subscriptionsOf(state: State, customerId: string): Stripe.Subscription[] {
  return [...state.subscriptions.values()].filter(({ customer }) => idOf(customer) === customerId)
}

export function updateSubscription(
  state: State,
  subscription: Stripe.Subscription,
  edit: (subscription: Stripe.Subscription) => void,
): void {
  update(state, 'customer.subscription.updated', subscription, edit)
}

/** Period of the subscription, which all its items share in this fake. */
export function periodOf(subscription: Stripe.Subscription): { readonly start: number; readonly end: number } {
  const [item] = subscription.items.data
  return { start: item?.current_period_start ?? 0, end: item?.current_period_end ?? Infinity }
}

/** Moves all items to the period that begins now. */
export function beginPeriod(state: State, subscription: Stripe.Subscription): void {
  for (const item of subscription.items.data) {
    item.current_period_start = state.now
    if (item.price.recurring) {
      item.current_period_end = periodEnd(subscription.billing_cycle_anchor, item.price.recurring, state.now)
    }
  }
  if (subscription.cancel_at_period_end) subscription.cancel_at = periodOf(subscription).end
}

export function cancelLater(state: State, subscription: Stripe.Subscription): void {
  subscription.cancel_at_period_end = true
  subscription.cancel_at = periodOf(subscription).end
  subscription.canceled_at = state.now
  setReason(subscription, 'cancellation_requested')
}

export function cancelNever(subscription: Stripe.Subscription): void {
  subscription.cancel_at_period_end = false
  subscription.cancel_at = null
  subscription.canceled_at = null
  setReason(subscription, null)
}

export function setReason(
  subscription: Stripe.Subscription,
  reason: Stripe.Subscription.CancellationDetails['reason'],
): void {
  const before = subscription.cancellation_details ?? { comment: null, feedback: null, feedback_option: null }
  subscription.cancellation_details = { ...before, reason }
}

/** Ends the subscription now; nothing is billed or collected afterwards. */
export function cancel(
  state: State,
  subscription: Stripe.Subscription,
  reason: Stripe.Subscription.CancellationDetails.Reason,
): void {
  subscription.status = 'canceled'
  subscription.canceled_at ??= state.now
  subscription.ended_at = state.now
  subscription.pause_collection = null
  delete subscription.status_details
  setReason(subscription, reason)
  state.prorations.delete(subscription.id)
  stopCollecting(state, subscription.id)
  emit(state, 'customer.subscription.deleted', subscription)
}

/** Sets the status, and the reason of `paused`. */
export function setStatus(
  state: State,
  subscription: Stripe.Subscription,
  status: Stripe.Subscription.Status,
  why: Stripe.Subscription.StatusDetails.Paused.Subscription.Type = 'pause_requested',
): void {
  subscription.status = status
  if (status === 'paused') {
    subscription.status_details = {
      paused: { subscription: { type: why }, transitioned_at: state.now, type: 'subscription' },
    }
  } else delete subscription.status_details
}
