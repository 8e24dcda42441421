/**
 * Reads stored events, processed or not. They replace objects that the provider no longer has, and order a late event
 * relative to others.
 */
import { type BillingDependencies, queryOf } from '../model/dependencies.ts'
import {
  isPayment,
  PaymentError,
  type ProviderInvoice,
  type ProviderSubscription,
  type Subject,
} from '../model/provider.ts'

export type ReceivedEvent = Pick<Extract<Subject, { kind: 'subscription' }>, 'subscription' | 'before'> & {
  readonly type: string
  readonly at: Date
}

/**
 * Last event of a subscription, independent of the order of receipt: the latest second decides. Within one second each
 * change leads from one state to another; the last state is the one that is entered more often than it is left.
 */
export function lastOf(received: readonly ReceivedEvent[]): ReceivedEvent | undefined {
  const end = received.find(({ type }) => type === 'customer.subscription.deleted')
  if (end) return end
  const seconds = Map.groupBy(
    received.toSorted((a, b) => a.at.getTime() - b.at.getTime()),
    ({ at }) => at.getTime(),
  )
  let last: ReceivedEvent | undefined
  for (const together of seconds.values()) last = lastOfSecond(together, last)
  return last
}

function lastOfSecond(together: readonly ReceivedEvent[], begin: ReceivedEvent | undefined): ReceivedEvent | undefined {
  const balance = new Map<string, number>()
  const count = (state: ProviderSubscription, by: 1 | -1) =>
    balance.set(keyOf(state), (balance.get(keyOf(state)) ?? 0) + by)
  if (begin) count(begin.subscription, 1)
  for (const { type, subscription, before } of together) {
    if (type === 'customer.subscription.created') count(subscription, 1)
    if (type !== 'customer.subscription.updated' || !before) continue
    count(subscription, 1)
    count({ ...subscription, ...before }, -1)
  }
  const arrived = together.filter(({ subscription }) => (balance.get(keyOf(subscription)) ?? 0) > 0)
  // Periods never move backwards, so among otherwise equal events the one with the later period is the last.
  const [last] = (arrived.length > 0 ? arrived : together).toSorted(
    (a, b) =>
      timeOf(b.subscription.periodStart) - timeOf(a.subscription.periodStart) ||
      timeOf(b.subscription.periodEnd) - timeOf(a.subscription.periodEnd) ||
      (keyOf(a.subscription) < keyOf(b.subscription) ? -1 : 1),
  )
  return last
}

const timeOf = (date: Date | null): number => date?.getTime() ?? 0

/** The members whose previous values are part of an event. */
const keyOf = ({ status, items, trialEnd, cancelAtPeriodEnd, cancelAt, isCollectionPaused }: ProviderSubscription) =>
  JSON.stringify([status, items, trialEnd, cancelAtPeriodEnd, cancelAt, isCollectionPaused])

export async function latestReceived(
  dependencies: BillingDependencies,
  { id, customerId }: ProviderSubscription,
): Promise<ReceivedEvent> {
  const rows = await queryOf(dependencies)
    .selectFrom('billingInbox')
    .select(['type', 'payload', 'createdAt'])
    .where('customerId', '=', customerId)
    .where('type', 'like', 'customer.subscription.%')
    .execute()
  const received = rows.flatMap(({ type, payload, createdAt: at }) => {
    const subject = readable(() => dependencies.payments.subjectOf({ type, payload }))
    if (subject?.kind !== 'subscription' || subject.subscription.id !== id) return []
    return [{ type, at, subscription: subject.subscription, before: subject.before }]
  })
  const last = lastOf(received)
  if (!last) throw new PaymentError('subscription_not_found')
  return last
}

/** Undefined for an invalid payload. The processing of that event reports the error. */
function readable(read: () => Subject): Subject | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof PaymentError && error.code === 'payload_invalid') return undefined
    throw error
  }
}

/** Whether events report the invoice as paid or voided, or a payment for a later period of its subscription. */
export async function wasReportedSettled(
  dependencies: BillingDependencies,
  invoice: ProviderInvoice,
): Promise<boolean> {
  const rows = await queryOf(dependencies)
    .selectFrom('billingInbox')
    .select(['type', 'payload'])
    .where('customerId', '=', invoice.customerId)
    .where('type', 'in', ['invoice.payment_succeeded', 'invoice.paid', 'invoice.voided'])
    .execute()
  return rows.some((row) => {
    const subject = readable(() => dependencies.payments.subjectOf(row))
    if (subject?.kind !== 'invoice') return false
    const reported = subject.invoice
    const isLater = reported.subscriptionId === invoice.subscriptionId && reported.periodEnd > invoice.periodEnd
    return reported.id === invoice.id || (isLater && isPayment(reported))
  })
}

/** Whether events report a payment of the tenant at or after `since`. A trial invoice of zero does not count. */
export async function wasReportedPaid(
  dependencies: BillingDependencies,
  tenantId: string,
  since: Date,
): Promise<boolean> {
  const { rows } = await dependencies.kernel.database.sql(
    `select from multitenancy.billing_inbox join multitenancy.billing_customers using (customer_id)
     where tenant_id = $1 and closed_as is distinct from 'detached'
       and type in ('invoice.payment_succeeded', 'invoice.paid') and created_at >= $2
       and (payload #>> '{data,object,amount_paid}')::numeric > 0 limit 1`,
    [tenantId, since],
  )
  return rows.length > 0
}

export async function wasReportedDeleted(dependencies: BillingDependencies, customerId: string): Promise<boolean> {
  const { rows } = await dependencies.kernel.database.sql(
    `select from multitenancy.billing_inbox where customer_id = $1 and type = 'customer.deleted' limit 1`,
    [customerId],
  )
  return rows.length > 0
}
