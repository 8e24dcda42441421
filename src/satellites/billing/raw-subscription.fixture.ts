/** Subscriptions as the provider sends them, and their events after redaction and conversion. */
import type { Subject } from './model/provider.ts'
import { toSubject } from './stripe/objects.ts'
import { redact } from './stripe/redaction.ts'

export type RawSubscription = Readonly<Record<string, unknown>>
type SubscriptionSubject = Extract<Subject, { kind: 'subscription' }>

export const CREATED = Date.UTC(2026, 0, 1) / 1000
export const DAY = 86_400
const MONTH = 31 * DAY

/** @param periods number of elapsed periods */
export const rawItems = (priceId = 'price_pro', quantity = 1, periods = 0) => ({
  object: 'list',
  data: [
    {
      id: 'si_1',
      object: 'subscription_item',
      price: { id: priceId, object: 'price', product: 'prod_pro', nickname: 'Pro' },
      quantity,
      current_period_start: CREATED + periods * MONTH,
      current_period_end: CREATED + (periods + 1) * MONTH,
    },
  ],
})

export const rawSubscription = (members: RawSubscription = {}): RawSubscription => ({
  id: 'sub_1',
  object: 'subscription',
  customer: 'cus_1',
  status: 'active',
  items: rawItems(),
  trial_end: null,
  cancel_at_period_end: false,
  cancel_at: null,
  ended_at: null,
  created: CREATED,
  pause_collection: null,
  metadata: {},
  latest_invoice: 'in_1',
  ...members,
})

export function subjectOfRaw(type: string, object: RawSubscription, before?: RawSubscription): SubscriptionSubject {
  const data = before ? { object, previous_attributes: before } : { object }
  const event = { id: 'evt_1', object: 'event', type, created: CREATED, livemode: false, data }
  const subject = toSubject(type, redact(event))
  if (subject.kind !== 'subscription') throw new Error(`${type} is not about a subscription`)
  return subject
}
