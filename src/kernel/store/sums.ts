/**
 * The port of daily sums per tenant and name, in which metrics are counted before they are written to the database.
 * A sum only grows, and expires 72 h after its last addition at the earliest. Its incarnation changes if the store has lost it, so that
 * a writer distinguishes a new sum from the former. The caller determines the day. In Redis: the hash `metrics:{<tenant>}:<yyyy-mm-dd>`;
 * the set `metrics:{}:<yyyy-mm-dd>` has the tenants of a day.
 */

import { InvalidRequest } from '../base/errors.ts'
import { isUuid } from '../base/ids.ts'
import { COUNTER_NAME, checkCounterName, checkCounterOwner } from './counters.ts'

export const SUM_NAME = COUNTER_NAME
export const SUM_TTL_SECONDS = 72 * 3_600
/** The maximum, at which a sum stays: beyond it, JavaScript numbers are not exact. */
export const MAX_SUM = Number.MAX_SAFE_INTEGER
const DAY = /^\d{4}-\d{2}-\d{2}$/

export interface Addition {
  readonly tenantId: string
  readonly name: string
  /** A whole number of 0 or more. */
  readonly amount: number
}

export interface SumBatch {
  /** `2026-11-21`, in UTC. */
  readonly day: string
  /** A UUID of the sender, which sends one batch after the other. */
  readonly source: string
  /** Increases with each batch of a source. A batch with a number up to the last added one is a repetition and is not added. */
  readonly number: number
  readonly additions: readonly Addition[]
}

export interface Sum {
  readonly tenantId: string
  readonly name: string
  readonly incarnation: string
  readonly sum: number
}

export interface SumOfDay extends Sum {
  readonly day: string
}

/** Throws `E_DEPENDENCY_UNAVAILABLE` when the store cannot be reached in time. */
export interface Sums {
  /** Whether sums outlive this process. */
  readonly outliveProcess: boolean
  /** Few enough for a short batch. */
  readonly additionsAtOnce: number
  add(batch: SumBatch): Promise<void>
  read(tenantId: string, days: readonly string[]): Promise<readonly SumOfDay[]>
  /** A tenant added during the iteration may be repeated or missing; each page has a sum once. */
  pages(day: string): AsyncIterable<readonly Sum[]>
}

/** Validates arguments, alike for all drivers. */
export function checkBatch({ day, source, number, additions }: SumBatch): void {
  checkDay(day)
  if (!isUuid(source)) throw InvalidRequest('the source of a batch must be a UUID')
  if (!Number.isSafeInteger(number) || number < 0) throw InvalidRequest('the number of a batch must be a whole number')
  for (const { tenantId, name, amount } of additions) {
    checkCounterOwner(tenantId)
    checkCounterName(name)
    if (!Number.isSafeInteger(amount) || amount < 0) {
      throw InvalidRequest(`the amount of "${name}" must be a whole number of 0 or more`)
    }
  }
}

export function checkReading(tenantId: string, days: readonly string[]): void {
  checkCounterOwner(tenantId)
  for (const day of days) checkDay(day)
}

export function checkDay(day: string): void {
  if (!DAY.test(day)) throw InvalidRequest(`"${day}" must be a day such as 2026-11-21`)
}

export const summed = (sum: number, amount: number): number => Math.min(sum + amount, MAX_SUM)
