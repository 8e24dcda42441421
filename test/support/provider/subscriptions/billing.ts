/**
 * Invoice lines of a subscription: the next period in advance, the usage of the past period, and prorations of a
 * change.
 */
import type Stripe from 'stripe'
import { buildLine } from '../invoices/invoices.ts'
import { usageBetween } from '../meters.ts'
import { idOf, type State } from '../state.ts'

/** Lines for the start of a period. @param before the past period, whose usage is billed */
export function periodLines(
  state: State,
  subscription: Stripe.Subscription,
  before?: Stripe.InvoiceLineItem.Period,
): Stripe.InvoiceLineItem[] {
  return subscription.items.data.flatMap((item) => {
    const { price } = item
    const unit = price.unit_amount ?? 0
    const ahead = { start: item.current_period_start, end: item.current_period_end }
    if (price.recurring?.usage_type !== 'metered') {
      const quantity = item.quantity ?? 1
      const description = `${quantity} × ${price.nickname ?? price.id}`
      return [buildLine(state, { item, amount: unit * quantity, quantity, period: ahead, description })]
    }
    if (!before) return []
    return [usageLine(state, item, before, usageOf(state, subscription, item, before.start, before.end))]
  })
}

/**
 * Usage in the period that ends with the subscription, including usage dated a few minutes ahead, which no later
 * invoice would contain.
 */
export function lastLines(state: State, subscription: Stripe.Subscription): Stripe.InvoiceLineItem[] {
  if (subscription.status === 'trialing' || subscription.status === 'incomplete') return []
  return subscription.items.data.flatMap((item) => {
    if (item.price.recurring?.usage_type !== 'metered') return []
    const period = { start: item.current_period_start, end: state.now }
    const used = usageOf(state, subscription, item, period.start, Infinity)
    return used === 0 ? [] : [usageLine(state, item, period, used)]
  })
}

function usageOf(
  state: State,
  { customer }: Stripe.Subscription,
  { price }: Stripe.SubscriptionItem,
  start: number,
  end: number,
): number {
  const meter = state.meters.get(price.recurring?.meter ?? '')
  return meter ? usageBetween(state, meter, idOf(customer), start, end) : 0
}

function usageLine(
  state: State,
  item: Stripe.SubscriptionItem,
  period: Stripe.InvoiceLineItem.Period,
  used: number,
): Stripe.InvoiceLineItem {
  const { price } = item
  const amount = Math.round((price.unit_amount ?? 0) * used)
  const description = `Usage of ${price.nickname ?? price.id}`
  return buildLine(state, { item, amount, quantity: used, period, description })
}

/** Free lines for a trial. */
export function trialLines(state: State, subscription: Stripe.Subscription): Stripe.InvoiceLineItem[] {
  return subscription.items.data.map((item) => {
    const period = { start: item.current_period_start, end: item.current_period_end }
    return buildLine(state, { item, amount: 0, quantity: item.quantity ?? 0, period, description: 'Trial' })
  })
}

/** Credit (-1) or charge (1) for the rest of an item's period. */
export function restOf(state: State, item: Stripe.SubscriptionItem, sign: -1 | 1): Stripe.InvoiceLineItem[] {
  const { current_period_start: start, current_period_end: end, price, quantity = 0 } = item
  if (price.recurring?.usage_type === 'metered' || end <= state.now) return []
  const share = (end - state.now) / (end - start)
  const amount = sign * Math.round((price.unit_amount ?? 0) * quantity * share)
  const description = `${sign < 0 ? 'Unused' : 'Remaining'} time on ${price.nickname ?? price.id}`
  return [
    buildLine(state, { item, amount, quantity, period: { start: state.now, end }, isProration: true, description }),
  ]
}

export function addProrations(state: State, subscriptionId: string, lines: readonly Stripe.InvoiceLineItem[]): void {
  state.prorations.set(subscriptionId, [...(state.prorations.get(subscriptionId) ?? []), ...lines])
}
