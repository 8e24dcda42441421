/** Explains the state of a delivery and the next step, in sentences for the API and the console. */
import { ABORTED } from '../../../kernel/egress/failure.ts'
import { SECRET_UNREADABLE } from '../model/delivery.ts'
import type { Options } from '../model/options.ts'
import type { DeliveryRow, SubscriptionRow } from '../model/tables.ts'
import { TO_ONE_THAT_FAILS } from '../sql/settings.ts'

export type ExplainedDelivery = Pick<
  DeliveryRow,
  'state' | 'isReady' | 'dueAt' | 'attemptCount' | 'budgetStart' | 'lastStatus' | 'lastError' | 'deliveredAt'
>
export type ExplainedSubscription = Pick<
  SubscriptionRow,
  'enabled' | 'disabledReason' | 'deletedAt' | 'failingSince' | 'tenantId'
>

export interface DeliveryContext extends Pick<Options, 'maxAttempts' | 'perSubscription' | 'perTenant'> {
  readonly now: Date
  /** Deliveries in flight over all processes. */
  readonly inFlight: { readonly toSubscription: number; readonly ofPartition: number }
}

export function explain(
  delivery: ExplainedDelivery,
  subscription: ExplainedSubscription,
  context: DeliveryContext,
): string {
  const { now, maxAttempts } = context
  const { state, isReady, dueAt, attemptCount, budgetStart, deliveredAt } = delivery
  const attempts = attemptsOf(attemptCount)
  const ended = reasonForEnd(subscription)
  switch (state) {
    case 'pending':
      if (ended) return `Not sent: ${ended}. The delivery will fail.`
      return `${currentWait(delivery)}${reachedLimit(subscription, context)}`
    case 'delivering':
      if (isReady || (dueAt && dueAt <= now))
        return 'The lease of its worker has expired. Another worker will send it again.'
      return `A worker has claimed it: attempt ${attemptCount + 1} is in progress, or starts when the worker has a free connection.`
    case 'retry_scheduled': {
      const last = lastAttempt(delivery)
      if (ended) return `${last} There is no further attempt: ${ended}.`
      const left = Math.max(1, maxAttempts - (attemptCount - budgetStart)) // `maxAttempts` may have been higher before
      const isLater = !isReady && dueAt && dueAt > now
      const when = isLater ? `at ${dueAt.toISOString()}` : 'as soon as a worker is free'
      const limit = isLater ? '' : reachedLimit(subscription, context)
      return `${last} The next attempt starts ${when}. Attempts left: ${left}.${limit}`
    }
    case 'delivered':
      return `Delivered at ${deliveredAt?.toISOString()} after ${attempts} with status ${delivery.lastStatus}.`
    case 'failed': {
      const again = ended
        ? 'Enable the subscription and replay the delivery to try again.'
        : 'Replay the delivery to try again.'
      const hint = subscription.deletedAt ? '' : ` ${again}`
      if (delivery.lastStatus === 410 && delivery.lastError === null)
        return `The receiver responded with 410 (gone). There is no automatic retry.${hint}`
      if (attemptCount - budgetStart >= maxAttempts) {
        return `${made(attemptCount)}, the last with ${lastResponse(delivery)}. There is no automatic retry.${hint}`
      }
      return `Failed ${attemptCount === 0 ? 'before the first attempt' : `after ${attempts}`}: ${delivery.lastError ?? lastResponse(delivery)}.${hint}`
    }
  }
}

function lastAttempt(delivery: ExplainedDelivery): string {
  const { attemptCount, budgetStart, lastError } = delivery
  if (lastError === ABORTED.error) return `Attempt ${attemptCount} was aborted when its worker stopped.`
  if (attemptCount === budgetStart || lastError === SECRET_UNREADABLE)
    return `Not sent: ${lastError ?? 'it was postponed'}.`
  return `${made(attemptCount)}, the last with ${lastResponse(delivery)}.`
}

function currentWait({ attemptCount, lastError }: ExplainedDelivery): string {
  if (attemptCount === 0) return 'Waiting for a worker. No attempt was made yet.'
  return lastError === ABORTED.error
    ? `Attempt ${attemptCount} was aborted when its worker stopped. Waiting for a worker.`
    : `Replayed after ${attemptsOf(attemptCount)}. Waiting for a worker.`
}

/** The limit that delays the delivery, or an empty text. */
function reachedLimit(
  { failingSince, tenantId }: ExplainedSubscription,
  { inFlight, perSubscription, perTenant }: DeliveryContext,
): string {
  const max = failingSince ? Math.min(perSubscription, TO_ONE_THAT_FAILS) : perSubscription
  if (inFlight.toSubscription >= max) {
    const why = failingSince ? ' until one succeeds' : ''
    return ` Its subscription has ${inFlight.toSubscription} deliveries in flight. The limit is ${max}${why}.`
  }
  if (inFlight.ofPartition < perTenant) return ''
  const owner = tenantId === null ? 'the host' : 'its tenant'
  return ` The subscriptions of ${owner} have ${inFlight.ofPartition} deliveries in flight. The limit is ${perTenant}.`
}

function reasonForEnd({ enabled, disabledReason, deletedAt }: ExplainedSubscription): string | undefined {
  if (deletedAt) return 'the subscription is deleted'
  if (enabled) return undefined
  if (disabledReason === 'gone') return 'the subscription was disabled when its receiver responded with 410'
  if (disabledReason === 'failing') return 'the subscription was disabled after 5 days of failures only'
  return 'the subscription is disabled'
}

/** An incomplete response has a status and an error. */
const lastResponse = ({ lastStatus, lastError }: ExplainedDelivery): string =>
  [lastStatus === null ? [] : `status ${lastStatus}`, lastError ?? []].flat().join(', ') || 'no response'

const attemptsOf = (count: number): string => (count === 1 ? 'one attempt' : `${count} attempts`)

const made = (count: number): string => (count === 1 ? 'One attempt was made' : `${count} attempts were made`)
