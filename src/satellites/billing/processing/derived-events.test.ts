/** What each event of the provider says happened to a subscription, by itself. */
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

describe('created', () => {
  test.each<[SubscriptionStatus, DerivedEvent[]]>([
    ['active', [activated]],
    ['trialing', [activated]],
    ['incomplete', []],
    ['incomplete_expired', []],
    ['past_due', []],
    ['unpaid', []],
    ['canceled', []],
    ['paused', []],
  ])('%s', (status, expected) => {
    expect(derivedFrom('created', subscription({ status }))).toEqual(expected)
  })
})

test.each<[string, DerivedEvent[]]>([
  ['paused', [paused]],
  ['resumed', [resumed]],
  ['deleted', [canceled]],
  ['pending_update_applied', []],
  ['pending_update_expired', []],
])('%s, whatever the snapshot', (type, expected) => {
  for (const status of SUBSCRIPTION_STATUSES) expect(derivedFrom(type, subscription({ status }))).toEqual(expected)
})

describe('trial_will_end', () => {
  test.each<[string, number | null, number]>([
    ['three days before', CREATED + 3 * DAY, 3],
    ['a second less than three days before', CREATED + 3 * DAY - 1, 3],
    ['an hour before', CREATED + 3_600, 1],
    ['now', CREATED, 0],
    ['after it, for a trial that was cut short', CREATED - DAY, 0],
    ['without a trial', null, 0],
  ])('%s', (_, end, daysLeft) => {
    expect(derivedFrom('trial_will_end', subscription({ status: 'trialing', trial_end: end }))).toEqual([
      trialEnding(daysLeft),
    ])
  })
})

const VOID = { behavior: 'void', resumes_at: null }
const END = CREATED + 31 * DAY

describe('updated', () => {
  test.each<[string, RawSubscription, RawSubscription | undefined, DerivedEvent[]]>([
    ['nothing is named', {}, undefined, []],
    [
      'nothing that is kept',
      {},
      { latest_invoice: 'in_0', metadata: { tenantId: 'acme' }, default_payment_method: null },
      [],
    ],
    [
      'a period is renewed',
      { items: rawItems('price_pro', 1, 1) },
      { items: rawItems('price_pro', 1, 0), latest_invoice: 'in_0' },
      [],
    ],
    [
      'a period is renewed, and nothing but a price is named beside it',
      { items: rawItems('price_scale', 1, 1) },
      { items: rawItems('price_pro', 1, 0), latest_invoice: 'in_0' },
      [updated('items')],
    ],
    ['another price', { items: rawItems('price_scale') }, { items: rawItems() }, [updated('items')]],
    ['another quantity', { items: rawItems('price_pro', 5) }, { items: rawItems() }, [updated('items')]],
    [
      'the same items in another order',
      { items: { data: [...rawItems('price_a').data, ...rawItems('price_b').data] } },
      { items: { data: [...rawItems('price_b').data, ...rawItems('price_a').data] } },
      [],
    ],
    ['the first payment', { status: 'active' }, { status: 'incomplete' }, [activated]],
    ['a trial after the first payment', { status: 'trialing' }, { status: 'incomplete' }, [activated]],
    ['begun, and all that came with it', { trial_end: END }, { status: 'incomplete', trial_end: null }, [activated]],
    ['never paid', { status: 'incomplete_expired', ended_at: END }, { status: 'incomplete' }, [updated('status')]],
    ['the trial is over', { status: 'active' }, { status: 'trialing' }, [updated('status')]],
    ['a payment has failed', { status: 'past_due' }, { status: 'active' }, [updated('status')]],
    ['paid again', { status: 'active' }, { status: 'past_due' }, [updated('status')]],
    ['given up', { status: 'unpaid' }, { status: 'past_due' }, [updated('status')]],
    ['the status is named and the same', { status: 'active' }, { status: 'active' }, []],
    ['paused, which has an event of its own', { status: 'paused' }, { status: 'active' }, []],
    ['resumed, which has an event of its own', { status: 'active' }, { status: 'paused' }, []],
    ['resumed, and the payment fails', { status: 'past_due' }, { status: 'active' }, [updated('status')]],
    [
      'ended, which has an event of its own',
      { status: 'canceled', ended_at: END },
      { status: 'active', ended_at: null },
      [],
    ],
    [
      'paused together with another price',
      { status: 'paused', items: rawItems('price_scale') },
      { status: 'active', items: rawItems() },
      [updated('items')],
    ],
    ['collection is paused', { pause_collection: VOID }, { pause_collection: null }, [paused]],
    ['collection goes on', { pause_collection: null }, { pause_collection: VOID }, [resumed]],
    [
      'collection is paused in another way',
      { pause_collection: { ...VOID, behavior: 'keep_as_draft' } },
      { pause_collection: { behavior: 'void' } },
      [],
    ],
    [
      'collection is paused until another day',
      { pause_collection: { ...VOID, resumes_at: END } },
      { pause_collection: { resumes_at: null } },
      [],
    ],
    [
      'collection goes on, with another price',
      { items: rawItems('price_scale') },
      { pause_collection: VOID, items: rawItems() },
      [resumed, updated('items')],
    ],
    [
      'a trial is begun',
      { status: 'trialing', trial_end: END },
      { status: 'active', trial_end: null },
      [updated('status', 'trialEnd')],
    ],
    ['a trial is made longer', { status: 'trialing', trial_end: END }, { trial_end: END - DAY }, [updated('trialEnd')]],
    [
      'it will end with its period',
      { cancel_at_period_end: true, cancel_at: END },
      { cancel_at_period_end: false, cancel_at: null },
      [updated('cancelAtPeriodEnd', 'cancelAt')],
    ],
    [
      'it will not end after all',
      {},
      { cancel_at_period_end: true, cancel_at: END },
      [updated('cancelAtPeriodEnd', 'cancelAt')],
    ],
    ['it will end one day', { cancel_at: END }, { cancel_at: null }, [updated('cancelAt')]],
    ['it will end on another day', { cancel_at: END }, { cancel_at: END - DAY }, [updated('cancelAt')]],
    [
      'all at once',
      { status: 'past_due', items: rawItems('price_scale'), cancel_at_period_end: true },
      { status: 'active', items: rawItems(), cancel_at_period_end: false },
      [updated('status', 'items', 'cancelAtPeriodEnd')],
    ],
  ])('%s', (_, now, before, expected) => {
    expect(derivedFrom('updated', subscription(now), before)).toEqual(expected)
  })

  test('says the same however late it is', () => {
    const now = subscription({ status: 'past_due' })
    expect(derivedFrom('updated', now, { status: 'active' }, CREATED + 300 * DAY)).toEqual([updated('status')])
  })
})
