/** Tests the typed events that deriveEvents derives from single provider events. */
import { describe, expect, test } from 'vitest'
import { SUBSCRIPTION_STATUSES, type SubscriptionStatus } from '../model/provider.ts'
import {
  CREATED,
  DAY,
  type RawSubscription,
  rawItems,
  subjectOfRaw,
  rawSubscription as subscription,
} from '../raw-subscription.fixture.ts'
import { type DerivedEvent, deriveEvents } from './derived-events.ts'

function derivedFrom(type: string, now: RawSubscription, before?: RawSubscription, at = CREATED): DerivedEvent[] {
  const subject = subjectOfRaw(`customer.subscription.${type}`, now, before)
  return deriveEvents(`customer.subscription.${type}`, subject.subscription, subject.before, new Date(at * 1000))
}

const activated: DerivedEvent = { what: 'activated' }
const paused: DerivedEvent = { what: 'paused' }
const resumed: DerivedEvent = { what: 'resumed' }
const canceled: DerivedEvent = { what: 'canceled' }
const updated = (...changed: Extract<DerivedEvent, { what: 'updated' }>['changed']): DerivedEvent => ({
  what: 'updated',
  changed,
})
const trialEnding = (daysLeft: number): DerivedEvent => ({ what: 'trialEnding', daysLeft })

describe('deriveEvents for created', () => {
  test.each<[SubscriptionStatus, DerivedEvent[]]>([
    ['active', [activated]],
    ['trialing', [activated]],
    ['incomplete', []],
    ['incomplete_expired', []],
    ['past_due', []],
    ['unpaid', []],
    ['canceled', []],
    ['paused', []],
  ])('of a subscription with the status %s', (status, expected) => {
    expect(derivedFrom('created', subscription({ status }))).toEqual(expected)
  })
})

test.each<[string, DerivedEvent[]]>([
  ['paused', [paused]],
  ['resumed', [resumed]],
  ['deleted', [canceled]],
  ['pending_update_applied', []],
  ['pending_update_expired', []],
])('deriveEvents for %s derives its event, regardless of the status', (type, expected) => {
  for (const status of SUBSCRIPTION_STATUSES) expect(derivedFrom(type, subscription({ status }))).toEqual(expected)
})

describe('deriveEvents for trial_will_end', () => {
  test.each<[string, number | null, number]>([
    ['three days before', CREATED + 3 * DAY, 3],
    ['a second less than three days before', CREATED + 3 * DAY - 1, 3],
    ['an hour before', CREATED + 3_600, 1],
    ['now', CREATED, 0],
    ['after the end of a shortened trial', CREATED - DAY, 0],
    ['without a trial', null, 0],
  ])('%s: reports the days left', (_, end, daysLeft) => {
    expect(derivedFrom('trial_will_end', subscription({ status: 'trialing', trial_end: end }))).toEqual([
      trialEnding(daysLeft),
    ])
  })
})

const VOID = { behavior: 'void', resumes_at: null }
const END = CREATED + 31 * DAY

describe('deriveEvents for updated', () => {
  test.each<[string, RawSubscription, RawSubscription | undefined, DerivedEvent[]]>([
    ['no changed member', {}, undefined, []],
    [
      'no changed member that is kept',
      {},
      { latest_invoice: 'in_0', metadata: { tenantId: 'acme' }, default_payment_method: null },
      [],
    ],
    [
      'renewed period',
      { items: rawItems('price_pro', 1, 1) },
      { items: rawItems('price_pro', 1, 0), latest_invoice: 'in_0' },
      [],
    ],
    [
      'renewed period, with only the price in the previous values',
      { items: rawItems('price_scale', 1, 1) },
      { items: rawItems('price_pro', 1, 0), latest_invoice: 'in_0' },
      [updated('items')],
    ],
    ['another price', { items: rawItems('price_scale') }, { items: rawItems() }, [updated('items')]],
    ['another quantity', { items: rawItems('price_pro', 5) }, { items: rawItems() }, [updated('items')]],
    [
      'same items in another order',
      { items: { data: [...rawItems('price_a').data, ...rawItems('price_b').data] } },
      { items: { data: [...rawItems('price_b').data, ...rawItems('price_a').data] } },
      [],
    ],
    ['first payment', { status: 'active' }, { status: 'incomplete' }, [activated]],
    ['trial after the first payment', { status: 'trialing' }, { status: 'incomplete' }, [activated]],
    ['first payment with other changes', { trial_end: END }, { status: 'incomplete', trial_end: null }, [activated]],
    [
      'first payment expired',
      { status: 'incomplete_expired', ended_at: END },
      { status: 'incomplete' },
      [updated('status')],
    ],
    ['trial ended', { status: 'active' }, { status: 'trialing' }, [updated('status')]],
    ['payment failed', { status: 'past_due' }, { status: 'active' }, [updated('status')]],
    ['paid again', { status: 'active' }, { status: 'past_due' }, [updated('status')]],
    ['retries exhausted', { status: 'unpaid' }, { status: 'past_due' }, [updated('status')]],
    ['unchanged status in the previous values', { status: 'active' }, { status: 'active' }, []],
    ['paused, which has a separate event', { status: 'paused' }, { status: 'active' }, []],
    ['resumed, which has a separate event', { status: 'active' }, { status: 'paused' }, []],
    ['resumed with a failed payment', { status: 'past_due' }, { status: 'active' }, [updated('status')]],
    [
      'ended, which has a separate event',
      { status: 'canceled', ended_at: END },
      { status: 'active', ended_at: null },
      [],
    ],
    [
      'paused with another price',
      { status: 'paused', items: rawItems('price_scale') },
      { status: 'active', items: rawItems() },
      [updated('items')],
    ],
    ['collection paused', { pause_collection: VOID }, { pause_collection: null }, [paused]],
    ['collection resumed', { pause_collection: null }, { pause_collection: VOID }, [resumed]],
    [
      'collection paused in another mode',
      { pause_collection: { ...VOID, behavior: 'keep_as_draft' } },
      { pause_collection: { behavior: 'void' } },
      [],
    ],
    [
      'collection paused until another day',
      { pause_collection: { ...VOID, resumes_at: END } },
      { pause_collection: { resumes_at: null } },
      [],
    ],
    [
      'collection resumed with another price',
      { items: rawItems('price_scale') },
      { pause_collection: VOID, items: rawItems() },
      [resumed, updated('items')],
    ],
    [
      'trial started',
      { status: 'trialing', trial_end: END },
      { status: 'active', trial_end: null },
      [updated('status', 'trialEnd')],
    ],
    ['trial extended', { status: 'trialing', trial_end: END }, { trial_end: END - DAY }, [updated('trialEnd')]],
    [
      'end with the period scheduled',
      { cancel_at_period_end: true, cancel_at: END },
      { cancel_at_period_end: false, cancel_at: null },
      [updated('cancelAtPeriodEnd', 'cancelAt')],
    ],
    [
      'end with the period revoked',
      {},
      { cancel_at_period_end: true, cancel_at: END },
      [updated('cancelAtPeriodEnd', 'cancelAt')],
    ],
    ['end on a date scheduled', { cancel_at: END }, { cancel_at: null }, [updated('cancelAt')]],
    ['end on another date scheduled', { cancel_at: END }, { cancel_at: END - DAY }, [updated('cancelAt')]],
    [
      'all changes together',
      { status: 'past_due', items: rawItems('price_scale'), cancel_at_period_end: true },
      { status: 'active', items: rawItems(), cancel_at_period_end: false },
      [updated('status', 'items', 'cancelAtPeriodEnd')],
    ],
  ])('%s: derives the events', (_, now, before, expected) => {
    expect(derivedFrom('updated', subscription(now), before)).toEqual(expected)
  })

  test('deriveEvents does not depend on the time of processing', () => {
    const now = subscription({ status: 'past_due' })
    expect(derivedFrom('updated', now, { status: 'active' }, CREATED + 300 * DAY)).toEqual([updated('status')])
  })
})
