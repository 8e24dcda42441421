/** Converts objects of Stripe, complete or redacted, into the types of model/provider.ts. */
import { z } from 'zod'
import {
  INVOICE_STATUSES,
  PaymentError,
  type ProviderInvoice,
  type ProviderSubscription,
  SUBSCRIPTION_STATUSES,
  type Subject,
} from '../model/provider.ts'

const Time = z.number().transform((seconds) => new Date(seconds * 1000))
const Moment = Time.nullish().transform((time) => time ?? null)
const Metadata = z.object({ tenantId: z.string().optional() }).nullish()
/** An id, or the expanded object with that id. */
const Reference = z
  .union([z.string(), z.object({ id: z.string() }).transform(({ id }) => id)])
  .nullish()
  .transform((id) => id ?? null)
const required = Reference.pipe(z.string())

const Item = z.object({
  id: z.string(),
  price: z.object({ id: z.string(), product: Reference }),
  quantity: z.number().nullish(),
  current_period_start: Moment,
  current_period_end: Moment,
})
type Item = z.output<typeof Item>

const Subscription = z.object({
  id: z.string(),
  customer: required,
  status: z.enum(SUBSCRIPTION_STATUSES),
  items: z.object({ data: z.array(Item) }),
  trial_end: Moment,
  cancel_at_period_end: z.boolean().nullish(),
  cancel_at: Moment,
  ended_at: Moment,
  created: Time,
  pause_collection: z.object({}).nullish(),
  metadata: Metadata,
})

const itemsOf = (items: readonly Item[]) =>
  items.map(({ id, price, quantity }) => ({
    id,
    priceId: price.id,
    productId: price.product,
    quantity: quantity ?? 1,
  }))

export function toSubscription(object: unknown): ProviderSubscription {
  const raw = read(Subscription, object)
  const [first] = raw.items.data
  return {
    id: raw.id,
    customerId: raw.customer,
    status: raw.status,
    items: itemsOf(raw.items.data),
    periodStart: first?.current_period_start ?? null,
    periodEnd: first?.current_period_end ?? null,
    trialEnd: raw.trial_end,
    cancelAtPeriodEnd: raw.cancel_at_period_end ?? false,
    cancelAt: raw.cancel_at,
    endedAt: raw.ended_at,
    isCollectionPaused: (raw.pause_collection ?? null) !== null,
    tenantId: raw.metadata?.tenantId ?? null,
    createdAt: raw.created,
  }
}

/** Previous values of the members that an event reports as changed. */
function toChanged(previous: Record<string, unknown> | undefined): Partial<ProviderSubscription> | null {
  if (!previous) return null
  const raw = read(Subscription.partial(), previous)
  const has = (member: string) => Object.hasOwn(previous, member)
  return {
    ...(raw.status === undefined ? {} : { status: raw.status }),
    ...(raw.items === undefined ? {} : { items: itemsOf(raw.items.data) }),
    ...(has('trial_end') ? { trialEnd: raw.trial_end ?? null } : {}),
    ...(has('cancel_at_period_end') ? { cancelAtPeriodEnd: raw.cancel_at_period_end ?? false } : {}),
    ...(has('cancel_at') ? { cancelAt: raw.cancel_at ?? null } : {}),
    ...(has('pause_collection') ? { isCollectionPaused: (raw.pause_collection ?? null) !== null } : {}),
  }
}

const Invoice = z.object({
  id: z.string(),
  customer: Reference,
  status: z.enum(INVOICE_STATUSES),
  billing_reason: z.string().nullish(),
  attempt_count: z.number(),
  next_payment_attempt: Moment,
  amount_due: z.number(),
  amount_paid: z.number(),
  currency: z.string(),
  period_end: Time,
  lines: z.object({ data: z.array(z.object({ period: z.object({ end: Time }) })) }),
  // Null without a subscription. Missing in API versions that store the subscription in another member.
  parent: z.object({ subscription_details: z.object({ subscription: Reference }).nullish() }).nullable(),
})

/**
 * End of the latest period among the lines. `period_end` of the invoice is only the fallback: it is the time at which
 * the items were collected, which for a renewal is the previous period.
 */
function billedUntil({ lines, period_end: end }: z.output<typeof Invoice>): Date {
  const ends = lines.data.map(({ period }) => period.end.getTime())
  return ends.length > 0 ? new Date(Math.max(...ends)) : end
}

export function toInvoice(object: unknown): ProviderInvoice {
  const raw = read(Invoice, object)
  return {
    id: raw.id,
    customerId: raw.customer,
    subscriptionId: raw.parent?.subscription_details?.subscription ?? null,
    status: raw.status,
    isFirst: raw.billing_reason === 'subscription_create',
    attempt: raw.attempt_count,
    nextAttemptAt: raw.next_payment_attempt,
    amountDue: raw.amount_due,
    amountPaid: raw.amount_paid,
    currency: raw.currency,
    periodEnd: billedUntil(raw),
  }
}

/**
 * `invoice.paid` follows `invoice.payment_succeeded`, and is sent without it when an invoice is marked as paid by other
 * means.
 */
const INVOICES: ReadonlySet<string> = new Set([
  'invoice.payment_succeeded',
  'invoice.paid',
  'invoice.payment_failed',
  'invoice.voided',
])

const Session = z.object({
  id: z.string(),
  customer: Reference,
  subscription: Reference,
  client_reference_id: z.string().nullish(),
  metadata: Metadata,
})

const Customer = z.object({ id: z.string(), deleted: z.boolean().optional() })

/** Reads the object of an event from its complete or redacted payload. */
export function toSubject(type: string, payload: Readonly<Record<string, any>>): Subject {
  const { object, previous_attributes: previous } = payload.data ?? {}
  if (type.startsWith('customer.subscription.')) {
    return { kind: 'subscription', subscription: toSubscription(object), before: toChanged(previous) }
  }
  if (INVOICES.has(type)) {
    return { kind: 'invoice', invoice: toInvoice(object) }
  }
  if (type === 'checkout.session.completed') {
    const { id, customer, subscription, client_reference_id, metadata } = read(Session, object)
    const reference = client_reference_id ?? metadata?.tenantId ?? null
    return { kind: 'session', session: { id, customerId: customer, subscriptionId: subscription, reference } }
  }
  if (type === 'customer.deleted') return { kind: 'customer', customerId: read(Customer, object).id, isDeleted: true }
  return { kind: 'other' }
}

function read<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw new PaymentError('payload_invalid', { cause: result.error })
}
