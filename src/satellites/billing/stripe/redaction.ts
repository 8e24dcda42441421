/**
 * Redacts events of the provider by an allow-list: named members whose value has the expected form (an id, a number, a
 * keyword of the provider). Names, addresses, cards and free texts are removed, and so are members that the provider
 * adds later.
 */

import { TENANT_ID } from '../../../tenants/tenant/tenant.ts'

type Leaf = (value: unknown) => boolean
type Shape = Leaf | { readonly [member: string]: Shape } | readonly [Shape]

const MAX_ITEMS = 100

const id: Leaf = (value) => value === null || (typeof value === 'string' && /^[A-Za-z0-9_.-]{1,255}$/.test(value))
const word: Leaf = (value) => value === null || (typeof value === 'string' && /^[a-z][a-z0-9_.]{0,63}$/.test(value))
/** Event type: `invoice.paid`, or `v2.core.account[requirements].updated`. */
const eventType: Leaf = (value) => typeof value === 'string' && /^[a-z][a-z0-9_.[\]]{0,127}$/.test(value)
const number: Leaf = (value) => value === null || typeof value === 'number'
const yes: Leaf = (value) => value === null || typeof value === 'boolean'
/** Tenant id. Any other text in this member, such as a mail address, is removed. */
const tenant: Leaf = (value) => typeof value === 'string' && TENANT_ID.test(value)

const metadata = { tenantId: tenant }
const price = { id, object: word, product: id }

const subscription: Shape = {
  id,
  object: word,
  customer: id,
  status: word,
  items: {
    object: word,
    data: [{ id, object: word, price, quantity: number, current_period_start: number, current_period_end: number }],
  },
  quantity: number,
  trial_end: number,
  cancel_at_period_end: yes,
  cancel_at: number,
  canceled_at: number,
  ended_at: number,
  created: number,
  pause_collection: { behavior: word, resumes_at: number },
  livemode: yes,
  metadata,
}

const invoice: Shape = {
  id,
  object: word,
  customer: id,
  status: word,
  billing_reason: word,
  attempt_count: number,
  attempted: yes,
  next_payment_attempt: number,
  amount_due: number,
  amount_paid: number,
  currency: word,
  period_start: number,
  period_end: number,
  created: number,
  livemode: yes,
  parent: { type: word, subscription_details: { subscription: id, metadata } },
  lines: { object: word, data: [{ id, object: word, period: { start: number, end: number } }] },
}

const session: Shape = {
  id,
  object: word,
  customer: id,
  subscription: id,
  mode: word,
  status: word,
  payment_status: word,
  client_reference_id: tenant,
  livemode: yes,
  metadata,
}

const customer: Shape = { id, object: word, deleted: yes, created: number, livemode: yes, metadata }

/** Any other object: its type, id and customer. */
const other: Shape = { id, object: word, customer: id, created: number, livemode: yes }

const SHAPES = new Map<unknown, Shape>(Object.entries({ subscription, invoice, 'checkout.session': session, customer }))

/** @param event as received */
export function redact(event: Record<string, any>): Record<string, unknown> {
  const object = event.data?.object
  const shape = SHAPES.get(object?.object) ?? other
  const before = event.data?.previous_attributes
  return {
    ...(picked({ id, object: word, type: eventType, created: number, livemode: yes }, event) as Record<
      string,
      unknown
    >),
    data: {
      object: picked(shape, object),
      ...(before === undefined ? {} : { previous_attributes: picked(shape, before) }),
    },
  }
}

/** Undefined if no member may be kept. */
function picked(shape: Shape, value: unknown): unknown {
  if (typeof shape === 'function') return shape(value) ? value : undefined
  if (value === null) return null
  if (typeof value !== 'object') return undefined
  if (Array.isArray(shape)) {
    return Array.isArray(value) ? value.slice(0, MAX_ITEMS).map((item) => picked(shape[0] as Shape, item)) : undefined
  }
  const members = Object.entries(shape).flatMap(([name, inner]) => {
    if (!Object.hasOwn(value, name)) return []
    const kept = picked(inner, (value as Record<string, unknown>)[name])
    return kept === undefined ? [] : [[name, kept]]
  })
  return Object.fromEntries(members)
}
