/**
 * Sums of a day, per tenant and name: what metrics are counted in until they are written down. They are a part of the store, because
 * each of them does otherwise what makes many additions few round trips.
 *
 *   add    a batch, which is added once however often it is sent: who had no answer sends the same one again
 *   read   one tenant's sums
 *   pages  everybody's of a day, some at a time
 *
 * A sum has an incarnation, which is another one after the store has lost it: so whoever writes sums down can tell one that begins
 * anew from the one before, and loses neither. A sum only grows; it is gone 72 h after its last addition at the earliest.
 *
 * The day is the caller's: that of the moment of counting, which may be over when the store is told.
 *
 * In Redis: `metrics:{<tenant>}:<yyyy-mm-dd>`, a hash; which tenants there are on a day, in the set `metrics:{}:<yyyy-mm-dd>`.
 */

import { InvalidRequest } from '../base/errors.ts'
import { isUuid } from '../base/ids.ts'
import { COUNTER_NAME, checkCounterName, checkCounterOwner } from './counters.ts'

export const SUM_NAME = COUNTER_NAME
export const SUM_TTL_SECONDS = 72 * 3_600
/** Where it stands still: beyond this a JavaScript number no longer tells one count from the next. */
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
  /** A UUID of who adds, one batch after the other. */
  readonly source: string
  /** Rises with each batch of a source: one that is not above the last that was added is taken for it, and not added again. */
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
  /** Whether they are there after this process. */
  readonly outliveProcess: boolean
  /** Few enough that nobody waits long for a batch. */
  readonly additionsAtOnce: number
  add(batch: SumBatch): Promise<void>
  read(tenantId: string, days: readonly string[]): Promise<readonly SumOfDay[]>
  /** A tenant that is added to meanwhile may come twice, or not; each page has a sum once. */
  pages(day: string): AsyncIterable<readonly Sum[]>
}

/** What each driver asks of its arguments, so that all refuse the same. */
export function checkBatch({ day, source, number, additions }: SumBatch): void {
  checkDay(day)
  if (!isUuid(source)) throw InvalidRequest('the source of a batch is no UUID')
  if (!Number.isSafeInteger(number) || number < 0) throw InvalidRequest('the number of a batch is no whole number')
  for (const { tenantId, name, amount } of additions) {
    checkCounterOwner(tenantId)
    checkCounterName(name)
    if (!Number.isSafeInteger(amount) || amount < 0) {
      throw InvalidRequest(`the amount of "${name}" is not a whole number of 0 or more`)
    }
  }
}

export function checkReading(tenantId: string, days: readonly string[]): void {
  checkCounterOwner(tenantId)
  for (const day of days) checkDay(day)
}

export function checkDay(day: string): void {
  if (!DAY.test(day)) throw InvalidRequest(`"${day}" is no day like 2026-11-21`)
}

export const summed = (sum: number, amount: number): number => Math.min(sum + amount, MAX_SUM)
