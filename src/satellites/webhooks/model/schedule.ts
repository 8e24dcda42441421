/** The planned times of the attempts of a delivery, to compare with the actual ones. */
import { baseDelayMs } from './delivery.ts'
import type { AttemptRow, DeliveryRow } from './tables.ts'

export type ScheduledDelivery = Pick<DeliveryRow, 'state' | 'attemptCount' | 'budgetStart' | 'dueAt' | 'createdAt'>
type MadeAttempt = Pick<AttemptRow, 'number' | 'startedAt' | 'durationMs'>

/**
 * Attempts of the current budget. The first one is planned for the dispatch, or for a replay, whose time is that of the attempt. A later one
 * follows the end of the one before after the delay without jitter. The next one of a waiting delivery has its exact time. A settled
 * delivery has no further attempts.
 */
export function scheduleOf(
  { state, attemptCount, budgetStart, dueAt, createdAt }: ScheduledDelivery,
  attempts: readonly MadeAttempt[],
  maxAttempts: number,
): { number: number; at: string }[] {
  const isSettled = state === 'delivered' || state === 'failed'
  const last = isSettled ? attemptCount : Math.max(attemptCount + 1, budgetStart + maxAttempts)
  const made = new Map(attempts.map((attempt) => [attempt.number, attempt]))
  const planned: { number: number; at: string }[] = []
  let afterMs: number | undefined
  for (let number = budgetStart + 1; number <= last; number++) {
    const attempt = made.get(number)
    const isNext = number === attemptCount + 1 && state !== 'delivering'
    const first = number === 1 ? createdAt : (attempt?.startedAt ?? dueAt ?? createdAt)
    const usualMs = afterMs === undefined ? first.getTime() : afterMs + baseDelayMs(number - 1 - budgetStart)
    const atMs = isNext && dueAt && number > 1 ? dueAt.getTime() : usualMs
    planned.push({ number, at: new Date(atMs).toISOString() })
    afterMs = attempt ? attempt.startedAt.getTime() + attempt.durationMs : atMs
  }
  return planned
}
