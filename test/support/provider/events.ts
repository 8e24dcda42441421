/** Log of events. An event contains a snapshot of its object, and for an update the previous values. */
import Stripe from 'stripe'
import { type State, snapshot } from './state.ts'

export function emit(state: State, type: Stripe.Event.Type, object: object, previous?: object): Stripe.Event {
  const event = {
    id: state.id('evt'),
    object: 'event',
    api_version: Stripe.API_VERSION,
    created: state.now,
    data: { object: snapshot(object), ...(previous && { previous_attributes: previous }) },
    livemode: state.livemode,
    pending_webhooks: 1,
    request: { ...state.cause },
    type,
  } as Stripe.Event
  state.events.push(event)
  return event
}

/** Changes an object and emits an event, if anything has changed. An `edit` that throws is rolled back. */
export function update<T extends object>(
  state: State,
  type: Stripe.Event.Type,
  object: T,
  edit: (object: T) => void,
): void {
  const before = snapshot(object)
  try {
    edit(object)
  } catch (rejection) {
    for (const name of Object.keys(object)) delete (object as Record<string, unknown>)[name]
    Object.assign(object, before)
    throw rejection
  }
  const previous = differences(before, snapshot(object))
  if (previous) emit(state, type, object, previous)
}

/** Previous values of the changed properties. Hashes are compared recursively, lists as a whole. */
function differences(before: object, after: object): Record<string, unknown> | undefined {
  const was = before as Record<string, unknown>
  const is = after as Record<string, unknown>
  const found: Record<string, unknown> = {}
  for (const name of new Set([...Object.keys(was), ...Object.keys(is)])) {
    if (JSON.stringify(was[name]) === JSON.stringify(is[name])) continue
    const [old, now] = [was[name], is[name]]
    found[name] = isHash(old) && isHash(now) ? differences(old, now) : (old ?? null)
  }
  return Object.keys(found).length > 0 ? found : undefined
}

function isHash(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
