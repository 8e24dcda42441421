/** Routes of subscriptions. */
import type Stripe from 'stripe'
import { invalid, missing, noSuch } from '../errors.ts'
import { flag, hash, hashes, metadata, neededText, oneOf, type Params, text, whole, within } from '../form.ts'
import { PAGING, pageOf } from '../lists.ts'
import { del, get, post, type Route } from '../routes.ts'
import { DAY_SECONDS, idOf, livingCustomer, named, referred, type State, type Wanted } from '../state.ts'
import { cancelWithInvoice, createSubscription, pause, resume } from './lifecycle.ts'
import { cancel, type SubscriptionDraft } from './subscriptions.ts'
import { applyUpdate, UPDATE } from './update.ts'

export function wantedItems(state: State, params: Params, name: string): readonly Wanted[] {
  const items = hashes(params, name)
  if (items.length === 0) throw missing(name)
  return items.map((item, index) => {
    const id = neededText(item, 'price', `${name}[${index}][price]`)
    const price = referred(state.prices, 'price', id, `${name}[${index}][price]`)
    if (!price.recurring) throw invalid(`The price ${id} is not recurring.`, `${name}[${index}][price]`)
    const quantity = whole(item, 'quantity')
    if (price.recurring.usage_type !== 'metered') return { price, quantity: quantity ?? 1 }
    if (quantity !== undefined) {
      throw invalid('Quantity should not be specified where usage_type is metered.', `${name}[${index}][quantity]`)
    }
    return { price, quantity: 0 }
  })
}

function draftOf(state: State, params: Params): SubscriptionDraft {
  const days = whole(params, 'trial_period_days')
  const trialEnd = days ? state.now + days * DAY_SECONDS : (whole(params, 'trial_end') ?? null)
  if (trialEnd !== null && trialEnd <= state.now) throw invalid('trial_end must be in the future', 'trial_end')
  const behavior = hash(hash(params, 'trial_settings') ?? {}, 'end_behavior') ?? {}
  return {
    customer: livingCustomer(state, neededText(params, 'customer')).id,
    items: wantedItems(state, params, 'items'),
    trialEnd,
    missingPaymentMethod: oneOf(behavior, 'missing_payment_method', ['create_invoice', 'pause', 'cancel']),
    metadata: metadata(params),
    description: text(params, 'description') ?? null,
    cancelAtPeriodEnd: flag(params, 'cancel_at_period_end') ?? false,
    defaultPaymentMethod: text(params, 'default_payment_method') ?? null,
  }
}

function isListed(subscription: Stripe.Subscription, params: Params): boolean {
  const status = text(params, 'status')
  const customer = text(params, 'customer')
  const price = text(params, 'price')
  const isEnded = subscription.status === 'canceled' || subscription.status === 'incomplete_expired'
  const isOfStatus =
    status === undefined
      ? subscription.status !== 'canceled'
      : status === 'all' || (status === 'ended' ? isEnded : subscription.status === status)
  return (
    isOfStatus &&
    (customer === undefined || idOf(subscription.customer) === customer) &&
    (price === undefined || subscription.items.data.some((item) => item.price.id === price)) &&
    within(params, 'created', subscription.created)
  )
}

const CREATE = [
  'customer',
  'items',
  'trial_period_days',
  'trial_end',
  'trial_settings',
  'metadata',
  'description',
  'cancel_at_period_end',
  'default_payment_method',
  'payment_behavior',
  'payment_settings',
  'off_session',
]

export const subscriptionRoutes: readonly Route[] = [
  post('/v1/subscriptions', CREATE, (state, params) =>
    createSubscription(
      state,
      draftOf(state, params),
      oneOf(params, 'payment_behavior', ['allow_incomplete', 'default_incomplete', 'error_if_incomplete']),
    ),
  ),
  get('/v1/subscriptions/:id', [], (state, _, id) => named(state.subscriptions, 'subscription', id)),
  post('/v1/subscriptions/:id', UPDATE, (state, params, id) => {
    const subscription = named(state.subscriptions, 'subscription', id)
    applyUpdate(state, subscription, params)
    return subscription
  }),
  del('/v1/subscriptions/:id', ['cancellation_details', 'invoice_now', 'prorate'], (state, params, id) => {
    const subscription = named(state.subscriptions, 'subscription', id)
    if (subscription.status === 'canceled' || subscription.status === 'incomplete_expired') {
      throw noSuch('subscription', id)
    }
    if (flag(params, 'prorate')) throw invalid('This provider does not support prorate with a cancellation.', 'prorate')
    if (flag(params, 'invoice_now')) cancelWithInvoice(state, subscription)
    else cancel(state, subscription, 'cancellation_requested')
    return subscription
  }),
  post('/v1/subscriptions/:id/pause', ['type'], (state, _, id) => {
    const subscription = named(state.subscriptions, 'subscription', id)
    pause(state, subscription)
    return subscription
  }),
  post('/v1/subscriptions/:id/resume', ['payment_behavior', 'billing_cycle_anchor'], (state, params, id) => {
    const subscription = named(state.subscriptions, 'subscription', id)
    const anchor = hash(params, 'billing_cycle_anchor') ?? {}
    oneOf(anchor, 'type', ['now'])
    const payment = oneOf(params, 'payment_behavior', ['resume_on_payment_attempt', 'resume_on_payment_success'])
    resume(state, subscription, payment)
    return subscription
  }),
  get('/v1/subscriptions', [...PAGING, 'customer', 'status', 'price', 'created'], (state, params) => {
    const isWanted = (subscription: Stripe.Subscription) => isListed(subscription, params)
    return pageOf(state.subscriptions.values(), params, '/v1/subscriptions', isWanted)
  }),
]
