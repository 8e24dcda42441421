/**
 * Billing periods, counted from an anchor, so that a period that began on the 31st ends on the last day of a shorter
 * month.
 */
import type Stripe from 'stripe'
import { DAY_SECONDS } from '../state.ts'

/** First end of a period after `now`. */
export function periodEnd(anchor: number, recurring: Stripe.Price.Recurring, now: number): number {
  for (let periods = 1; ; periods += 1) {
    const end = shifted(anchor, recurring.interval, periods * recurring.interval_count)
    if (end > now) return end
  }
}

function shifted(seconds: number, interval: Stripe.Price.Recurring.Interval, count: number): number {
  if (interval === 'day') return seconds + count * DAY_SECONDS
  if (interval === 'week') return seconds + count * 7 * DAY_SECONDS
  const months = interval === 'year' ? 12 * count : count
  const from = new Date(seconds * 1000)
  const to = new Date(from)
  to.setUTCDate(1)
  to.setUTCMonth(from.getUTCMonth() + months)
  const lastDay = new Date(Date.UTC(to.getUTCFullYear(), to.getUTCMonth() + 1, 0)).getUTCDate()
  to.setUTCDate(Math.min(from.getUTCDate(), lastDay))
  return to.getTime() / 1000
}
