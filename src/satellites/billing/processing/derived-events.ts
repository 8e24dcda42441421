/**
 * Derives typed events from a single provider event, so the result does not depend on the order of receipt or on later
 * changes. The current state is the subject of subscriptions.ts.
 */
import type { ProviderItem, ProviderSubscription } from '../model/provider.ts'

const DAY_MS = 86_400_000

export type Changed = 'status' | 'items' | 'trialEnd' | 'cancelAtPeriodEnd' | 'cancelAt'

export type DerivedEvent =
  | { readonly what: 'activated' | 'paused' | 'resumed' | 'canceled' }
  | { readonly what: 'updated'; readonly changed: readonly Changed[] }
  | { readonly what: 'trialEnding'; readonly daysLeft: number }

const BEGUN: ReadonlySet<string> = new Set(['active', 'trialing'])
const NOT_BEGUN: ReadonlySet<string> = new Set(['incomplete', 'incomplete_expired'])

/** @param before previous values of the members that the event reports as changed */
export function deriveEvents(
  type: string,
  now: ProviderSubscription,
  before: Partial<ProviderSubscription> | null,
  at: Date,
): DerivedEvent[] {
  switch (type) {
    case 'customer.subscription.created':
      return BEGUN.has(now.status) ? [{ what: 'activated' }] : []
    case 'customer.subscription.paused':
      return [{ what: 'paused' }]
    case 'customer.subscription.resumed':
      return [{ what: 'resumed' }]
    case 'customer.subscription.deleted':
      return [{ what: 'canceled' }]
    case 'customer.subscription.trial_will_end': {
      const leftMs = (now.trialEnd?.getTime() ?? at.getTime()) - at.getTime()
      return [{ what: 'trialEnding', daysLeft: Math.max(0, Math.ceil(leftMs / DAY_MS)) }]
    }
    case 'customer.subscription.updated':
      return updated(now, before ?? {})
    default:
      return []
  }
}

function updated(now: ProviderSubscription, before: Partial<ProviderSubscription>): DerivedEvent[] {
  const { isCollectionPaused: wasPaused } = before
  const derived: DerivedEvent[] = []
  if (wasPaused !== undefined && wasPaused !== now.isCollectionPaused) {
    derived.push({ what: now.isCollectionPaused ? 'paused' : 'resumed' })
  }
  if (before.status !== undefined && NOT_BEGUN.has(before.status) && BEGUN.has(now.status)) {
    return [...derived, { what: 'activated' }]
  }
  const changed = changesOf(now, before)
  return changed.length > 0 ? [...derived, { what: 'updated', changed }] : derived
}

function changesOf(now: ProviderSubscription, before: Partial<ProviderSubscription>): Changed[] {
  const changed: Changed[] = []
  if (before.status !== undefined && before.status !== now.status && !hasOwnEvent(before.status, now.status)) {
    changed.push('status')
  }
  if (before.items && itemsKey(before.items) !== itemsKey(now.items)) changed.push('items')
  if (before.trialEnd !== undefined && before.trialEnd?.getTime() !== now.trialEnd?.getTime()) changed.push('trialEnd')
  if (before.cancelAtPeriodEnd !== undefined && before.cancelAtPeriodEnd !== now.cancelAtPeriodEnd) {
    changed.push('cancelAtPeriodEnd')
  }
  if (before.cancelAt !== undefined && before.cancelAt?.getTime() !== now.cancelAt?.getTime()) changed.push('cancelAt')
  return changed
}

/** Pauses and ends have separate provider events. */
const hasOwnEvent = (before: string, now: string): boolean =>
  before === 'paused' || now === 'paused' || now === 'canceled'

/** Ignores the periods of the items, which change with every renewal. */
const itemsKey = (items: readonly ProviderItem[]): string =>
  JSON.stringify(items.map(({ priceId, quantity }) => [priceId, quantity]).sort())
