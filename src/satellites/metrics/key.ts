import { z } from 'zod'
import { invalid } from '../../kernel/base/errors.ts'
import { SUM_NAME } from '../../kernel/store/sums.ts'

export const MetricKey = z.string().regex(SUM_NAME, `must match ${SUM_NAME.source}`)

/** The outbox entry of an increment in a tenant's transaction. */
export const INCREMENT = 'metrics.increment'
export const Increment = z.object({ key: MetricKey, amount: z.int().min(0) })
export type Increment = z.output<typeof Increment>

/** Keys that only guards count. All other keys belong to the host. */
export type GuardedKey = 'requests' | 'errors' | 'bytes'
export const GUARDED: ReadonlySet<string> = new Set<GuardedKey>(['requests', 'errors', 'bytes'])

/** Checks a count of the host. Without a schema, because it runs on every request. */
export function checkCount(key: string, amount: number): void {
  if (!SUM_NAME.test(key)) throw invalid([{ path: 'key', message: `"${key}" must match ${SUM_NAME.source}` }])
  if (GUARDED.has(key)) throw invalid([{ path: 'key', message: `"${key}" is reserved for the guard` }])
  if (!Number.isSafeInteger(amount) || amount < 0) {
    throw invalid([{ path: 'amount', message: 'must be a whole number of 0 or more' }])
  }
}
