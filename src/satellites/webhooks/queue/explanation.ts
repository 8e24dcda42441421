/** Why a delivery is where it is, and what comes next, in a sentence or two for whoever asks. */
import { ABORTED } from '../../../kernel/egress/failure.ts'
import { SECRET_IS_CLOSED } from '../model/delivery.ts'
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

export interface Circumstances extends Pick<Options, 'maxAttempts' | 'perSubscription' | 'perTenant'> {
  readonly now: Date
  /** How many are, over all processes. */
  readonly onTheirWay: { readonly toSubscription: number; readonly ofPartition: number }
}

export function explain(
  delivery: ExplainedDelivery,
  subscription: ExplainedSubscription,
  circumstances: Circumstances,
): string {
  const { now, maxAttempts } = circumstances
  const { state, isReady, dueAt, attemptCount, budgetStart, deliveredAt } = delivery
  const tried = attemptsOf(attemptCount)
  const ends = whyItEnds(subscription)
  switch (state) {
    case 'pending':
      if (ends) return `Not sent: ${ends}. It will end as failed.`
      return `${whatItWaitsFor(delivery)}${whatHoldsIt(subscription, circumstances)}`
    case 'delivering':
      if (isReady || (dueAt && dueAt <= now))
        return 'The worker that was sending it is gone; another will send it again.'
      return `A worker has it: attempt ${attemptCount + 1} is on its way, or begins when the worker has room for it.`
    case 'retry_scheduled': {
      const last = whatWasLast(delivery)
      if (ends) return `${last} It will not be tried again: ${ends}.`
      const left = Math.max(1, maxAttempts - (attemptCount - budgetStart)) // it may have been more that were allowed
      const isLater = !isReady && dueAt && dueAt > now
      const when = isLater ? `at ${dueAt.toISOString()}` : 'as soon as a worker is free'
      const held = isLater ? '' : whatHoldsIt(subscription, circumstances)
      return `${last} The next attempt is made ${when}; ${left} ${left === 1 ? 'is' : 'are'} left.${held}`
    }
    case 'delivered':
      return `Delivered at ${deliveredAt?.toISOString()} after ${tried}; the answer was ${delivery.lastStatus}.`
    case 'failed': {
      const again = ends ? 'Enable the subscription and replay it to try again.' : 'Replay it to try again.'
      const hint = subscription.deletedAt ? '' : ` ${again}`
      if (delivery.lastStatus === 410 && delivery.lastError === null)
        return `The receiver answered 410, it wants no more; nothing is sent by itself.${hint}`
      if (attemptCount - budgetStart >= maxAttempts) {
        return `${made(attemptCount)}, the last with ${lastResponse(delivery)}; nothing more is sent by itself.${hint}`
      }
      return `Given up ${attemptCount === 0 ? 'before the first attempt' : `after ${tried}`}: ${delivery.lastError ?? lastResponse(delivery)}.${hint}`
    }
  }
}

function whatWasLast(delivery: ExplainedDelivery): string {
  const { attemptCount, budgetStart, lastError } = delivery
  if (lastError === ABORTED.error) return `Attempt ${attemptCount} was broken off when its worker stopped.`
  if (attemptCount === budgetStart || lastError === SECRET_IS_CLOSED)
    return `Not sent: ${lastError ?? 'it was put off'}.`
  return `${made(attemptCount)}, the last with ${lastResponse(delivery)}.`
}

function whatItWaitsFor({ attemptCount, lastError }: ExplainedDelivery): string {
  if (attemptCount === 0) return 'Waiting for a worker to send it for the first time.'
  return lastError === ABORTED.error
    ? `Attempt ${attemptCount} was broken off when its worker stopped; waiting for a worker to send it again.`
    : `Replayed after ${attemptsOf(attemptCount)}; waiting for a worker to send it again.`
}

/** The bound that has been reached, if one has. */
function whatHoldsIt(
  { failingSince, tenantId }: ExplainedSubscription,
  { onTheirWay, perSubscription, perTenant }: Circumstances,
): string {
  const most = failingSince ? Math.min(perSubscription, TO_ONE_THAT_FAILS) : perSubscription
  if (onTheirWay.toSubscription >= most) {
    const why = failingSince ? ', until one succeeds' : ''
    return ` Its subscription has ${onTheirWay.toSubscription} on their way, and may have ${most} at once${why}.`
  }
  if (onTheirWay.ofPartition < perTenant) return ''
  const whose = tenantId === null ? 'Subscriptions of the host have' : 'Subscriptions of its tenant have'
  return ` ${whose} ${onTheirWay.ofPartition} on their way, and may have ${perTenant} at once.`
}

function whyItEnds({ enabled, disabledReason, deletedAt }: ExplainedSubscription): string | undefined {
  if (deletedAt) return 'the subscription is deleted'
  if (enabled) return undefined
  if (disabledReason === 'gone') return 'the subscription was disabled when its receiver answered 410'
  if (disabledReason === 'failing') return 'the subscription was disabled after 5 days of nothing but failures'
  return 'the subscription is disabled'
}

/** Of an answer that broke off, both. */
const lastResponse = ({ lastStatus, lastError }: ExplainedDelivery): string =>
  [lastStatus === null ? [] : `status ${lastStatus}`, lastError ?? []].flat().join(', ') || 'no answer'

const attemptsOf = (count: number): string => (count === 1 ? 'one attempt' : `${count} attempts`)

const made = (count: number): string => (count === 1 ? 'One attempt was made' : `${count} attempts were made`)
